#include "models/rollout.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/narrow.h"
#include "base/surroundings.h"
#include "base/unit_text.h"
#include "base/yaml_file.h"
#include "models/cut_answers.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "models/training_method.h"

namespace gpuplan {

NameTable<EnginePlace> names_of(EnginePlace) {
  static constexpr std::array kNames{NameRow<EnginePlace>{"colocate", EnginePlace::Colocate},
                                     NameRow<EnginePlace>{"server", EnginePlace::Server},
                                     NameRow<EnginePlace>{"colocated", EnginePlace::Colocate}};
  return {"place of the engine", kNames};
}
NameTable<TrainerOffload> names_of(TrainerOffload) {
  static constexpr std::array kNames{NameRow<TrainerOffload>{"no", TrainerOffload::No},
                                     NameRow<TrainerOffload>{"weights", TrainerOffload::Weights},
                                     NameRow<TrainerOffload>{"states", TrainerOffload::States},
                                     NameRow<TrainerOffload>{"yes", TrainerOffload::Yes},
                                     NameRow<TrainerOffload>{"optimizer", TrainerOffload::States},
                                     NameRow<TrainerOffload>{"params", TrainerOffload::Weights},
                                     NameRow<TrainerOffload>{"on", TrainerOffload::Yes},
                                     NameRow<TrainerOffload>{"true", TrainerOffload::Yes},
                                     NameRow<TrainerOffload>{"off", TrainerOffload::No},
                                     NameRow<TrainerOffload>{"false", TrainerOffload::No}};
  return {"offload", kNames};
}
static NameTable<OldLogProbs> names_of(OldLogProbs) {
  static constexpr std::array kNames{NameRow<OldLogProbs>{"never", OldLogProbs::Never},
                                     NameRow<OldLogProbs>{"with-engine", OldLogProbs::WithEngine},
                                     NameRow<OldLogProbs>{"always", OldLogProbs::Always}};
  return {"old log-probs", kNames};
}
static NameTable<WeightSync> names_of(WeightSync) {
  static constexpr std::array kNames{NameRow<WeightSync>{"parameters", WeightSync::Parameters},
                                     NameRow<WeightSync>{"buckets", WeightSync::Buckets}};
  return {"weight sync", kNames};
}

namespace {

Bytes mib(Fields& f, std::string_view key) { return f.optional_bytes(key).value_or(Bytes{}); }

std::vector<GenerationEngine> read_engines() {
  YamlFile file = YamlFile::read(data_dir() / "engines.yaml");
  std::vector<GenerationEngine> engines;
  for (Fields& f : file.top().list("engines")) {
    GenerationEngine& e = engines.emplace_back();
    f("name", e.name);
    f("title", e.title);
    f.optional("aliases", e.aliases);
    f.optional("in_trainer", e.in_trainer);
    e.utilisation = f.optional_number("utilisation", {0.01, 1}).value_or(0);
    f.optional("of_free", e.of_free);
    f.optional("max_sequences", e.max_sequences, IntRange{.least = 1});
    e.max_sequences_large = e.max_sequences;
    f.optional("max_sequences_large", e.max_sequences_large, IntRange{.least = 1});
    e.large_card = mib(f, "large_card_gib");
    f.optional("max_batched_tokens", e.max_batched_tokens, IntRange{.least = 1});
    e.graphs = mib(f, "graphs_mib");
    f.optional("can_sleep", e.can_sleep);
    f.optional("divides_heads", e.divides_heads);
    f.optional("ropes_in_maximum", e.ropes_in_maximum);
    f.optional("models_in_maximum", e.models_in_maximum);
    f.optional("ropes_of_original", e.ropes_of_original);
    f.optional("shares_prompts", e.shares_prompts);
    f.optional("kernels_per_layer", e.kernels_per_layer);
    e.all_reduce = f.optional_time("all_reduce_us").value_or(Seconds{});
    e.latencies_between = f.optional_number("latencies_between", {0, 100}).value_or(0);
    e.parameter_call = f.optional_time("parameter_call_us").value_or(Seconds{});
    e.gathered_call = f.optional_time("gathered_call_us").value_or(Seconds{});
    if (f.has("versions"))
      f.optional_objects("versions", e.versions, [](Fields& own, EnginePace& pace) {
        own("since", pace.since);
        pace.host_per_token = own.optional_time("host_per_token_us").value_or(Seconds{});
        pace.host_per_sequence = own.optional_time("host_per_sequence_us").value_or(Seconds{});
        pace.of_group = own.optional_number("of_group", {1, 100}).value_or(1);
      });
    f("source", e.source);
    f.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return engines;
}

struct RlTrainers {
  UsualLengths lengths;
  std::vector<RolloutConvention> rows;
};

RlTrainers read_trainers() {
  YamlFile file = YamlFile::read(data_dir() / "rl_trainers.yaml");
  RlTrainers out;
  file.top()("prompt_len", out.lengths.prompt, IntRange{.least = 1});
  file.top()("completion_len", out.lengths.completion, IntRange{.least = 1});
  std::vector<RolloutConvention>& rows = out.rows;
  for (Fields& f : file.top().list("trainers")) {
    RolloutConvention& r = rows.emplace_back();
    std::string engine;
    f("framework", r.framework);
    f("engine", engine);
    r.engine = engine;
    std::vector<std::string> places;
    f.optional("places", places);
    if (!places.empty()) r.places.clear();
    for (const std::string& place : places) r.places.push_back(parse_name<EnginePlace>(place, "places"));
    r.utilisation = f.optional_number("utilisation", {0.01, 1}).value_or(0);
    f.optional("sleeps", r.sleeps);
    f.optional("tp", r.tp, IntRange{.least = 1});
    f.optional("generations", r.generations, IntRange{.least = 1});
    f.optional("max_sequences", r.max_sequences);
    f.optional("max_batched_tokens", r.max_batched_tokens);
    f.optional("old_log_probs", r.old_log_probs);
    f.optional("references", r.references);
    f.optional("unpads", r.unpads);
    f.optional("offloads_states", r.offloads_states);
    f.optional("offloads_weights", r.offloads_weights);
    f.optional("reference_on_host", r.reference_on_host);
    f.optional("starts_before_states", r.starts_before_states);
    f.optional("sync", r.sync);
    r.bucket = mib(f, "bucket_mib");
    f.optional("gathers_all_with_adapters", r.gathers_all_with_adapters);
    if (f.has("loss")) {
      LossKernel loss{};
      f("loss", loss);
      r.loss = loss;
    }
    r.overhead = f.optional_number("overhead", {0, 1}).value_or(0);
    f.optional("shares_weights", r.shares_weights);
    f.optional("reward_by_function", r.reward_by_function);
    f.optional("critic_in_graph", r.critic_in_graph);
    f.optional("keeps_scores", r.keeps_scores);
    f.optional("engines", r.engines);
    f.optional("writes_itself", r.writes_itself);
    f.optional("groups", r.groups);
    f.optional("one_answer", r.one_answer);
    f.optional("lags", r.lags);
    f("source", r.source);
    f.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return out;
}

constexpr const char* kFlag = "--rollout-engine";

bool yes_or_no(const std::string& value) {
  if (value == "yes" || value == "on" || value == "true") return true;
  if (value == "no" || value == "off" || value == "false") return false;
  throw InputError(kFlag, fmt::format("'{}' is neither yes nor no", value));
}

void read_word(EngineChoice& out, const std::string& part) {
  const std::size_t equals = part.find('=');
  const std::string key = to_lower(trim(part.substr(0, equals)));
  if (equals == std::string::npos) {
    if (key == "async")
      out.is_async = true;
    else
      out.place = parse_name<EnginePlace>(key, kFlag);
    return;
  }
  const std::string value(trim(part.substr(equals + 1)));
  const auto count = [&](std::int64_t most) { return std::int64_t(parse_integer(value, kFlag, 1, most)); };
  if (key == "util" || key == "utilisation") {
    out.utilisation = parse_number(value, kFlag);
    if (*out.utilisation <= 0 || *out.utilisation > 1)
      throw InputError(kFlag, fmt::format("utilisation {} is no share of a card", value), "for example util=0.3");
  } else if (key == "tp") {
    out.tp = count(1024);
  } else if (key == "gpus") {
    out.gpus = count(1 << 16);
  } else if (key == "seqs" || key == "sequences") {
    out.max_sequences = count(1 << 20);
  } else if (key == "sleep") {
    out.sleeps = yes_or_no(value);
  } else if (key == "offload") {
    out.offloads = parse_name<TrainerOffload>(value, kFlag);
  } else if (key == "version") {
    out.version = to_version(value, kFlag).text;
  } else if (key == "sync") {
    if (value != "adapter" && value != "weights")
      throw InputError(kFlag, fmt::format("sync={} is unknown", value), "sync=adapter or sync=weights");
    out.syncs_adapter = value == "adapter";
  } else if (key == "batches") {
    out.sync_batches = count(1024);
  } else if (key == "bucket") {
    out.sync_bucket = parse_bytes(value, kFlag);
    if (out.sync_bucket.count <= 0)
      throw InputError(kFlag, fmt::format("a bucket of {} holds no weights", value), "for example bucket=512MiB");
  } else if (key == "context") {
    out.context = count(kMostSeqLen);
  } else {
    throw InputError(
        kFlag, fmt::format("unknown setting '{}'", key),
        did_you_mean(key,
                     {"util", "tp", "gpus", "seqs", "sleep", "offload", "version", "sync", "batches", "bucket",
                      "context", "async", "colocate", "server"},
                     "known: colocate, server, util, tp, gpus, seqs, sleep, offload, sync, batches, bucket, context, "
                     "async, version"));
  }
}

}  // namespace

const EnginePace* GenerationEngine::pace(std::string_view version) const {
  if (versions.empty()) return nullptr;
  const auto wanted = as_version(version);
  if (!wanted) return &versions.front();
  for (const EnginePace& row : versions)
    if (!(*wanted < to_version(row.since, "data/engines.yaml"))) return &row;
  return &versions.back();
}

std::span<const GenerationEngine> generation_engines() { return read_once<read_engines>(); }

const GenerationEngine& row_named(std::string_view name, std::type_identity<GenerationEngine>) {
  const std::span<const GenerationEngine> rows = generation_engines();
  if (name.empty()) return rows.front();
  const std::string wanted = squash(name);
  std::vector<std::string> names;
  for (const GenerationEngine& row : rows) {
    const auto is_wanted = [&](const std::string& spelling) { return squash(spelling) == wanted; };
    if (is_wanted(row.name) || std::ranges::any_of(row.aliases, is_wanted)) return row;
    names.push_back(row.name);
  }
  throw InputError(kFlag, fmt::format("unknown engine '{}'", name),
                   did_you_mean(name, names, fmt::format("known: {}", fmt::join(names, ", "))));
}

EngineChoice parse_engine(std::string_view text) {
  EngineChoice out;
  const std::size_t end = text.find_first_of(":,");
  out.engine = RowOf<GenerationEngine>(trim(text.substr(0, end)));
  if (end != std::string_view::npos)
    for (const std::string& part : split(text.substr(end + 1), ','))
      if (!trim(part).empty()) read_word(out, std::string(trim(part)));
  if ((*out.engine)->in_trainer && out.place == EnginePlace::Server)
    throw InputError(kFlag, fmt::format("{} runs in the trainer and on no GPUs of its own", (*out.engine)->title),
                     "for example --rollout-engine vllm:server");
  if (out.gpus > 0 && out.place == EnginePlace::Colocate)
    throw InputError(kFlag, "a colocated engine has the GPUs that train", "leave gpus out, or write server");
  if (out.gpus > 0 || out.is_async) out.place = EnginePlace::Server;
  return out;
}

std::string to_text(const EngineChoice& c) {
  std::string text = c.engine ? (*c.engine)->name : "";
  const auto add = [&](const std::string& word) { text += (text.find(':') == std::string::npos ? ":" : ",") + word; };
  if (c.place) add(std::string(to_string(*c.place)));
  if (c.utilisation) add(fmt::format("util={:g}", *c.utilisation));
  if (c.tp > 0) add(fmt::format("tp={}", c.tp));
  if (c.gpus > 0) add(fmt::format("gpus={}", c.gpus));
  if (c.max_sequences > 0) add(fmt::format("seqs={}", c.max_sequences));
  if (c.sleeps) add(*c.sleeps ? "sleep=yes" : "sleep=no");
  if (c.offloads) add(fmt::format("offload={}", to_string(*c.offloads)));
  if (c.syncs_adapter) add("sync=adapter");
  if (c.sync_batches > 1) add(fmt::format("batches={}", c.sync_batches));
  constexpr std::int64_t kMib = 1 << 20;
  if (c.sync_bucket.count % kMib != 0)
    add(fmt::format("bucket={}B", c.sync_bucket.count));
  else if (c.sync_bucket.count > 0)
    add(fmt::format("bucket={}MiB", c.sync_bucket.count / kMib));
  if (c.context > 0) add(fmt::format("context={}", c.context));
  if (c.is_async) add("async");
  if (!c.version.empty()) add("version=" + c.version);
  return text;
}

std::span<const RolloutConvention> rollout_conventions() { return read_once<read_trainers>().rows; }

const UsualLengths& usual_lengths() { return read_once<read_trainers>().lengths; }

std::int64_t usual_generations(const Recipe& recipe) {
  const TrainingMethod& method = *recipe.objective.method;
  if (method.generations > 0) return method.generations;
  const RolloutConvention* const convention = rollout_convention(recipe.framework->name);
  return convention ? convention->generations : 1;
}

const RolloutConvention* rollout_convention(std::string_view framework) {
  const std::span<const RolloutConvention> rows = rollout_conventions();
  const auto found = std::ranges::find(rows, framework, &RolloutConvention::framework);
  return found == rows.end() ? nullptr : &*found;
}

bool unpads_rows(const Recipe& recipe) {
  if (!generates(recipe)) return false;
  const RolloutConvention* const convention = rollout_convention(recipe.framework->name);
  return convention && convention->unpads;
}

AnswerLengths::AnswerLengths(std::int64_t mean, std::int64_t most)
    : mean_(double(mean > 0 ? std::min(mean, most) : most)),
      most_(double(most)) {
  constexpr double kAllAlike = 0.999;
  if (mean_ >= kAllAlike * most_) return;
  double low = mean_, high = mean_;
  const auto mean_of = [&](double scale) { return scale * (1 - std::exp(-most_ / scale)); };
  while (mean_of(high) < mean_) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (mean_of(middle) < mean_ ? low : high) = middle;
  }
  scale_ = (low + high) / 2;
}

double AnswerLengths::quantile(double p) const {
  if (scale_ <= 0) return most_;
  return std::clamp(-scale_ * std::log(1 - p), 1.0, most_);
}

double AnswerLengths::share_longer(double tokens) const {
  if (tokens >= most_) return 0;
  return scale_ <= 0 ? 1 : std::exp(-tokens / scale_);
}

/// E[L^2] = integral of 2 t P(L > t) = 2 s (s - (s + M) exp(-M / s)).
double AnswerLengths::mean_square() const {
  if (scale_ <= 0) return most_ * most_;
  return 2 * scale_ * (scale_ - (scale_ + most_) * std::exp(-most_ / scale_));
}

/// Integral of 1 - (1 - P(L > t))^n, by trapezia.
double AnswerLengths::longest_of(std::int64_t count) const {
  if (scale_ <= 0) return most_;
  constexpr int kParts = 256;
  double sum = 0;
  for (int i = 0; i < kParts; ++i) {
    const double t = most_ * (i + 0.5) / kParts;
    sum += 1 - std::pow(1 - std::exp(-t / scale_), double(count));
  }
  return most_ * sum / kParts;
}

/// With lengths of scale s the mean of those cut at M is s (1 - exp(-M / s)) (docs/rl.md), and P(L > 1) = exp(-1 / s).
void cut_answers(std::int64_t context, std::int64_t prompt, std::int64_t& mean, std::int64_t& longest) {
  if (context == 0 || prompt + longest <= context) return;
  if (context <= prompt)
    throw InputError(
        "--rollout-engine",
        fmt::format("sequences of {} tokens leave no room for an answer behind a prompt of {}", context, prompt),
        fmt::format("context={} or more, or a shorter --prompt-len", prompt + longest));
  const std::int64_t most = context - prompt;
  if (mean > 0 && mean < longest) {
    const double scale = -1 / std::log(AnswerLengths(mean, longest).share_longer(1));
    mean = std::clamp<std::int64_t>(std::llround(scale * (1 - std::exp(-double(most) / scale))), 1, most);
  } else if (mean > 0) {
    mean = most;
  }
  longest = most;
}

}  // namespace gpuplan
