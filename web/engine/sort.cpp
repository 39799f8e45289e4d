// Sorting for the module, once for all types: libc++ makes two kilobytes of code for each.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libcxx13.h"

namespace std {

void sort_places(uint32_t* places, size_t size, PlaceOrder before, const void* context) {
  constexpr size_t kShort = 8;  // so many are inserted one by one
  for (size_t run = 0; run < size; run += kShort) {
    for (size_t i = run + 1; i < min(run + kShort, size); ++i) {
      const uint32_t place = places[i];
      size_t k = i;
      for (; k > run && before(context, place, places[k - 1]); --k) places[k] = places[k - 1];
      places[k] = place;
    }
  }
  if (size <= kShort) return;
  vector<uint32_t> room(size);
  uint32_t *from = places, *to = room.data();
  for (size_t width = kShort; width < size; width *= 2, swap(from, to)) {
    for (size_t begin = 0; begin < size; begin += 2 * width) {
      const size_t middle = min(begin + width, size), end = min(begin + 2 * width, size);
      size_t left = begin, right = middle;
      for (size_t out = begin; out < end; ++out) {
        const bool is_right = left == middle || (right < end && before(context, from[right], from[left]));
        to[out] = from[is_right ? right++ : left++];
      }
    }
  }
  if (from != places) copy(from, from + size, places);
}

}  // namespace std
