#include "diagnose/causes.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include <fmt/format.h>

#include "cluster/links.h"
#include "models/ledger.h"
#include "planner/cost.h"

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

/// Eager attention is possible in trainers that choose a kernel; others have one form alone.
Differences eager_attention(const Variant& v, const Strategy&) {
  const Recipe& r = v.request.recipe;
  const bool has_eager = r.framework->defaults.attention.has_value();
  return only(r.attention != AttentionKernel::Eager && has_eager, "attention", "eager");
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

constexpr std::array kCauses{
    Cause{"p2p", "peer-to-peer between the GPUs is off: NCCL goes through the host's memory",
          "nvidia-smi topo -p2p r; NCCL_DEBUG=INFO says 'via SHM'; NCCL_P2P_DISABLE, ACS and IOMMU turn it off",
          without_peers},
    Cause{"nvlink", "NVLink is not in use: NCCL goes through the host's memory",
          "nvidia-smi nvlink -s; NCCL_DEBUG=INFO says 'via SHM' or 'via P2P'; NCCL_P2P_DISABLE turns NVLink off, too",
          without_nvlink, 0.4},
    Cause{"p2p-on", "peer-to-peer between the GPUs works, which these cards are not assumed to have",
          "nvidia-smi topo -p2p r; say it with --gpu-spec p2p=yes", with_peers},
    Cause{"pcie", "cards sit in slots of fewer PCIe lanes, or of an older generation",
          "nvidia-smi --query-gpu=pcie.link.width.current,pcie.link.gen.max --format=csv", narrow_slots},
    Cause{"network", "the network between machines is slower than assumed, or falls back to TCP",
          "NCCL_DEBUG=INFO says 'via NET/IB' or 'NET/Socket'; nccl-tests all_reduce_perf", slow_network},
    Cause{"attention", "attention runs in its eager form, with all scores in memory",
          "attn_implementation of the trainer; model.config._attn_implementation says which runs", eager_attention},
    Cause{"attention-fused", "attention runs in a fused kernel, not in its eager form",
          "model.config._attn_implementation says which runs", fused_attention},
    Cause{"packing", "rows are not packed: sequences are mostly padding, or short",
          "log the shape of input_ids; sample_packing or packing of the trainer", unpacked},
    Cause{"padding", "rows are padded to the full sequence length, not to the longest of a batch",
          "log the shape of input_ids; pad_to_max_length or pad_to_sequence_len of the trainer", packed},
    Cause{"linear-attention", "linear attention runs loops in torch: flash-linear-attention is not installed",
          "pip show flash-linear-attention causal-conv1d; transformers says that it falls back",
          loops_of_linear_attention},
    Cause{"kernels", "the fused kernels of loss and layers (Liger) are not in use",
          "the trainer's log names them when it applies them", plain_kernels},
    Cause{"compile", "torch.compile has no effect: graphs break, or shapes change from step to step",
          "TORCH_LOGS=recompiles,graph_breaks", not_compiled},
    Cause{"checkpointing", "activations are recomputed in backward", "gradient_checkpointing of the trainer",
          recomputes, 0.5},
    Cause{"no-checkpointing", "activations are not recomputed in backward", "gradient_checkpointing of the trainer",
          recomputes_nothing, 0.5},
    Cause{"precision", "products run in fp32: autocast is off, or the weights were loaded in fp32",
          "bf16 or fp16 of the trainer; the dtype of the model's parameters", in_fp32, 0.3},
    Cause{"overlap", "reductions do not run beside backward", "overlap_comm of DeepSpeed's configuration",
          waits_for_reductions},
    Cause{"host-step", "the optimizer steps slowly on the host: few threads, or no vectorised Adam",
          "OMP_NUM_THREADS; cores that the job may use; DeepSpeed logs whether CPUAdam was built", slow_host_step},
    Cause{"clock", "the GPUs run at lower clocks: heat, a power limit, or another program on them",
          "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER while it trains", low_clocks},
    Cause{"launches", "the host launches kernels too slowly: few or busy cores, or Python between the kernels",
          "GPU utilisation below 100 % without communication; a faster core, torch.compile, a larger micro batch",
          slow_launches},
    Cause{"data", "the training loop waits for its data, or saves and evaluates in between",
          "dataloader_num_workers; time a loop over the data alone; logging, saving and evaluation steps",
          waits_for_data}};

}  // namespace

std::span<const Cause> causes() { return kCauses; }

}  // namespace gpuplan
