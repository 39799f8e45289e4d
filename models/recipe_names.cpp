#include "models/recipe_names.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "models/adapter_kind.h"
#include "models/mesh.h"

namespace gpuplan {
namespace {

// The canonical spelling of a value comes first; separators and case never matter ("BF16_mixed").
constexpr std::array kMethods{NameRow<Method>{"full", Method::Full}, NameRow<Method>{"lora", Method::Lora},
                              NameRow<Method>{"qlora", Method::Qlora}, NameRow<Method>{"full-finetune", Method::Full},
                              NameRow<Method>{"sft-full", Method::Full}};

constexpr std::array kQuants{
    NameRow<BaseQuant>{"none", BaseQuant::None},   NameRow<BaseQuant>{"nf4", BaseQuant::Nf4},
    NameRow<BaseQuant>{"int8", BaseQuant::Int8},   NameRow<BaseQuant>{"gptq4", BaseQuant::Gptq4},
    NameRow<BaseQuant>{"awq", BaseQuant::Awq},     NameRow<BaseQuant>{"compressed-tensors", BaseQuant::Compressed},
    NameRow<BaseQuant>{"aqlm", BaseQuant::Aqlm},   NameRow<BaseQuant>{"hqq", BaseQuant::Hqq},
    NameRow<BaseQuant>{"nvfp4", BaseQuant::Nvfp4}, NameRow<BaseQuant>{"gptq", BaseQuant::Gptq4},
    NameRow<BaseQuant>{"4bit", BaseQuant::Nf4},    NameRow<BaseQuant>{"bnb-nf4", BaseQuant::Nf4},
    NameRow<BaseQuant>{"8bit", BaseQuant::Int8},   NameRow<BaseQuant>{"llm-int8", BaseQuant::Int8}};

constexpr std::array kPrecisions{NameRow<Precision>{"bf16-true", Precision::Bf16True},
                                 NameRow<Precision>{"bf16-mixed", Precision::Bf16Mixed},
                                 NameRow<Precision>{"fp16-mixed", Precision::Fp16Mixed},
                                 NameRow<Precision>{"fp32", Precision::Fp32},
                                 NameRow<Precision>{"bf16-loaded", Precision::Bf16Loaded},
                                 NameRow<Precision>{"bf16", Precision::Bf16Mixed},
                                 NameRow<Precision>{"bfloat16", Precision::Bf16Mixed},
                                 NameRow<Precision>{"amp", Precision::Bf16Mixed},
                                 NameRow<Precision>{"mixed", Precision::Bf16Mixed},
                                 NameRow<Precision>{"amp-bf16", Precision::Bf16Mixed},
                                 NameRow<Precision>{"bf16-amp", Precision::Bf16Mixed},
                                 NameRow<Precision>{"pure-bf16", Precision::Bf16True},
                                 NameRow<Precision>{"bf16-pure", Precision::Bf16True},
                                 NameRow<Precision>{"fp16", Precision::Fp16Mixed},
                                 NameRow<Precision>{"float16", Precision::Fp16Mixed},
                                 NameRow<Precision>{"16-mixed", Precision::Fp16Mixed},
                                 NameRow<Precision>{"amp-fp16", Precision::Fp16Mixed},
                                 NameRow<Precision>{"fp32-true", Precision::Fp32},
                                 NameRow<Precision>{"float32", Precision::Fp32},
                                 NameRow<Precision>{"32-true", Precision::Fp32},
                                 NameRow<Precision>{"no", Precision::Fp32}};  // accelerate: mixed_precision: no

constexpr std::array kAttentions{
    NameRow<AttentionKernel>{"eager", AttentionKernel::Eager},
    NameRow<AttentionKernel>{"sdpa", AttentionKernel::Sdpa},
    NameRow<AttentionKernel>{"flash", AttentionKernel::Flash},
    NameRow<AttentionKernel>{"cudnn", AttentionKernel::Cudnn},
    NameRow<AttentionKernel>{"flash-3", AttentionKernel::Flash3},
    NameRow<AttentionKernel>{"te", AttentionKernel::Cudnn},
    NameRow<AttentionKernel>{"flash-attn", AttentionKernel::Flash},
    NameRow<AttentionKernel>{"flash-attention", AttentionKernel::Flash},
    NameRow<AttentionKernel>{"flash-attention-2", AttentionKernel::Flash},
    NameRow<AttentionKernel>{"flash2", AttentionKernel::Flash},
    NameRow<AttentionKernel>{"fa2", AttentionKernel::Flash},
    NameRow<AttentionKernel>{"flash-attn2", AttentionKernel::Flash},
    NameRow<AttentionKernel>{"kernels-community/flash-attn", AttentionKernel::Flash},
    NameRow<AttentionKernel>{"kernels-community/flash-attn2", AttentionKernel::Flash},
    NameRow<AttentionKernel>{"flash-attention-3", AttentionKernel::Flash3},
    NameRow<AttentionKernel>{"flash-attn3", AttentionKernel::Flash3},
    NameRow<AttentionKernel>{"fa3", AttentionKernel::Flash3},
    NameRow<AttentionKernel>{"kernels-community/flash-attn3", AttentionKernel::Flash3},
    NameRow<AttentionKernel>{"kernels-community/vllm-flash-attn3", AttentionKernel::Flash3}};

constexpr std::array kLosses{
    NameRow<LossKernel>{"plain", LossKernel::Plain},     NameRow<LossKernel>{"inplace", LossKernel::InPlace},
    NameRow<LossKernel>{"chunked", LossKernel::Chunked}, NameRow<LossKernel>{"fused", LossKernel::Fused},
    NameRow<LossKernel>{"liger", LossKernel::Fused},     NameRow<LossKernel>{"fused-linear", LossKernel::Fused}};

constexpr std::array kKernels{
    NameRow<LayerKernels>{"plain", LayerKernels::Plain}, NameRow<LayerKernels>{"fused", LayerKernels::Fused},
    NameRow<LayerKernels>{"liger", LayerKernels::Fused}, NameRow<LayerKernels>{"triton", LayerKernels::Fused}};

constexpr std::array kCheckpointings{NameRow<Checkpointing>{"none", Checkpointing::None},
                                     NameRow<Checkpointing>{"full", Checkpointing::Full},
                                     NameRow<Checkpointing>{"selective", Checkpointing::Selective},
                                     NameRow<Checkpointing>{"every-k", Checkpointing::EveryK},
                                     NameRow<Checkpointing>{"elementwise", Checkpointing::Elementwise},
                                     NameRow<Checkpointing>{"off", Checkpointing::None},
                                     NameRow<Checkpointing>{"on", Checkpointing::Full}};

constexpr std::array kOffloads{
    NameRow<OffloadTarget>{"none", OffloadTarget::None}, NameRow<OffloadTarget>{"cpu", OffloadTarget::Cpu},
    NameRow<OffloadTarget>{"nvme", OffloadTarget::Nvme}, NameRow<OffloadTarget>{"host", OffloadTarget::Cpu}};

constexpr std::array kTrainVisions{
    NameRow<TrainVision>{"no", TrainVision::No}, NameRow<TrainVision>{"projector", TrainVision::Projector},
    NameRow<TrainVision>{"all", TrainVision::All}, NameRow<TrainVision>{"whole", TrainVision::Whole}};

constexpr std::array kQats{NameRow<Qat>{"none", Qat::None},
                           NameRow<Qat>{"int4", Qat::Int4},
                           NameRow<Qat>{"int8-int4", Qat::Int8Int4},
                           NameRow<Qat>{"int4-grouped", Qat::Int4Grouped},
                           NameRow<Qat>{"int8-int4-grouped", Qat::Int8Int4Grouped},
                           NameRow<Qat>{"fp8-int4-grouped", Qat::Fp8Int4Grouped},
                           NameRow<Qat>{"fp8", Qat::Fp8},
                           NameRow<Qat>{"nvfp4", Qat::Nvfp4},
                           NameRow<Qat>{"mxfp4", Qat::Mxfp4},
                           NameRow<Qat>{"bitnet", Qat::Bitnet}};

constexpr std::array kPackings{NameRow<Packing>{"packed", Packing::Packed}, NameRow<Packing>{"padded", Packing::Padded},
                               NameRow<Packing>{"dynamic", Packing::Dynamic}, NameRow<Packing>{"pad", Packing::Padded},
                               NameRow<Packing>{"dynamic-padding", Packing::Dynamic}};

constexpr std::array kReferences{NameRow<Reference>{"copy", Reference::Copy},
                                 NameRow<Reference>{"adapter", Reference::Adapter},
                                 NameRow<Reference>{"precomputed", Reference::Precomputed},
                                 NameRow<Reference>{"host", Reference::Host},
                                 NameRow<Reference>{"none", Reference::None},
                                 NameRow<Reference>{"adapter-off", Reference::Adapter},
                                 NameRow<Reference>{"cached", Reference::Precomputed}};

constexpr std::array kContextExchanges{NameRow<ContextExchange>{"ring", ContextExchange::Ring},
                                       NameRow<ContextExchange>{"all-gather", ContextExchange::AllGather},
                                       NameRow<ContextExchange>{"ulysses", ContextExchange::Heads},
                                       NameRow<ContextExchange>{"p2p", ContextExchange::Ring},
                                       NameRow<ContextExchange>{"allgather", ContextExchange::AllGather}};

}  // namespace

NameTable<ContextExchange> names_of(ContextExchange) { return {"exchange of keys and values", kContextExchanges}; }
NameTable<Reference> names_of(Reference) { return {"reference", kReferences}; }
NameTable<Method> names_of(Method) { return {"method", kMethods}; }
NameTable<BaseQuant> names_of(BaseQuant) { return {"quantisation", kQuants}; }
NameTable<Precision> names_of(Precision) { return {"precision", kPrecisions}; }
NameTable<AttentionKernel> names_of(AttentionKernel) { return {"attention kernel", kAttentions}; }
NameTable<LossKernel> names_of(LossKernel) { return {"loss kernel", kLosses}; }
NameTable<LayerKernels> names_of(LayerKernels) { return {"kernel set", kKernels}; }
NameTable<Checkpointing> names_of(Checkpointing) { return {"checkpointing", kCheckpointings}; }
NameTable<OffloadTarget> names_of(OffloadTarget) { return {"offload target", kOffloads}; }
NameTable<Packing> names_of(Packing) { return {"packing", kPackings}; }
NameTable<Qat> names_of(Qat) { return {"fake quantiser", kQats}; }
NameTable<TrainVision> names_of(TrainVision) { return {"trained part of the vision tower", kTrainVisions}; }

CheckpointingChoice parse_checkpointing_choice(std::string_view text, std::string_view where) {
  const std::string lower = to_lower(trim(text));
  const std::string_view choice = lower;
  if (choice == "every" || choice == "every-k" || choice == "every=k")
    throw InputError(std::string(where), "every which layer?", "write every=2 to checkpoint every second layer");
  if (choice.starts_with("every=") || choice.starts_with("every-"))
    return {Checkpointing::EveryK, parse_integer(choice.substr(6), where, 1)};
  return {parse_name<Checkpointing>(text, where), 1};
}

namespace {

struct Draft {
  AdapterFlag flag;
  bool has_rank = false;
  bool has_alpha = false;
};

using Where = const std::string&;
using Value = const std::string&;

std::vector<std::string> read_list(Value value, Where where) {
  std::vector<std::string> names = split(value, '+');
  if (std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.empty(); }))
    throw InputError(where, "has an empty name", "join module names with '+', as in q_proj+v_proj");
  return names;
}

