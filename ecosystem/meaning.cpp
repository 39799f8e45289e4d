#include "ecosystem/meaning.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"
#include "ecosystem/engine_place.h"
#include "ecosystem/meaning_words.h"
#include "ecosystem/rules.h"
#include "models/adapter_kind.h"
#include "models/fake_quant_table.h"
#include "models/optimizers.h"
#include "models/recipe_names.h"
#include "models/rollout.h"
#include "models/token_dispatcher.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

using Notes = std::vector<std::string>;

bool holds(const Setup::Flag& flag) { return flag.value_or(false); }
bool says(const Setup::Word& word, std::string_view value) { return word && *word == value; }

Dtype dtype_named(const std::string& word) {
  if (word == "u8") return Dtype::U8;
  return word == "fp32" ? Dtype::F32 : word == "fp16" ? Dtype::F16 : Dtype::BF16;
}

OffloadTarget target_named(const Setup::Word& word) {
  return word ? parse_name<OffloadTarget>(*word, "offload") : OffloadTarget::None;
}

/// Reading: one part of the request after the other.
class Reader {
 public:
  Reader(const Setup& setup, EstimateRequest& request, Notes& notes) : s_(setup), r_(request), notes_(notes) {}

  void read_all() {
    read_objective();
    read_method();
    read_precision();
    read_base();
    read_batch();
    read_rollout();
    read_kernels();
    leave_plain_loss();
    read_strategy();
    normalise_storage();
  }

 private:
  Recipe& recipe() { return r_.recipe; }
  void note(std::string text) { notes_.push_back(std::move(text)); }

  /// A loss may make another method of answers than its trainer's word: stage dpo with pref_loss orpo is orpo. It
  /// brings no reference to a method that has none: CPO has a hinge loss too.
  void read_objective() {
    if (!s_.objective && s_.teacher)
      throw InputError("", "a teacher beside supervised fine-tuning is not modelled",
                       "leave it out, or name the method that has one");
    if (!s_.objective) return;
    const TrainingMethod* method = &find_training_method(*s_.objective);
    if (s_.pair_loss)
      if (const TrainingMethod& other = find_training_method(*s_.pair_loss);
          (other.answers > 1) == (method->answers > 1) && other.generates == method->generates &&
          (method->has_pass_of(PassModel::Reference) || !other.has_pass_of(PassModel::Reference)))
        method = &other;
    if (s_.policy_loss && method->generates) method = &find_training_method(*s_.policy_loss);
    if (method->distils && s_.student_share.value_or(0) > 0)
      method = &*std::ranges::find_if(training_methods(), [](const auto& m) { return m.distils && m.generates; });
    method = &with_teacher(*method);
    if (s_.teacher && !method->has_pass_of(PassModel::Teacher))
      throw InputError("", fmt::format("a teacher beside {} is not modelled", method->name), "leave it out");
    if (s_.teacher && holds(s_.teacher_waits))
      note("the teacher waits on the host between its passes; it is counted on the GPU, so that less is needed there");
    if (method == &training_methods().front()) return;
    Objective& objective = recipe().objective;
    objective.method = *method;
    if (s_.reference && method->has_pass_of(PassModel::Reference))
      objective.reference = parse_name<Reference>(*s_.reference, "reference");
    if (s_.labels && method->head == MethodHead::Score) objective.labels = *s_.labels;
    if (s_.teacher_topk && method->distils && method->has_pass_of(PassModel::Teacher))
      objective.teacher_topk = *s_.teacher_topk;
    if (s_.texts_per_row && method->head == MethodHead::Pooled) objective.texts_per_row = *s_.texts_per_row;
  }

  /// A teacher beside a method that scores answers is in what they are rewarded with; one that another program serves
  /// is none of the models here.
  const TrainingMethod& with_teacher(const TrainingMethod& method) const {
    const auto first = [](auto is_wanted) -> const TrainingMethod& {
      return *std::ranges::find_if(training_methods(), is_wanted);
    };
    if (holds(s_.teacher_served)) {
      if (!method.distils || !method.generates)
        throw InputError("",
                         "a teacher that another program serves is modelled for distillation on the student's answers",
                         "let the student write all answers, or leave the server out");
      return first([](const TrainingMethod& m) { return m.generates && m.passes.empty(); });
    }
    if (!s_.teacher || !method.scores_completions || method.has_pass_of(PassModel::Critic)) return method;
    return first([](const TrainingMethod& m) { return m.scores_completions && m.has_pass_of(PassModel::Teacher); });
  }

