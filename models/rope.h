// Rotary positions: the angles that queries and keys are turned by. Sources: Su et al. 2021; transformers
// modeling_rope_utils.py
// (_compute_linear_scaling_rope_parameters, _compute_llama3_parameters).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace gpuplan {

class Fields;

/// `type` is transformers' rope_type; a type other than "default", "linear" and "llama3" is kept by name, with its
/// factor.
struct RopeSpec {
  double theta = 10000;
  std::string type = "default";
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_positions = 0;  // max_position_embeddings before scaling, of llama3
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

/// Reads rope_theta and rope_scaling, or rope_parameters (transformers 5).
RopeSpec read_rope(Fields& config);

bool is_known_rope(const RopeSpec& rope);
/// Angle per position of pair i of `rotary` / 2. Requires is_known_rope.
///   default  theta^(-2 i / rotary);  linear: divided by the factor;  llama3: wavelengths above the original context
///   divided by it / low_freq_factor are divided by the factor, those below it / high_freq_factor are kept, between
///   them a blend.
std::vector<double> inverse_frequencies(const RopeSpec& rope, std::int64_t rotary);

}  // namespace gpuplan