bool read_yes(Value value, Where where) {
  for (const char* yes : {"yes", "true", "on", "1"})
    if (to_lower(value) == yes) return true;
  for (const char* no : {"no", "false", "off", "0"})
    if (to_lower(value) == no) return false;
  throw InputError(where, fmt::format("'{}' is neither yes nor no", value));
}

Dtype read_dtype(Value value, Where where, std::initializer_list<Dtype> accepted) {
  const Dtype dtype = parse_dtype(value, where);
  if (std::find(accepted.begin(), accepted.end(), dtype) != accepted.end()) return dtype;
  std::string names;
  for (const Dtype d : accepted) names += (names.empty() ? "" : ", ") + std::string(to_string(d));
  throw InputError(where, fmt::format("{} cannot be used here", to_string(dtype)), "one of " + names);
}

BaseQuant read_base(Value value, Where where) {
  const BaseQuant kind = parse_name<BaseQuant>(value, where);
  if (kind != BaseQuant::Nf4 && kind != BaseQuant::Gptq4 && kind != BaseQuant::Hqq)
    throw InputError(where, fmt::format("'{}' is no 4-bit base", value), "nf4, gptq4 or hqq; --lora --int8 for 8 bits");
  return kind;
}

double read_alpha(Value value, Where where) {
  const double alpha = parse_number(value, where);
  constexpr double kMostAlpha = 1e9;  // as in a plan file
  if (alpha <= 0 || alpha > kMostAlpha)
    throw InputError(where, fmt::format("{} is out of range", value), "more than 0, up to 1e9");
  return alpha;
}

