// Lines of measured points: refused with an InputError, or read and mapped to a plan or a reason, nothing else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "planner/validation/point_plan.h"
#include "planner/validation/read_points.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  static PointPlanner planner(AliasTable::read());
  try {
    for (const Point& point : parse_points({reinterpret_cast<const char*>(data), size}, "fuzz"))
      if (point.num_gpus <= 64) planner.plan(point);
  } catch (const InputError&) {
    // the answer for most texts
  }
  return 0;
}
