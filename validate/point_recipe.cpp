// The recipe of a point. Enumerations of the `norm` block are rows here; names of sources are rows of aliases.json.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "validate/point.h"
#include "validate/point_plan.h"

namespace gpuplan {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw InputError("", reason); }

template <class Row, std::size_t N>
const Row& row_of(const std::array<Row, N>& rows, const std::string& name, const char* what) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
  if (row == rows.end())
    refuse(name.empty() ? fmt::format("{} is not stated", what) : fmt::format("{} '{}'", what, name));
  return *row;
}

struct PrecisionRow {
  std::string_view name;
  Precision precision;
  bool is_fp8;
};
constexpr std::array kPrecisions{
    PrecisionRow{"bf16-true", Precision::Bf16True, false}, PrecisionRow{"bf16-mixed", Precision::Bf16Mixed, false},
    PrecisionRow{"fp16-mixed", Precision::Fp16Mixed, false}, PrecisionRow{"fp32", Precision::Fp32, false},
    PrecisionRow{"fp8", Precision::Bf16Mixed, true}};

/// A loss that comes with fused kernels comes with fused norms and MLPs too (Liger, Triton).
struct LossRow {
  std::string_view name;
  LossKernel loss;
  bool has_fused_kernels;
};
constexpr std::array kLosses{LossRow{"", LossKernel::Plain, false},
                             LossRow{"plain", LossKernel::Plain, false},
                             LossRow{"in_place", LossKernel::InPlace, false},
                             LossRow{"plain_fp32", LossKernel::Plain, false},
                             LossRow{"plain_fp32_shifted", LossKernel::Plain, false},
                             LossRow{"triton", LossKernel::InPlace, true},
                             LossRow{"liger_logits", LossKernel::InPlace, true},
                             LossRow{"chunked_head", LossKernel::Chunked, false},
                             LossRow{"chunked_logits", LossKernel::Chunked, false},
                             LossRow{"fused_linear", LossKernel::Fused, true}};

struct AttentionRow {
  std::string_view name;
  AttentionKernel kernel;
};
constexpr std::array kAttentions{AttentionRow{"", AttentionKernel::Sdpa},
                                 AttentionRow{"eager", AttentionKernel::Eager},
                                 AttentionRow{"eager_fused_softmax", AttentionKernel::Eager},
                                 AttentionRow{"sdpa", AttentionKernel::Sdpa},
                                 AttentionRow{"memory_efficient", AttentionKernel::Sdpa},
                                 AttentionRow{"cudnn", AttentionKernel::Cudnn},
                                 AttentionRow{"flash", AttentionKernel::Flash},
                                 AttentionRow{"flash1", AttentionKernel::Flash},
                                 AttentionRow{"flash1_cuda", AttentionKernel::Flash},
                                 AttentionRow{"flash2", AttentionKernel::Flash},
                                 AttentionRow{"flash3", AttentionKernel::Flash3}};

struct CheckpointingRow {
  std::string_view name;
  Checkpointing kind;
};
constexpr std::array kCheckpointings{CheckpointingRow{"none", Checkpointing::None},
                                     CheckpointingRow{"full", Checkpointing::Full},
                                     CheckpointingRow{"selective", Checkpointing::Selective},
                                     CheckpointingRow{"elementwise", Checkpointing::Elementwise}};

struct LengthRow {
  std::string_view name;
  Packing packing;
};
constexpr std::array kLengths{LengthRow{"", Packing::Packed}, LengthRow{"packed", Packing::Packed},
                              LengthRow{"fixed", Packing::Packed}, LengthRow{"padded", Packing::Padded},
                              LengthRow{"dynamic", Packing::Dynamic}};

struct OffloadRow {
  std::string_view name;
  void (*set)(Offload& offload);
};
constexpr std::array kOffloads{
    OffloadRow{"cpu", [](Offload& o) { o.optimizer = o.params = OffloadTarget::Cpu; }},
    OffloadRow{"optimizer", [](Offload& o) { o.optimizer = OffloadTarget::Cpu; }},
    OffloadRow{"master", [](Offload& o) { o.optimizer = OffloadTarget::Cpu; }},  // a part of the optimizer's state
    OffloadRow{"params", [](Offload& o) { o.params = OffloadTarget::Cpu; }},
    OffloadRow{"quant_weights", [](Offload& o) { o.params = OffloadTarget::Cpu; }},  // the fp8 copies that matmuls read
    OffloadRow{"activations", [](Offload& o) { o.activations = true; }}};

std::int64_t stated(const std::optional<std::int64_t>& value, const char* what) {
  if (!value) refuse(fmt::format("{} is not stated", what));
  return *value;
}

void set_method(Recipe& r, const Point& p, const ModelSpec& model, const FrameworkAlias& framework,
                const AliasTable& aliases) {
  const PointMethod& method = row_of(kPointMethods, p.method, "method");
  r.method = method.method;
  if (r.is_adapter()) r.lora = lora_of(p, model, aliases);
  r.lora.is_dora = method.is_dora;
  r.lora.dropout = framework.lora_dropout;
  if (p.quant.empty()) return;
  if (!r.is_adapter()) refuse("full fine-tuning of a quantised model");
  r.quant = quant_of(p, framework, aliases);
  if (r.quant.kind != BaseQuant::Int8) r.method = Method::Qlora;
}