double read_dropout(Value value, Where where) {
  const double dropout = parse_number(value, where);
  if (dropout < 0 || dropout >= 1)
    throw InputError(where, fmt::format("{} is out of range", value), "0 or more, below 1");
  return dropout;
}

struct Key {
  std::string_view name;
  bool is_of_base;  // --qlora only
  bool takes_value;
  void (*read)(Draft&, Value, Where);
};

constexpr std::array kKeys{
    Key{"r", false, true,
        [](Draft& d, Value v, Where w) {
          d.flag.lora.rank = parse_integer(v, w, 1, kMostRank);
          d.has_rank = true;
        }},
    Key{"alpha", false, true,
        [](Draft& d, Value v, Where w) {
          d.flag.lora.alpha = read_alpha(v, w);
          d.has_alpha = true;
        }},
    Key{"dropout", false, true, [](Draft& d, Value v, Where w) { d.flag.lora.dropout = read_dropout(v, w); }},
    Key{"targets", false, true, [](Draft& d, Value v, Where w) { d.flag.lora.targets = read_list(v, w); }},
    Key{"dtype", false, true,
        [](Draft& d, Value v, Where w) {
          d.flag.lora.adapter_dtype = read_dtype(v, w, {Dtype::F32, Dtype::BF16, Dtype::F16});
        }},
    Key{"base", false, true,
        [](Draft& d, Value v, Where w) {
          d.flag.lora.base_dtype = read_dtype(v, w, {Dtype::F32, Dtype::BF16, Dtype::F16});
        }},
    Key{"save", false, true, [](Draft& d, Value v, Where w) { d.flag.lora.modules_to_save = read_list(v, w); }},
    Key{"dora", false, false, [](Draft& d, Value, Where) { d.flag.lora.is_dora = true; }},
    Key{"kind", false, true, [](Draft& d, Value v, Where) { d.flag.lora.kind = find_adapter_kind(v); }},
    Key{"rotation", false, true,
        [](Draft& d, Value v, Where w) { d.flag.lora.rotation_block = parse_integer(v, w, 2, kMostRank); }},
    Key{"factor", false, true,
        [](Draft& d, Value v, Where w) { d.flag.lora.factor = parse_integer(v, w, 1, kMostRank); }},
    Key{"linear-experts", false, false, [](Draft& d, Value, Where) { d.flag.lora.linear_experts = true; }},
    Key{"quant", true, true, [](Draft& d, Value v, Where w) { d.flag.quant.kind = read_base(v, w); }},
    Key{"experts", true, false, [](Draft& d, Value, Where) { d.flag.quant.quantises_experts = true; }},
    Key{"block", true, true,
        [](Draft& d, Value v, Where w) { d.flag.quant.block_size = parse_integer(v, w, 1, kMostRank); }},
    Key{"double", true, true, [](Draft& d, Value v, Where w) { d.flag.quant.double_quant = read_yes(v, w); }},
    Key{"storage", true, true, [](Draft& d, Value v, Where w) {
          d.flag.quant.storage_dtype = read_dtype(v, w, {Dtype::U8, Dtype::BF16, Dtype::F16, Dtype::F32});
        }}};

