#include "models/optimizers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

constexpr std::string_view kTorch =
    "torch.optim: exp_avg = zeros_like(param); foreach makes one parameter-sized list, a loop two tensors at a time, "
    "fused none";
constexpr std::string_view kApex =
    "apex FusedAdam: both moments in fp32 whatever the weight is, one multi-tensor kernel";
constexpr std::string_view kBf16States =
    "both moments in bf16 whatever the weight is (torchdistx AnyPrecisionAdamW; DeepSpeed bf16_optimizer_states)";
constexpr std::string_view kKahan =
    "torchdistx AnyPrecisionAdamW with use_kahan_summation: moments and compensation in bf16, a loop over the tensors";
constexpr std::string_view kAdafactor =
    "transformers Adafactor without momentum: fp32 row and column sums, a loop over the tensors";
constexpr std::string_view kBnb =
    "bitsandbytes optim: 1-byte states, fp32 absmax per 256, tensors under 4096 elements in fp32";
constexpr std::string_view kBnbWide = "bitsandbytes optim, 32 bit: states in fp32 whatever the weight is";

constexpr std::string_view kTorchao =
    "pytorch/ao torchao/optim/adam.py, subclass_8bit.py @36027d82 (_new_buffer: 1-byte states of a rank's part, fp32 "
    "scale per 256, tensors under 4096 elements as the weight; of DTensors, which FSDP2 has, and of parameters on the "
    "host too; a compiled step)";

constexpr std::string_view kAdemamix =
    "bitsandbytes/optim/ademamix.py: two averages of the gradient and one of its square";
constexpr std::string_view kGalore =
    "jiaweizzhao/GaLore 2cc66f88, galore_torch/adamw.py, adamw8bit.py, galore_projector.py: moments of the projected "
    "gradient, the projection beside them, a loop over the tensors";
constexpr std::string_view kApollo =
    "zhuhanqing/APOLLO 76b34725, apollo_torch/apollo.py, random_projector.py: moments of the projected gradient, the "
    "projection beside them, a loop over the tensors";
constexpr std::string_view kAdamMini =
    "zyushun/Adam-mini 402aadfe, adam_mini/adam_mini.py: one moment as the gradient, one number per row of the other, "
    "a "
    "loop over the tensors";
constexpr std::string_view kBadam =
    "Ledzy/BAdam bf989dcb, src/badam/block_optim.py (BlockOptimizer): of the block that is trained an fp32 copy and "
    "both "
    "moments, and its gradient in fp32 while it steps; the states are dropped when the block changes";
constexpr std::string_view kDecomposes =
    "GaLore decomposes each projected gradient anew every 200 steps (SVD in float32), minutes for a model of 7 B; that "
    "is "
    "not counted in the time of a step";

constexpr auto kNone = StepTemporary::None, kList = StepTemporary::Parameters, kLoop = StepTemporary::LargestTensor;

