// torchtune says model and method in the name of a Python function, and adapter targets in three keys.
#pragma once

#include <string>
#include <vector>

#include "ecosystem/setup.h"

namespace gpuplan {

/// Turns `component`, `module_targets`, `mlp_adapters`, `head_adapters` and `fused_optimizer` into the facts that other
/// formats state. Does nothing without a component. Returns what is counted otherwise than torchtune has it; else
/// empty.
std::string resolve_component(Setup& setup);

/// The config.json of a model whose builder is called with sizes (own_width and its like); empty where it is called
/// without. Throws InputError for a builder whose model is not known, and for a size that it needs.
std::string config_of_sizes(const Setup& setup);

/// "torchtune.models.llama3_1.lora_llama3_1_8b" as a model's name: "llama3.1-8b".
std::string model_of_component(const std::string& component);

/// A function that builds a model, and what a recipe names beside it (data/ecosystem/torchtune_models.yaml).
struct TorchtuneModel {
  std::string module, name, tokenizer, tokenizer_file, merges_file, type;
  bool has_qlora = true;
};

/// The rows of the data file.
const std::vector<TorchtuneModel>& torchtune_models();

/// States a plan's set-up in torchtune's words; the inverse of resolve_component. `model`: without it no component is
/// stated.
void use_component(Setup& setup, const TorchtuneModel* model);

}  // namespace gpuplan
