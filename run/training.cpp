#include "run/training.h"
#include "planner/pipeline_schedule.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/narrow.h"
#include "base/random_bits.h"
#include "base/sha256.h"
#include "models/hf_config.h"
#include "models/recipe_names.h"
#include "planner/pipeline_schedule.h"
#include "run/agreement.h"
#include "run/data/examples.h"
#include "run/files/adapter_files.h"
#include "run/files/checkpoints.h"
#include "run/files/output_folder.h"
#include "run/given_weights.h"
#include "run/saved_model.h"

namespace gpuplan {
namespace {

/// Tokens that mean nothing, for runs that only measure: the same for the same seed.
class RandomExamples final : public Examples {
 public:
  RandomExamples(std::uint64_t seed, std::int64_t vocab_size) : seed_(seed), vocab_size_(vocab_size) {}
  std::int64_t size() const override { return 1 << 20; }
  void read(std::int64_t index, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const override {
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = narrow<std::int32_t>(random_bits(seed_ ^ std::uint64_t(index) << 20, i) % std::uint64_t(vocab_size_));
    std::copy(ids.begin(), ids.end(), labels.begin());
    shift_labels(labels);
  }
  std::string describe() const override { return "random tokens"; }

 private:
  std::uint64_t seed_;
  std::int64_t vocab_size_;
};

/// Counts up with what run_identity says and reads: checkpoints of another version cannot be compared.
constexpr const char* kIdentityVersion = "identity_version";
constexpr int kThisIdentityVersion = 2;

/// Parts of an identity that change with others.
const std::set<std::string> kFollows{"examples", "tokens"};

class Run {
 public:
  Run(const NativeJob& job, const RankPlace& place, Device& device, Communicator* world, const TrainingOptions& options,
      const TrainingHooks& hooks)
      : job_(job),
        place_(place),
        o_(options),
        hooks_(hooks),
        world_(world),
        run_id_(new_run_id(world)),
        executor_(job, place, device, world, run_id_),
        metrics_path_(options.metrics) {
    examples_ =
        o_.data ? open_examples(*o_.data) : std::make_unique<RandomExamples>(o_.seed, job.model.spec.vocab_size);
    if (o_.data) out_.notes.push_back("data: " + examples_->describe());
    if (o_.beta) executor_.set_beta(*o_.beta);
    order_ = {.num_examples = examples_->size(), .seed = o_.seed, .shuffles = o_.shuffles};
    out_.total_steps = o_.max_steps > 0 ? o_.max_steps : steps_of_epochs();
    rate_ = {.peak = o_.learning_rate,
             .schedule = o_.schedule,
             .warmup_steps = o_.warmup_steps,
             .total_steps = out_.total_steps};
    settings_ = run_settings(o_, out_.total_steps);
  }

  TrainingOutcome run() {
    try {
      return run_steps();
    } catch (...) {
      if (held()) held()->rethrow_named();
      throw;
    }
  }
  void abort() noexcept { executor_.abort(); }

 private:
  TrainingOutcome run_steps() {
    const auto latest = find_checkpoint();
    if (o_.uses_graph) executor_.use_graph();
    executor_.load(*given_weights(job_, place_, o_));
    if (latest) resume(*latest);
    executor_.groups().barrier();  // all ranks have read what they go on from
    out_.last_step = out_.first_step - 1;
    if (place_.rank == 0 && !o_.metrics.empty()) metrics_.emplace(metrics_path_, out_.first_step);
    for (std::int64_t step = out_.first_step; step <= out_.total_steps && !out_.was_stopped; ++step) {
      if (hooks_.on_alive) hooks_.on_alive(step);
      executor_.record_times(o_.records_last_step && step == out_.total_steps);
      const StepMetrics m = one(step);
      out_.steps.push_back(m);
      out_.last_step = step;
      if (metrics_) metrics_->add(m);
      if (place_.rank == 0 && hooks_.on_step) hooks_.on_step(m, out_.total_steps);
      out_.was_stopped = is_asked_to_stop_ && step < out_.total_steps;
      const bool is_due = o_.save_every > 0 && step % o_.save_every == 0 && step < out_.total_steps;
      if (is_due || out_.was_stopped) save(step);
    }
    if (o_.records_last_step && out_.last_step == out_.total_steps) out_.timeline = executor_.times();
    if (!out_.was_stopped && !o_.output.empty()) {
      require_own_folder();
      if (hooks_.on_alive) hooks_.on_alive(-out_.last_step);
      save_model(executor_, place_, o_.model_folder, output());
      executor_.groups().barrier();
    }
    mark_.reset();
    executor_.groups().barrier();  // no rank writes any more
    if (const std::string note = executor_.describe_graph(); !note.empty()) out_.notes.push_back(note);
    out_.persistent = executor_.persistent_bytes();
    out_.peak = out_.persistent + executor_.memory().arena_bytes();
    out_.host = executor_.host_bytes();
    out_.at_peak = executor_.at_peak();
    if (hooks_.process_memory) out_.process = hooks_.process_memory(out_.peak);
    return std::move(out_);
  }