/// `partial` stands for many things; the alias table knows those that are a kind of ours.
Checkpointing checkpointing_of(const Point& p, const AliasTable& aliases) {
  const std::string name =
      p.checkpointing == "partial" ? alias_or_self(aliases.checkpointings, p.checkpointing_text) : p.checkpointing;
  return row_of(kCheckpointings, name, "checkpointing").kind;
}

/// Every k-th layer, k being what comes nearest to the share of the layers that the source recomputes.
void set_checkpointing(Recipe& r, const Point& p, const AliasTable& aliases) {
  if (p.checkpointing != "partial" || !p.recomputed_share) {
    r.checkpointing = checkpointing_of(p, aliases);
    return;
  }
  r.checkpoint_every = std::max<std::int64_t>(1, std::llround(1 / *p.recomputed_share));
  r.checkpointing = r.checkpoint_every > 1 ? Checkpointing::EveryK : Checkpointing::Full;
}

void set_kernels(Recipe& r, const Point& p, const FrameworkAlias& framework, const AliasTable& aliases) {
  const auto alias = aliases.losses.find(p.loss_text);
  const std::string& stated = alias == aliases.losses.end() ? p.loss : alias->second;
  const LossRow& loss = row_of(kLosses, stated.empty() ? framework.loss : stated, "loss");
  r.loss = loss.loss;
  if (loss.has_fused_kernels) r.kernels = LayerKernels::Fused;
  r.torch_compile = p.is_compiled;
  if (r.loss == LossKernel::Chunked && framework.loss_chunk_tokens)
    r.loss_chunks = std::max<std::int64_t>(1, ceil_div(r.tokens(), *framework.loss_chunk_tokens));
  r.attention = row_of(kAttentions, p.attention, "attention").kernel;
  set_checkpointing(r, p, aliases);
}

/// Lengths that differ from batch to batch decide what the allocator can reuse, so they count even where the longest is
/// meant.
Packing packing_of(const Point& p, const AliasTable& aliases) {
  const std::pair<const std::string, std::string>* longest = nullptr;
  for (const auto& row : aliases.lengths)
    if (p.length_text.starts_with(row.first) && (!longest || row.first.size() > longest->first.size())) longest = &row;
  return row_of(kLengths, longest ? longest->second : p.length, "length").packing;
}

}  // namespace

FrameworkAlias framework_of(const Point& point, const AliasTable& aliases) {
  const std::string text = to_lower(point.framework_text);
  for (const FrameworkAlias& row : aliases.frameworks) {
    const bool any_software = row.software.empty() && !row.text.empty();
    if (row.is_kbit_prepared && !point.is_kbit_prepared) continue;
    if (row.norm != point.framework || (!any_software && row.software != point.software)) continue;
    if (text.find(to_lower(row.text)) == std::string::npos) continue;
    return row;
  }
  if (!point.framework.empty() && known_framework(point.framework))
    return {.norm = point.framework, .record = point.framework};
  refuse(point.framework.empty() ? "the framework is not stated" : fmt::format("framework '{}'", point.framework));
}

/// A master copy on the host that is of the dtype that compute uses, where the framework keeps no other: then it is the
/// weights that are on the host (llmq's WeightsMgrUnsharded and WeightsMgrSharded, src/models/llama_weights.cpp).
static bool has_no_other_weights(const Point& p, const Recipe& r) {
  return std::find(p.offload.begin(), p.offload.end(), "master") != p.offload.end() && !r.fp8_matmul &&
         r.precision == Precision::Bf16True && !r.framework->dtypes.zero_has_master;
}

Recipe recipe_of(const Point& p, const ModelSpec& model, const FrameworkAlias& framework, const AliasTable& aliases) {
  Recipe r;
  r.framework = resolve_framework(framework.record, {.given = {}, .date = aliases.date_of(p.source)}, model.model_type);
  set_method(r, p, model, framework, aliases);
  if (!p.trained_for.empty()) r.objective.method = p.trained_for;
  if (!p.reference.empty()) r.objective.reference = parse_name<Reference>(p.reference, "reference");
  const PrecisionRow& precision = row_of(kPrecisions, p.precision, "precision");
  r.fp8_matmul = precision.is_fp8 || p.has_fp8_products;
  r.precision = precision.precision;
  r.optimizer = p.optimizer.empty() ? r.framework->default_optimizer : alias_or_self(aliases.optimizers, p.optimizer);
  const auto& in_backward = aliases.optimizers_in_backward;
  r.optimizer_in_backward =
      p.optimizer_in_backward || std::find(in_backward.begin(), in_backward.end(), p.optimizer) != in_backward.end();
  r.micro_batch = stated(p.micro_batch, "the micro batch");
  r.seq_len = stated(p.seq_len, "the sequence length");
  r.packing = packing_of(p, aliases);
  set_kernels(r, p, framework, aliases);
  for (const std::string& part : p.offload) row_of(kOffloads, part, "offload of").set(r.offload);
  if (has_no_other_weights(p, r)) r.offload.params = OffloadTarget::Cpu;
  return r;
}

}  // namespace gpuplan
