// Checkpoints that were quantised before: `quantization_config` of a config.json, or what the name of a copy says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/quantisation.h"

namespace gpuplan {

class Fields;

/// A checkpoint's way of storing the linears of its model.
struct CheckpointQuant {
  std::string method;              // "gptq", under which data/stack has its facts; empty: in 16 or 32 bit
  std::optional<QuantSpec> base;   // unset: a format that nobody trains adapters on as it is
  std::vector<std::string> skips;  // modules that are not quantised: names, or beginnings or ends of these
  bool is_present() const { return !method.empty(); }
  friend bool operator==(const CheckpointQuant&, const CheckpointQuant&) = default;
};

/// Unpacking to 16 bit takes this on the GPU beside the result, tensor by tensor: bytes per value of a tensor, and of
/// the values that are converted at one time.
struct Unpacking {
  double bytes_per_value = 0, bytes_at_once = 0;
  std::int64_t values_at_once = 0;  // 0: all of a tensor
  bool moves_to_host = false;       // where the GPU has no room for it
  bool operator==(const Unpacking&) const = default;

  Bytes bytes_of(std::int64_t values) const;
};

/// "gptq", "NF4 of bitsandbytes", "compressed-tensors in 8 bits".
std::string to_string(const CheckpointQuant& checkpoint);

/// Reads `quantization_config` of a config.json; problems are noted there. Source: huggingface/transformers
/// src/transformers/utils/quantization_config.py @v5.15.0.
CheckpointQuant read_checkpoint_quant(Fields& config);

/// The `quantization_config` that the name of a copy stands for: "Qwen2.5-7B-Instruct-GPTQ-Int4". Null where it names
/// no format; {} for one in 16 bit ("gpt-oss-20b-BF16").
nlohmann::json quantization_config_of_name(std::string_view name);
/// Says whether this word of a name, in lower case, alone stands for a format: "gptq", "w4a16".
bool is_copy_word(std::string_view word);

/// Says whether a module keeps its dtype, by its whole name: "model.layers.1.mlp.up_proj".
bool keeps_dtype(const CheckpointQuant& checkpoint, std::string_view module);

}  // namespace gpuplan
