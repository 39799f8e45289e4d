// torchtune says model and method in the name of a Python function, and adapter targets in three keys.
#pragma once

#include "ecosystem/setup.h"

namespace gpuplan {

/// Turns `component`, `module_targets`, `mlp_adapters`, `head_adapters` and `fused_optimizer` into the facts that other
/// formats state. Does nothing without a component.
void resolve_component(Setup& setup);

/// "torchtune.models.llama3_1.lora_llama3_1_8b" as a model's name: "llama3.1-8b".
std::string model_of_component(const std::string& component);

}  // namespace gpuplan
