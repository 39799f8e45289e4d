// Which tasks wait for which, derived from the memory they touch: read after write, write after read or write, whether
// it is the same buffer or another one that got its place. Tasks of one stream run in order by themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/step_program.h"

namespace gpuplan {

struct MemoryAccess {
  const std::byte *begin{}, *end{};
  bool is_write{};
};

/// Fed with tasks in program order.
class Hazards {
 public:
  /// The tasks of other streams that `task` must wait for: the latest one per stream, and only where no earlier wait
  /// covers it.
  std::vector<std::uint32_t> enter(std::uint32_t task, StreamId stream, const std::vector<MemoryAccess>& accesses);

 private:
  struct Entry {
    MemoryAccess access;
    std::uint32_t task{};
  };
  std::array<std::vector<Entry>, kNumStreams> past_;
  std::array<std::array<std::int64_t, kNumStreams>, kNumStreams> covered_ =
      none();  // [waiter][other]: latest task waited for

  static std::array<std::array<std::int64_t, kNumStreams>, kNumStreams> none();
};

}  // namespace gpuplan