  void read_method() {
    if (!s_.adapter && !s_.quant_bits) return;
    const bool is_adapter = s_.adapter.value_or("none") != "none";
    const bool is_prequantised = s_.quant_method && *s_.quant_method != "bnb";
    const std::int64_t bits = s_.quant_bits.value_or(0);  // 0: the file says that there are none
    if (!is_adapter && bits > 0)
      throw InputError("", "a quantised base cannot be trained itself",
                       "adapters are needed: use_peft, adapter: qlora");
    const bool is_hqq = says(s_.quant_method, "hqq");
    if ((is_prequantised && !is_hqq && *s_.quant_method != "gptq") || (is_hqq && bits == 8))
      throw InputError("", fmt::format("a base quantised by {} in {} bits is not modelled", *s_.quant_method, bits),
                       "bitsandbytes in 4 or 8 bit, or GPTQ or HQQ in 4 bit");
    Recipe& r = recipe();
    r.method = !is_adapter ? Method::Full : s_.quant_bits == 4 ? Method::Qlora : Method::Lora;
    r.quant.kind = !is_adapter          ? BaseQuant::None
                   : is_hqq             ? BaseQuant::Hqq
                   : is_prequantised    ? BaseQuant::Gptq4
                   : s_.quant_bits == 4 ? BaseQuant::Nf4
                   : s_.quant_bits == 8 ? BaseQuant::Int8
                                        : BaseQuant::None;
    if (bits > 0 && bits != 4 && bits != 8)
      throw InputError("", fmt::format("a base in {} bits is not modelled", *s_.quant_bits), "4 or 8 bits");
    if (!is_adapter) return;
    if (s_.double_quant) r.quant.double_quant = *s_.double_quant;
    r.quant.quantises_experts = s_.quant_experts.value_or(false);
    if (s_.quant_storage && *s_.quant_storage != "compute") r.quant.storage_dtype = dtype_named(*s_.quant_storage);
    read_kind(r.lora);
    r.lora.alpha = s_.alpha.value_or(2 * double(r.lora.rank));
    if (s_.dropout && r.lora.kind->takes_dropout) r.lora.dropout = *s_.dropout;
    if (s_.dora) r.lora.is_dora = *s_.dora;
    if (s_.linear_experts) r.lora.linear_experts = *s_.linear_experts;
    if (holds(s_.all_linear))
      r.lora.targets = {"all-linear"};
    else if (const Setup::Words& targets = s_.targets ? s_.targets : s_.module_targets)
      read_targets(*targets);
    if (s_.parameter_targets)
      r.lora.targets.insert(r.lora.targets.end(), s_.parameter_targets->begin(), s_.parameter_targets->end());
    if (s_.saved_modules) r.lora.modules_to_save = *s_.saved_modules;
  }

  /// Blocks of a rotation are of another size in every layer where a file says their number.
  void read_kind(LoraSpec& lora) {
    if (s_.adapter_kind) lora.kind = *s_.adapter_kind;
    if (s_.diagonal_blocks) {
      lora.kind = *std::ranges::find(adapter_kinds(), AdapterPath::BlockDiagonal, &AdapterKind::path);
      if (*s_.diagonal_blocks != lora.kind->factor) lora.factor = *s_.diagonal_blocks;
    }
    const AdapterKind& kind = *lora.kind;
    if (kind.path == AdapterPath::Rotation && s_.rank.value_or(0) > 0 && !s_.rotation_block)
      throw InputError(
          "", fmt::format("{} with a number of blocks (r) in the place of their size is not modelled", kind.title),
          "oft_block_size: 32");
    if (kind.path == AdapterPath::BlockSum && (says(s_.adapter_start, "bat") || says(s_.adapter_start, "mini")))
      throw InputError("", fmt::format("{} in its form {} is not modelled", kind.title, *s_.adapter_start),
                       "init_weights: true");
    const bool has_rank = kind.has_rank();
    const bool is_own_rank = !kind.is_lora() && (s_.kind_rank || holds(s_.rank_is_of_lora));
    const Setup::Count own = !is_own_rank ? s_.rank : s_.kind_rank ? s_.kind_rank : s_.usual_rank;
    lora.rank = has_rank ? own.value_or(kind.rank) : kind.rank;
    if (kind.block > 0 && s_.rotation_block != kind.block) lora.rotation_block = s_.rotation_block.value_or(0);
    if (s_.adapter_factor && *s_.adapter_factor > 0 && *s_.adapter_factor != kind.factor)
      lora.factor = *s_.adapter_factor;
    if (!kind.takes_dropout) lora.dropout = 0;
    if (kind.path == AdapterPath::BlockDiagonal) check_blocks(kind);
  }

