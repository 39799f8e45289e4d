// The plain questions: nine models, LoRA and full training, on six machines, and nothing else said.
#pragma once

#include <array>

#include "models/recipe.h"

namespace gpuplan::test {

inline constexpr std::array kPlainModels{"llama-3.2-1b", "qwen2.5-3b", "llama-3.1-8b",  "gemma-2-9b",   "llama-2-13b",
                                         "gpt-oss-20b",  "qwen3-32b",  "qwen3-30b-a3b", "llama-3.1-70b"};
inline constexpr std::array kPlainMachines{"1x4090", "2x3090", "4xA6000", "8xA100-80GB", "8xH100", "8xB200"};
inline constexpr std::array kPlainMethods{Method::Lora, Method::Full};

}  // namespace gpuplan::test