//            name                    states 8bit follow temp   paged  factored muon source
// clang-format off
constexpr std::array kOptimizers{
    OptimizerSpec{"adamw-fused",          2, false, true,  kNone, false, false, false, kTorch},
    OptimizerSpec{"adamw-foreach",        2, false, true,  kList, false, false, false, kTorch},
    OptimizerSpec{"adamw-loop",           2, false, true,  kLoop, false, false, false, kTorch},
    OptimizerSpec{"adamw-apex",           2, false, false, kNone, false, false, false, kApex},
    OptimizerSpec{"adamw-8bit",           2, true,  false, kNone, false, false, false, kBnb},
    OptimizerSpec{"adamw-torchao-8bit",   2, true,  true,  kNone, false, false, false, kTorchao, 4, false, {}, true},
    OptimizerSpec{"paged-adamw",          2, false, false, kNone, true,  false, false, kBnbWide},
    OptimizerSpec{"paged-adamw-8bit",     2, true,  false, kNone, true,  false, false, kBnb},
    OptimizerSpec{"adamw-bf16-states",    2, false, false, kNone, false, false, false, kBf16States, 2},
    OptimizerSpec{"adamw-bf16-kahan",     3, false, false, kLoop, false, false, false, kKahan, 2},
    OptimizerSpec{"adafactor",            0, false, true,  kLoop, false, true,  false, kAdafactor},
    OptimizerSpec{"lion",                 1, false, true,  kNone, false, false, false, "Chen et al. 2023: one momentum"},
    OptimizerSpec{"lion-8bit",            1, true,  false, kNone, false, false, false, kBnb},
    OptimizerSpec{"sgd",                  0, false, true,  kNone, false, false, false, kTorch},
    OptimizerSpec{"sgd-momentum",         1, false, true,  kNone, false, false, false, kTorch},
    OptimizerSpec{"muon",                 1, false, false, kList, false, false, true, "Jordan et al. 2024: momentum for matrices, AdamW for embeddings, norms and the head"},
    OptimizerSpec{"paged-lion",           1, false, false, kNone, true,  false, false, kBnbWide},
    OptimizerSpec{"paged-lion-8bit",      1, true,  false, kNone, true,  false, false, kBnb},
    OptimizerSpec{"ademamix",             3, false, false, kNone, false, false, false, kAdemamix},
    OptimizerSpec{"ademamix-8bit",        3, true,  false, kNone, false, false, false, kAdemamix},
    OptimizerSpec{"paged-ademamix",       3, false, false, kNone, true,  false, false, kAdemamix},
    OptimizerSpec{"paged-ademamix-8bit",  3, true,  false, kNone, true,  false, false, kAdemamix},
    OptimizerSpec{"rmsprop",              1, false, true,  kList, false, false, false, kTorch},
    OptimizerSpec{"adam-mini",            1, false, true,  kLoop, false, false, false, kAdamMini},
    OptimizerSpec{"badam",                3, false, false, kList, false, false, false, kBadam},
    OptimizerSpec{"galore-adamw",         2, false, true,  kLoop, false, false, false, kGalore, 4, true, kDecomposes},
    OptimizerSpec{"galore-adamw-8bit",    2, true,  false, kLoop, false, false, false, kGalore, 4, true, kDecomposes},
    OptimizerSpec{"apollo-adamw",         2, false, true,  kLoop, false, false, false, kApollo, 4, true},
};
// clang-format on

struct Alias {
  std::string_view name, row;
};
constexpr std::array kAliases{Alias{"adamw", "adamw-fused"},
                              Alias{"adamw-torch", "adamw-foreach"},
                              Alias{"adamw-torch-fused", "adamw-fused"},
                              Alias{"adamw-bnb-8bit", "adamw-8bit"},
                              Alias{"adamw8bit", "adamw-8bit"},
                              Alias{"adamw-torch-8bit", "adamw-torchao-8bit"},
                              Alias{"paged-adamw-32bit", "paged-adamw"},
                              Alias{"paged-adamw8bit", "paged-adamw-8bit"},
                              Alias{"adam", "adamw-fused"},
                              Alias{"adamw-apex-fused", "adamw-apex"},
                              Alias{"fusedadam", "adamw-apex"},
                              Alias{"anyprecision", "adamw-bf16-states"},
                              Alias{"adamw-anyprecision", "adamw-bf16-states"},
                              Alias{"lion-32bit", "lion"}};

}  // namespace

std::int64_t num_step_temporaries(StepTemporary temporary) {
  switch (temporary) {
    case StepTemporary::None: return 0;
    case StepTemporary::Parameters: return 1;     // sqrt(v), divided in place
    case StepTemporary::LargestTensor: return 2;  // sqrt(v) and its bias-corrected copy; fp32 squares of the gradient
  }
  return 0;
}

double orthogonalisation_flops(std::int64_t rows, std::int64_t cols, NewtonSchulz way) {
  const auto n = double(std::min(rows, cols)), m = double(std::max(rows, cols));
  if (way == NewtonSchulz::Gram && rows != cols) return n * n * (8 * m + 28 * n);
  return 5 * n * n * (4 * m + 2 * n);
}

