// Kinds of adapters on linears: what each trains, what it needs beside that, and how it joins the product. One row of
// data per kind (data/adapters.yaml); the products themselves are in models/ledger.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/recipe.h"

namespace gpuplan {

/// Names what is computed around the linear; data/adapters.yaml explains the words.
enum class AdapterPath : std::uint8_t {
  LowRank,
  SharedFactors,
  Factors,
  Rotation,
  Butterfly,
  Delta,
  OwnWeight,
  Scale,
  Shift,
  Turn,
  Circulant,
  BlockSum,
  Prompt,
  ScaledRank,
  BlockDiagonal,
  Projection,
  Bottleneck,
  Intervention
};

/// A number that a linear and its adapter decide: a length of a tensor's side, or what it is a product of.
enum class AdapterLength : std::uint8_t {
  One,
  In,
  Out,
  Narrow,
  Wide,
  Rank,
  RankPairs,
  Bases,
  Block,
  Blocks,
  OutBlocks,
  BlockPairs,
  Factor,
  Scaled,
  SmallIn,
  LargeIn,
  SmallOut,
  LargeOut,
  Inner,
  InnerRank,
  Encoder,
  CutIn,
  CutOut
};

/// One side of a tensor of an adapter: a product of lengths, so many times.
struct AdapterSide {
  std::vector<AdapterLength> lengths;
  std::int64_t times = 1;
};

/// The shape [rows, cols] of a tensor of an adapter.
using AdapterShape = std::array<AdapterSide, 2>;

/// Says where a factor of AdapterPath::Factors comes from. Made: anew in each forward pass, of other parameters, and
/// kept. RowMade: the same for each row of the micro batch. MadeIfNarrow: made on the narrower side of the linear, else
/// frozen.
enum class FactorSource : std::uint8_t { Trained, Frozen, Made, RowMade, MadeIfNarrow };

struct AdapterKind {
  std::string name, title, source;
  std::vector<std::string> aliases, input_blocks;  // input_blocks: modules whose A has the blocks, as files name them
  AdapterPath path{};
  std::vector<AdapterShape> trained, buffers, shared;
  std::vector<AdapterShape> trained_once;        // of the model, whatever its linears are
  std::vector<AdapterShape> trained_by_module;   // of all layers' linears of one name and shape together
  std::vector<AdapterShape> kept;                // for backward, on each linear
  std::array<FactorSource, 2> factors{};         // of Factors: A and B
  AdapterSide middle{{AdapterLength::Rank}};     // … and what stands between them
  std::int64_t rank = 8, block = 0, factor = 0;  // where nothing says them; 0: the kind has none
  std::int64_t products = 0;                     // low-rank products of which a Delta is made
  std::int64_t parts = 0;                        // matrices of the linear's size that a Delta is made of at once
  bool turns_middle = false;                     // a trained matrix [rank, rank] between the factors
  bool is_of_base = false;                       // a Delta that is made of the base's weight, …
  bool is_in_base_dtype = false;                 // … and one that is multiplied in that weight's dtype
  bool takes_biases = true;
  bool has_values = false;           // singular values between the factors
  bool takes_nearest_block = false;  // else a block must divide the input
  bool takes_quantised = true;
  bool takes_dropout = true;

  /// Says whether it stands in front of the rows instead of on linears; then a rank is a number of virtual tokens.
  bool is_prompt() const { return path == AdapterPath::Prompt; }
  /// Says whether it changes what each MLP returns, whatever linears are named.
  bool is_on_output() const { return path == AdapterPath::Bottleneck || path == AdapterPath::Intervention; }
  /// Says whether a rank decides any of its shapes, and whether its blocks divide the outputs too.
  bool has_rank() const;
  bool divides_outputs() const;
  /// Says whether it is LoRA itself, which alone has variants (DoRA), adapters of stacked experts, and fused kernels.
  /// LoRA is the usual kind.
  bool is_lora() const;
};

/// Every kind, the usual one first.
std::span<const AdapterKind> adapter_kinds();

/// A row by name or alias. Throws InputError naming --lora kind with the nearest names.
const AdapterKind& find_adapter_kind(std::string_view name);

/// A linear as its adapter sees it.
struct AdaptedLinear {
  std::int64_t in{}, out{}, rank{}, block{}, factor{};
  bool scales_input{};   // of Scale: the input instead of the output
  bool divides_input{};  // of BlockDiagonal: the blocks are of A instead of B
};

/// The length of one side.
std::int64_t side_length(const AdapterSide& side, const AdaptedLinear& linear);

/// The size of the blocks into which the recipe's adapters divide an input; 0 where there are none, or where the kind
/// takes divisors alone and it is none.
std::int64_t block_of(const LoraSpec& lora, std::int64_t in);

/// Factors (m, n) of a number with m <= n and m as near as possible to `wanted`, or to its square root (wanted <= 0).
/// Source: huggingface/peft @v0.20.0 src/peft/tuners/lokr/layer.py (factorization).
std::array<std::int64_t, 2> near_factors(std::int64_t number, std::int64_t wanted);

}  // namespace gpuplan
