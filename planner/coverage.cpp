#include "planner/coverage.h"

#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gpuplan {
namespace {

constexpr std::size_t kMostExamples = 3;

std::string text_of(const LayerOp& op, const GemmShape& shape) {
  const std::string batch = shape.batch > 1 ? fmt::format("{} of ", shape.batch) : "";
  return fmt::format("{} {}{} x {} x {}", to_string(op.layout), batch, shape.m, shape.n, shape.k);
}

}  // namespace

Coverage gemm_coverage(const StepProgram& program, const CostModel& model) {
  Coverage out;
  if (!model.load) return out;
  std::set<std::tuple<GemmLayout, std::int64_t, std::int64_t, std::int64_t, std::int64_t>> seen;
  const auto count = [&](const LayerOp& op) {
    if (op.cost != CostClass::Gemm && op.cost != CostClass::BatchedGemm) return;
    const GemmShape shape = shape_of(op);
    if (!seen.emplace(op.layout, shape.m, shape.n, shape.k, shape.batch).second) return;
    ++out.num_shapes;
    const GemmSurface* surface = model.surface_of(op);
    if (surface && surface->layout == op.layout && surface->range.contains(shape)) return;
    ++out.num_extrapolated;
    if (out.examples.size() < kMostExamples) out.examples.push_back(text_of(op, shape));
  };
  for (const LayerGraph& graph : program.graphs) {
    for (const LayerOp& op : graph.forward) count(op);
    for (const LayerOp& op : graph.backward) count(op);
  }
  return out;
}

std::string describe(const Coverage& c) {
  if (c.num_extrapolated == 0) return {};
  return fmt::format("{} of {} GEMM shapes extrapolated ({}{})", c.num_extrapolated, c.num_shapes,
                     fmt::join(c.examples, ", "), std::size_t(c.num_extrapolated) > c.examples.size() ? ", …" : "");
}

}  // namespace gpuplan
