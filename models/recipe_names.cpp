#include "models/recipe_names.h"

#include <array>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

// The canonical spelling of a value comes first; separators and case never matter ("BF16_mixed").
constexpr std::array kMethods{NameRow<Method>{"full", Method::Full}, NameRow<Method>{"lora", Method::Lora},
                              NameRow<Method>{"qlora", Method::Qlora}, NameRow<Method>{"full-finetune", Method::Full},
                              NameRow<Method>{"sft-full", Method::Full}};

constexpr std::array kQuants{
    NameRow<BaseQuant>{"none", BaseQuant::None},    NameRow<BaseQuant>{"nf4", BaseQuant::Nf4},
    NameRow<BaseQuant>{"int8", BaseQuant::Int8},    NameRow<BaseQuant>{"gptq4", BaseQuant::Gptq4},
    NameRow<BaseQuant>{"gptq", BaseQuant::Gptq4},   NameRow<BaseQuant>{"4bit", BaseQuant::Nf4},
    NameRow<BaseQuant>{"bnb-nf4", BaseQuant::Nf4},  NameRow<BaseQuant>{"8bit", BaseQuant::Int8},
    NameRow<BaseQuant>{"llm-int8", BaseQuant::Int8}};

constexpr std::array kPrecisions{NameRow<Precision>{"bf16-true", Precision::Bf16True},
                                 NameRow<Precision>{"bf16-mixed", Precision::Bf16Mixed},
                                 NameRow<Precision>{"fp16-mixed", Precision::Fp16Mixed},
                                 NameRow<Precision>{"fp32", Precision::Fp32},
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

constexpr std::array kAttentions{NameRow<AttentionKernel>{"eager", AttentionKernel::Eager},
                                 NameRow<AttentionKernel>{"sdpa", AttentionKernel::Sdpa},
                                 NameRow<AttentionKernel>{"flash", AttentionKernel::Flash},
                                 NameRow<AttentionKernel>{"cudnn", AttentionKernel::Cudnn},
                                 NameRow<AttentionKernel>{"te", AttentionKernel::Cudnn},
                                 NameRow<AttentionKernel>{"flash-attn", AttentionKernel::Flash},
                                 NameRow<AttentionKernel>{"flash-attention", AttentionKernel::Flash},
                                 NameRow<AttentionKernel>{"flash-attention-2", AttentionKernel::Flash},
                                 NameRow<AttentionKernel>{"flash2", AttentionKernel::Flash},
                                 NameRow<AttentionKernel>{"fa2", AttentionKernel::Flash}};

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

constexpr std::array kPackings{NameRow<Packing>{"packed", Packing::Packed}, NameRow<Packing>{"padded", Packing::Padded},
                               NameRow<Packing>{"dynamic", Packing::Dynamic}, NameRow<Packing>{"pad", Packing::Padded},
                               NameRow<Packing>{"dynamic-padding", Packing::Dynamic}};

template <class Enum>
Enum parse(std::span<const NameRow<Enum>> rows, std::string_view what, std::string_view text, std::string_view where) {
  if (const auto* row = find_name(rows, text)) return row->value;
  const auto names = canonical_names(rows);
  throw InputError(std::string(where), fmt::format("unknown {} '{}'", what, text),
                   did_you_mean(text, names, fmt::format("use one of {}", fmt::join(names, ", "))));
}

}  // namespace

std::span<const NameRow<Method>> method_names() { return kMethods; }
std::span<const NameRow<BaseQuant>> quant_names() { return kQuants; }
std::span<const NameRow<Precision>> precision_names() { return kPrecisions; }
std::span<const NameRow<AttentionKernel>> attention_names() { return kAttentions; }
std::span<const NameRow<LossKernel>> loss_names() { return kLosses; }
std::span<const NameRow<LayerKernels>> kernels_names() { return kKernels; }
std::span<const NameRow<Checkpointing>> checkpointing_names() { return kCheckpointings; }
std::span<const NameRow<OffloadTarget>> offload_names() { return kOffloads; }
std::span<const NameRow<Packing>> packing_names() { return kPackings; }

std::string_view to_string(Method value) { return name_in(method_names(), value); }
std::string_view to_string(BaseQuant value) { return name_in(quant_names(), value); }
std::string_view to_string(Precision value) { return name_in(precision_names(), value); }
std::string_view to_string(AttentionKernel value) { return name_in(attention_names(), value); }
std::string_view to_string(LossKernel value) { return name_in(loss_names(), value); }
std::string_view to_string(LayerKernels value) { return name_in(kernels_names(), value); }
std::string_view to_string(Checkpointing value) { return name_in(checkpointing_names(), value); }
std::string_view to_string(OffloadTarget value) { return name_in(offload_names(), value); }
std::string_view to_string(Packing value) { return name_in(packing_names(), value); }

Method parse_method(std::string_view text, std::string_view where) {
  return parse(method_names(), "method", text, where);
}
BaseQuant parse_quant(std::string_view text, std::string_view where) {
  return parse(quant_names(), "quantisation", text, where);
}
Precision parse_precision(std::string_view text, std::string_view where) {
  return parse(precision_names(), "precision", text, where);
}
AttentionKernel parse_attention(std::string_view text, std::string_view where) {
  return parse(attention_names(), "attention kernel", text, where);
}
LossKernel parse_loss(std::string_view text, std::string_view where) {
  return parse(loss_names(), "loss kernel", text, where);
}
LayerKernels parse_kernels(std::string_view text, std::string_view where) {
  return parse(kernels_names(), "kernel set", text, where);
}
Checkpointing parse_checkpointing(std::string_view text, std::string_view where) {
  return parse(checkpointing_names(), "checkpointing", text, where);
}
OffloadTarget parse_offload(std::string_view text, std::string_view where) {
  return parse(offload_names(), "offload target", text, where);
}
Packing parse_packing(std::string_view text, std::string_view where) {
  return parse(packing_names(), "packing", text, where);
}

CheckpointingChoice parse_checkpointing_choice(std::string_view text, std::string_view where) {
  const std::string lower = to_lower(trim(text));
  const std::string_view choice = lower;
  if (choice == "every" || choice == "every-k" || choice == "every=k")
    throw InputError(std::string(where), "every which layer?", "write every=2 to checkpoint every second layer");
  if (choice.starts_with("every=") || choice.starts_with("every-"))
    return {Checkpointing::EveryK, parse_integer(choice.substr(6), where, 1)};
  return {parse_checkpointing(text, where), 1};
}

}  // namespace gpuplan