struct KeyAlias {
  std::string_view name, key;
};
constexpr std::array kKeyAliases{KeyAlias{"rank", "r"},
                                 KeyAlias{"lora_r", "r"},
                                 KeyAlias{"lora_alpha", "alpha"},
                                 KeyAlias{"lora_dropout", "dropout"},
                                 KeyAlias{"target_modules", "targets"},
                                 KeyAlias{"modules_to_save", "save"},
                                 KeyAlias{"use_dora", "dora"}};

std::string hint_for(const std::string& name, bool has_base) {
  std::vector<std::string> names;
  for (const Key& key : kKeys)
    if (has_base || !key.is_of_base) names.emplace_back(key.name);
  std::vector<std::string> accepted = names;
  for (const KeyAlias& alias : kKeyAliases) accepted.emplace_back(alias.name);
  if (name.ends_with(".json")) return "a plan goes before the flags: gpuplan estimate " + name + " --lora";
  if (name.ends_with("_proj")) return "join several targets with '+': targets=q_proj+v_proj";
  return did_you_mean(name, accepted, fmt::format("known: {}; for example r=8,alpha=16", fmt::join(names, ", ")));
}

const Key& find_key(std::string name, bool has_base, const std::string& flag) {
  for (const KeyAlias& alias : kKeyAliases)
    if (to_lower(name) == alias.name) name = alias.key;
  for (const Key& key : kKeys)
    if (to_lower(name) == key.name && (has_base || !key.is_of_base)) return key;
  for (const Key& key : kKeys)
    if (to_lower(name) == key.name)
      throw InputError(flag, fmt::format("'{}' is about a 4-bit base", name), "use it with --qlora");
  throw InputError(flag, fmt::format("unknown key '{}'", name), hint_for(name, has_base));
}

