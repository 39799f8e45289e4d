// How a model is fine-tuned: method, precision, optimizer, batch, kernels and memory savers. A value with defaults;
// what a framework makes of it (dtypes, copies, buckets) is a FrameworkConvention (models/framework.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "base/table_row.h"
#include "models/quantisation.h"

namespace gpuplan {

enum class Method : std::uint8_t { Full, Lora, Qlora };
/// Bf16Loaded: full fine-tuning under autocast of weights that were loaded in bf16. Whole copies stay in bf16; FSDP and
/// ZeRO turn what they shard into fp32.
enum class Precision : std::uint8_t { Bf16True, Bf16Mixed, Fp16Mixed, Fp32, Bf16Loaded };
/// Sdpa: torch's choice, which is flash attention where it can. Flash: flash-attn 2. Cudnn: cuDNN's or Transformer
/// Engine's. Flash3: FlashAttention 3, of Hopper cards.
enum class AttentionKernel : std::uint8_t { Eager, Sdpa, Flash, Cudnn, Flash3 };
/// Plain: full logits, framework ops. InPlace: one kernel that turns the logits into their gradient. Chunked: head and
/// loss in pieces. Fused: Liger-style fused linear cross-entropy; full logits never exist.
enum class LossKernel : std::uint8_t { Plain, InPlace, Chunked, Fused };
enum class LayerKernels : std::uint8_t { Plain, Fused };  // norm and MLP kernels: framework ops, or Liger/Triton
/// Elementwise: what norms and activation functions made is recomputed, matmul and attention results are kept.
enum class Checkpointing : std::uint8_t { None, Full, Selective, EveryK, Elementwise };
enum class OffloadTarget : std::uint8_t { None, Cpu, Nvme };
enum class Packing : std::uint8_t { Packed, Padded, Dynamic };

struct AdapterKind;
const AdapterKind& row_named(std::string_view name, std::type_identity<AdapterKind>);

/// Adapters. Of the usual kind (Hu et al. 2021) an adapted linear [in -> out] gains A [r, in] and B [out, r].
struct LoraSpec {
  RowOf<AdapterKind> kind;  // lora: a row of models/adapter_kind.h
  std::int64_t rank = 8;
  double alpha = 16;  // default 2 r
  double dropout = 0;
  std::vector<std::string> targets{"all-linear"};  // "q_proj", "v_proj", … or "all-linear" (head excluded)
  std::optional<Dtype> adapter_dtype;              // unset: what the framework does
  std::optional<Dtype> base_dtype;                 // frozen base as loaded; unset: the compute dtype
  std::vector<std::string> modules_to_save;        // "lm_head", "embed_tokens": trained as full copies
  bool is_dora = false;                            // adds one magnitude per output feature
  bool linear_experts = false;      // stacked experts as linears of their own, by an option of the trainer
  std::int64_t rotation_block = 0;  // of kinds that divide the input into blocks; 0: the kind's own
  std::int64_t factor = 0;  // of BOFT, how many; of LoKr, one of the two that a side is divided into; 0: the kind's own
  bool operator==(const LoraSpec&) const = default;
};

struct Offload {
  OffloadTarget optimizer = OffloadTarget::None;
  OffloadTarget params = OffloadTarget::None;
  bool activations = false;  // checkpoint boundaries to host memory
  bool any() const { return optimizer != OffloadTarget::None || params != OffloadTarget::None || activations; }
  bool operator==(const Offload&) const = default;
};

/// Quantisation-aware training: linears that multiply what fake quantisers of torchao make of weights, or of weights
/// and inputs (data/fake_quant.yaml). Int8Int4: its int8-int4 quantiser of per-token inputs; Int4Grouped and
/// its kin: weights in groups whose scales get gradients. Bitnet: ternary weights and inputs in 8 bits by onebitllms.
enum class Qat : std::uint8_t {
  None,
  Int4,
  Int8Int4,
  Int4Grouped,
  Int8Int4Grouped,
  Fp8Int4Grouped,
  Fp8,
  Nvfp4,
  Mxfp4,
  Bitnet
};

/// Where the log-probs of the reference come from: a second model, the policy without its adapters, a file that was
/// made before, a model that waits in host memory; or the method compares with none.
enum class Reference : std::uint8_t { Copy, Adapter, Precomputed, Host, None };

/// Names what a pass over the model does: it trains, it runs forward with what is trained as it is, or forward with
/// nothing trained and no adapters (a reference).
enum class Pass : std::uint8_t { Train, Forward, Frozen };

/// Names what is trained of a vision-language model beside its language model. All: as the language model is, so that
/// adapters are on its linears too. Whole: its weights themselves, beside adapters of the language model.
enum class TrainVision : std::uint8_t { No, Projector, All, Whole };

// The largest numbers of a recipe and its rows, stated here alone: flags, files and validate_recipe() take the same.
inline constexpr std::int64_t kMostMicroBatch = 1'000'000;               // of a micro batch, of an evaluation batch
inline constexpr std::int64_t kMostSeqLen = 1 << 26;                     // tokens of a sequence, of a row
inline constexpr std::int64_t kMostGradAccum = 100'000;                  // micro batches of a step
inline constexpr std::int64_t kMostAttentionGroups = 64;                 // stretches of a sequence
inline constexpr std::int64_t kMostLossChunks = 1 << 16;                 // of a chunked loss
inline constexpr std::int64_t kMostDataRows = std::int64_t{1} << 40;     // of a file of lengths, of a plan
inline constexpr std::int64_t kMostBatchTokens = std::int64_t{1} << 32;  // of a micro batch, of an evaluation batch
inline constexpr std::int64_t kMostRank = 1 << 20;                       // of adapters
inline constexpr std::int64_t kMostPixels = 1 << 16;                     // of a side
inline constexpr std::int64_t kMostImages = 4096;                        // of a row

constexpr bool trains_tower(TrainVision train) { return train == TrainVision::All || train == TrainVision::Whole; }

/// Images of the rows that a vision-language model is trained on.
struct ImageSpec {
  std::int64_t width = 512, height = 512;  // pixels, before the model's processor resizes them
  std::int64_t per_row = 1;
  TrainVision train{};
  friend bool operator==(const ImageSpec&, const ImageSpec&) = default;
};

struct TokenDispatcher;
const TokenDispatcher& row_named(std::string_view name, std::type_identity<TokenDispatcher>);

constexpr double kMostImbalance = 1024, kMostCapacity = 1024;

/// Says how tokens go to experts.
struct Routing {
  double imbalance = 1;            // rows of the fullest of the ranks that share experts, over the mean of them
  std::optional<double> capacity;  // rows that an expert takes at most, over an even share; unset: all that come
  bool pads_to_capacity = false;   // … and it takes as many whatever comes
  RowOf<TokenDispatcher> dispatcher;
  friend bool operator==(const Routing&, const Routing&) = default;
};

struct FrameworkConvention;
struct OptimizerSpec;
struct TrainingMethod;
const FrameworkConvention& row_named(std::string_view name, std::type_identity<FrameworkConvention>);
const OptimizerSpec& row_named(std::string_view name, std::type_identity<OptimizerSpec>);
const TrainingMethod& row_named(std::string_view name, std::type_identity<TrainingMethod>);

/// Holds what the model is trained for.
struct Objective {
  RowOf<TrainingMethod> method;        // sft
  std::optional<Reference> reference;  // unset: what the trainer does (reference_of)
  std::int64_t completion_len = 0;     // tokens of a row that are answered; 0: all of it may be
  std::int64_t labels = 0;             // of a score head; 0: the method's
  std::int64_t texts_per_row = 0;      // that the model reads per row of the data; 0: the method's
  std::int64_t teacher_topk = 0;       // logits of each token that a divergence compares, the highest; 0: all

