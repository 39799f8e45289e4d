// Adds what libc++ 13, the library of Debian 12's Emscripten, lacks of the C++20 that our sources use. Included before
// every source of the WebAssembly module, so that none of them knows.
#pragma once
#ifdef __cplusplus
#include <version>
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 14000

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace std {

template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

/// A number at the beginning of a text, as from_chars defines it. musl's strtod rounds correctly, always in the C
/// locale, and takes more: '+', spaces and hexadecimal numbers are kept from it.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const auto begins_number = [](char c) {
    return c == '-' || c == '.' || (c >= '0' && c <= '9') || c == 'i' || c == 'n';
  };
  if (first == last || !begins_number(*first)) return {first, errc::invalid_argument};
  const string text(first, last);
  if (text.find_first_of("xX") != string::npos) return {first, errc::invalid_argument};
  char* end = nullptr;
  errno = 0;
  const double number = strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, errc::invalid_argument};
  if (errno == ERANGE) return {first + (end - text.c_str()), errc::result_out_of_range};
  value = number;
  return {first + (end - text.c_str()), errc{}};
}

/// The shortest digits that read back as the same number, with an exponent.
inline to_chars_result to_chars(char* first, char* last, double value, chars_format) {
  char text[40];
  for (int digits = 0; digits <= 16; ++digits) {
    snprintf(text, sizeof text, "%.*e", digits, value);
    if (strtod(text, nullptr) == value) break;
  }
  const size_t length = strlen(text);
  if (size_t(last - first) < length) return {last, errc::value_too_large};
  memcpy(first, text, length);
  return {first + length, errc{}};
}

/// Says whether the element at place `a` goes before the one at place `b`.
using PlaceOrder = bool (*)(const void* context, uint32_t a, uint32_t b);
/// Sorts places; those that neither goes before the other stay as they are (web/engine/sort.cpp).
void sort_places(uint32_t* places, size_t size, PlaceOrder before, const void* context);