  /// The blocks are planned on the side that ranks of tensor parallelism divide, as PEFT advises.
  void check_blocks(const AdapterKind& kind) {
    for (const bool is_input : {true, false})
      for (const std::string& module :
           (is_input ? s_.input_blocks : s_.output_blocks).value_or(std::vector<std::string>{}))
        if ((std::ranges::find(kind.input_blocks, module) != kind.input_blocks.end()) != is_input)
          throw InputError(
              "", fmt::format("block-diagonal factors {} of {} are not modelled", is_input ? "A" : "B", module),
              fmt::format("A of {}, B of others", fmt::join(kind.input_blocks, ", ")));
  }

  /// A regular expression stays as it is until the model is known (settle_targets).
  void read_targets(const std::vector<std::string>& targets) { recipe().lora.targets = targets; }

  void read_fake_quantisers() {
    if (s_.qat) recipe().qat = parse_name<Qat>(*s_.qat, "qat");
    if (!s_.qat_weights) return;
    const std::string inputs = s_.qat_inputs.value_or("none");
    const FakeQuantRow* const row = find_fake_quant(*s_.qat_weights, inputs);
    if (!row)
      throw InputError("",
                       fmt::format("torchao trains no weights in {} with inputs in {}", *s_.qat_weights,
                                   inputs == "none" ? "16 bit" : inputs),
                       "weight_dtype: int4, with activation_dtype: int8 or none");
    recipe().qat = row->kind;
  }

  /// A trainer's bf16 and fp16 count before its launcher's word, fp8 too; where it switches none of them on, the
  /// launcher's word is left, but for trainers that set the launcher's variable themselves. Source:
  /// huggingface/transformers src/transformers/training_args.py @v4.57.6 and @v5.15.0.
  std::string mixed_word() {
    const std::string trainer = holds(s_.bf16) ? "bf16" : holds(s_.fp16) ? "fp16" : "no";
    if (holds(s_.fp8)) return "fp8";
    const std::string launcher = holds(s_.sets_precision) ? "" : s_.mixed_precision.value_or("");
    if (launcher.empty()) return s_.bf16 || s_.fp16 ? trainer : "";
    if (trainer == "no" && !is_zero_setup(s_, 1)) return launcher;
    if (launcher != trainer && launcher != "no")
      note(fmt::format("accelerate's file says mixed_precision: {} and the trainer {}: the trainer's value counts",
                       launcher, trainer));
    return trainer;
  }

  std::string dtype() const { return s_.dtype ? (*s_.dtype == "auto" ? "bf16" : *s_.dtype) : ""; }

  void read_precision() {
    const std::string word = mixed_word();
    if (!word.empty()) recipe().fp8_matmul = word == "fp8";
    if (s_.own_dtype) {
      recipe().precision = *s_.own_dtype == "fp32" ? Precision::Fp32 : Precision::Bf16True;
      return;
    }
    if (word.empty()) return;
    Precision& precision = recipe().precision;
    const bool is_local = !is_fsdp_setup(s_, 1) && !is_fsdp_setup(s_, 2) && !is_zero_setup(s_, 1);
    const bool loads_16bit = dtype() == "bf16";
    if (word == "fp16")
      precision = Precision::Fp16Mixed;
    else if (word != "no")
      precision = !recipe().is_adapter() && is_local && loads_16bit ? Precision::Bf16Loaded : Precision::Bf16Mixed;
    else if (loads_16bit || recipe().quant.kind != BaseQuant::None)
      precision = Precision::Bf16True;
    else if (dtype() == "fp16")
      throw InputError("", "weights and gradients in fp16 alone are not modelled", "fp16: true or bf16: true");
    else
      precision = Precision::Fp32;
    if (precision == Precision::Bf16Loaded)
      note(
          "the model is loaded in bfloat16 (bf16-loaded): weights, gradients and optimizer states of whole copies are "
          "bfloat16, and FSDP and ZeRO turn what they shard into float32");
    if (says(s_.dtype, "auto")) note("dtype: auto is taken as bfloat16, which the checkpoints of today have");
  }