void read_part(Draft& draft, const std::string& part, bool has_base, const std::string& flag,
               std::vector<std::string_view>& seen) {
  const std::size_t equals = part.find('=');
  const std::string name(trim(part.substr(0, equals)));
  if (name.empty()) throw InputError(flag, "has an empty part", "write key=value, separated by single commas");
  const Key& key = find_key(name, has_base, flag);
  const std::string where = fmt::format("{} {}", flag, key.name);
  const bool has_value = equals != std::string::npos && equals + 1 < part.size();
  if (key.takes_value && !has_value) throw InputError(where, "needs a value", fmt::format("{}=...", key.name));
  if (!key.takes_value && has_value && !read_yes(part.substr(equals + 1), where)) return;
  if (std::find(seen.begin(), seen.end(), key.name) != seen.end())
    throw InputError(where, "is given more than once", "give it once");
  seen.push_back(key.name);
  key.read(draft, has_value ? std::string(trim(part.substr(equals + 1))) : "", where);
}

/// "r=16" for the "16" of --lora 16; every other part as it stands.
std::string with_key(const std::string& part, bool has_base, const std::string& flag) {
  if (part.empty() || part.find_first_not_of("0123456789") != std::string::npos) return part;
  if (has_base && (part == "4" || part == "8"))
    throw InputError(flag, fmt::format("'{}' may be a rank or bits", part),
                     fmt::format("write r={}; the base has 4 bits with --qlora, 8 with --lora --int8", part));
  return "r=" + part;
}

AdapterFlag parse_adapter(const std::string& spec, bool has_base, const std::string& flag) {
  Draft draft;
  std::vector<std::string_view> seen;
  if (has_base) draft.flag.quant.kind = BaseQuant::Nf4;
  if (!trim(spec).empty())
    for (const std::string& part : split(spec, ','))
      read_part(draft, with_key(part, has_base, flag), has_base, flag, seen);
  if (!draft.has_rank) draft.flag.lora.rank = draft.flag.lora.kind->rank;
  if (!draft.has_alpha) draft.flag.lora.alpha = 2 * double(draft.flag.lora.rank);
  return draft.flag;
}

}  // namespace

AdapterFlag parse_lora(const std::string& spec) { return parse_adapter(spec, false, "--lora"); }
AdapterFlag parse_qlora(const std::string& spec) { return parse_adapter(spec, true, "--qlora"); }

