#include "cli/plan_defaults.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/flag_ranges.h"
#include "cli/plan_flags.h"
#include "cli/plan_question.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "models/rollout.h"
#include "models/training_method.h"
#include "planner/rollout_phases.h"
#include "planner/strategy.h"
#include "search/space.h"

namespace gpuplan {
namespace {

/// Sets what the framework's record says of it, where no flag says another; returns what was set, for people.
class Defaults {
 public:
  Defaults(const CLI::App& app, Recipe& recipe) : app_(app), recipe_(recipe) {}

  std::string take_all(const FrameworkConvention& framework, const EstimateRequest& request) {
    const FrameworkDefaults& d = framework.defaults;
    const bool is_quantised = recipe_.quant.kind != BaseQuant::None;
    take("--checkpointing", is_quantised && d.quantised_checkpointing ? d.quantised_checkpointing : d.checkpointing,
         recipe_.checkpointing, "checkpointing {}");
    if (!is_quantised || d.precision != Precision::Fp32)  // a quantised base computes in 16 bit
      take("--precision", d.precision, recipe_.precision, "{}");
    if (!is_given(app_, "--optimizer")) add(std::string(recipe_.optimizer->name));
    const bool is_hopper = std::ranges::all_of(request.cluster.gpus.kinds(), is_hopper_or_later);
    take("--attention", is_hopper && d.hopper_attention ? d.hopper_attention : d.attention, recipe_.attention,
         "{} attention");
    const bool is_usual = recipe_.objective.method.is_usual();
    if (is_usual) take("--loss", d.loss, recipe_.loss, "{} loss");
    const bool has_plain_base = recipe_.is_adapter() && !is_quantised && !recipe_.lora.base_dtype;
    if (!is_usual && framework.preference.loads_fp32 && has_plain_base) {
      recipe_.lora.base_dtype = Dtype::F32;
      add("a base in fp32, as it is loaded where no dtype is given (base=bf16 says another)");
    }
    if (request.dataset.tokens_per_row > 0)  // else every row fills its sequence
      take("--packing", d.packing, recipe_.packing, "{} sequences");
    if (request.model.vision.is_present())
      take("--train-vision", d.train_vision, recipe_.images.train, "--train-vision {}");
    if (d.micro_batch && !is_given(app_, "--micro-batch")) {
      recipe_.micro_batch = *d.micro_batch;
      add(fmt::format("micro batch {}", *d.micro_batch));
    }
    if (d.offload_activations && recipe_.checkpointing != Checkpointing::None && !is_given(app_, "--offload")) {
      recipe_.offload.activations = true;
      add("activations offloaded");
    }
    return text_;
  }

 private:
  template <class Value>
  void take(const char* flag, const std::optional<Value>& value, Value& field, const char* wording) {
    if (!value || is_given(app_, flag)) return;
    field = *value;
    add(fmt::format(fmt::runtime(wording), to_string(*value)));
  }
  void add(const std::string& what) { text_ += (text_.empty() ? "" : ", ") + what; }

  const CLI::App& app_;
  Recipe& recipe_;
  std::string text_;
};

}  // namespace

void set_defaults(const CLI::App& app, PlanQuestion& question) {
  const auto named = given(app, "--framework");
  if (named && squash(*named) == kPlainFramework) return;
  Recipe& recipe = question.request.recipe;
  const FrameworkConvention& framework = *recipe.framework;
  if (named) {
    const std::string taken = Defaults(app, recipe).take_all(framework, question.request);
    if (!taken.empty())
      question.notes.push_back(fmt::format(
          "{}'s defaults: {}; a flag overrides each, --framework plain switches them off", framework.name, taken));
    return;
  }
  const auto& checkpointing = framework.defaults.quantised_checkpointing;
  const bool is_prepared = recipe.quant.kind == BaseQuant::Nf4 || recipe.quant.kind == BaseQuant::Int8;
  if (!is_prepared || !checkpointing || is_given(app, "--checkpointing")) return;
  recipe.checkpointing = *checkpointing;
  question.notes.push_back(
      fmt::format("checkpointing {}: PEFT's prepare_model_for_kbit_training switches it on; --checkpointing none "
                  "overrides it",
                  to_string(*checkpointing)));
}

namespace {

/// Settings of generation are of methods that generate, and of `estimate --generate`.
void refuse_rollout_flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const TrainingMethod& method : training_methods())
    if (method.generates) names.push_back(method.name);
  for (const char* flag : {"--rollout-engine", "--prompt-len", "--generations", "--updates", "--iterations",
                           "--reward-time", "--student-share"})
    if (is_given(app, flag))
      throw InputError(
          flag, "nothing is generated",
          fmt::format("add --method with one that generates ({}), or to estimate --generate", fmt::join(names, ", ")));
}