  void read_base() {
    Recipe& r = recipe();
    if (!r.is_adapter() || dtype().empty()) return;
    const Dtype loaded = dtype_named(dtype());
    if (r.quant.kind != BaseQuant::None) {
      if (loaded == Dtype::F32)
        note(
            "dtype is float32, so the 4-bit layers compute in float32, which is several times slower; counted as 16 "
            "bit: set dtype: bfloat16");
      return;
    }
    if (loaded == computes_in(r.precision)) return;
    r.lora.base_dtype = loaded;
    if (loaded == Dtype::F32)
      note("the frozen base is loaded in float32, 4 bytes per weight: dtype: bfloat16 halves it");
  }

  void read_batch() {
    Recipe& r = recipe();
    const auto positive = [](const Setup::Count& count, std::int64_t& field, const char* what) {
      if (!count) return;
      if (*count < 1) throw InputError("", fmt::format("{} is 0", what), "1 or more");
      field = *count;
    };
    positive(s_.micro_batch, r.micro_batch, "the micro batch");
    positive(s_.grad_accum, r.grad_accum, "gradient accumulation");
    positive(s_.seq_len, r.seq_len, "the sequence length");
    if (s_.seq_len && s_.answer_len) r.seq_len = std::min(*s_.seq_len + *s_.answer_len, kMostSeqLen);
    if (s_.packing || s_.pads || s_.pad_multiple) {
      const bool pads = holds(s_.pads) || (s_.pad_multiple && *s_.pad_multiple >= r.seq_len);
      r.packing = holds(s_.packing) ? Packing::Packed : pads ? Packing::Padded : Packing::Dynamic;
    }
    if (const LoraSpec& lora = r.lora; r.is_adapter() && lora.kind->is_prompt()) {
      r.seq_len = std::min(r.seq_len + lora.rank, kMostSeqLen);
      note(fmt::format("rows are counted with their {} virtual tokens, {} in all", lora.rank, r.seq_len));
    }
    if (s_.epochs && *s_.epochs > 0)
      r_.dataset.epochs = *s_.epochs;
    else if (s_.iterations && *s_.iterations > 0 && !generates(r))  // passes over what nobody generates
      r_.dataset.epochs = double(*s_.iterations);
    const bool evaluates_rest = holds(s_.evaluates_held_out) && s_.held_out.value_or(0) > 0;
    if (!s_.evaluates.value_or(evaluates_rest)) return;
    const std::int64_t rows = std::max<std::int64_t>(s_.eval_batch.value_or(r.micro_batch), 1);
    // without logits an evaluation of no more rows than a micro batch has takes less than training
    if (holds(s_.loss_spares_evaluation) && rows <= r.micro_batch) return;
    r_.eval_batch = rows;
  }

  /// A row is cut to so many tokens: what neither prompt nor answer says of it is the other's.
  static void divide_row(Rollout& out, std::int64_t row) {
    const bool says_answer = out.max_completion > 0 && out.max_completion < row;
    if (out.prompt_len == 0 || out.prompt_len >= row)
      out.prompt_len =
          says_answer ? row - out.max_completion : std::clamp<std::int64_t>(row / 2, 1, usual_lengths().prompt);
    out.max_completion = std::max<std::int64_t>(
        1, says_answer ? std::min(out.max_completion, row - out.prompt_len) : row - out.prompt_len);
  }