namespace {

constexpr const char* kOffloadFlag = "--offload";

void read_offload_part(Offload& offload, const std::string& part) {
  const std::size_t colon = part.find(':');
  const std::string what = to_lower(trim(part.substr(0, colon)));
  const OffloadTarget target =
      colon == std::string::npos ? OffloadTarget::Cpu : parse_name<OffloadTarget>(part.substr(colon + 1), kOffloadFlag);
  if (what == "optimizer")
    offload.optimizer = target;
  else if (what == "params" || what == "parameters")
    offload.params = target;
  else if (what != "activations")
    throw InputError(
        kOffloadFlag, fmt::format("unknown part '{}'", what),
        did_you_mean(what, {"optimizer", "params", "activations"}, "known: optimizer, params, activations, none"));
  else if (target == OffloadTarget::Nvme)
    throw InputError(kOffloadFlag, "activations go to the host, not to NVMe", "write activations");
  else
    offload.activations = target == OffloadTarget::Cpu;
}

}  // namespace

Offload parse_offload_list(const std::string& text) {
  Offload offload;
  if (squash(text) == "none") return offload;
  for (const std::string& part : split(text, ',')) read_offload_part(offload, part);
  return offload;
}

std::string offload_list(const Offload& offload) {
  std::string list;
  const auto add = [&](std::string_view what, OffloadTarget target) {
    if (target == OffloadTarget::None) return;
    list += fmt::format("{}{}{}", list.empty() ? "" : ",", what, target == OffloadTarget::Nvme ? ":nvme" : "");
  };
  add("optimizer", offload.optimizer);
  add("params", offload.params);
  add("activations", offload.activations ? OffloadTarget::Cpu : OffloadTarget::None);
  return list.empty() ? "none" : list;
}

std::string adapter_spec(const LoraSpec& lora, const QuantSpec& quant) {
  std::string spec = fmt::format("r={}", lora.rank);
  const auto add = [&](std::string_view key, const std::string& value) { spec += fmt::format(",{}={}", key, value); };
  if (lora.alpha != 2 * double(lora.rank)) add("alpha", fmt::format("{}", lora.alpha));
  if (lora.dropout != 0) add("dropout", fmt::format("{}", lora.dropout));
  if (lora.targets != LoraSpec{}.targets) add("targets", fmt::format("{}", fmt::join(lora.targets, "+")));
  if (lora.adapter_dtype) add("dtype", std::string(to_string(*lora.adapter_dtype)));
  if (lora.base_dtype) add("base", std::string(to_string(*lora.base_dtype)));
  if (!lora.modules_to_save.empty()) add("save", fmt::format("{}", fmt::join(lora.modules_to_save, "+")));
  if (lora.is_dora) spec += ",dora";
  if (!lora.kind->is_lora()) add("kind", lora.kind->name);
  if (lora.rotation_block > 0) add("rotation", std::to_string(lora.rotation_block));
  if (lora.factor > 0) add("factor", std::to_string(lora.factor));
  if (lora.linear_experts) spec += ",linear-experts";
  if (quant.quantises_experts) spec += ",experts";
  if (quant.packed) return spec;  // the checkpoint says it
  if (quant.kind == BaseQuant::Gptq4 || quant.kind == BaseQuant::Hqq) add("quant", std::string(to_string(quant.kind)));
  if (quant.kind != BaseQuant::Nf4 && quant.kind != BaseQuant::Gptq4) return spec;
  if (quant.block_size != QuantSpec{}.block_size) add("block", std::to_string(quant.block_size));
  if (!quant.double_quant) add("double", "no");
  if (quant.storage_dtype) add("storage", std::string(to_string(*quant.storage_dtype)));
  return spec;
}

std::string checkpointing_text(const Recipe& recipe) {
  if (recipe.checkpointing == Checkpointing::EveryK) return fmt::format("every={}", recipe.checkpoint_every);
  return std::string(to_string(recipe.checkpointing));
}

std::string loss_text(const Recipe& recipe) {
  const std::string name(to_string(recipe.loss));
  return recipe.loss == LossKernel::Chunked ? fmt::format("{}={}", name, recipe.loss_chunks) : name;
}

}  // namespace gpuplan
