// operator new and delete of the module. An answer makes millions of small objects; Emscripten's allocator joins and
// splits neighbours for each. Here a small size has its own blocks and its own list of free ones.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t kStep = 16;         // bytes between sizes, and the alignment of each
constexpr std::size_t kLargest = 512;     // bytes; above it malloc decides
constexpr std::size_t kBlock = 64 << 10;  // bytes, all of one size
constexpr std::size_t kBlocks = 16;       // taken of malloc at once

struct Free {
  Free* next;
};

/// Objects of one size: those that were given back, then the rest of the newest block.
struct Size {
  Free* free = nullptr;
  char *next = nullptr, *end = nullptr;
};

std::array<Size, kLargest / kStep + 1> sizes;
std::array<std::uint8_t, (std::uint64_t{1} << 32) / kBlock> size_of_block;  // steps by address; 0: malloc's
char *next_block = nullptr, *last_block = nullptr;

/// Blocks are never given back: what they hold is reused by objects of their size.
bool take_block(std::size_t steps) {
  if (next_block == last_block) {
    next_block = static_cast<char*>(std::aligned_alloc(kBlock, kBlocks * kBlock));
    last_block = next_block ? next_block + kBlocks * kBlock : nullptr;
    if (!next_block) return false;
  }
  size_of_block[reinterpret_cast<std::uintptr_t>(next_block) / kBlock] = static_cast<std::uint8_t>(steps);
  sizes[steps].next = next_block;
  sizes[steps].end = next_block + kBlock;
  next_block += kBlock;
  return true;
}

void* allocate(std::size_t bytes) {
  if (bytes > kLargest) return std::malloc(bytes);
  const std::size_t steps = bytes == 0 ? 1 : (bytes + kStep - 1) / kStep;
  Size& size = sizes[steps];
  if (Free* const found = size.free) {
    size.free = found->next;
    return found;
  }
  if (std::size_t(size.end - size.next) < steps * kStep && !take_block(steps)) return nullptr;
  void* const found = size.next;
  size.next += steps * kStep;
  return found;
}

}  // namespace

void* operator new(std::size_t bytes) {
  if (void* const found = allocate(bytes)) return found;
  throw std::bad_alloc();
}

void operator delete(void* place) noexcept {
  const std::uint8_t steps = size_of_block[reinterpret_cast<std::uintptr_t>(place) / kBlock];
  if (steps == 0) return std::free(place);  // also where it is null
  Free* const free = static_cast<Free*>(place);
  free->next = sizes[steps].free;
  sizes[steps].free = free;
}
