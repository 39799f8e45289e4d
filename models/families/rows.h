// The rows of the table in families.cpp, each defined by its own file in this folder.
#pragma once

#include "models/families.h"

namespace gpuplan {

extern const Family kLlama, kMistral, kQwen2, kQwen3, kSmolLm3;
extern const Family kGemma, kGemma2, kGemma3Text, kPhi, kPhi3, kGpt2, kGptBigCode;
extern const Family kGptNeoX, kFalcon, kBloom, kQwen, kChatGlm, kBaichuan;

}  // namespace gpuplan
