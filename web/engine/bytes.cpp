// memcpy, memmove, memset and memcmp of the module. Those of Emscripten go byte by byte unless both places are aligned
// alike, and a short std::string of libc++ begins at an odd address. WebAssembly reads eight bytes anywhere.
#include <cstddef>
#include <cstdint>

namespace {

constexpr std::size_t kBig = 512;  // bytes from which one instruction of the machine is quicker than a loop

template <class Word>
Word word_at(const char* place) {
  Word word;
  __builtin_memcpy(&word, place, sizeof word);
  return word;
}

template <class Word>
void copy_word(char* to, const char* from) {
  const Word word = word_at<Word>(from);
  __builtin_memcpy(to, &word, sizeof word);
}

/// Copies from the first byte on: `to` may lie before `from` and overlap it.
void copy_forward(char* to, const char* from, std::size_t size) {
  for (; size >= 8; size -= 8, to += 8, from += 8) copy_word<std::uint64_t>(to, from);
  if (size & 4) copy_word<std::uint32_t>(to, from), to += 4, from += 4;
  if (size & 2) copy_word<std::uint16_t>(to, from), to += 2, from += 2;
  if (size & 1) *to = *from;
}

void copy_backward(char* to, const char* from, std::size_t size) {
  for (; size >= 8; size -= 8) copy_word<std::uint64_t>(to + size - 8, from + size - 8);
  for (; size > 0; --size) to[size - 1] = from[size - 1];
}

/// Orders two words as their bytes are ordered, the first byte being the lowest.
int order_of(std::uint64_t a, std::uint64_t b) { return __builtin_bswap64(a) < __builtin_bswap64(b) ? -1 : 1; }

}  // namespace

extern "C" {

void* memcpy(void* to, const void* from, std::size_t size) {
  if (size >= kBig)
    __builtin_memcpy(to, from, size);  // an instruction: this file is compiled with -mbulk-memory
  else
    copy_forward(static_cast<char*>(to), static_cast<const char*>(from), size);
  return to;
}

void* memmove(void* to, const void* from, std::size_t size) {
  if (size >= kBig)
    __builtin_memmove(to, from, size);
  else if (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from) >= size)
    copy_forward(static_cast<char*>(to), static_cast<const char*>(from), size);
  else
    copy_backward(static_cast<char*>(to), static_cast<const char*>(from), size);
  return to;
}

void* memset(void* place, int value, std::size_t size) {
  if (size >= kBig) return __builtin_memset(place, value, size);
  char* at = static_cast<char*>(place);
  const std::uint64_t word = static_cast<unsigned char>(value) * 0x0101010101010101u;
  for (; size >= 8; size -= 8, at += 8) __builtin_memcpy(at, &word, sizeof word);
  for (; size > 0; --size) *at++ = static_cast<char>(value);
  return place;
}

int memcmp(const void* left, const void* right, std::size_t size) {
  const char *a = static_cast<const char*>(left), *b = static_cast<const char*>(right);
  for (; size >= 8; size -= 8, a += 8, b += 8)
    if (const auto x = word_at<std::uint64_t>(a), y = word_at<std::uint64_t>(b); x != y) return order_of(x, y);
  for (; size > 0; --size, ++a, ++b)
    if (*a != *b) return int(static_cast<unsigned char>(*a)) - int(static_cast<unsigned char>(*b));
  return 0;
}
}