  std::int64_t global_batch() const {
    return job_.strategy.mesh.batch_replicas() * job_.recipe().grad_accum * job_.recipe().micro_batch;
  }

  /// Those of all its answers.
  std::int64_t tokens_of_example() const { return job_.recipe().tokens() / job_.recipe().micro_batch; }

  std::int64_t steps_of_epochs() const {
    const double examples = o_.epochs * double(examples_->size());
    const auto steps = std::int64_t(std::floor(examples / double(global_batch())));
    if (steps > 0) return steps;
    throw InputError("--data",
                     fmt::format("{} has {} examples, and a step takes {}", o_.data ? o_.data->file.string() : "it",
                                 examples_->size(), global_batch()),
                     "fewer sequences per step, shorter ones (--seq-len), more --epochs, or --max-steps");
  }

  /// Step k takes consecutive places of the order; each data rank its contiguous part of them.
  std::vector<MicroBatch> batches_of(std::int64_t step) const {
    const std::int64_t per_rank = global_batch() / job_.strategy.mesh.batch_replicas();
    const auto seq = std::size_t(tokens_of_example());
    std::int64_t position = (step - 1) * global_batch() + place_.batch * per_rank;
    std::vector<MicroBatch> out(std::size_t(job_.recipe().grad_accum));
    for (MicroBatch& b : out) {
      b.ids.resize(std::size_t(job_.recipe().tokens()));
      b.labels.resize(b.ids.size());
      for (std::size_t at = 0; at < b.ids.size(); at += seq) {
        const std::int64_t example = order_.example_at(position++);
        examples_->read(example, std::span(b.ids).subspan(at, seq), std::span(b.labels).subspan(at, seq));
        examples_->add_given(example, b.given);
      }
    }
    return out;
  }

  StepMetrics one(std::int64_t step) {
    const auto begin = std::chrono::steady_clock::now();
    const double lr = rate_.at(step - 1);
    const StepResult r = executor_.step(step, batches_of(step), lr, o_.optimizer, hooks_.stop && hooks_.stop->load());
    is_asked_to_stop_ = r.is_asked_to_stop;  // any rank's signal stops all after the same step
    const Seconds duration{std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
    const double tokens = double(global_batch() * tokens_of_example());
    return {.step = step,
            .loss = r.loss,
            .grad_norm = r.grad_norm,
            .lr = lr,
            .tokens_per_second = tokens / duration.value,
            .duration = duration,
            .memory = executor_.persistent_bytes() + executor_.memory().arena_bytes()};
  }

  // --- checkpoints

  /// Ids and labels of 64 examples spread over the data: another tokenizer, packing or type of tokens shows there.
  std::string digest_of_examples() const {
    const std::int64_t sample = std::min<std::int64_t>(64, order_.num_examples);
    const auto seq = std::size_t(tokens_of_example());
    std::string digests;
    for (std::int64_t i = 0; i < sample; ++i) {
      std::vector<std::int32_t> ids(seq), labels(seq);
      examples_->read(i * (order_.num_examples - 1) / std::max<std::int64_t>(1, sample - 1), ids, labels);
      ids.insert(ids.end(), labels.begin(), labels.end());
      digests += sha256_hex({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids.front())});
    }
    return sha256_hex(digests).substr(0, 16);
  }

