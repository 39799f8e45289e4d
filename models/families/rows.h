// What a family of models is, and the rows of the table in families.cpp, which the files in this folder define.
#pragma once

#include <string_view>

#include "models/model_spec.h"
#include "models/weights.h"

namespace gpuplan {

class Fields;

struct Family {
  std::string_view name;                  // ModelSpec::family
  std::string_view model_type;            // of the config: "llama"
  std::string_view architecture;          // the class that is counted: "LlamaForCausalLM"
  std::string_view other_architecture{};  // another class of the same tensors ("MptForCausalLM"), or empty
  std::string_view wrapper_type{};        // multimodal config whose text_config holds this model ("gemma3"), or empty
  std::string_view wrapper_architecture{};
  bool is_encoder = false;                        // its classes for tasks hold what is counted, and small heads
  bool is_executable = false;                     // `gpuplan run` has the kernels of its layers
  void (*read)(Fields& config, ModelSpec& spec);  // reports every bad field
  ModelWeights (*list)(const ModelSpec& spec);
};

extern const Family kLlama, kMistral, kQwen2, kQwen3, kSmolLm3;
extern const Family kGemma, kGemma2, kGemma3Text, kPhi, kPhi3, kGpt2, kGptBigCode;
extern const Family kGptNeoX, kGptJ, kFalcon, kBloom, kOpt, kMpt, kStarCoder2, kStableLm;
extern const Family kQwen, kChatGlm, kBaichuan, kInternLm, kGranite, kGraniteMoe, kGranite4, kOlmo, kOlmo2;
extern const Family kMixtral, kQwen2Moe, kQwen3Moe, kOlmoe, kDeepSeek, kDeepSeekV2, kDeepSeekV3, kGptOss, kLlama4;
extern const Family kGlm, kGlm4, kGlm4Moe, kGlm4MoeLite, kKimiK2, kDots1, kMiniMaxM2, kErnie, kErnieMoe;
extern const Family kNemotron, kArcee, kOlmo3, kExaone4, kSeedOss, kHunyuan, kHunyuanMoe, kInternLm2;
extern const Family kQwen2Vl, kQwen25Vl, kQwen3Vl, kQwen3VlMoe, kGemma3, kLlava, kInternVl;
extern const Family kQwen3Next, kQwen35Text, kQwen35MoeText, kQwen35, kQwen35Moe, kFalconH1, kNemotronH, kLfm2, kGptNeo;
extern const Family kPaliGemma, kIdefics3, kSmolVlm, kLlavaNext, kOneVision, kMllama, kGemma4Text, kGemma4, kGemma3n;
extern const Family kApertus, kPhiMoe, kLfm2Moe, kBamba, kJamba, kMamba, kFalconMamba, kMamba2, kGemma4Unified;
extern const Family kKimiLinear, kQwen25Omni, kQwen3Omni, kLfm2Vl, kDeepSeekVl2, kDbrx;
extern const Family kT5, kMt5, kBert, kRoberta, kXlmRoberta, kModernBert, kDebertaV2;

}  // namespace gpuplan
