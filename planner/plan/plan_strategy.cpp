// The strategy section of a plan file. What it says beyond the name and what was pinned follows from the cluster, so
// reading makes the strategy anew and refuses a file that says otherwise.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/narrow.h"
#include "planner/plan/plan_parts.h"

namespace gpuplan {
namespace {

void read_wrap(Fields& in, PlanStrategy& s) {
  std::string text = "layer";
  in.name("wrap", text, [&](const std::string& given) {
    const Wrap wrap = parse_wrap(given, "");
    s.wrap = wrap.policy;
    s.wrap_min_params = wrap.min_params;
    return to_string(wrap);
  });
}

template <class Archive, class S>
void list_strategy(Archive& f, S& strategy) {
  auto& [name, degrees, zero_stage, reshard_after_forward, wrap, wrap_min_params, fsdp_version] = strategy;
  f.name("name", name, canonical_strategy);
  for (std::size_t i = 0; i < kDegrees.size(); ++i)
    if (i < kNumUsualDegrees || (f.has(kDegrees[i]) && (Archive::kReads || degrees[i] > 1)))
      f(kDegrees[i], degrees[i], kAtLeastOne);
  f("zero_stage", zero_stage, IntRange{0, 3});
  f("reshard_after_forward", reshard_after_forward);
  if constexpr (Archive::kReads)
    read_wrap(f, strategy);
  else
    f("wrap", to_string(Wrap{wrap, wrap_min_params}));
  f("fsdp_version", fsdp_version, IntRange{1, 2});
}

PlanStrategy describe(const Strategy& s) {
  const StateLayout& layout = s.layout;
  PlanStrategy out{.name = s.name,
                   .zero_stage = layout.shards_weights     ? 3
                                 : layout.shards_gradients ? 2
                                 : layout.shards_optimizer ? 1
                                                           : 0,
                   .reshard_after_forward = layout.reshards_after_forward,
                   .wrap = s.wrap,
                   .wrap_min_params = s.wrap_min_params};
  for (std::size_t i = 0; i < kDegrees.size(); ++i) out.degrees[i] = s.mesh.ways(axis_named(kDegrees[i]));
  if (const int version = traits_of(s.engine).fsdp_version; version > 0) out.fsdp_version = version;
  return out;
}

FieldWriter::Json to_json(const PlanStrategy& strategy) {
  FieldWriter out;
  list_strategy(out, strategy);
  return out.take();
}

}  // namespace

void write_strategy(FieldWriter& out, const Strategy& strategy) {
  const PlanStrategy fields = describe(strategy);
  list_strategy(out, fields);
}

void read_strategy(Fields& in, PlanStrategy& strategy) { list_strategy(in, strategy); }

/// The field of a plan that a flag of the command line sets: a degree, or the size of shard groups.
static std::string field_of(std::string_view flag) {
  const auto is_it = [&](std::string_view degree) {
    return flag.ends_with(degree) && flag.size() == degree.size() + 2;
  };
  const auto degree = std::ranges::find_if(kDegrees, is_it);
  return degree == kDegrees.end() ? "options.shard_size" : fmt::format("strategy.{}", *degree);
}

void pin_strategy(const PlanStrategy& wanted, EstimateRequest& request, Fields& plan) {
  StrategyOptions& options = request.options;
  request.strategy = wanted.name;
  for (std::size_t i = 0; i < kDegrees.size(); ++i) {
    const Axis axis = axis_named(kDegrees[i]);
    if (axis == Axis::Tp) options.tp = wanted.degrees[i];
    if (axis == Axis::Cp) options.cp = wanted.degrees[i];
    if (axis == Axis::Ep) options.ep = wanted.degrees[i];
    if (axis == Axis::Etp) options.etp = wanted.degrees[i];
    if (is_pipeline(axis) && !lays_stages(wanted.name)) options.pp = wanted.degrees[i];
  }
  if (wanted.fsdp_version) options.fsdp_version = narrow<int>(*wanted.fsdp_version);
  options.wrap = wanted.wrap;
  options.wrap_min_params = wanted.wrap_min_params;
  if (const auto mistake = strategy_mistake(wanted.name, request.cluster, options))
    return plan.report(field_of(mistake->where()), mistake->problem());
  Strategy made = make_strategy(wanted.name, request.cluster, options);
  // some strategies never reshard; only what differs from the usual was asked for
  if (made.layout.reshards_after_forward != wanted.reshard_after_forward) {
    options.reshards = wanted.reshard_after_forward;
    made = make_strategy(wanted.name, request.cluster, options);
  }
  const FieldWriter::Json is = to_json(describe(made)), said = to_json(wanted);
  for (const auto& [key, value] : is.items())
    if (value != said[key])
      plan.report("strategy." + key, fmt::format("is {}, but {} on these {} GPUs has {}", said[key].dump(), wanted.name,
                                                 request.cluster.num_gpus(), value.dump()));
}

}  // namespace gpuplan