  static std::string digest_of_tokenizer(const std::filesystem::path& folder) {
    std::string digests;
    for (const char* name : {"tokenizer.model", "tokenizer_config.json"})
      if (is_there(folder / name)) digests += content_digest(folder / name);
    return sha256_hex(digests).substr(0, 16);
  }

  /// Files are read for it: once.
  const nlohmann::json& identity() {
    if (identity_.is_null()) {
      identity_ = o_.identity.is_null() ? run_identity(job_, o_) : o_.identity;
      identity_["examples"] = order_.num_examples;
      identity_["tokens"] = digest_of_examples();
      if (o_.data && examples_->is_text()) identity_["tokenizer"] = digest_of_tokenizer(o_.data->tokenizer_folder);
    }
    return identity_;
  }

  /// The first rank that is not well, or -1.
  std::int64_t meet(bool is_well) {
    const auto all = executor_.groups().gather(std::array{is_well ? 1.0 : 0.0});
    const auto failed = std::ranges::find(all, std::array{0.0});
    return failed == all.end() ? -1 : failed - all.begin();
  }

  /// Rank 0 makes the folder and locks it before any other rank looks at it.
  void hold_folder() {
    std::exception_ptr failure;
    try {
      if (place_.rank == 0) folder_.emplace(o_.output, run_id_);
    } catch (...) { failure = std::current_exception(); }
    const std::int64_t failed = meet(!failure);
    if (failure) std::rethrow_exception(failure);
    if (failed >= 0) throw PeerFailed(fmt::format("rank {} cannot write to {}", failed, o_.output.string()));
    if (place_.rank > 0 && is_folder(o_.output)) held_.emplace(o_.output);
    if (held_ && run_that_holds(held_->path()) == run_id_) mark_.emplace(held_->path(), place_.rank);
    if (held() && !o_.metrics.empty()) metrics_path_ = held()->path_of(o_.metrics);
  }

  /// The output folder, where this rank sees it.
  const HeldFolder* held() const { return folder_ ? &folder_->held() : held_ ? &*held_ : nullptr; }
  std::filesystem::path output() const { return held() ? held()->path() : o_.output; }

  /// Every rank looks for itself: at which run holds the folder, and at what it would go on from and with.
  void require_same_start(std::optional<std::int64_t> latest) {
    const std::string hint = fmt::format(
        "--output {} and the files that training reads must be the same for all ranks; on shared folders "
        "of several machines, wait until all of them see its latest state",
        o_.output.string());
    // what decides first is compared, and named, first
    require_alike(world_,
                  {{"run that holds --output", run_that_holds(output()).value_or(-1)},
                   {"latest checkpoint", latest ? nlohmann::json(*latest) : nlohmann::json()}},
                  hint);
    if (latest)
      require_alike(world_,
                    nlohmann::json::object({{"content of trainer_state.json", checkpoints_->facts_digest(*latest)}}),
                    hint);
    require_alike(world_, nlohmann::json::object({{"input", identity()}}), hint);
  }

  /// Step of the checkpoint to go on from, if any; before weights are read.
  std::optional<std::int64_t> find_checkpoint() {
    if (o_.output.empty()) {
      if (world_)
        require_alike(world_, nlohmann::json::object({{"input", identity()}}),
                      "the files that training reads must be the same for all ranks");
      return {};
    }
    hold_folder();
    checkpoints_.emplace(
        output(), o_.keep,
        CheckpointRank{place_.rank, job_.strategy.mesh.world(), [this](bool is_well) { return meet(is_well); }});
    if (const auto other = checkpoints_->foreign())
      throw InputError("--output", fmt::format("{} is another program's", other->string()),
                       "give another folder: checkpoints of both would mix");
    const auto latest = checkpoints_->latest();
    require_same_start(latest);
    if (!latest) return {};
    if (!o_.resumes)
      throw InputError("--output", fmt::format("{} holds checkpoint-{} of an earlier run", o_.output.string(), *latest),
                       "--resume goes on from it; else remove it, or give another folder");
    const nlohmann::json facts = checkpoints_->facts(*latest);
    require_same_run(*latest, facts.value("run", nlohmann::json()));
    take_changes(*latest, facts);
    return latest;
  }