  /// Words of generation mean nothing where the method generates nothing.
  void read_rollout() {
    Objective& objective = recipe().objective;
    if (!generates(recipe())) return;
    Rollout& out = r_.rollout;
    EngineChoice& engine = out.engine;
    if (s_.engine) engine.engine = RowOf<GenerationEngine>(*s_.engine);
    const RolloutConvention* const convention = rollout_convention(recipe().framework->name);
    const bool has_engine = !(engine.engine ? **engine.engine : *convention->engine).in_trainer;
    if (s_.engine_place && has_engine) engine.place = parse_name<EnginePlace>(*s_.engine_place, "place of the engine");
    if (s_.engine_utilisation && has_engine) engine.utilisation = *s_.engine_utilisation;
    if (s_.engine_sleeps && has_engine) engine.sleeps = *s_.engine_sleeps;
    if ((s_.engine_offloads || holds(s_.engine_offloads_states)) && has_engine)
      engine.offloads =
          trainer_offload(holds(s_.engine_offloads), s_.engine_offloads_states.value_or(holds(s_.engine_offloads)));
    out.step_tokens = std::min(s_.micro_tokens.value_or(0), kMostSeqLen);
    if (!holds(s_.fills_by_tokens)) {
      out.old_batch = s_.old_batch.value_or(0);
      out.reference_batch = s_.reference_batch.value_or(0);
    }
    if (has_engine) engine.tp = s_.engine_tp.value_or(0), engine.max_sequences = s_.engine_sequences.value_or(0);
    if (has_engine) place_engine(s_, engine);
    out.mean_prompt = s_.mean_prompt.value_or(0);
    out.mean_completion = s_.mean_completion.value_or(0);
    out.reward = Seconds{s_.reward_seconds.value_or(0)};
    out.generations = s_.generations.value_or(0);
    const std::int64_t answers = out.generations > 0 ? out.generations : usual_generations(recipe());
    if (holds(s_.raises_batch) && recipe().micro_batch % answers != 0) {
      note(fmt::format("the micro batch becomes {}, as many as a prompt has answers", answers));
      recipe().micro_batch = answers;
    }
    out.max_completion = s_.completion_len.value_or(0);
    out.prompt_len = s_.prompt_len.value_or(0);
    const bool has_both = objective.method->distils;  // rows of the data, and answers in their place
    if ((holds(s_.answers_in_seq) || has_both) && s_.seq_len) divide_row(out, *s_.seq_len);
    // of a teacher that another program serves no model is here
    if (objective.method->distils || objective.method->passes.empty())
      out.share = std::clamp(s_.student_share.value_or(1), 0.0, 1.0);
    out.judged_by_function = holds(s_.judged_by_function);
    if (s_.reward_model && !objective.method->has_pass_of(PassModel::Reward))
      throw InputError("", fmt::format("a reward model beside {} is not modelled", objective.method->name),
                       "leave it out: what a function judges takes --reward-time");
    out.iterations = std::max<std::int64_t>(1, s_.iterations.value_or(1));
    out.sequences = s_.generation_batch.value_or(0);
    const std::int64_t accumulated = recipe().grad_accum;
    if (const std::int64_t steps = s_.steps_per_generation.value_or(0); steps > 0) {
      if (steps % accumulated != 0)
        throw InputError(
            "",
            fmt::format("{} micro batches from one generation are no multiple of the {} of a step", steps, accumulated),
            "not modelled: a generation inside a step");
      out.updates = steps / accumulated;
    }
    if (!objective.method->has_pass_of(PassModel::Reference)) return;
    if (s_.regularises && *s_.regularises == 0)
      objective.reference = Reference::None;
    else if (objective.reference && usual_reference(recipe()) == Reference::Adapter)
      objective.reference = Reference::Adapter;
    else if (s_.regularises && !objective.reference)
      objective.reference = usual_reference(recipe());
  }

