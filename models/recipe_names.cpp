#include "models/recipe_names.h"

#include <array>

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

}  // namespace

NameTable<Method> names_of(Method) { return {"method", kMethods}; }
NameTable<BaseQuant> names_of(BaseQuant) { return {"quantisation", kQuants}; }
NameTable<Precision> names_of(Precision) { return {"precision", kPrecisions}; }
NameTable<AttentionKernel> names_of(AttentionKernel) { return {"attention kernel", kAttentions}; }
NameTable<LossKernel> names_of(LossKernel) { return {"loss kernel", kLosses}; }
NameTable<LayerKernels> names_of(LayerKernels) { return {"kernel set", kKernels}; }
NameTable<Checkpointing> names_of(Checkpointing) { return {"checkpointing", kCheckpointings}; }
NameTable<OffloadTarget> names_of(OffloadTarget) { return {"offload target", kOffloads}; }
NameTable<Packing> names_of(Packing) { return {"packing", kPackings}; }

CheckpointingChoice parse_checkpointing_choice(std::string_view text, std::string_view where) {
  const std::string lower = to_lower(trim(text));
  const std::string_view choice = lower;
  if (choice == "every" || choice == "every-k" || choice == "every=k")
    throw InputError(std::string(where), "every which layer?", "write every=2 to checkpoint every second layer");
  if (choice.starts_with("every=") || choice.starts_with("every-"))
    return {Checkpointing::EveryK, parse_integer(choice.substr(6), where, 1)};
  return {parse_name<Checkpointing>(text, where), 1};
}

}  // namespace gpuplan
