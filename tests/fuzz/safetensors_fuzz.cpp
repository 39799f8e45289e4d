// The header of a safetensors file, and the index of a sharded one, as a model folder is checked against its config.
#include <nlohmann/json.hpp>

#include "fuzz/fuzz_input.h"
#include "models/checkpoint.h"
#include "models/hf_config.h"

namespace {

/// The smallest model there is: seeds hold whole checkpoints of it.
gpuplan::ModelSpec tiny_model() {
  return gpuplan::parse_hf_config({{"architectures", {"LlamaForCausalLM"}},
                                   {"model_type", "llama"},
                                   {"hidden_size", 2},
                                   {"num_hidden_layers", 1},
                                   {"num_attention_heads", 1},
                                   {"intermediate_size", 3},
                                   {"vocab_size", 4}},
                                  "config.json");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  static const ModelSpec model = tiny_model();
  const std::string_view content = fuzz::text_of(data, size);
  const auto whole = fuzz::as_file("whole/model.safetensors", content);
  fuzz::try_to([&] { check_checkpoint(model, whole.parent_path()); });
  const auto index = fuzz::as_file("sharded/model.safetensors.index.json", content);
  fuzz::try_to([&] { check_checkpoint(model, index.parent_path()); });
  return 0;
}