  void require_same_run(std::int64_t step, const nlohmann::json& saved) {
    const nlohmann::json& own = identity();
    if (saved.is_object() && saved.value(kIdentityVersion, nlohmann::json()) != kThisIdentityVersion)
      throw InputError("--resume", fmt::format("checkpoint-{} was written by another version of gpuplan", step),
                       "go on with that one, or begin anew");
    // --seq-len, which was asked for, is named before the number of examples, which follows from it.
    std::vector<std::string> keys;
    for (const auto& [key, value] : own.items()) keys.push_back(key);
    std::ranges::stable_partition(keys, [](const std::string& key) { return !kFollows.contains(key); });
    for (const std::string& key : keys) {
      const nlohmann::json& value = own.at(key);
      if (saved.is_object() && saved.value(key, nlohmann::json()) == value) continue;
      throw InputError("--resume",
                       fmt::format("checkpoint-{} was written with another {}: {}, and this run has {}", step, key,
                                   saved.is_object() ? saved.value(key, nlohmann::json()).dump() : "?", value.dump()),
                       "give the same model, data, recipe and ranks, or another --output");
    }
    for (const auto& [key, value] : saved.items())
      if (!own.contains(key))
        throw InputError("--resume", fmt::format("checkpoint-{} was written with {} {}", step, key, value.dump()),
                         "give the same, or another --output");
  }

  /// Settings that were others are refused unless they are named, and stay on record.
  void take_changes(std::int64_t step, const nlohmann::json& facts) {
    const nlohmann::json saved = facts.value("settings", nlohmann::json::object());
    changes_ = facts.value("changes", nlohmann::json::array());
    if (!saved.is_object() || !changes_.is_array())
      throw InputError("--resume", fmt::format("trainer_state.json of checkpoint-{} is damaged", step),
                       "resume from another checkpoint");
    for (const char* name : kRunSettings) {
      const nlohmann::json was = saved.value(name, nlohmann::json()), is = settings_.value(name, nlohmann::json());
      if (was == is || was.is_null() || is.is_null()) continue;  // no number of steps counts for a constant rate
      const std::string what = fmt::format("--{} was {} and is now {}", name, was.dump(), is.dump());
      if (!o_.allow_changed.contains(name))
        throw InputError("--resume", fmt::format("checkpoint-{} was written by a run whose {}", step, what),
                         fmt::format("give what it was, or --allow-changed {} to go on so", name));
      changes_.push_back({{"after_step", step}, {"setting", name}, {"was", was}, {"is", is}});
      out_.notes.push_back(fmt::format("from step {} on, {}", step + 1, what));
    }
  }

  void resume(std::int64_t step) {
    checkpoints_->load(step, executor_.state());
    out_.first_step = step + 1;
    out_.notes.push_back(fmt::format("resumed from checkpoint-{}", step));
  }

  void require_own_folder() const {
    if (folder_) folder_->require_locked();
    held()->require_same();
  }

  void save(std::int64_t step) {
    if (!checkpoints_) return;
    require_own_folder();
    if (hooks_.on_alive) hooks_.on_alive(-step);
    checkpoints_->save(step, executor_.state(),
                       {{"global_step", step},
                        {"max_steps", out_.total_steps},
                        {"run", identity()},
                        {"settings", settings_},
                        {"changes", changes_}},
                       [this](const std::filesystem::path& folder) {
                         save_model(executor_, place_, o_.model_folder, folder);
                         if (metrics_) metrics_->sync();  // no checkpoint without the lines of its steps
                       });
  }

