// Strong units: an amount says what it is, and amounts mix only where physics says how.
// `Bytes` is an exact integer, checked; times, work and rates are doubles in the base unit (s, FLOP, B/s, FLOP/s), of
// which times are checked to be finite: every prediction ends in one.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gpuplan {

/// Amounts come from what a user asked for, so too large a one is his to change. Throws AmountTooLarge.
[[noreturn]] void refuse_overflow();

/// Arithmetic of 64 bits that refuses what does not fit, instead of wrapping around.
constexpr std::int64_t checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum{};
  if (__builtin_add_overflow(a, b, &sum)) refuse_overflow();
  return sum;
}
constexpr std::int64_t checked_difference(std::int64_t a, std::int64_t b) {
  std::int64_t difference{};
  if (__builtin_sub_overflow(a, b, &difference)) refuse_overflow();
  return difference;
}
constexpr std::int64_t checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product{};
  if (__builtin_mul_overflow(a, b, &product)) refuse_overflow();
  return product;
}

/// `value` itself, unless it is infinite or no number.
constexpr double checked_finite(double value) {
  constexpr double kMost = std::numeric_limits<double>::max();
  if (!(value >= -kMost && value <= kMost)) [[unlikely]]
    refuse_overflow();
  return value;
}

struct Bytes {
  std::int64_t count{};

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  constexpr Bytes& operator+=(Bytes o) {
    count = checked_sum(count, o.count);
    return *this;
  }
  constexpr Bytes& operator-=(Bytes o) {
    count = checked_difference(count, o.count);
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {checked_sum(a.count, b.count)}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {checked_difference(a.count, b.count)}; }
  friend constexpr Bytes operator-(Bytes a) { return {checked_difference(0, a.count)}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t k) { return {checked_product(a.count, k)}; }
  friend constexpr Bytes operator*(std::int64_t k, Bytes a) { return {checked_product(a.count, k)}; }
  friend constexpr double operator/(Bytes a, Bytes b) { return double(a.count) / double(b.count); }
};

struct SecondsTag;

/// A real amount of one kind; `Tag` keeps kinds apart at compile time.
template <class Tag>
struct Quantity {
  double value{};

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  constexpr Quantity& operator+=(Quantity o) { return *this = *this + o; }
  constexpr Quantity& operator-=(Quantity o) { return *this = *this - o; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return of(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return of(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, double k) { return of(a.value * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return of(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, double k) { return of(a.value / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }

  /// Makes a quantity of the result of arithmetic.
  static constexpr Quantity of(double result) {
    if constexpr (std::is_same_v<Tag, SecondsTag>)
      return {checked_finite(result)};
    else
      return {result};
  }
};

using Seconds = Quantity<SecondsTag>;
using Flops = Quantity<struct FlopsTag>;  // an amount of work, not a rate
using BytesPerSec = Quantity<struct BytesPerSecTag>;
using FlopsPerSec = Quantity<struct FlopsPerSecTag>;

constexpr Seconds operator/(Bytes amount, BytesPerSec rate) { return Seconds::of(double(amount.count) / rate.value); }
constexpr Seconds operator/(Flops work, FlopsPerSec rate) { return Seconds::of(work.value / rate.value); }
constexpr BytesPerSec operator/(Bytes amount, Seconds time) { return {double(amount.count) / time.value}; }
constexpr FlopsPerSec operator/(Flops work, Seconds time) { return {work.value / time.value}; }

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return checked_sum(a, b - 1) / b; }
/// `amount` cut into `parts`, rounded up: what one of several equal, padded shards holds.
constexpr Bytes shard(Bytes amount, std::int64_t parts) { return {ceil_div(amount.count, parts)}; }

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return {std::int64_t(n)}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return {std::int64_t(n) << 10}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return {std::int64_t(n) << 20}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return {std::int64_t(n) << 30}; }
constexpr Seconds operator""_us(long double n) { return {double(n) * 1e-6}; }
constexpr Seconds operator""_ms(long double n) { return {double(n) * 1e-3}; }
constexpr Seconds operator""_s(long double n) { return {double(n)}; }
constexpr BytesPerSec operator""_GBps(long double n) { return {double(n) * 1e9}; }
constexpr FlopsPerSec operator""_TFLOPs(long double n) { return {double(n) * 1e12}; }
}  // namespace literals

}  // namespace gpuplan
