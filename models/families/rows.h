// The rows of the table in families.cpp, each defined by its own file in this folder.
#pragma once

#include "models/families.h"

namespace gpuplan {

extern const Family kLlama, kMistral, kQwen2, kQwen3, kSmolLm3;
extern const Family kGemma, kGemma2, kGemma3Text, kPhi, kPhi3, kGpt2, kGptBigCode;
extern const Family kGptNeoX, kGptJ, kFalcon, kBloom, kOpt, kMpt, kStarCoder2, kStableLm;
extern const Family kQwen, kChatGlm, kBaichuan, kInternLm, kGranite, kOlmo, kOlmo2;
extern const Family kMixtral, kQwen2Moe, kQwen3Moe, kOlmoe, kDeepSeek, kDeepSeekV2, kDeepSeekV3, kGptOss, kLlama4;
extern const Family kT5, kMt5, kBert;

}  // namespace gpuplan
