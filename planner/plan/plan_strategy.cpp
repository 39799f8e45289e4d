// The strategy section of a plan file. What it says beyond the name and what was pinned follows from the cluster, so
// reading makes the strategy anew and refuses a file that says otherwise.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "planner/plan/plan_parts.h"

namespace gpuplan {
namespace {

constexpr std::string_view kSize = "size:";

std::string wrap_text(const PlanStrategy& s) {
  return s.wrap == WrapPolicy::Layer ? "layer" : fmt::format("{}{}", kSize, s.wrap_min_params);
}

void read_wrap(PlanReader& in, PlanStrategy& s) {
  std::string text = "layer";
  if (!in("wrap", text) || text == "layer") return;
  const char* end = text.data() + text.size();
  std::int64_t params = -1;
  const bool is_size = text.starts_with(kSize) && std::from_chars(text.data() + kSize.size(), end, params).ptr == end;
  if (!is_size || params < 0 || fmt::format("{}{}", kSize, params) != text)
    return in.report("wrap",
                     fmt::format("unknown policy '{}': use layer, or size:N for units of at least N parameters", text));
  s.wrap = WrapPolicy::Size;
  s.wrap_min_params = params;
}

template <class Fields, class S>
void list_strategy(Fields& f, S& strategy) {
  auto& [name, dp_replicate, dp_shard, tp, pp, cp, ep, zero_stage, reshard_after_forward, wrap, wrap_min_params,
         fsdp_version] = strategy;
  constexpr IntRange kDegree{1, kMostCount};
  f.name("name", name, canonical_strategy);
  f("dp_replicate", dp_replicate, kDegree);
  f("dp_shard", dp_shard, kDegree);
  f("tp", tp, kDegree);
  f("pp", pp, kDegree);
  f("cp", cp, kDegree);
  f("ep", ep, kDegree);
  f("zero_stage", zero_stage, IntRange{0, 3});
  f("reshard_after_forward", reshard_after_forward);
  if constexpr (Fields::kReads)
    read_wrap(f, strategy);
  else
    f("wrap", wrap_text(strategy));
  f("fsdp_version", fsdp_version, IntRange{1, 2});
}

PlanStrategy describe(const Strategy& s) {
  const StateLayout& layout = s.layout;
  PlanStrategy out{.name = s.name,
                   .dp_replicate = s.mesh.dp_replicate,
                   .dp_shard = s.mesh.dp_shard,
                   .pp = s.mesh.pp,
                   .zero_stage = layout.shards_weights     ? 3
                                 : layout.shards_gradients ? 2
                                 : layout.shards_optimizer ? 1
                                                           : 0,
                   .reshard_after_forward = layout.reshards_after_forward,
                   .wrap = s.wrap,
                   .wrap_min_params = s.wrap_min_params};
  if (s.engine == ShardingEngine::Fsdp1) out.fsdp_version = 1;
  if (s.engine == ShardingEngine::Fsdp2) out.fsdp_version = 2;
  return out;
}

nlohmann::json to_json(const PlanStrategy& strategy) {
  PlanWriter out;
  list_strategy(out, strategy);
  return out.take();
}

}  // namespace

void write_strategy(PlanWriter& out, const Strategy& strategy) {
  const PlanStrategy fields = describe(strategy);
  list_strategy(out, fields);
}

void read_strategy(PlanReader& in, PlanStrategy& strategy) {
  list_strategy(in, strategy);
  for (const auto& [key, degree] :
       {std::pair{"tp", strategy.tp}, std::pair{"cp", strategy.cp}, std::pair{"ep", strategy.ep}})
    if (degree != 1) in.report(key, fmt::format("is {}, but only 1 is planned so far", degree));
}

void pin_strategy(const PlanStrategy& wanted, EstimateRequest& request, PlanProblems& problems) {
  StrategyOptions& options = request.options;
  request.strategy = wanted.name;
  if (wanted.fsdp_version) options.fsdp_version = int(*wanted.fsdp_version);
  options.wrap = wanted.wrap;
  options.wrap_min_params = wanted.wrap_min_params;
  try {
    Strategy made = make_strategy(wanted.name, request.cluster, options);
    // some strategies never reshard; only what differs from the usual was asked for
    if (made.layout.reshards_after_forward != wanted.reshard_after_forward) {
      options.reshards = wanted.reshard_after_forward;
      made = make_strategy(wanted.name, request.cluster, options);
    }
    const nlohmann::json is = to_json(describe(made)), said = to_json(wanted);
    for (const auto& [key, value] : is.items())
      if (value != said[key])
        problems.add("strategy." + key, fmt::format("is {}, but {} on these {} GPUs has {}", said[key].dump(),
                                                    wanted.name, request.cluster.num_gpus(), value.dump()));
  } catch (const InputError& error) { problems.add("options.shard_size", error.problem()); }
}

}  // namespace gpuplan
