// Settles what files of --from leave open until the model, the strategy or the machine is known.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "base/units.h"
#include "ecosystem/config_reader.h"
#include "models/rollout.h"
#include "models/trainer_limits.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"
#include "planner/rollout_phases.h"
#include "planner/step_batch.h"

namespace gpuplan {

std::string few_steps_note(const ConfigReading& reading, std::int64_t steps) {
  constexpr std::int64_t kHandful = 10;
  const bool is_asked = reading.setup.max_steps.value_or(0) > 0 || reading.setup.max_rounds.value_or(0) > 0;
  const std::int64_t warmup = reading.warmup_steps;
  if (steps < 1 || is_asked || (steps >= kHandful && steps > warmup)) return "";
  std::vector<std::string> keys;
  for (const char* fact : {"grad_accum", "epochs"})
    for (const SettingsPart& part : reading.parts)
      if (const auto key = part.keys_of.find(fact); key != part.keys_of.end()) keys.push_back(key->second);
  std::string text = fmt::format("{} optimizer step{} in all", steps, steps == 1 ? "" : "s");
  if (warmup >= steps)
    text += fmt::format(", and the learning rate rises for {}: it never gets to its full height", warmup);
  if (warmup >= steps)
    for (const SettingsPart& part : reading.parts)
      if (part.table->role == FileRole::Trainer && !part.table->warmup_key.empty())
        keys.push_back(part.table->warmup_key);
  return keys.empty() ? text
                      : fmt::format("{}; {} change{} it", text, fmt::join(keys, ", "), keys.size() == 1 ? "s" : "");
}

void settle_attention(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes) {
  const Setup& s = reading.setup;
  if (request.recipe.attention_groups == 1 || !s.grouped_types) return;
  if (std::ranges::find(*s.grouped_types, request.model.model_type) != s.grouped_types->end()) return;
  const std::string what =
      fmt::format("{} shifts the attention of models of type {} alone, and {} is of type {}", reading.trainer,
                  fmt::join(*s.grouped_types, ", "), request.model.name, request.model.model_type);
  if (s.stops_without_groups.value_or(false)) throw InputError(reading.file, what, "another model, or plain LoRA");
  request.recipe.attention_groups = 1;
  notes.push_back(what + ": it trains without");
}

void settle_head(const ConfigReading& reading, const EstimateRequest& request) {
  if (!reading.setup.scores_by_vocabulary.value_or(false) || request.model.tie_word_embeddings) return;
  throw InputError(reading.file,
                   fmt::format("two tokens of the head score, and that of {} is no part of its embedding: such a head "
                               "is not modelled",
                               request.model.name),
                   "a model whose head is its embedding, or a score head (task_type: reranker)");
}

void settle_vision(const ConfigReading& reading, EstimateRequest& request) {
  const Setup& s = reading.setup;
  if (s.trains_tower_whole.value_or(false)) {
    if (!request.model.vision.is_present())
      throw InputError(
          reading.file,
          fmt::format("{} has no vision tower, beside which adapters would be trained", request.model.name),
          "tuner_type: lora");
    request.recipe.images.train = TrainVision::Whole;
    return;
  }
  if (!request.model.vision.is_present() || !s.freezes_tower) return;
  request.recipe.images.train = !*s.freezes_tower                    ? TrainVision::All
                                : s.freezes_projector.value_or(true) ? TrainVision::No
                                                                     : TrainVision::Projector;
}

namespace {

/// The divisor of `rows`, at most `most`, that is nearest to `wanted`, by their ratio.
std::int64_t nearest_divisor(std::int64_t rows, std::int64_t wanted, std::int64_t most) {
  std::int64_t best = 1;
  const auto distance = [&](std::int64_t n) { return double(std::max(n, wanted)) / double(std::min(n, wanted)); };
  for (std::int64_t n = 1; n <= rows / n; ++n) {
    if (rows % n != 0) continue;
    for (const std::int64_t divisor : {n, rows / n})
      if (divisor <= most && distance(divisor) < distance(best)) best = divisor;
  }
  return best;
}

/// Rows of a micro batch that holds tokens of at most about `wanted`: the divisor of a rank's rows where one is near,
/// else as many as even passes have.
std::int64_t rows_near(std::int64_t wanted, std::int64_t of_rank) {
  constexpr double kNear = 1.15;
  const std::int64_t divisor = nearest_divisor(of_rank, wanted, of_rank);
  const double ratio = double(std::max(divisor, wanted)) / double(std::min(divisor, wanted));
  return ratio <= kNear ? divisor : ceil_div(of_rank, ceil_div(of_rank, wanted));
}

/// Number of GPUs, at most `most`, whose ranks divide the rows and which are groups of an engine; 0: none.
std::int64_t gpus_that_divide(std::int64_t rows, std::int64_t micro, std::int64_t gpus_of_replica, std::int64_t most,
                              std::int64_t engine_group) {
  for (std::int64_t replicas = most / gpus_of_replica; replicas > 0; --replicas)
    if (rows % (replicas * micro) == 0 && replicas * gpus_of_replica % engine_group == 0)
      return replicas * gpus_of_replica;
  return 0;
}

/// GPUs of an engine that shares those that train: only whole groups of them generate.
std::int64_t engine_group_of(const EstimateRequest& request) {
  if (!generates(request.recipe) || has_engine_apart(request)) return 1;
  const RolloutConvention* const convention = rollout_convention(request.recipe.framework->name);
  return std::max<std::int64_t>(request.rollout.engine.tp > 0 ? request.rollout.engine.tp
                                : convention                  ? convention->tp
                                                              : 1,
                                1);
}

/// Says what would do where the ranks do not divide a batch of all of them: fewer GPUs, or a batch of whole prompts.
std::string dividing_batch(const EstimateRequest& request, std::int64_t rows, std::int64_t replicas) {
  const std::int64_t num_gpus = request.cluster.num_gpus(), micro = request.recipe.micro_batch,
                     group = engine_group_of(request),
                     answers = generates(request.recipe) ? std::max<std::int64_t>(1, request.rollout.generations) : 1;
  const std::int64_t step = std::lcm(micro * replicas, answers);
  std::string batch = fmt::format("--global-batch {}", ceil_div(rows, step) * step);
  if (num_gpus % group != 0) batch += " and --rollout-engine with tp=1";
  const std::int64_t fewer =
      gpus_that_divide(rows, micro, std::max<std::int64_t>(1, num_gpus / replicas), num_gpus, group);
  return fewer > 0 ? fmt::format("{} GPUs that train divide it, or {}", fewer, batch) : batch;
}

}  // namespace

void settle_positions(const ConfigReading& reading, EstimateRequest& request) {
  if (reading.setup.model_positions) request.model.max_position_embeddings = *reading.setup.model_positions;
}

/// Throws where the trainer stops because its GPUs do not divide the answers of a generation, or an optimizer step
/// takes more of them than there are. Micro batches that are filled by tokens are not checked.
static void check_generation(const ConfigReading& reading, const EstimateRequest& request) {
  const Setup& s = reading.setup;
  const std::string& trainer = request.recipe.framework->name;
  const bool is_checked = limits_of(trainer).shares_answers_evenly && !s.fills_by_tokens.value_or(false);
  if (!is_checked || !s.generation_batch || has_engine_apart(request)) return;
  const std::int64_t answers = *s.generation_batch, num_gpus = std::max<std::int64_t>(1, request.cluster.num_gpus()),
                     each = std::max<std::int64_t>(1, request.rollout.generations);
  if (s.update_rows && *s.update_rows > answers)
    throw InputError(reading.file,
                     fmt::format("an optimizer step takes {} answers of a generation of {}, and {} stops",
                                 format_grouped(*s.update_rows), format_grouped(answers), trainer),
                     "no more prompts for an optimizer step than for a generation");
  if (answers % num_gpus == 0) return;
  const std::int64_t step = std::lcm(num_gpus, each);
  throw InputError(reading.file,
                   fmt::format("a generation of {} answers ({} prompts x {}) is not divided by {} GPUs, and {} stops",
                               format_grouped(answers), format_grouped(answers / each), each, num_gpus, trainer),
                   fmt::format("{} prompts a generation, or another number of GPUs",
                               format_grouped(ceil_div(answers, step) * step / each)));
}

void settle_passes(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes) {
  if (!reading.step_rows) return check_generation(reading, request);
  Recipe& recipe = request.recipe;
  const std::int64_t replicas = batch_replicas(request), of_rank = *reading.step_rows / replicas;
  const std::int64_t micro = recipe.micro_batch;
  const bool packs_first = reading.setup.packs_first.value_or(false), fills = micro == reading.filled_rows;
  std::int64_t rows = *reading.step_rows;
  if (fills && !packs_first && of_rank > 0 && (rows % (micro * replicas) != 0)) {
    recipe.micro_batch = rows_near(micro, of_rank);
    rows = replicas * recipe.micro_batch * ceil_div(of_rank, recipe.micro_batch);
    notes.push_back(
        fmt::format("an optimizer step of {} sequences is counted as {} in micro batches of {} on {} ranks, "
                    "which are filled with tokens of up to {} of the longest",
                    *reading.step_rows, rows, recipe.micro_batch, replicas, micro));
  }
  const bool is_even = rows % replicas == 0;
  const std::int64_t one_pass = recipe.micro_batch * replicas;
  recipe.grad_accum = std::max<std::int64_t>(1, ceil_div(rows, one_pass));
  const bool is_counted_so = recipe.grad_accum * one_pass == *reading.step_rows;
  if (!is_counted_so && request.rollout.sequences == 0 && reading.setup.generations)
    request.rollout.sequences = *reading.step_rows;  // whole prompts, however micro batches are counted
  if (request.rollout.sequences > 0)                 // which a plan keeps as optimizer steps
    request.rollout.updates = steps_of_generation(request.rollout.sequences, recipe.grad_accum * one_pass);
  if (rows % one_pass == 0) return check_generation(reading, request);
  if (packs_first) {
    notes.push_back(
        fmt::format("an optimizer step of {} sequences is counted as one of {}: {} in each of {} passes on "
                    "{} data parallel ranks, which share them as they are packed",
                    rows, recipe.grad_accum * one_pass, recipe.micro_batch, recipe.grad_accum, replicas));
    return;
  }
  const std::int64_t dividing = nearest_divisor(of_rank, micro, micro);
  if (is_even && reading.mends_micro_batch) {
    recipe.micro_batch = dividing;
    recipe.grad_accum = of_rank / dividing;
    return;
  }
  const std::int64_t num_gpus = request.cluster.num_gpus(), own = reading.setup.num_processes.value_or(0);
  throw InputError(reading.file,
                   fmt::format("a global batch of {} is no multiple of micro batch {} x {} data parallel ranks",
                               format_grouped(rows), micro, replicas),
                   is_even
                       ? fmt::format("--micro-batch {}, or {}", dividing,
                                     own > 0 && own != num_gpus ? fmt::format("the {} GPUs that the file starts", own)
                                                                : "another number of GPUs")
                       : dividing_batch(request, rows, replicas));
}

namespace {

/// Says whether ranks that share layers keep the trainer's sharding where no data parallel rank is left: it casts the
/// weights of one as of several.
bool goes_on_alone(const EstimateRequest& request) {
  const std::vector<std::string>& strategies = request.recipe.framework->tensor_parallel.strategies;
  return request.options.tp > 1 && std::ranges::count(strategies, request.strategy) > 0 &&
         std::ranges::count(strategies, "single") == 0;
}

}  // namespace

void settle_experts(const ConfigReading& reading, EstimateRequest& request) {
  if (reading.setup.expert_tensor_parallel == 0 && request.model.moe.is_present())
    request.options.etp = request.options.tp;
  // a trainer whose sharers of a layer always have a part of each expert
  if (!reading.setup.expert_tensor_parallel && request.recipe.framework->expert_parallel.gathers_tokens)
    request.options.etp = 0;
}

void settle_strategy(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes) {
  const Setup& s = reading.setup;
  const std::int64_t num_gpus = request.cluster.num_gpus();
  const auto is_without_bf16 =
      std::find_if_not(request.cluster.gpus.kinds().begin(), request.cluster.gpus.kinds().end(), multiplies_bf16);
  const bool wants_bf16 =
      request.recipe.precision != Precision::Fp16Mixed && request.recipe.precision != Precision::Fp32;
  if (wants_bf16 && s.bf16 == true && is_without_bf16 != request.cluster.gpus.kinds().end())
    notes.push_back(
        fmt::format("{} has no bf16 tensor cores: fp16: true is the usual choice there (R14)", is_without_bf16->name));
  if (s.num_processes && *s.num_processes != num_gpus && s.distributed != "no")
    notes.push_back(fmt::format("{} processes are started, and {} GPUs are asked about", *s.num_processes, num_gpus));
  if (!s.distributed) {
    const KeyTable* trainer = nullptr;
    for (const KeyTable& table : key_tables())
      if (table.title == reading.trainer) trainer = &table;
    if (trainer && !trainer->usual_strategy.empty())
      request.strategy = num_gpus > 1 ? trainer->usual_strategy : "single";
    return;
  }
  const bool is_divided = request.options.tp * request.options.pp > 1;
  const std::int64_t places = num_places(request.cluster, request.options);
  const bool offloads =
      request.recipe.offload.params != OffloadTarget::None || request.recipe.offload.optimizer != OffloadTarget::None;
  if (*s.distributed == "no") {
    request.strategy = num_gpus > 1 ? "mp" : "single";
    if (num_gpus > 1) notes.push_back("one process with several GPUs splits the layers over them (device_map)");
  } else if (places == 1 && !offloads && !goes_on_alone(request)) {
    if (request.strategy != "ddp" && !is_divided)
      notes.push_back(fmt::format("sharding over one GPU changes nothing; counted as single (R20)"));
    request.strategy = "single";
  } else if (request.strategy == "hsdp" && s.dp_replicate.value_or(1) > 1 && !request.options.shard_size) {
    request.options.shard_size = std::max<std::int64_t>(num_gpus / *s.dp_replicate, 1);
  } else if (request.strategy == "hsdp" && (!request.options.shard_size || *request.options.shard_size >= num_gpus) &&
             request.cluster.num_nodes() == 1) {
    if (!request.options.shard_size) notes.push_back("HYBRID_SHARD on one machine equals FULL_SHARD");
    request.strategy = "fsdp";
    request.options.shard_size.reset();
  }
}

}  // namespace gpuplan