  void read_kernels() {
    Recipe& r = recipe();
    if (says(s_.optimizer, "adamw-torchao-4bit")) {
      r.optimizer = "adamw-torchao-8bit";
      note("torchao's 4-bit AdamW is counted as an 8-bit one, whose states are a byte per trained parameter larger");
    } else if (s_.optimizer)
      r.optimizer = *s_.optimizer;
    read_projection();
    if (s_.optimizer_in_backward) r.optimizer_in_backward = *s_.optimizer_in_backward;
    read_attention();
    read_fake_quantisers();
    if (s_.attention_groups) r.attention_groups = *s_.attention_groups;
    if (s_.compile_layers) r.torch_compile = *s_.compile_layers;
    if (s_.checkpointing || s_.fsdp_checkpointing)
      r.checkpointing =
          holds(s_.checkpointing) || holds(s_.fsdp_checkpointing) ? Checkpointing::Full : Checkpointing::None;
    // huggingface/peft src/peft/utils/other.py @v0.20.0 (prepare_model_for_kbit_training)
    const bool is_prepared =
        holds(s_.prepares_kbit) && s_.prepares_checkpointing.value_or(true) && s_.quant_bits.value_or(0) > 0;
    if (is_prepared && r.checkpointing == Checkpointing::None) {
      r.checkpointing = Checkpointing::Full;
      note("prepare_model_for_kbit_training switches gradient checkpointing on");
    }
    if (s_.checkpointing_kind)
      r.checkpointing = parse_name<Checkpointing>(*s_.checkpointing_kind, "checkpointing_kind");
    std::int64_t every = s_.checkpoint_every.value_or(1);
    if (r.checkpointing == Checkpointing::Selective && s_.selective_every.value_or(0) > 0) {
      r.checkpointing = Checkpointing::Full;
      every = *s_.selective_every;
    }
    if (r.checkpointing == Checkpointing::Full && every > 1) {
      r.checkpointing = Checkpointing::EveryK;
      r.checkpoint_every = every;
    }
    if (s_.activation_offload) r.offload.activations = *s_.activation_offload;
    const bool has_own_loss = r.objective.method.is_usual() || generates(r) || r.objective.method->distils;
    if (s_.loss && has_own_loss) r.loss = parse_name<LossKernel>(*s_.loss, "loss");
    if (s_.loss_chunks && *s_.loss_chunks > 0) r.loss_chunks = *s_.loss_chunks;
    const bool has_liger = holds(s_.liger);
    if (has_liger ? s_.liger_layers.value_or(true) : holds(s_.liger_layers)) r.kernels = LayerKernels::Fused;
    if (has_liger ? s_.liger_loss.value_or(true) : holds(s_.liger_loss)) r.loss = LossKernel::Fused;
  }

  /// GaLore and APOLLO by a switch beside the name of an optimizer, as LLaMA-Factory and ms-swift have them. Source:
  /// hiyouga/LLaMA-Factory src/llamafactory/train/trainer_utils.py @v0.9.5 (_create_galore_optimizer and its kin).
  void read_projection() {
    Recipe& r = recipe();
    if (holds(s_.galore))
      r.optimizer = r.optimizer->is_8bit || holds(s_.galore_8bit) ? "galore-adamw-8bit" : "galore-adamw";
    if (holds(s_.apollo)) r.optimizer = "apollo-adamw";
    if (holds(s_.adam_mini)) r.optimizer = "adam-mini";
    if (holds(s_.badam)) r.optimizer = "badam";
    if (!r.optimizer->projects) return;
    if (const auto rank = projection_rank()) r.optimizer_rank = std::max<std::int64_t>(*rank, 1);
    if (r.is_adapter())
      throw InputError(
          "", fmt::format("{} projects gradients of full weights, and adapters are trained", r.optimizer->name),
          "train all weights, or take another optimizer");
    const auto targets = s_.optimizer_targets.value_or(std::vector<std::string>{"all"});
    const auto names = [&](const char* word) {
      return std::ranges::any_of(targets, [&](const std::string& t) { return t.find(word) != std::string::npos; });
    };
    if (!names("all") && !(names("attn") && names("mlp")))
      throw InputError("", fmt::format("{} with {} alone is not modelled", r.optimizer->name, fmt::join(targets, ", ")),
                       "all linear layers: all-linear, or attn and mlp");
  }

  /// By a key of its own, else among the arguments of the optimizer, "rank=64, scale=0.1"; where nothing says it,
  /// APOLLO has one dimension in transformers, and GaLore 128. Source: huggingface/transformers
  /// src/transformers/trainer_optimizer.py @v5.15.0.
  Setup::Count projection_rank() const {
    if (s_.optimizer_rank) return s_.optimizer_rank;
    const std::string arguments = s_.optimizer_arguments.value_or("");
    for (const std::string& argument : split(arguments, ','))
      if (const std::string_view text = trim(argument); text.starts_with("rank="))
        return parse_integer(text.substr(5), "optim_args", 1, kMostRank);
    return says(s_.optimizer, "apollo-adamw") ? Setup::Count(1) : std::nullopt;
  }

  void read_attention() {
    if (!s_.attention) return;
    const bool is_alike = says(s_.attention, "flex") || says(s_.attention, "xformers");
    if (is_alike) note(fmt::format("{} attention is counted as sdpa, which keeps no scores either", *s_.attention));
    recipe().attention = is_alike ? AttentionKernel::Sdpa : parse_name<AttentionKernel>(*s_.attention, "attention");
  }