namespace ranges {

/// Says by a predicate what an algorithm of iterators asks of whole elements: the projection is taken first.
template <class Test, class Projection>
auto projected(Test& test, Projection& projection) {
  return [&](auto&& element) { return std::invoke(test, std::invoke(projection, element)); };
}
template <class Order, class Projection>
auto ordered(Order& order, Projection& projection) {
  return [&](auto&& a, auto&& b) { return std::invoke(order, std::invoke(projection, a), std::invoke(projection, b)); };
}

template <class R, class T, class P = identity>
bool any_of(R&& r, T test, P p = {}) {
  return std::any_of(std::begin(r), std::end(r), projected(test, p));
}
template <class R, class T, class P = identity>
bool all_of(R&& r, T test, P p = {}) {
  return std::all_of(std::begin(r), std::end(r), projected(test, p));
}
template <class R, class T, class P = identity>
bool none_of(R&& r, T test, P p = {}) {
  return std::none_of(std::begin(r), std::end(r), projected(test, p));
}
template <class R, class T, class P = identity>
auto find_if(R&& r, T test, P p = {}) {
  return std::find_if(std::begin(r), std::end(r), projected(test, p));
}
template <class R, class V, class P = identity>
auto find(R&& r, const V& value, P p = {}) {
  return std::find_if(std::begin(r), std::end(r), [&](auto&& element) { return std::invoke(p, element) == value; });
}
template <class R, class V, class P = identity>
auto count(R&& r, const V& value, P p = {}) {
  return std::count_if(std::begin(r), std::end(r), [&](auto&& element) { return std::invoke(p, element) == value; });
}
template <class R, class T, class P = identity>
auto count_if(R&& r, T test, P p = {}) {
  return std::count_if(std::begin(r), std::end(r), projected(test, p));
}
template <class R, class F, class P = identity>
void for_each(R&& r, F function, P p = {}) {
  for (auto&& element : r) std::invoke(function, std::invoke(p, element));
}
template <class R, class O = less, class P = identity>
void stable_sort(R&& r, O order = {}, P p = {}) {
  const auto begin = std::begin(r);
  const auto before = [&](uint32_t a, uint32_t b) {
    return bool(std::invoke(order, std::invoke(p, begin[a]), std::invoke(p, begin[b])));
  };
  vector<uint32_t> places(std::end(r) - begin);
  for (uint32_t i = 0; i < places.size(); ++i) places[i] = i;
  sort_places(
      places.data(), places.size(),
      [](const void* context, uint32_t a, uint32_t b) { return (*static_cast<decltype(&before)>(context))(a, b); },
      &before);
  for (uint32_t i = 0; i < places.size(); ++i) {  // once around each cycle of places
    if (places[i] == i) continue;
    auto first = std::move(begin[i]);
    uint32_t to = i;
    for (uint32_t from = places[to]; from != i; from = places[to]) {
      begin[to] = std::move(begin[from]);
      places[to] = to;
      to = from;
    }
    begin[to] = std::move(first);
    places[to] = to;
  }
}
template <class R, class O = less, class P = identity>
void sort(R&& r, O order = {}, P p = {}) {
  ranges::stable_sort(r, order, p);
}
template <class R, class T>
void stable_partition(R&& r, T test) {
  std::stable_partition(std::begin(r), std::end(r), test);
}
template <class R, class O = less, class P = identity>
auto max_element(R&& r, O order = {}, P p = {}) {
  return std::max_element(std::begin(r), std::end(r), ordered(order, p));
}
template <class R, class O = less, class P = identity>
auto min_element(R&& r, O order = {}, P p = {}) {
  return std::min_element(std::begin(r), std::end(r), ordered(order, p));
}
template <class R>
auto max(R&& r) {
  return *std::max_element(std::begin(r), std::end(r));
}
template <class R, class V, class O = less, class P = identity>
auto lower_bound(R&& r, const V& value, O order = {}, P p = {}) {
  return std::lower_bound(std::begin(r), std::end(r), value,
                          [&](auto&& a, const V& b) { return std::invoke(order, std::invoke(p, a), b); });
}
template <class R, class V, class O = less, class P = identity>
auto upper_bound(R&& r, const V& value, O order = {}, P p = {}) {
  return std::upper_bound(std::begin(r), std::end(r), value,
                          [&](const V& a, auto&& b) { return std::invoke(order, a, std::invoke(p, b)); });
}
template <class R, class T>
auto adjacent_find(R&& r, T test) {
  return std::adjacent_find(std::begin(r), std::end(r), test);
}
template <class R, class V>
bool binary_search(R&& r, const V& value) {
  return std::binary_search(std::begin(r), std::end(r), value, less{});
}
template <class A, class B>
bool includes(A&& a, B&& b) {
  return std::includes(std::begin(a), std::end(a), std::begin(b), std::end(b));
}
template <class A, class B, class E = std::equal_to<>>
bool equal(A&& a, B&& b, E same = {}) {
  return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b), same);
}
template <class R, class Out>
void copy(R&& r, Out out) {
  std::copy(std::begin(r), std::end(r), out);
}
template <class R, class Out, class T>
void copy_if(R&& r, Out out, T test) {
  std::copy_if(std::begin(r), std::end(r), out, test);
}
template <class R, class Out>
void move(R&& r, Out out) {
  std::move(std::begin(r), std::end(r), out);
}
template <class R, class Out, class F>
void transform(R&& r, Out out, F function) {
  std::transform(std::begin(r), std::end(r), out, function);
}
template <class R, class V>
void replace(R&& r, const V& before, const V& after) {
  std::replace(std::begin(r), std::end(r), before, after);
}
template <class R>
void reverse(R&& r) {
  std::reverse(std::begin(r), std::end(r));
}

}  // namespace ranges

/// Threads do not exist in the module; the name has to.
class jthread : public thread {
 public:
  using thread::thread;
  jthread(jthread&&) = default;
  ~jthread() {
    if (joinable()) join();
  }
};

}  // namespace std
#endif
#endif