/// Answers to a prompt that are compared: huggingface/trl trl/trainer/grpo_config.py num_generations.
constexpr std::int64_t kUsualAnswers = 8;

/// A method that compares the answers to a prompt learns nothing from one, though it may be the trainer's default.
void take_answers_to_compare(PlanQuestion& question, const RolloutConvention& trainer) {
  EstimateRequest& r = question.request;
  const std::string& method = r.recipe.objective.method->name;
  if (usual_generations(r.recipe) > 1 || std::ranges::count(trainer.groups, method) == 0) return;
  r.rollout.generations = kUsualAnswers;
  question.notes.push_back(
      fmt::format("--generations {}: {} compares the answers to a prompt, of which {} has one by "
                  "default",
                  kUsualAnswers, method, trainer.framework));
}

/// Passes that are not given are as many as a usual batch takes, as `plan` has them; they and a micro batch that is not
/// given, as many as the answers of whole prompts take on these ranks.
void take_whole_prompts(const CLI::App& app, PlanQuestion& question, std::int64_t answers) {
  EstimateRequest& r = question.request;
  Recipe& recipe = r.recipe;
  if (r.cluster.gpus.empty() || is_given(app, "--global-batch")) return;
  const std::int64_t ranks = batch_replicas(r) * r.rollout.updates;
  if (!is_given(app, "--grad-accum")) {
    recipe.grad_accum = usual_share(recipe.micro_batch * batch_replicas(r), answers);
    if (recipe.grad_accum > 1)
      question.notes.push_back(fmt::format("--grad-accum {}: {} answers a step where nobody says how many",
                                           recipe.grad_accum,
                                           recipe.micro_batch * recipe.grad_accum * batch_replicas(r)));
  }
  const auto has_whole = [&] { return recipe.micro_batch * recipe.grad_accum * ranks % answers == 0; };
  const auto take = [&](const char* flag, std::int64_t& count, std::int64_t others) {
    if (is_given(app, flag) || has_whole()) return;
    count = std::lcm(count, answers / std::gcd(answers, others));
    question.notes.push_back(fmt::format("{} {}: a prompt has {} answers", flag, count, answers));
  };
  take("--grad-accum", recipe.grad_accum, recipe.micro_batch * ranks);
  take("--micro-batch", recipe.micro_batch, recipe.grad_accum * ranks);
}

}  // namespace

void set_rollout(const CLI::App& app, PlanQuestion& question, bool has_files) {
  EstimateRequest& r = question.request;
  Recipe& recipe = r.recipe;
  if (!generates(recipe)) {
    if (r.rollout.mean_completion > 0)
      throw InputError("--completion-len", "two lengths are of answers that are generated", "give the longest alone");
    return refuse_rollout_flags(app);
  }
  const RolloutConvention* const convention = rollout_convention(recipe.framework->name);
  if (!convention) return;  // refused with the trainers that have it
  const std::int64_t longest = r.rollout.max_completion;
  settle_rows(
      r,
      {.seq_len = is_given(app, "--seq-len"), .packing = is_given(app, "--packing"), .loss = is_given(app, "--loss")});
  const Rollout& rollout = r.rollout;
  if (rollout.engine.context > 0 && rollout.max_completion < longest)
    question.notes.push_back(fmt::format("answers end at {} tokens: sequences of the engine have {}",
                                         format_grouped(rollout.max_completion),
                                         format_grouped(rollout.engine.context)));
  if (!has_files && !is_given(app, "--generations")) take_answers_to_compare(question, *convention);
  const std::int64_t answers = rollout.generations > 0 ? rollout.generations : usual_generations(recipe);
  if (!has_files) take_whole_prompts(app, question, answers);
  const TrainingMethod& method = *recipe.objective.method;
  if (answers == 1 && method.generations != 1)
    question.notes.insert(
        question.notes.begin(),
        fmt::format("{} compares the answers to a prompt, and there is one: --generations {} is usual", method.name,
                    kUsualAnswers));
  if (rollout.mean_completion == 0)
    question.notes.push_back(
        fmt::format("every answer is {} tokens long; --completion-len MEAN,MAX says how long they are",
                    format_grouped(rollout.max_completion)));
}