  const NativeJob& job_;
  RankPlace place_;
  const TrainingOptions& o_;
  const TrainingHooks& hooks_;
  Communicator* world_;
  std::int64_t run_id_;
  Executor executor_;
  std::unique_ptr<Examples> examples_;
  SampleOrder order_;
  LearningRate rate_;
  bool is_asked_to_stop_ = false;
  std::optional<OutputFolder> folder_;  // of rank 0
  std::optional<RankMark> mark_;        // of the others
  std::optional<HeldFolder> held_;      // of the others
  std::optional<Checkpoints> checkpoints_;
  std::filesystem::path metrics_path_;  // below the output folder's descriptor where it is in there
  std::optional<MetricsFile> metrics_;  // of rank 0
  nlohmann::json identity_, settings_, changes_ = nlohmann::json::array();
  TrainingOutcome out_;
};

}  // namespace

nlohmann::json run_identity(const NativeJob& job, const TrainingOptions& options) {
  const Recipe& r = job.recipe();
  const Mesh& mesh = job.strategy.mesh;
  const bool is_adapter = r.is_adapter();
  const std::string quant = r.quant.kind == BaseQuant::None
                                ? "none"
                                : fmt::format("{}{}", to_string(r.quant.kind), r.quant.double_quant ? ", double" : "");
  nlohmann::json shape = to_hf_config(job.model.spec);
  shape.erase("_name_or_path");  // where it lies is no matter
  nlohmann::json out{{kIdentityVersion, kThisIdentityVersion},
                     {"model", sha256_hex(shape.dump()).substr(0, 16)},
                     {"init", options.is_random ? "random" : "files"},
                     {"lora_alpha", is_adapter ? r.lora.alpha : 0},
                     {"lora_targets", is_adapter ? r.lora.targets : std::vector<std::string>{}},
                     {"rank", is_adapter ? r.lora.rank : 0},
                     {"quantisation", quant},
                     {"strategy", job.strategy.name},
                     {"num_ranks", mesh.world()},
                     {"sharded_over", mesh.shard_ways()},
                     {"method", int(r.method)},
                     {"seq_len", r.seq_len},
                     {"micro_batch", r.micro_batch},
                     {"grad_accum", r.grad_accum},
                     {"optimizer", r.optimizer->name},
                     {"precision", int(r.precision)},
                     {"packing", std::string(to_string(r.packing))},
                     {"seed", options.seed},
                     {"shuffles", options.shuffles}};
  if (job.compares_answers()) {
    out["trained_for"] = r.objective.method->name;
    out["beta"] = options.beta.value_or(r.objective.method->beta);
  }
  const bool has_schedule = pipeline_row(job.strategy.schedule) != nullptr;  // else the strategy's name says its stages
  for (const AxisRow& row : kAxes)
    if (is_counted(row) && !row.splits_batch && mesh.ways(row.axis) > 1 && (!row.is_pipeline || has_schedule))
      out[std::string(row.name)] = mesh.ways(row.axis);
  if (has_schedule) out["virtual_stages"] = job.strategy.chunks;
  if (r.offload.any())
    out["offload"] =
        fmt::format("{}, {}, {}", to_string(r.offload.optimizer), to_string(r.offload.params), r.offload.activations);
  if (!options.is_random) out["weights"] = weights_digest(options.model_folder);
  if (options.adapter) out["adapter"] = content_digest(*options.adapter / "adapter_model.safetensors");
  if (options.data) out["data"] = content_digest(options.data->file);
  return out;
}

nlohmann::json run_settings(const TrainingOptions& o, std::int64_t total_steps) {
  nlohmann::json out{{"lr", o.learning_rate},
                     {"schedule", to_string(o.schedule)},
                     {"warmup", o.warmup_steps},
                     {"weight-decay", o.optimizer.weight_decay},
                     {"clip", o.optimizer.clip}};
  if (o.schedule != LrSchedule::Constant) out["max-steps"] = total_steps;
  return out;
}

void let_cause_speak() {
  constexpr auto kOthersSpeak = std::chrono::seconds(3);
  try {
    throw;
  } catch (const PeerFailed&) { std::this_thread::sleep_for(kOthersSpeak); } catch (...) {
  }
}

TrainingOutcome train(const NativeJob& job, const RankPlace& place, Device& device, Communicator* world,
                      const TrainingOptions& options, const TrainingHooks& hooks) {
  std::optional<Run> run;
  try {
    run.emplace(job, place, device, world, options, hooks);
    return run->run();
  } catch (...) {
    let_cause_speak();
    if (hooks.on_failure) hooks.on_failure();
    if (run) run->abort();
    throw;
  }
}

}  // namespace gpuplan
