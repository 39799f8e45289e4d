// The families of models that gpuplan can build: one file in models/families each, and one row in the table of
// families.cpp. A family reads a Hugging Face config into a ModelSpec, writes it back, and lists the weight tensors.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

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
  bool is_executable = false;                                    // `gpuplan run` has the kernels of its layers
  void (*read)(Fields& config, ModelSpec& spec);                 // reports every bad field
  void (*write)(const ModelSpec& spec, nlohmann::json& config);  // read() understands what it writes
  ModelWeights (*list)(const ModelSpec& spec);
};

/// Every row, in the order they are listed to people.
std::span<const Family* const> families();

/// The row of a config's `model_type` and `architectures[0]`; an empty one is taken from the other. nullptr when no row
/// has this pair.
const Family* find_family(std::string_view model_type, std::string_view architecture);

/// The row that built `spec`. Throws InputError naming the model when there is none.
const Family& family_of(const ModelSpec& spec);

/// "llama, mistral, …": what a refusal offers instead.
std::string modelled_families();

}  // namespace gpuplan
