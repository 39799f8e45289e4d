#include "diagnose/causes.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include <fmt/format.h>

#include "base/files.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"
#include "cluster/links.h"
#include "models/ledger.h"
#include "models/training_method.h"
#include "planner/cost.h"
#include "planner/engine_gpus.h"

namespace gpuplan {
namespace {

using Differences = std::vector<Difference>;
constexpr double kGiga = 1e9, kMicro = 1e-6;

Difference one(std::string_view row, std::string_view value) { return {{set_to(row, value)}, 0}; }
Difference one(std::string_view row, double value) { return one(row, fmt::format("{:.6g}", value)); }
Differences only(bool condition, std::string_view row, std::string_view value) {
  return condition ? Differences{one(row, value)} : Differences{};
}
Differences each(std::string_view row, double now, std::initializer_list<double> factors) {
  Differences out;
  for (const double factor : factors) out.push_back(one(row, now * factor));
  return out;
}

bool has_neighbours(const ClusterSpec& c) { return std::min(c.gpus_per_node, c.num_gpus()) > 1; }

/// The way through the host's memory is at best as fast as its links; one copying core, or the other socket's memory,
/// makes it many times slower.
Differences through_host(const ClusterSpec& c, bool is_of_nvlink) {
  if (!has_neighbours(c) || c.fabric == FabricKind::PcieHostStaged || is_nvlink(c.fabric) != is_of_nvlink) return {};
  Differences out{one("p2p", "0")};
  for (const char* gb_s : {"4", "2", "1", "0.5"}) out.push_back({{set_to("p2p", "0"), set_to("busbw", gb_s)}, 0});
  return out;
}
Differences without_peers(const Variant& v, const Strategy&) { return through_host(v.request.cluster, false); }
Differences without_nvlink(const Variant& v, const Strategy&) { return through_host(v.request.cluster, true); }
Differences with_peers(const Variant& v, const Strategy&) {
  const ClusterSpec& c = v.request.cluster;
  return only(has_neighbours(c) && c.fabric == FabricKind::PcieHostStaged, "p2p", "1");
}

/// Cards in slots of fewer lanes, or of an older board.
Differences narrow_slots(const Variant& v, const Strategy&) {
  const ClusterSpec& c = v.request.cluster;
  const GpuSpec& gpu = c.gpus.front();
  const bool uses_slots = (has_neighbours(c) && !is_nvlink(c.fabric)) || v.request.recipe.offload.any();
  Differences out;
  if (!uses_slots || gpu.is_cpu) return out;
  for (const std::int64_t lanes : {8, 4, 1})
    if (lanes < gpu.pcie_lanes) out.push_back(one("pcie-lanes", std::to_string(lanes)));
  if (gpu.pcie_generation > 3) out.push_back(one("pcie", "3"));
  return out;
}

Differences slow_network(const Variant& v, const Strategy&) {
  const ClusterSpec& c = v.request.cluster;
  if (c.num_nodes() <= 1) return {};
  return each("nic", c.inter.bandwidth.value * 8 / kGiga, {0.5, 0.25, 0.1, 0.03});
}

/// Eager attention is possible in trainers that choose a kernel; others have one form alone. A run that was told to use
/// flash attention does not start where it is missing.
Differences eager_attention(const Variant& v, const Strategy&) {
  const Recipe& r = v.request.recipe;
  const bool has_eager = r.framework->defaults.attention.has_value();
  return only(r.attention == AttentionKernel::Sdpa && has_eager, "attention", "eager");
}
Differences fused_attention(const Variant& v, const Strategy&) {
  return only(v.request.recipe.attention == AttentionKernel::Eager, "attention", "sdpa");
}

bool has_short_rows(const EstimateRequest& r) {
  return r.dataset.tokens_per_row > 0 && r.dataset.tokens_per_row < r.recipe.seq_len;
}
Differences unpacked(const Variant& v, const Strategy&) {
  if (v.request.recipe.packing != Packing::Packed || !has_short_rows(v.request)) return {};
  return {one("packing", "dynamic"), one("packing", "padded")};
}
Differences packed(const Variant& v, const Strategy&) {
  return only(v.request.recipe.packing == Packing::Dynamic && has_short_rows(v.request), "packing", "padded");
}

Differences loops_of_linear_attention(const Variant& v, const Strategy&) {
  const EstimateRequest& r = v.request;
  const bool has_kernels = r.model.num_layers_with(has_delta_net) > 0 && !r.recipe.framework->layers.is_handwritten &&
                           r.recipe.framework->layers.has_delta_kernels;
  return only(has_kernels, "versions", "flash-linear-attention=none");
}

Differences plain_kernels(const Variant& v, const Strategy&) {
  const Recipe& r = v.request.recipe;
  Difference all;
  if (r.loss == LossKernel::Fused) all.settings.push_back(set_to("loss", "plain"));
  if (r.kernels == LayerKernels::Fused) all.settings.push_back(set_to("kernels", "plain"));
  return all.settings.empty() ? Differences{} : Differences{all};
}
Differences not_compiled(const Variant& v, const Strategy&) {
  return only(v.request.recipe.torch_compile, "compile", "off");
}
Differences recomputes(const Variant& v, const Strategy&) {
  return only(v.request.recipe.checkpointing == Checkpointing::None, "checkpointing", "full");
}
Differences recomputes_nothing(const Variant& v, const Strategy&) {
  const Recipe& r = v.request.recipe;
  return only(r.checkpointing != Checkpointing::None && !r.offload.activations, "checkpointing", "none");
}
Differences in_fp32(const Variant& v, const Strategy&) {
  const Recipe& r = v.request.recipe;
  return only(r.precision != Precision::Fp32 && r.quant.kind == BaseQuant::None, "precision", "fp32");
}
Differences waits_for_reductions(const Variant&, const Strategy& strategy) {
  return only(strategy.engine == ShardingEngine::Zero, "overlap-comm", "off");
}

Differences slow_host_step(const Variant& v, const Strategy& strategy) {
  const EstimateRequest& r = v.request;
  if (r.recipe.offload.optimizer != OffloadTarget::Cpu) return {};
  const std::int64_t ranks = r.cluster.ranks_per_node(r.cluster.num_gpus());
  const BytesPerSec rate = host_optimizer_rate(v.profile, *r.recipe.framework, strategy.engine, r.cluster.host, ranks);
  return each("cpu-adam", rate.value / kGiga, {0.5, 0.2, 0.1, 0.03});
}

Differences low_clocks(const Variant& v, const Strategy&) {
  if (v.request.cluster.gpus.front().is_cpu) return {};
  return each("clock", 1, {0.85, 0.7, 0.55, 0.4, 0.25});
}
Differences slow_launches(const Variant& v, const Strategy&) {
  const Profile& p = v.profile;
  const Seconds now = v.request.recipe.torch_compile ? p.dispatch_compiled : p.dispatch_eager;
  if (now.value <= 0) return {};
  return each("dispatch", now.value / kMicro, {2, 4, 8});
}
Differences waits_for_data(const Variant&, const Strategy&) {
  Differences out;
  for (const double share : {0.15, 0.3, 0.6, 1.2, 2.5, 5.}) out.push_back({{}, share});
  return out;
}

/// Answers whose mean is another than the stated one, or than the longest where no mean is stated.
Differences other_lengths(const Variant& v, const Strategy&) {
  const EstimateRequest& r = v.request;
  Differences out;
  const std::int64_t most = r.rollout.max_completion;
  const std::int64_t mean = r.rollout.mean_completion > 0 ? r.rollout.mean_completion : most;
  if (!generates(r.recipe)) return out;
  for (const double factor : {0.7, 1.4, 0.5, 2., 0.3, 3.})
    if (const auto other = std::int64_t(double(mean) * factor); other > 0 && other <= most)
      out.push_back(one("completion-len", fmt::format("{},{}", other, most)));
  return out;
}

Differences slow_rewards(const Variant& v, const Strategy& strategy) {
  const bool is_stated = v.request.rollout.reward.value > 0;
  return generates(v.request.recipe) && !is_stated ? waits_for_data(v, strategy) : Differences{};
}

/// Fewer GPUs answer than the engine was meant to have, as where copies of a server were not started; as many train.
Differences fewer_engines(const Variant& v, const Strategy&) {
  const EstimateRequest& r = v.request;
  const std::int64_t that_train = r.cluster.num_gpus(), own = engine_gpus(r, that_train);
  const std::int64_t tp = std::max<std::int64_t>(1, r.rollout.engine.tp);
  EngineChoice engine = r.rollout.engine;
  const RolloutConvention* const convention = rollout_convention(r.recipe.framework->name);
  if (!engine.engine && convention) engine.engine = convention->engine;
  Differences out;
  if (!engine.engine || own == 0) return out;
  for (std::int64_t fewer = own / 2; fewer >= tp; fewer /= 2) {
    if (fewer % tp != 0) continue;
    engine.gpus = fewer;
    out.push_back({{set_to("rollout-engine", to_text(engine)), set_to("num-gpus", std::to_string(that_train + fewer)),
                    set_to("grad-accum", std::to_string(r.recipe.grad_accum))},
                   0});
  }
  return out;
}

struct WaysOfCause {
  std::string_view cause;
  Ways ways;
};
constexpr std::array kWays{WaysOfCause{"p2p", without_peers},
                           WaysOfCause{"nvlink", without_nvlink},
                           WaysOfCause{"p2p-on", with_peers},
                           WaysOfCause{"pcie", narrow_slots},
                           WaysOfCause{"network", slow_network},
                           WaysOfCause{"attention", eager_attention},
                           WaysOfCause{"attention-fused", fused_attention},
                           WaysOfCause{"packing", unpacked},
                           WaysOfCause{"padding", packed},
                           WaysOfCause{"linear-attention", loops_of_linear_attention},
                           WaysOfCause{"kernels", plain_kernels},
                           WaysOfCause{"compile", not_compiled},
                           WaysOfCause{"checkpointing", recomputes},
                           WaysOfCause{"no-checkpointing", recomputes_nothing},
                           WaysOfCause{"precision", in_fp32},
                           WaysOfCause{"overlap", waits_for_reductions},
                           WaysOfCause{"host-step", slow_host_step},
                           WaysOfCause{"clock", low_clocks},
                           WaysOfCause{"launches", slow_launches},
                           WaysOfCause{"answer-lengths", other_lengths},
                           WaysOfCause{"rewards", slow_rewards},
                           WaysOfCause{"engine-gpus", fewer_engines},
                           WaysOfCause{"data", waits_for_data}};

std::vector<Cause> read_causes() {
  YamlFile file = YamlFile::read(data_dir() / "causes.yaml");
  std::vector<Cause> out;
  for (Fields& f : file.top().list("causes")) {
    Cause& cause = out.emplace_back();
    f("name", cause.name);
    f("says", cause.says);
    f("check", cause.check);
    f.optional("prior", cause.prior, NumberRange{.least = 0, .most = 1});
    f.text("source");
    const auto row = std::ranges::find(kWays, cause.name, &WaysOfCause::cause);
    if (row == kWays.end())
      f.report("name", fmt::format("'{}' is unknown", cause.name));
    else
      cause.ways = row->ways;
    f.refuse_unknown();
  }
  if (out.size() != kWays.size()) file.top().report("causes", fmt::format("must be {}, one each", kWays.size()));
  file.top().refuse_unknown();
  file.finish();
  return out;
}

}  // namespace

std::span<const Cause> causes() { return read_once<read_causes>(); }

}  // namespace gpuplan
