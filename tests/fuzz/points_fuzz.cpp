// Published measurements as `gpuplan validate FILE` reads them: lines to points, points to questions, and their answers
// judged.
#include "fuzz/fuzz_input.h"
#include "validate/judge.h"
#include "validate/read_points.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  static PointPlanner planner(AliasTable::read());
  std::vector<Point> points;
  if (!fuzz::try_to([&] { points = parse_points(fuzz::text_of(data, size), "points.jsonl"); })) return 0;
  if (points.size() <= 2) fuzz::try_to([&] { judge(points, planner); });
  return 0;
}
