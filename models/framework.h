// What a training framework makes of a recipe: one data record per framework (data/frameworks/*.json), never a branch
// in code.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/optimizers.h"
#include "models/recipe.h"
#include "models/stack.h"

namespace gpuplan {

/// The framework of a recipe that names none.
inline constexpr std::string_view kUsualFramework = "hf-trainer";

enum class AdapterDtype : std::uint8_t { Fp32, Compute };
enum class KeptLogits : std::uint8_t { None, Compute, Fp32 };  // which copy of the logits outlives the loss
/// Selective checkpointing recomputes the score matrix, or all but every second matmul.
enum class SelectiveKind : std::uint8_t { Attention, Ops };
/// The forward ops of a checkpointed layer that run again in backward: those whose outputs are read, those up to the
/// last tensor that backward has saved, or all. Source: pytorch/pytorch torch/utils/checkpoint.py @v2.6.0
/// (set_checkpoint_early_stop; CheckpointFunction calls the layer whole). Compiled layers run what is read.
enum class RecomputedOps : std::uint8_t { Read, UntilLastSaved, All };
/// Says how the state of a unit lies in memory: tensor by tensor, or what is trained and what is frozen as one array
/// each.
enum class StateArrays : std::uint8_t { PerTensor, Flat };
/// Where the times of memory-bound kernels, attention and optimizer come from: rates of the GPU with fitted
/// efficiencies, or the kernels that `calibrate` measured.
enum class KernelTimes : std::uint8_t { Modelled, Measured };
/// A caching allocator keeps a pool per kind of tensor; planned addresses are fixed before the step runs, so that
/// nothing is reserved beside what lives.
enum class AllocatorKind : std::uint8_t { Caching, Planned };
/// Says whose optimizer steps states that are on the host: torch's on CPU tensors, or a vectorised one.
enum class HostStep : std::uint8_t { Torch, Vectorised };
/// Says who owns the training state: the framework itself (one GPU, DDP, model parallel), torch FSDP, or a ZeRO engine.
enum class ShardingEngine : std::uint8_t { Local, Fsdp1, Fsdp2, Zero };
/// Says how the experts of a layer lie in memory: a module each, or one parameter of all of them for each projection.
/// Stored: as the checkpoint has them.
enum class ExpertLayout : std::uint8_t { Stored, Modules, Stacked };
/// Says how they are multiplied: one after the other (those with rows, or all), in one kernel for all of them, or every
/// one with every row.
enum class ExpertProduct : std::uint8_t { Loop, LoopAll, Grouped, Batched };
/// The weight of a router: a module's that quantisation and adapters reach, a parameter that neither does, or one of a
/// class derived from Linear, which some releases reach. Stored: as the model's family has it.
enum class RouterWeight : std::uint8_t { Stored, Linear, Parameter, LinearSubclass };
/// LoRA's targets reach no stacked experts (Linear), or their parameters (PEFT's target_parameters), or the release
/// fails on them.
enum class ExpertReach : std::uint8_t { Linear, TargetParameters, Error };
/// Between the products of a split layer, each rank holds all tokens, or its part of the sequence (arXiv 2205.05198).
enum class SequenceSplit : std::uint8_t { No, Optional, Always };
/// Adapters of split linears. Replicated: the factor on the side that is not cut is whole on every rank (PEFT).
/// Gathered: both factors are cut, and the low-rank activation, or a row's output, is gathered (Megatron-Bridge).
enum class AdapterSplit : std::uint8_t { None, Replicated, Gathered };
/// Says how an engine that shards weights gets them onto its GPUs. Parts: each rank reads its own, and saves it. Units:
/// a unit is whole for a moment, on the meta device, under zero.Init or in the host's memory until then. WholeFirst:
/// the whole model is on every GPU before it is cut. WholeBeside: it is filled in, whole, beside the shards.
enum class ShardedLoading : std::uint8_t { Parts, Units, WholeFirst, WholeBeside };
/// Says whose base output DoRA's magnitude multiplies: one that it makes itself, in any case or where dropout gives the
/// adapter another input, or the linear's.
enum class DoraBase : std::uint8_t { Own, OwnWithDropout, Shared };
/// Names what makes mixed precision compute in 16 bit: autocast, the gather of weights, which casts them (FSDP's
/// MixedPrecision), or an engine that has turned the model itself into 16 bit (DeepSpeed).
enum class ComputeCast : std::uint8_t { Autocast, Gather, Model };

/// DeepSpeed's flat buffers of gradients on their way to the reduction.
struct GradientBuckets {
  std::int64_t size = 0;  // elements; 0: none, each unit is reduced by itself, -1: hidden^2 (HF "auto")
  /// Reductions run beside compute, those of stages 1 and 2 from two buffers in turn; false: compute waits for them.
  /// Source: deepspeed/runtime/zero/stage_1_and_2.py average_tensor and setup_buckets, stage3.py.
  bool overlap_comm = true;