void set_global_batch(const CLI::App& app, EstimateRequest& r) {
  const auto batch = given_integer(app, "--global-batch");
  if (!batch) return;
  if (is_given(app, "--grad-accum"))
    throw InputError("", "--global-batch and --grad-accum contradict each other", "give one of them");
  const std::int64_t replicas = batch_replicas(r), micro = r.recipe.micro_batch;
  if (*batch % (replicas * micro) != 0)
    throw InputError(
        "--global-batch",
        fmt::format("{} sequences are no multiple of micro batch {} x {} data parallel ranks", *batch, micro, replicas),
        fmt::format("{}, or another --micro-batch", (*batch / (replicas * micro) + 1) * replicas * micro));
  r.recipe.grad_accum = *batch / (replicas * micro);
}

void set_precision(PlanQuestion& question) {
  Recipe& recipe = question.request.recipe;
  const std::vector<GpuSpec>& gpus = question.request.cluster.gpus.kinds();
  const auto without = std::find_if_not(gpus.begin(), gpus.end(), multiplies_bf16);
  const bool has_fp16 = recipe.framework->dtypes.computes_in_fp16;
  if (recipe.precision == Precision::Fp32 || without == gpus.end() || !has_fp16) return;
  const std::string_view usual = to_string(recipe.precision);
  recipe.precision = Precision::Fp16Mixed;
  question.notes.push_back(fmt::format(
      "fp16-mixed instead of {}: {} has no bf16 tensor cores; --precision overrides it", usual, without->name));
}

void set_length(const CLI::App& app, PlanQuestion& question) {
  constexpr std::int64_t kTextBesideImages = 512, kStep = 1024;  // tokens
  Recipe& recipe = question.request.recipe;
  const ImageSpec& images = recipe.images;
  const std::int64_t tokens =
      images.per_row * image_grid(question.request.model.vision, images.width, images.height).tokens;
  if (is_given(app, "--seq-len") || tokens + kTextBesideImages <= recipe.seq_len) return;
  recipe.seq_len = (tokens + kTextBesideImages + kStep - 1) / kStep * kStep;
  question.notes.push_back(fmt::format("--seq-len {}: {} tokens of images and room for text beside them",
                                       recipe.seq_len, format_grouped(tokens)));
}

void fit_positions(const CLI::App& app, PlanQuestion& question) {
  const ModelSpec& model = question.request.model;
  Recipe& recipe = question.request.recipe;
  const bool is_usual = recipe.seq_len == Recipe{}.seq_len && !is_given(app, "--seq-len");
  if (!is_usual || model.learned_positions == 0 || recipe.seq_len <= model.max_position_embeddings) return;
  recipe.seq_len = model.max_position_embeddings;
  question.notes.push_back(fmt::format("--seq-len {}: {} has as many learned positions", recipe.seq_len, model.name));
}

void set_rows(const CLI::App& app, PlanQuestion& question) {
  const auto tokens = given_number(app, "--tokens");
  if (!tokens) return;
  Dataset& data = question.request.dataset;
  const Recipe& recipe = question.request.recipe;
  const std::int64_t per_row =
      (data.tokens_per_row > 0 ? data.tokens_per_row : recipe.seq_len) * recipe.answers_apart();
  const double rows = std::ceil(*tokens / (double(per_row) * data.epochs));
  if (rows > kMostRows)
    throw InputError("--tokens", fmt::format("{:.15g} tokens are more than 10^10 rows of {}", *tokens, per_row),
                     "longer rows with --tokens-per-row or --seq-len");
  data.rows = std::max<std::int64_t>(1, std::int64_t(rows));
  question.notes.push_back(fmt::format("{} rows of {} tokens by --tokens", format_grouped(data.rows), per_row));
}

void note_long_rows(PlanQuestion& question) {
  const EstimateRequest& r = question.request;
  if (r.dataset.tokens_per_row <= r.recipe.seq_len) return;
  question.notes.push_back(fmt::format("rows of {} tokens are longer than a sequence of {}: {}",
                                       format_grouped(r.dataset.tokens_per_row), format_grouped(r.recipe.seq_len),
                                       r.recipe.packing == Packing::Packed
                                           ? "all their tokens are counted, spread over several sequences"
                                           : "trainers cut them, and what is cut is not counted"));
}

}  // namespace gpuplan