  /// A trainer's word for Liger's kernels fuses no loss of pairs that it does not have.
  void leave_plain_loss() {
    Recipe& r = recipe();
    if (r.objective.method.is_usual() || r.loss == LossKernel::Plain) return;
    // a divergence is in chunks too, and so are log-probs of answers that are generated
    if (r.loss == LossKernel::Chunked && (r.objective.method->distils || generates(r))) return;
    // its chunks are of rows that the trainers hand over as one: trl/experimental/gkd/gkd_trainer.py @f2cd5771
    if (r.loss == LossKernel::Fused && r.objective.method->distils)
      note(
          "Liger's loss of distillation takes all rows of a micro batch at once, and is planned as the plain one: it "
          "needs about as much (38 bytes per logit in 16 bit and 72 in fp32)");
    const std::vector<std::string>& fused = r.framework->preference.fused_methods;
    if (r.loss != LossKernel::Fused || std::ranges::find(fused, r.objective.method->like) == fused.end())
      r.loss = LossKernel::Plain;
  }

  /// The planner says what the trainer does not have, or not together.
  void read_degrees() {
    StrategyOptions& o = r_.options;
    const auto degree = [](const Setup::Count& count) { return std::max<std::int64_t>(1, count.value_or(1)); };
    o.tp = degree(s_.tensor_parallel), o.cp = degree(s_.context_parallel);
    o.splits_sequence = o.tp > 1 && holds(s_.splits_sequence);
    if (o.tp > 1) o.overlaps_tensor_parallel = s_.overlaps_tensor_parallel;
    if (o.cp > 1 && s_.context_exchange)
      o.context_exchange = parse_name<ContextExchange>(*s_.context_exchange, "context_exchange");
    o.ep = degree(s_.expert_parallel), o.pp = degree(s_.pipeline_parallel);
    o.etp = degree(s_.expert_tensor_parallel);  // 0 is settled when the model is known
    o.virtual_stages = degree(s_.virtual_stages);
    Routing& routing = r_.recipe.routing;
    if (s_.expert_capacity && *s_.expert_capacity > 0) routing.capacity = *s_.expert_capacity;
    routing.pads_to_capacity = routing.capacity && holds(s_.pads_experts);
    if (s_.dispatcher) routing.dispatcher = find_token_dispatcher(*s_.dispatcher);
    if (o.pp > kMostStages || !(s_.first_stage_layers || s_.last_stage_layers)) return;
    o.stage_layers.assign(std::size_t(o.pp), 0);
    o.stage_layers.front() = s_.first_stage_layers.value_or(0);
    o.stage_layers.back() = s_.last_stage_layers.value_or(0);
  }

  void read_strategy() {
    read_degrees();
    if (!s_.distributed) return;
    if (*s_.distributed == "fsdp") return read_fsdp();
    if (*s_.distributed == "deepspeed") return read_zero();
    if (*s_.distributed == "torch-zero") r_.strategy = "zero1";
    if (*s_.distributed == "multi") r_.strategy = holds(s_.shards_optimizer) ? "zero1" : "ddp";
    if (*s_.distributed == "multi") recipe().offload.optimizer = target_named(s_.offload_optimizer);
    if (*s_.distributed == "no") r_.strategy = "auto";  // one GPU, or a device_map over several
  }

  void read_zero() {
    constexpr std::array kStages{"ddp", "zero1", "zero2", "zero3"};
    const std::int64_t stage = s_.zero_stage.value_or(2);
    if (stage > 3) throw InputError("", fmt::format("ZeRO has no stage {}", stage), "0 to 3");
    r_.strategy = kStages[std::size_t(stage)];
    recipe().offload.optimizer = target_named(s_.offload_optimizer);
    recipe().offload.params = target_named(s_.offload_params);
    if (stage > 0) read_zero_buckets(stage);
  }

  /// The framework's record keeps what it says too. accelerate's own keys know neither buckets nor overlap: then
  /// DeepSpeed's defaults hold (runtime/zero/config.py).
  void read_zero_buckets(std::int64_t stage) {
    constexpr std::int64_t kDefaultBucket = 500'000'000;
    const EngineConvention& zero = recipe().framework->zero;
    if (!zero.is_deepspeed() || (!s_.zero_overlap && s_.deepspeed_file)) return;
    const GradientBuckets& usual = zero.buckets_of(stage == 3);
    const std::int64_t size = s_.zero_bucket.value_or(kDefaultBucket);
    const GradientBuckets stated{
        .size = size > 0 ? size : -1,
        .overlap_comm = says(s_.zero_overlap, "on") || (!says(s_.zero_overlap, "off") && stage == 3)};
    StrategyOptions& options = r_.options;
    const std::int64_t hidden = r_.model.hidden_size;
    if (stated.elements(hidden) != usual.elements(hidden)) options.reduce_bucket_size = stated.size;
    if (stated.overlap_comm != usual.overlap_comm) options.overlap_comm = stated.overlap_comm;
    if (holds(s_.zero_quantized_weights)) options.zero_quantized_weights = true;
  }