  /// Elements of a model of this width.
  std::int64_t elements(std::int64_t hidden) const { return size < 0 ? hidden * hidden : size; }
  bool operator==(const GradientBuckets&) const = default;
};

/// Says how much communication buffer a sharding engine holds and how far it runs ahead. Elements unless said
/// otherwise.
struct EngineConvention {
  std::int64_t prefetch_units = 1;            // units gathered ahead of the one computed
  GradientBuckets buckets, buckets_stage3;    // of stages 1 and 2, and of stage 3
  std::int64_t max_live = 0;                  // ZeRO-3: gathered parameters at most; 0: no such limit
  std::int64_t max_reuse_distance = 0;        // ZeRO-3: kept gathered when used again within
  std::int64_t prefetch_bucket = 50'000'000;  // ZeRO-3: fetched ahead of a module; -1: 0.9 hidden^2 (HF "auto")
  std::int64_t persistence_threshold = 0;     // ZeRO-3: smaller tensors stay replicated; -1: 10 hidden
  bool keeps_root_gathered =
      false;                     // FSDP: embedding, final norm and head form one unit, kept from forward to backward
  bool syncs_last_only = false;  // accumulation under no_sync: unsharded gradients until the last micro-batch
  bool copies_out = false;       // FSDP2 copies gathered bytes into parameters: gather buffer and unit coexist
  bool reduces_in_fp32 = false;  // reduce_dtype fp32
  std::int64_t sub_group_size = -1;  // ZeRO-3: elements per rank that are stepped at once; -1: all
  std::int64_t hook_kernels = 0;     // host work of one gather's hooks, in kernel launches
  /// Host work of a parameter that comes in another's message, in kernel launches: where it is gathered, where its
  /// gradient is reduced, and for the slice of each rank.
  double leaf_gather_kernels = 0, leaf_reduce_kernels = 0, leaf_slice_kernels = 0;
  /// Host work of a gradient that goes into a bucket of stages 1 and 2, in kernel launches.
  double bucket_kernels = 0;
  /// ZeRO-3 gathers parameter by parameter what it does not keep whole; false: a unit at once.
  bool gathers_parameters = false;
  /// Types of models (`model_type`) whose router and experts DeepSpeed gathers at once (`set_z3_leaf_modules`).
  std::vector<std::string> leaf_experts;
  /// FSDP1: each matrix of an adapter is a unit of its own (PEFT's fsdp_auto_wrap_policy).
  bool wraps_adapters = false;
  /// Compute waits for every gather that was issued, those ahead of it too. ZeRO-3: `fetch_sub_module` makes the
  /// compute stream wait for the whole gather stream. Of an engine that wraps adapters, where there are some: FSDP1's
  /// rate limiter lets two units be gathered at once, and two adapters are soon used.
  bool waits_for_prefetch = false;
  /// Weights on the host are copied in on the stream that computes, which waits for them.
  bool copies_in_line = false;
  /// ZeRO++'s qwZ (zero_quantized_weights): stage 3 gathers 8-bit copies, made before and turned back after.
  bool gathers_int8 = false;
  bool gathers_fp8 = false;  // with fp8 products layers are gathered in 8 bit, converted before
  bool copies_fp8 = false;   // of weights on the host, converted once per step: 8-bit copies are kept there too
  NewtonSchulz newton_schulz = NewtonSchulz::Standard;  // of an optimizer that orthogonalises its update
  ShardedLoading loading = ShardedLoading::Units;
  bool shards_rows = false;  // each tensor is cut along dim 0; false: flat, into equal parts
  HostStep host_step = HostStep::Vectorised;
  /// An offloaded optimizer reads fp32 gradients that stay on the host. Stages 1 and 2 receive into them; stage 3
  /// receives into a partition buffer in the dtype of the weights beside them.
  bool host_gradients_in_fp32 = false;
  /// Bytes per element of a gradient that goes to the host, which stages 1 and 2 hold on the GPU at once: its norm in
  /// fp64 (8), then a search for what is not finite, then a copy in fp32 (4).
  std::int64_t host_gradient_temporary = 4;
  /// Stages 1 and 2 all-reduce a bucket, of which each rank keeps its part (use_multi_rank_bucket_allreduce, on by
  /// default); false: they scatter it.
  bool all_reduces_buckets = false;
  /// Gradients have a buffer of their own that stays; a reduction leaves a rank's part where it was (Megatron's
  /// distributed optimizer).
  bool reduces_in_place = false;
  /// Where the optimizer alone is sharded, weights that other ranks stepped are gathered beside the next forward pass,
  /// each before it is used; false: all of them after the step.
  bool gathers_at_use = false;
  /// Where the optimizer alone is sharded, each rank steps whole parameters and sends them to the others by itself: a
  /// message for every rank that has some, each of which goes round all ranks.
  bool broadcasts_parts = false;
  /// An offloaded optimizer of stages 1 and 2 has a buffer of the largest tensor's size on the GPU
  /// (temp_grad_buffer_for_gpu_offload).
  bool has_offload_buffer = false;

