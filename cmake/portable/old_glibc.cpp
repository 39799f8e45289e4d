// What GCC 12's static C++ library asks of glibc and glibc 2.31 does not have. The program and each device library hold
// a copy.
#include <cstdint>

#include <sys/random.h>

extern "C" {

/// glibc 2.32: whether there is only one thread, so that shared pointers may count without atomic operations. Never
/// claimed here.
char __libc_single_threaded = 0;

/// glibc 2.36: a random number of the system, for std::random_device.
std::uint32_t arc4random() {
  std::uint32_t value = 0;
  if (getentropy(&value, sizeof value) != 0) __builtin_trap();
  return value;
}
}

namespace {

/// The program and each device library have an unwinder of their own, which sets up its tables as it first throws. An
/// exception that goes from one to the other needs the tables of both.
[[maybe_unused]] const bool has_unwound = [] {
  try {
    throw 0;
  } catch (int) { return true; }
}();

}  // namespace