std::span<const OptimizerSpec> optimizers() { return kOptimizers; }

const OptimizerSpec& find_optimizer(std::string_view name) {
  for (const OptimizerSpec& row : kOptimizers)  // resolved before, as in a search
    if (row.name == name) return row;
  std::string wanted = squash(name);
  for (const Alias& alias : kAliases)
    if (squash(alias.name) == wanted) wanted = squash(alias.row);
  for (const OptimizerSpec& row : kOptimizers)
    if (squash(row.name) == wanted) return row;
  std::vector<std::string> names;
  for (const OptimizerSpec& row : kOptimizers) names.emplace_back(row.name);
  const std::string known = fmt::format("known: {}", fmt::join(names, ", "));
  for (const Alias& alias : kAliases) names.emplace_back(alias.name);
  throw InputError("--optimizer", fmt::format("unknown optimizer '{}'", name), did_you_mean(name, names, known));
}

const OptimizerSpec& row_named(std::string_view name, std::type_identity<OptimizerSpec>) {
  return name.empty() ? optimizers().front() : find_optimizer(name);
}

Dtype optimizer_state_dtype(const OptimizerSpec& optimizer, std::int64_t elements, Dtype weight) {
  constexpr std::int64_t kMin8bitElements = 4096;  // bitsandbytes' min_8bit_size
  if (optimizer.is_8bit && elements >= kMin8bitElements) return Dtype::U8;
  if (optimizer.states_follow_weight) return weight;
  return optimizer.bytes_per_state == 2 ? Dtype::BF16 : Dtype::F32;
}

std::string optimizer_text(const Recipe& recipe) {
  const OptimizerSpec& optimizer = *recipe.optimizer;
  return optimizer.projects ? fmt::format("{}={}", optimizer.name, recipe.optimizer_rank) : std::string(optimizer.name);
}

void set_optimizer_text(Recipe& recipe, std::string_view text) {
  const std::size_t equals = text.find('=');
  recipe.optimizer = text.substr(0, equals);
  if (equals == std::string_view::npos) return;
  if (!recipe.optimizer->projects)
    throw InputError("--optimizer", fmt::format("{} has no rank", recipe.optimizer->name),
                     "for example --optimizer galore-adamw=128");
  recipe.optimizer_rank = parse_integer(text.substr(equals + 1), "--optimizer", 1, kMostRank);
}

namespace {

Bytes projected_bytes(const OptimizerSpec& optimizer, std::int64_t rows, std::int64_t cols, Dtype weight,
                      std::int64_t rank) {
  const std::int64_t small = std::min(rows, cols), kept = std::min(rank, small), moment = kept * std::max(rows, cols);
  const Dtype dtype = optimizer_state_dtype(optimizer, moment, weight);
  const std::int64_t absmax = dtype == Dtype::U8 ? 4 * ceil_div(moment, k8bitStateBlock) : 0;
  return optimizer.num_states * (bytes_of(moment, dtype) + Bytes{absmax}) + bytes_of(kept * small, weight);
}

}  // namespace

Bytes optimizer_state_bytes(const OptimizerSpec& optimizer, std::int64_t elements, std::int64_t rows, std::int64_t cols,
                            Dtype weight, std::int64_t rank) {
  if (optimizer.projects && rank > 0 && cols > 1) return projected_bytes(optimizer, rows, cols, weight, rank);
  if (optimizer.is_factored)  // fp32 row and column sums of a matrix, a full square for vectors
    return {4 * (cols > 1 ? elements / std::max<std::int64_t>(cols, 1) + std::min(cols, elements) : elements)};
  if (optimizer.is_matrix_momentum) return {(cols > 1 ? 4 : 8) * elements};
  const Dtype dtype = optimizer_state_dtype(optimizer, rows * cols, weight);
  const std::int64_t absmax = dtype == Dtype::U8 ? 4 * ceil_div(elements, k8bitStateBlock) : 0;
  return optimizer.num_states * (bytes_of(elements, dtype) + Bytes{absmax});
}

}  // namespace gpuplan