  const GradientBuckets& buckets_of(bool is_stage3) const { return is_stage3 ? buckets_stage3 : buckets; }
  /// Others that shard like ZeRO reduce without buckets.
  bool is_deepspeed() const { return buckets_stage3.size != 0; }
  bool operator==(const EngineConvention&) const = default;
};

/// Holds what the framework's trainer does when nothing is said; unset: it must be said, or the source does not tell.
struct FrameworkDefaults {
  std::optional<Checkpointing> checkpointing;
  /// Of adapters on a quantised base, where it differs: PEFT's prepare_model_for_kbit_training switches it on. Holds
  /// without `--framework` too.
  std::optional<Checkpointing> quantised_checkpointing;
  std::optional<Precision> precision;
  std::optional<AttentionKernel> attention;
  std::optional<AttentionKernel> hopper_attention;  // on cards of compute capability 9.0 or later, where it differs
  std::optional<LossKernel> loss;
  std::optional<Packing> packing;           // of rows shorter than a sequence
  std::optional<TrainVision> train_vision;  // of a model with a tower
  std::optional<std::int64_t> micro_batch;
  bool offload_activations = false;  // with checkpointing: the inputs of layers wait on the host
  std::string source;
};

/// Holds what the trainer can be told to do, of the settings that an estimate may choose where nobody gave them. Empty:
/// what it does by default, and checkpointing.
struct FrameworkChoices {
  std::vector<LossKernel> loss;
  bool fused_loss_brings_kernels = false;  // one switch for fused loss and fused kernels of layers
  std::vector<std::string> optimizers;     // names of models/optimizers.h
  bool shards_8bit_optimizers = true;      // false: on one GPU, or with whole copies alone
  bool optimizer_in_backward = false;
  bool offload_activations = false;
  std::vector<AttentionKernel> attention;
  std::string source;
};

/// Weights beside a base of bitsandbytes that are turned into fp32: all that are not quantised by PEFT's
/// prepare_model_for_kbit_training, of which trainers take some back.
struct QuantisedUpcast {
  bool norms = true, embeddings = true;  // embeddings: and the head
  bool blocks = true;                    // what a block multiplies with in 16 bit: stacked experts, routers
  bool beside_packed_experts = true;     // false: nothing of it where stacked experts are quantised too
  bool takes_back = false;               // all of them are in fp32 until the trainer turns some back
};

/// Dtypes of weights, products and gradients.
struct FrameworkDtypes {
  bool frozen_in_16bit = false;  // full *-mixed: only what is trained is in fp32
  bool mixed_loads_fp32 = true;  // full *-mixed: fp32 weights with autocast; false: 16-bit weights and an fp32 master
  bool caches_autocast_weights = true;  // 16-bit casts of fp32 weights live until their backward
  bool autocasts_inputs = true;         // each linear casts its own input copy under autocast
  AdapterDtype adapter = AdapterDtype::Fp32;
  std::optional<AdapterDtype> adapter_of_quantised_base;  // unset: `adapter`
  QuantisedUpcast quantised_upcast;
  bool casts_adapters = false;  // adapters stored wider than the compute dtype are cast to it where they are used
  bool qlora_computes_in_fp32 = false;  // 4-bit linears compute in fp32 where the recipe says so
  bool main_gradients_fp32 = false;     // gradients accumulate in fp32 beside 16-bit weights (Megatron)
  bool zero_has_master =
      true;  // ZeRO keeps 16-bit weights with an fp32 master and steps on an fp32 copy of the gradients
  bool computes_in_fp16 = true;  // false: the framework has no fp16 kernels
};

/// Says how state lies in memory, and how the step goes through it.
struct FrameworkState {
  StateArrays arrays = StateArrays::PerTensor;
  AllocatorKind allocator = AllocatorKind::Caching;
  bool casts_whole_units = false;   // 16-bit copies are of a unit's whole state; false: of a head only its matrix
  bool has_step_constants = false;  // one buffer for the step's sums and the rotary tables (planner/unit_layout.h)
  std::int64_t batch_bytes_per_token = 24;  // input ids, labels, attention mask: int64
  bool measures_gradient_norm = false;      // reads every gradient once more before the step
  bool host_steps_copy = false;  // an optimizer on the host steps a copy of weights that stay on the device as used
  bool offloads_complete_gradients = false;  // once per step; false: after the reduction of each micro-batch
};

/// The code and kernels of layers, and what they keep for backward.
struct FrameworkLayers {
  bool mamba_output_apart = false;  // norm and output projection of Mamba-2 stand behind its kernel, one a linear
  bool has_own_models = false;  // own modelling code: what is said of transformers' code in ModelSpec does not apply
  /// Checkpointed layers detach their input into a leaf (use_reentrant=True of torch/utils/checkpoint.py).
  bool checkpoints_reentrantly = false;
  RecomputedOps recomputes = RecomputedOps::UntilLastSaved;  // of checkpoints that are not reentrant
  KernelTimes kernel_times = KernelTimes::Modelled;
  bool has_fixed_kernels = false;       // a recipe cannot choose others
  bool has_delta_kernels = true;        // gated delta nets run flash-linear-attention's kernels; false: loops in torch
  bool is_handwritten = false;          // kernels written for training: fewer launches, fewer bytes
  bool accumulates_in_place = false;    // an op adds to the gradient that is there: no temporary, no separate sum
  bool accumulates_in_product = false;  // a product adds to the gradient that is there
  LayerKernels kernels = LayerKernels::Plain;
  bool fuses_mlp = true;                // fused kernels include the activation (Liger SwiGLU)
  bool repeats_kv = true;               // sdpa gets keys and values expanded to query heads
  bool copies_attention_output = true;  // sdpa output made contiguous for o_proj
  bool copies_flash_output = false;     // flash-attn's of several rows, put in the order of the sequence again
  /// Eager attention scales, masks and normalises scores of fewer keys than this in one kernel, from 16 bit to 16 bit,
  /// whose result is all that it keeps; 0: never.
  std::int64_t fused_softmax_keys = 0;
  bool keeps_fused_qkv = false;        // q, k, v are views of one buffer that stays alive
  bool unties_head = false;            // embedding and head are two tensors even for tied models
  bool low_rank_keeps_input = false;   // adapters share the input of their linear (16-bit adapters)
  bool quantised_keeps_input = false;  // 4-bit linears save their input although they are frozen
  bool keeps_last_graph = false;  // the loop's `loss` holds the last graph, and with it what Python objects saved there
  bool scales_norm_in_fp32 = false;  // RMSNorm multiplies by its weight before the cast back
  bool fuses_dropout = false;        // of a branch, into its sum with the stream
  bool casts_norm_inputs = false;    // a fused norm of 16-bit rows reads an fp32 copy of them
  bool recomputes_norms = false;     // layers without checkpoints make what a norm reads and keeps again in backward
  SelectiveKind selective = SelectiveKind::Attention;
};

/// The loss and what it makes of the logits.
struct FrameworkLoss {
  bool overwrites_logits = false;                // its kernel writes the gradient over the logits, in their dtype
  bool upcasts_logits = true;                    // the model's own cross-entropy in fp32; autocast upcasts in any case
  bool converts_outputs = false;                 // outputs are fp32 before the loss, whatever the model's code does
  bool shifts_logits = false;                    // contiguous copy of the shifted logits
  bool fused_evaluates = true;                   // a fused loss spares the logits in evaluation too
  KeptLogits kept_logits = KeptLogits::Compute;  // outside autocast
  KeptLogits kept_logits_mixed = KeptLogits::Fp32;  // under autocast or FSDP mixed precision
  /// The gradient of logits that ranks share is made from exponentials beside the log-softmax and the labels' part.
  bool adds_exponentials = false;
  bool chunked_loss_recomputes = true;  // a chunk's logits are recomputed in backward; false: all chunks are kept
  Dtype chunked_softmax = Dtype::F32;   // saved log-softmax of a chunked loss that keeps its chunks
};

/// Says how log-probs come out of logits: row by row, from a log-sum-exp (fp32 logits) or a log-softmax (16 bit); from
/// the log-softmax of all rows at once; or by one kernel, whose backward writes the gradient beside the logits.
enum class LogProbs : std::uint8_t { Rows, Full, Kernel };

/// Holds what the trainer does where it compares answers, and with the models beside the one that is trained.
struct FrameworkPreference {
  LogProbs log_probs = LogProbs::Rows;
  bool upcasts_logits = false;     // to fp32, whatever the model's output is
  bool copies_logits = false;      // a contiguous copy without the last position
  bool keeps_output = true;        // the model's output lives until the loss is returned, through the reference's pass
  bool keeps_completions = false;  // logits of the completions alone (logits_to_keep)
  bool keeps_vocabulary_head = false;        // the head of the vocabulary runs below a score head, and is thrown away
  bool reference_needs_gradient = false;     // its weights are not marked as frozen, so that autocast keeps their casts
  bool reference_before_training = false;    // its passes run before that with gradients
  bool reference_in_16bit = false;           // it is loaded in 16 bit where the policy is in fp32
  bool policy_pass_in_graph = false;         // a pass of the policy on other rows comes after that with gradients
  bool loads_fp32 = false;                   // weights are loaded in fp32 where no dtype is given
  bool precomputes_reference = false;        // its log-probs can be made before training
  bool compares_topk = false;                // a divergence can be of the teacher's highest logits alone
  std::int64_t divergence_rows = 0;          // that a divergence takes at once; 0: all
  bool packs_answers = false;                // a packed row holds all answers of its rows of the data
  std::vector<std::string> copies_by_label;  // methods whose logits are copied once more, by label, for what is logged
  bool reference_copies_by_label = false;    // those of the reference too, before its second pass
  std::vector<std::string> unpairs;          // methods for which a pair of the data becomes two rows
  std::vector<std::string> fused_methods;    // whose loss it can fuse with the head (Liger)
  std::vector<std::string> methods;          // rows of data/methods.yaml that it has; empty: it has the usual one alone
};

/// Mixtures of experts, of one type of models.
struct FrameworkExperts {
  ExpertLayout layout = ExpertLayout::Stored;
  ExpertProduct product = ExpertProduct::LoopAll;
  RouterWeight router = RouterWeight::Stored;
  bool weighs_inside = false;  // the router's weights multiply an expert's activation; false: its output
  bool weighs_bias = false;    // the bias of its last product is multiplied and added by itself, in fp32
  bool has_capacity = false;   // an expert can have a number of rows that it takes at most (Routing::capacity)
};

/// Weights that a base in 4 or 8 bit stores so.
struct FrameworkQuantisation {
  bool stacked_experts = false;    // experts that are one parameter
  bool offers_experts = false;     // an option quantises these
  bool subclasses = true;          // routers of a class derived from Linear
  bool linears = true;             // false: all linears of the model are of such a class, and none is reached
  std::vector<std::string> skips;  // modules that keep their dtype
};

/// Says how a forward of DoRA makes the norm of each row of W + s B A.
struct DoraCode {
  bool multiplies_identity = true;  // B A is what the adapter makes of an identity matrix; false: of the two weights
  bool converts_weight = true;      // W is converted to the dtype of the adapter's input
  bool casts_product = false;       // and B A
  DoraBase base = DoraBase::OwnWithDropout;
};

/// Weights that the targets of LoRA reach.
struct FrameworkAdapters {
  ExpertReach all_linear = ExpertReach::Linear, named = ExpertReach::Linear;  // "all-linear", and names of modules
  bool all_linear_is_names = false;        // the trainer lists the last parts of the names of linears instead
  std::int64_t gate_up_rank = 1;           // ranks of the recipe that stacked gate and up have together
  std::vector<std::string> drops_linears;  // modules without adapters where experts have target_parameters
  bool parameters_are_plain = false;       // adapters of parameters take neither dropout nor DoRA
  DoraCode dora;
  std::vector<std::string> refuses;  // modules that take no low-rank adapter; all-linear would reach them
};

/// Several GPUs, beside what engines do.
struct FrameworkDistributed {
  std::int64_t ddp_bucket_bytes = 25 << 20;
  /// Where ranks keep whole gradients they are reduced behind the last backward pass, and compute waits.
  bool reduces_at_end = false;
  bool ddp_copies_gradients = true;   // buckets beside the gradients (gradient_as_bucket_view = false)
  bool own_quantised_shards = false;  // 4-bit weights, and optimizers, of its own: no limit of bitsandbytes
  bool fsdp2_shards_4bit = false, fsdp2_shards_8bit = false;  // weights of bitsandbytes; torch's FSDP2 takes neither
  /// FSDP by keys of the trainer's own, not its launcher's: the version that they mean where they name none (0: it has
  /// no such keys), and whether layers are units without the word auto_wrap.
  std::int64_t own_fsdp_version = 0;
  bool own_fsdp_wraps = false;
  /// `mp` is a device_map: one process, whose one thread launches for all of its GPUs. false: a rank per stage.
  bool mp_is_one_process = true;
  /// Visits of a pipeline's stage through which the message of an earlier one stays in memory. A rank whose messages
  /// wait for their receivers one by one needs two: with fewer, what it receives may take the place of what it still
  /// sends, to a rank that waits for it. 0: sends and receives go on together.
  std::int64_t visits_with_message = 0;
  /// torchrun and accelerate set OMP_NUM_THREADS to 1 where several processes start (torch/distributed/run.py); false:
  /// the launcher leaves every rank its share of the cores.
  bool one_host_thread = true;
  std::vector<std::string> strategies;  // names of planner/strategy.h that the trainer has; empty: all
};

/// Says how the trainer splits a layer over ranks (tensor parallelism, arXiv 1909.08053).
struct FrameworkTensorParallel {
  std::vector<std::string> strategies;  // names of planner/strategy.h that it goes with; empty: it has none
  SequenceSplit sequence = SequenceSplit::Optional;
  /// Ranks beyond the number of KV heads share them; false: refused.
  bool replicates_kv_heads = false;
  /// True where the weight gradient of a column's product gathers its input along the sequence again instead of keeping
  /// it.
  bool gathers_again = false;
  std::int64_t vocab_multiple = 1;  // rows of the embedding that a rank has are padded to it
  AdapterSplit adapters = AdapterSplit::None;
  bool quantised = false;  // a quantised base can be split
  bool latent = false;     // latent attention can: each rank makes the latents whole, of its own tokens
  bool towers = false;     // a vision tower goes beside it, whole on every rank
  /// Kinds of layers (models/rank_model.cpp) beside attention with heads of one size and MLPs: whose
  /// linears are split, and that are whole on every rank, which gathers all tokens for them.
  std::vector<std::string> layers, whole_layers;
  /// Gathers and scatters along the sequence run beside the products that use and make them (Transformer Engine's
  /// userbuffers, torch's asynchronous tensor parallelism), where nothing else is asked for.
  bool overlaps = false;
  bool offers_overlap = false;         // it can be asked for
  bool overlap_needs_compile = false;  // the compiler puts it in, beside single products
  /// In backward a column's products run beside what ranks exchange of its input and of the gradient of that. Source:
  /// megatron/core/tensor_parallel/layers.py (LinearWithGradAccumulationAndAsyncCommunication).
  bool overlaps_columns = false;
  /// Each column's gradient of its input is summed by itself, beside the product that makes its weight gradient; false:
  /// one sum of all columns that read the same input, for which compute waits.
  bool sums_each_column = false;
};

/// Says how ranks share the sequences of their data parallel group (context parallelism, arXiv 2310.01889).
struct FrameworkContextParallel {
  std::vector<std::string> strategies;       // names of planner/strategy.h that it goes with; empty: it has none
  std::vector<std::string> exchanges;        // names of ContextExchange that it has, the usual one first
  std::vector<std::string> attention;        // names of AttentionKernel whose parts it can merge
  std::vector<std::string> layers;           // recurrent ones that it has, by heads (models/rank_model.cpp)
  bool adapters = false, quantised = false;  // a run with adapters, or a quantised base, can have it
  bool accumulates_fp32 = false;             // outputs and gradients of the parts are summed in fp32
  bool shards_apart = false;                 // ranks that share a sequence may be of several shard groups
  bool keeps_parts = false;                  // keys, values and outputs of every part exist until the last one is done
  bool rings_gradients = false;              // of keys and values, whatever the keys and values themselves do
  std::int64_t merge_kernels = 1;            // that add a part to those before it
};

/// Says how ranks share the experts of a layer (expert parallelism): each has as many, and tokens are sent to them.
struct FrameworkExpertParallel {
  std::vector<std::string> strategies;       // names of planner/strategy.h that it goes with; empty: it has none
  bool adapters = false, quantised = false;  // a run with adapters, or a quantised base, can have it
  bool beside_tensor = false;                // ranks that share layers share the experts too, each whole
  bool cuts_experts = false;                 // … or each cut among some of them (expert tensor parallelism)
  /// Ranks that share layers share each expert where nothing else is said and nobody shares the experts of a layer.
  bool cuts_beside_tensor = false;
  /// True where ranks that share layers, and nobody shares the experts, have a part of each: they gather all tokens,
  /// route them alike, and sum the outputs of the layer.
  bool gathers_tokens = false;
  std::vector<std::string> dispatchers;  // rows of models/token_dispatcher.h that it has beside the usual one
};

/// Stages of layers that work on several micro-batches at once (pipeline parallelism).
struct FrameworkPipeline {
  std::vector<std::string> strategies;  // names of planner/strategy.h that it goes with; empty: it has none
  std::vector<std::string> schedules;   // names of planner/pipeline_schedule.h
  bool counts_ends = false;             // embedding and head can count as a layer each where stages are laid
  /// Sharded weights are gathered once in a step and stay; their gradients are reduced behind the last backward of a
  /// chunk, one after the other.
  bool keeps_gathered = false;
  bool holds_received = false;         // there is a buffer for what each micro-batch receives, at all times
  bool holds_outputs = false;          // what each micro-batch sends to the next stage lives until the next step
  bool holds_input_gradients = false;  // and what it sends back
  bool sends_parts = false;            // ranks that share a layer send a part each of what all of them have
  bool merges_outputs = false;         // logits of all micro-batches live as long, and are put behind each other
};

/// One framework. Every field has one meaning, whatever the others say; `source` says where the facts come from.
struct FrameworkConvention {
  std::string name, title, source;
  std::vector<std::string> aliases;
  StackVersions versions;  // of the libraries under it, which decide the rest
  std::string family;      // the `model_type` that the rest holds for; empty: what holds for every type
  FrameworkDtypes dtypes;
  FrameworkState state;
  FrameworkLayers layers;
  FrameworkLoss loss;
  FrameworkPreference preference;
  FrameworkExperts experts;
  FrameworkQuantisation quantisation;
  FrameworkAdapters adapters;
  FrameworkDistributed distributed;
  FrameworkTensorParallel tensor_parallel;
  FrameworkContextParallel context_parallel;
  FrameworkExpertParallel expert_parallel;
  FrameworkPipeline pipeline;
  EngineConvention local{.prefetch_units = 0};
  EngineConvention fsdp1{.host_step = HostStep::Torch};
  EngineConvention fsdp2{.shards_rows = true, .host_step = HostStep::Torch};
  EngineConvention zero{.host_gradients_in_fp32 = true};  // DeepSpeed's
  std::string default_optimizer = "adamw-fused";
  FrameworkDefaults defaults;
  FrameworkChoices choices;
};

/// Holds what an engine does under every framework.
struct EngineTraits {
  ShardingEngine engine;
  std::string_view key;  // of its object in data/frameworks; empty: nothing is said of it there
  EngineConvention FrameworkConvention::*convention;
  int fsdp_version = 0;  // of torch's FSDP; 0: another engine
  ComputeCast compute_cast = ComputeCast::Autocast;
  bool can_keep_gathered = false;    // weights can stay gathered from forward to backward (reshard_after_forward)
  bool copies_reduce_input = false;  // gradients are put behind each other, in the reduce dtype, before the reduction
  bool splits_reduce_messages = false;  // a unit is reduced in as many messages as it is gathered in
  bool accumulates_as_reduced = false;  // gradients of micro-batches that are not reduced are summed in that dtype
  bool offloads_together = false;       // the optimizer steps on the host whenever the weights are there
  bool offloads_to_nvme = false;
  /// The hook that reshards a unit without trained weights is put on the unit's input.
  bool hooks_frozen_inputs = false;
  bool steps_per_tensor = true;  // the optimizer sees the tensors of the model, or their parts; false: flat ones
};
inline constexpr std::array kEngines{
    EngineTraits{.engine = ShardingEngine::Local, .key = "", .convention = &FrameworkConvention::local},
    EngineTraits{.engine = ShardingEngine::Fsdp1,
                 .key = "fsdp1",
                 .convention = &FrameworkConvention::fsdp1,
                 .fsdp_version = 1,
                 .compute_cast = ComputeCast::Gather,
                 .can_keep_gathered = true,
                 .copies_reduce_input = true,
                 .splits_reduce_messages = true,
                 .offloads_together = true,
                 .hooks_frozen_inputs = true,
                 .steps_per_tensor = false},
    EngineTraits{.engine = ShardingEngine::Fsdp2,
                 .key = "fsdp2",
                 .convention = &FrameworkConvention::fsdp2,
                 .fsdp_version = 2,
                 .compute_cast = ComputeCast::Gather,
                 .can_keep_gathered = true,
                 .copies_reduce_input = true,
                 .splits_reduce_messages = true,
                 .accumulates_as_reduced = true,
                 .offloads_together = true},
    EngineTraits{.engine = ShardingEngine::Zero,
                 .key = "zero",
                 .convention = &FrameworkConvention::zero,
                 .compute_cast = ComputeCast::Model,
                 .offloads_to_nvme = true,
                 .steps_per_tensor = false}};

constexpr const EngineTraits& traits_of(ShardingEngine engine) { return kEngines[std::size_t(engine)]; }
constexpr bool is_fsdp(ShardingEngine engine) { return traits_of(engine).fsdp_version > 0; }

/// Gives what the framework does under an engine.
inline const EngineConvention& engine_of(const FrameworkConvention& framework, ShardingEngine engine) {
  return framework.*traits_of(engine).convention;
}

/// The kernels of norms and MLPs where a recipe may choose them.
inline LayerKernels layer_kernels(const Recipe& recipe, const FrameworkConvention& framework) {
  const bool come_with_loss = framework.choices.fused_loss_brings_kernels && recipe.loss == LossKernel::Fused;
  return recipe.kernels.value_or(come_with_loss ? LayerKernels::Fused : framework.layers.kernels);
}

/// A record of data/frameworks by name or alias; nullptr when there is none.
const FrameworkConvention* known_framework(std::string_view name);
/// The same. Throws InputError with the nearest names.
const FrameworkConvention& find_framework(std::string_view name);

/// The libraries under a record have the versions that are given, and else the newest, or the newest at a day.
struct StackQuestion {
  StackVersions given;
  std::string date;  // "2024-05-31"; empty: today's newest
};
/// A record of data/frameworks with the facts of its libraries' versions (data/stack) for a type of models, kept for as
/// long as the data folder stays. Throws as find_framework.
const FrameworkConvention& resolve_framework(std::string_view name, const StackQuestion& stack,
                                             std::string_view family = {});
/// Every record, with the newest versions.
std::vector<FrameworkConvention> list_frameworks();
/// Reads a record such as data/frameworks holds. Throws InputError naming `where` and the bad fields.
FrameworkConvention read_framework(const nlohmann::json& record, const std::string& where);

}  // namespace gpuplan
