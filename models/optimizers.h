// What an optimizer keeps and allocates, per trainable element. Source of every row: in the row; rules in
// docs/memory_model.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "models/recipe.h"

namespace gpuplan {

/// Names what the step allocates beside the states. Parameters: one list as large as what is stepped (torch foreach).
/// LargestTensor: two tensors as large as the largest one, as a loop over the parameters holds them.
enum class StepTemporary : std::uint8_t { None, Parameters, LargestTensor };

/// One optimizer implementation.
struct OptimizerSpec {
  std::string_view name;
  std::int64_t num_states;    // per-element tensors: 2 for Adam (3 with Kahan), 1 for momentum and Lion, 0 for SGD
  bool is_8bit;               // states of 1 byte plus one fp32 absmax per 256 (tensors under 4096 elements stay fp32)
  bool states_follow_weight;  // torch: exp_avg = zeros_like(param); bitsandbytes and DeepSpeed keep fp32
  StepTemporary temporary;
  bool is_paged;            // states in managed memory, outside the framework's counters
  bool is_factored;         // Adafactor: rows + columns per matrix instead of elements
  bool is_matrix_momentum;  // Muon: momentum for matrices, Adam for the rest
  std::string_view source;
  std::int64_t bytes_per_state = 4;  // of states that neither follow the weight nor are 8-bit: 4 or 2 (bf16)
  bool projects = false;         // states of linear layers' weights in Recipe::optimizer_rank dims, and a projection
  std::string_view remark = {};  // what a user should know of its figures
  bool steps_shards = false;     // FSDP2's, and tensors of the host, though its states are 8-bit

  /// Says whether it steps tensors on the GPU alone that are no shards of FSDP2, as bitsandbytes' do.
  bool needs_plain_tensors() const { return (is_8bit || is_paged) && !steps_shards; }
};

/// Tensors as large as a parameter that its step holds beside the states, while it works on that parameter.
std::int64_t num_step_temporaries(StepTemporary temporary);

/// FLOPs of orthogonalising a matrix by the five iterations of Newton-Schulz, with n its shorter side and m its longer
/// one. Standard: X X^T, its square and the product with X, 5 (4 n^2 m + 2 n^3). Gram: the iterations run on X X^T,
/// with one restart, 8 n^2 m + 28 n^3; a square matrix takes the standard way. Sources: Jordan et al. 2024;
/// zeropower_via_gram_newtonschulz of deepspeed/runtime/zero/muon/original_muon.py @edaa7221.
enum class NewtonSchulz : std::uint8_t { Standard, Gram };
double orthogonalisation_flops(std::int64_t rows, std::int64_t cols, NewtonSchulz way);

/// Every optimizer, the default first.
std::span<const OptimizerSpec> optimizers();

/// A row by name or alias ("adamw", "adamw_torch_fused", "paged_adamw_8bit"). Throws InputError with the nearest names.
const OptimizerSpec& find_optimizer(std::string_view name);

inline constexpr std::int64_t k8bitStateBlock = 256;  // parameters that share an absmax

/// Gives what a tensor of `elements` keeps each state in: U8 (with fp32 absmax per block), the weight's dtype, or F32.
/// Requires: neither factored nor matrix momentum.
Dtype optimizer_state_dtype(const OptimizerSpec& optimizer, std::int64_t elements, Dtype weight);

/// Bytes of optimizer state of one weight tensor [rows, cols] held by one rank (`elements` of it), fp32 or as the
/// weight. `rank`: where the optimizer projects, that of the tensor's projection; 0: it is not projected. A matrix
/// [m, n] with m >= n then has states of [m, r] and a projection [r, n], in the dtype of the gradient:
/// r (num_states m + n) elements. Source: GaLoreProjector, proj_type std.
Bytes optimizer_state_bytes(const OptimizerSpec& optimizer, std::int64_t elements, std::int64_t rows, std::int64_t cols,
                            Dtype weight, std::int64_t rank = 0);

/// Spells it as --optimizer does: "adamw-fused", "galore-adamw=128".
std::string optimizer_text(const Recipe& recipe);
/// Sets it from such a text. Throws InputError for an unknown name, and for a rank where nothing is projected.
void set_optimizer_text(Recipe& recipe, std::string_view text);

}  // namespace gpuplan
