// operator new and delete of the module: lists of free objects by size, which is all that one thread needs. What is
// larger comes from Emscripten's malloc.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t kStep = 16, kMostBytes = 512, kPage = 64 << 10;

struct FreeObject {
  FreeObject* next;
};

std::array<FreeObject*, kMostBytes / kStep + 1> free_objects{};   // by size in steps
std::array<std::uint8_t, 4'294'967'296 / kPage> steps_of_page{};  // size of a page's objects; 0: not one of ours

/// A page of objects of one size, all of them free. Pages are never given back: another question needs them.
[[gnu::noinline]] void add_page(std::size_t steps) {
  void* const page = std::aligned_alloc(kPage, kPage);
  if (!page) throw std::bad_alloc();
  steps_of_page[reinterpret_cast<std::uintptr_t>(page) / kPage] = std::uint8_t(steps);
  char* const begin = static_cast<char*>(page);
  for (std::size_t at = kPage / (steps * kStep); at-- > 0;)
    free_objects[steps] = new (begin + at * steps * kStep) FreeObject{free_objects[steps]};
}

void* allocate(std::size_t size) {
  if (size > kMostBytes) {
    if (void* const large = std::malloc(size)) return large;
    throw std::bad_alloc();
  }
  const std::size_t steps = size ? (size + kStep - 1) / kStep : 1;
  if (!free_objects[steps]) add_page(steps);
  FreeObject* const object = free_objects[steps];
  free_objects[steps] = object->next;
  return object;
}

void release(void* object) noexcept {
  const std::size_t steps = steps_of_page[reinterpret_cast<std::uintptr_t>(object) / kPage];
  if (steps == 0) return std::free(object);
  free_objects[steps] = new (object) FreeObject{free_objects[steps]};
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* object) noexcept { release(object); }
void operator delete[](void* object) noexcept { release(object); }
void operator delete(void* object, std::size_t) noexcept { release(object); }
void operator delete[](void* object, std::size_t) noexcept { release(object); }