  void read_fsdp() {
    StrategyOptions& options = r_.options;
    const std::int64_t version = s_.fsdp_version.value_or(1);
    if (version != 1 && version != 2) throw InputError("", fmt::format("FSDP has no version {}", version), "1 or 2");
    options.fsdp_version = narrow<int>(version);
    if (*options.fsdp_version == 1)
      read_fsdp1();
    else
      read_fsdp2();
    const std::string wrap = s_.fsdp_wrap.value_or("none");
    constexpr std::int64_t kWholeModel = 1'000'000'000'000;
    options.wrap = wrap == "layer" ? WrapPolicy::Layer : WrapPolicy::Size;
    options.wrap_min_params = wrap == "layer"  ? 0
                              : wrap == "size" ? s_.fsdp_min_params.value_or(100'000'000)
                                               : kWholeModel;
    if (wrap == "none")
      note(
          "without fsdp_auto_wrap_policy the whole model is one unit, which is gathered at once: "
          "TRANSFORMER_BASED_WRAP "
          "gathers layer by layer");
    if (holds(s_.fsdp_offload)) recipe().offload.optimizer = recipe().offload.params = OffloadTarget::Cpu;
  }

  void read_fsdp1() {
    const std::string sharding = s_.fsdp_sharding.value_or("full");
    if (s_.fsdp_reshard && !(says(s_.fsdp_reshard, "yes") || says(s_.fsdp_reshard, "FULL_SHARD")))
      note(fmt::format("accelerate ignores fsdp_reshard_after_forward for FSDP1: it trains with {}",
                       s_.fsdp_sharding ? "fsdp_sharding_strategy" : "FULL_SHARD"));
    r_.strategy = sharding == "grad-op"       ? "fsdp-grad-op"
                  : sharding == "none"        ? "ddp"
                  : sharding.starts_with("h") ? "hsdp"
                                              : "fsdp";
    r_.options.reshards = sharding != "hybrid-grad-op";
  }

  void read_fsdp2() {
    if (s_.fsdp_sharding) note("fsdp_sharding_strategy has no effect on FSDP2; fsdp_reshard_after_forward counts");
    if (s_.fsdp_backward_prefetch || holds(s_.fsdp_forward_prefetch))
      note("prefetch settings have no effect on FSDP2 (R12)");
    const bool reshards = !says(s_.fsdp_reshard, "no");
    if (s_.shard_ranks.value_or(0) > 0) r_.options.shard_size = *s_.shard_ranks;  // 1: every rank holds all
    if (s_.dp_replicate.value_or(1) > 1 || s_.dp_shard.value_or(1) > 1 || s_.shard_ranks.value_or(1) > 1) {
      r_.strategy = "hsdp";  // of as many copies as the GPUs make, where they are known (settle_strategy)
      // its mesh dp_shard_cp: the ranks that share a sequence hold shards too
      if (s_.dp_shard.value_or(1) > 1) r_.options.shard_size = *s_.dp_shard * r_.options.cp;
      r_.options.reshards = reshards;
    } else {
      r_.strategy = reshards ? "fsdp" : "fsdp-grad-op";
    }
  }

  /// The storage that a plan without one has anyway is not stated.
  void normalise_storage() {
    auto& storage = recipe().quant.storage_dtype;
    const Dtype usual = shards_weights(s_) ? computes_in(recipe().precision) : Dtype::U8;
    const bool is_free = !shards_weights(s_) && storage;  // a quarter of the elements, each of four nibbles
    if (storage == usual || is_free) storage.reset();
  }

  const Setup& s_;
  EstimateRequest& r_;
  Notes& notes_;
};

}  // namespace

void apply_setup(const Setup& setup, EstimateRequest& request, Notes& notes) {
  Reader(setup, request, notes).read_all();
}

}  // namespace gpuplan