  /// Rows of the model per row of the data.
  std::int64_t answers() const;
  friend bool operator==(const Objective&, const Objective&) = default;
};

struct Recipe {
  Method method = Method::Full;
  LoraSpec lora;
  QuantSpec quant;
  /// Names of parameters or modules (models/trained_names.h) that alone are trained, or carry adapters; empty: all.
  std::vector<std::string> trained;
  /// True where parameters that `trained` leaves out have their turn in other steps, under one optimizer that keeps its
  /// states of all of them.
  bool trained_in_turn = false;
  Precision precision = Precision::Bf16Mixed;
  RowOf<OptimizerSpec> optimizer;     // adamw-fused
  std::int64_t optimizer_rank = 128;  // of an optimizer that projects gradients
  bool optimizer_in_backward = false;
  std::int64_t micro_batch = 1;  // sequences per data-parallel rank
  std::int64_t seq_len = 2048;   // tokens per sequence
  Packing packing = Packing::Packed;
  std::int64_t grad_accum = 1;  // micro-batches per optimizer step
  Checkpointing checkpointing = Checkpointing::None;
  std::int64_t checkpoint_every = 1;  // k of every=k: every k-th layer is checkpointed
  AttentionKernel attention = AttentionKernel::Sdpa;
  /// Stretches of a sequence that attend within themselves alone, in half of the heads shifted by half a stretch
  /// (LongLoRA's shifted sparse attention, arXiv 2309.12307); 1: all of it.
  std::int64_t attention_groups = 1;
  LossKernel loss = LossKernel::Plain;
  std::int64_t loss_chunks = 8;         // chunks of a chunked loss
  std::optional<LayerKernels> kernels;  // unset: what the framework uses
  bool torch_compile = false;           // layers and loss through torch.compile: fused memory-bound ops, fewer launches
  Qat qat{};                            // weights stay in 16 or 32 bit; their quantised values are made in each pass
  bool fp8_matmul = false;  // Transformer Engine / torchao: block linears multiply in fp8, states as without
  Offload offload;
  ImageSpec images;
  Routing routing;
  RowOf<FrameworkConvention> framework;  // hf-trainer
  Objective objective;
  Pass pass{};  // of the model that the recipe is for; what is asked trains

  bool is_adapter() const { return method != Method::Full; }
  /// Tokens that the model reads in a micro-batch; packed rows may hold all answers of theirs.
  std::int64_t rows() const { return objective.method.is_usual() ? micro_batch : micro_batch * answers_apart(); }
  std::int64_t answers_apart() const;
  std::int64_t tokens() const { return rows() * seq_len; }  // N: tokens per micro-batch and rank
  bool operator==(const Recipe&) const = default;
};

/// Says how much data is trained on; decides time per epoch and cost, not memory.
struct Dataset {
  std::int64_t rows = 10'000;
  std::int64_t tokens_per_row = 0;  // 0: seq_len
  double epochs = 1;
};

}  // namespace gpuplan
