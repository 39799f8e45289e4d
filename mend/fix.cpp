#include "mend/fix.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "ecosystem/export_parts.h"
#include "ecosystem/meaning.h"
#include "ecosystem/question_fields.h"
#include "ecosystem/shipped_files.h"
#include "mend/gpu_division.h"
#include "mend/ways.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"
#include "planner/estimate.h"
#include "planner/rollout_phases.h"
#include "planner/step_batch.h"
#include "planner/step_program.h"
#include "planner/strategy_estimate.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::size_t kMostChanges = 4, kMostTried = 40, kMostOfStrategy = 8;

Strategy strategy_of(const EstimateRequest& r, const std::string& name) {
  return make_strategy(name, r.cluster, options_for(r));
}

/// Holds what the files would have to say: facts of the way that are not those of now.
class Facts {
 public:
  Facts(const ReadFiles& given, const EstimateRequest& wanted, const std::string& before, const std::string& after)
      : reading_(given.reading),
        now_(setup_of(given.request, strategy_of(given.request, before))),
        then_(setup_of(wanted, strategy_of(wanted, after))),
        has_own_reference_(reference_of(wanted.recipe) == Reference::Adapter &&
                           usual_reference(wanted.recipe) == Reference::Adapter) {}

  /// `says_kernels`: the fused kernels of loss and layers each by their own key.
  std::vector<WantedFact> list(bool says_kernels) const {
    Setup now = now_, then = then_;
    if (says_kernels)
      for (Setup* s : {&now, &then}) state_kernels(*s);
    std::vector<WantedFact> out;
    for (const SetupField& field : setup_fields()) {
      const json before = value_of(now, field), after = value_of(then, field), stated = value_of(reading_.setup, field);
      // an engine that is switched on is written out, also where a default would do
      const bool is_written_out = field.name.starts_with("fsdp_") && !is_stated_by_key(field.name);
      if (before == after || (stated == after && !is_written_out)) continue;
      if (after.is_null() && stated.is_null()) continue;
      if (field.name == "zero_gathers_for_save" && after.is_null()) continue;  // nobody reads it below stage 3
      // adapters switched off are the reference, whatever a key says of a model
      if (field.name == "reference" && has_own_reference_) continue;
      if (field.name == "pads" && after.is_null()) continue;  // sequences that are packed are full either way
      // an evaluation by the micro batch, as the trainer has it
      if (field.name == "eval_batch" && stated.is_null() && then.eval_batch == then.micro_batch) continue;
      out.push_back({field.name, after});
    }
    return out;
  }

 private:
  bool is_stated_by_key(std::string_view fact) const {
    return std::ranges::any_of(reading_.parts,
                               [&](const SettingsPart& part) { return part.keys_of.contains(std::string(fact)); });
  }

  static void state_kernels(Setup& s) {
    const bool has_liger = s.liger.value_or(false);
    s.liger_loss = s.liger_loss.value_or(has_liger);
    s.liger_layers = s.liger_layers.value_or(has_liger);
    s.liger.reset();
  }

  const ConfigReading& reading_;
  Setup now_, then_;
  bool has_own_reference_;
};

/// Facts that the trainer refuses in the files as they are, with other values in every way.
std::vector<WantedFact> wanted_always(const ReadFiles& given) {
  std::vector<WantedFact> out;
  if (given.why_refused.empty()) return out;
  if (given.reading.mends_micro_batch) out.push_back({"micro_batch", given.request.recipe.micro_batch});
  for (const SetupField& field : setup_fields())
    if (std::ranges::find(given.reading.mended, field.name) != given.reading.mended.end())
      out.push_back({field.name, value_of(given.reading.setup, field)});
  return out;
}

/// The question with as many sequences per optimizer step as the files' own processes have.
EstimateRequest with_same_batch(const ReadFiles& given) {
  EstimateRequest r = given.request;
  if (given.reading.step_rows) return r;  // from the batch of all ranks, on as many as there are here
  const std::int64_t num_gpus = r.cluster.num_gpus();
  const std::int64_t passes = r.recipe.grad_accum * given.reading.setup.num_processes.value_or(num_gpus);
  const std::int64_t rows = r.recipe.micro_batch * passes;
  if (num_gpus == 0 || rows % num_gpus != 0) return r;
  const std::int64_t of_rank = rows / num_gpus;
  r.recipe.micro_batch = std::gcd(r.recipe.micro_batch, of_rank);
  r.recipe.grad_accum = of_rank / r.recipe.micro_batch;
  return r;
}

/// The request that a way asks for.
EstimateRequest request_of(const EstimateRequest& from, const Profile& profile, const MendWay& way) {
  EstimateRequest r = changed({from, profile}, way.settings).request;
  if (way.strategy.empty()) return r;
  r.strategy = way.strategy;
  return r;
}

/// Adapters that differ in the names of their targets alone, and train the same: "all-linear", and a script's own list.
bool train_the_same(const EstimateRequest& one, const EstimateRequest& other) {
  Recipe renamed = other.recipe;
  renamed.lora.targets = one.recipe.lora.targets;
  if (!one.recipe.is_adapter() || !(renamed.lora == one.recipe.lora)) return false;
  const auto trained = [](const EstimateRequest& r) {
    return prepare(r.model, r.recipe, *r.recipe.framework).trainable;
  };
  return trained(one) == trained(other);
}

/// Says what would be generated otherwise than was wanted, with all defaults taken; empty: nothing.
std::string other_generation(const EstimateRequest& wanted, const EstimateRequest& read, const Strategy& strategy) {
  if (!generates(wanted.recipe)) return {};
  const auto figures = [&](const EstimateRequest& r) {
    const JobRollout rollout = job_rollout(Job(r, strategy));
    const EngineSetup& s = rollout.setup;
    const GenerationBatch& b = rollout.batch;
    return std::tuple(s.engine->name, s.place, s.utilisation, s.sleeps, s.tp, s.num_gpus, s.max_sequences,
                      rollout.offloads, r.rollout.engine.syncs_adapter, b.sequences, b.generations, b.max_completion);
  };
  return figures(wanted) == figures(read) ? "" : "so changed, the files would generate otherwise";
}

/// The difference between what was wanted and what the files say when they are read again; empty: none.
std::string difference(const EstimateRequest& wanted, const EstimateRequest& read, bool is_other_strategy) {
  if (wanted.strategy != read.strategy)
    return fmt::format("so changed, the files would train with {} and not with {}", read.strategy, wanted.strategy);
  const std::string name = wanted.strategy == "auto" ? "ddp" : wanted.strategy;
  const Strategy own = strategy_of(wanted, name), theirs = strategy_of(read, name);
  // buckets and prefetching of an engine that is switched on are those of its file
  if (!is_other_strategy && strategy_fields(own) != strategy_fields(theirs))
    return "so changed, the files would set the strategy's options otherwise";
  Recipe expected = wanted.recipe;
  if (expected.packing == Packing::Dynamic)  // the longest row decides where the files name rows that can be counted
    expected.seq_len = std::min(expected.seq_len, read.recipe.seq_len);
  const json one = recipe_fields(expected, own), other = recipe_fields(read.recipe, own);
  for (const auto& [key, value] : one.items())
    if (const json& read_value = other.value(key, json());
        value != read_value && !(key == "lora" && train_the_same(wanted, read)))
      return fmt::format("so changed, the files would say {} for {}",
                         read_value.is_primitive() ? read_value.dump() : "another value", key);
  if (wanted.eval_batch != read.eval_batch &&
      std::max(wanted.eval_batch, wanted.recipe.micro_batch) != std::max(read.eval_batch, read.recipe.micro_batch))
    return "so changed, the files would evaluate with another batch";
  if (wanted.model.name != read.model.name || wanted.dataset.epochs != read.dataset.epochs)
    return "so changed, the files would name another model or other data";
  return other_generation(wanted, read, own);
}

/// Mends the files for one way, by the first form of them that is read again as wanted.
class Attempts {
 public:
  /// `asked`: the question whose ways are tried; `now`: the strategy of the files as they are.
  Attempts(const FixQuestion& question, const EstimateRequest& asked, std::string now)
      : question_(question),
        asked_(asked),
        division_(gpu_division(question.given)),
        always_(wanted_always(question.given)),
        now_(std::move(now)) {}

  /// True where the answer has the files and the estimate of what they say.
  bool make(const MendWay& way, FixAnswer& answer) {
    if (!division_.why_not.empty()) return refuse(division_.why_not);
    EstimateRequest wanted = request_of(asked_, question_.profile, way);
    // files that leave the strategy open say nothing of it: both sides are written under one
    const std::string then = way.strategy.empty() ? now_ : way.strategy;
    const bool turns_fsdp_on = is_fsdp(strategy_of(wanted, then).engine) &&
                               !is_fsdp(strategy_of(asked_, now_).engine) && !way.strategy.empty();
    if (turns_fsdp_on && !wanted.options.fsdp_version) {  // the newer one where it can
      wanted.options.fsdp_version = 2;
      if (make_as(way, wanted, then, answer)) return true;
      wanted.options.fsdp_version = 1;
    }
    return make_as(way, wanted, then, answer);
  }

 private:
  bool make_as(const MendWay& way, const EstimateRequest& wanted, const std::string& then, FixAnswer& answer) {
    const Facts facts(question_.given, wanted, now_, then);
    for (const bool says_kernels : {false, true}) {
      std::vector<WantedFact> all = facts.list(says_kernels);
      all.insert(all.end(), division_.facts.begin(), division_.facts.end());
      for (const WantedFact& fact : always_)
        if (std::ranges::find(all, fact.name, &WantedFact::name) == all.end()) all.push_back(fact);
      for (const auto& form : forms(all, wanted, then))
        if (take(form.facts, form.added, wanted, way, answer)) return true;
    }
    return false;
  }

  struct Form {
    std::vector<WantedFact> facts;
    std::optional<MendedFile> added;
  };

  bool has(FileRole role) const {
    return std::ranges::any_of(question_.given.reading.parts,
                               [&](const SettingsPart& part) { return part.table->role == role; });
  }

  static bool is_of_engine(std::string_view fact) {
    return fact.starts_with("zero_") || fact == "offload_optimizer" || fact == "offload_params" ||
           fact == "leaf_classes";
  }

  static std::vector<WantedFact> without(const std::vector<WantedFact>& all, bool (*drops)(std::string_view)) {
    std::vector<WantedFact> out;
    for (const WantedFact& fact : all)
      if (!drops(fact.name)) out.push_back(fact);
    return out;
  }

  /// An engine's file that is there is changed; else the trainer names one that it ships, or a new one.
  std::vector<Form> forms(const std::vector<WantedFact>& all, const EstimateRequest& wanted,
                          const std::string& strategy) const {
    // buckets and overlap of an engine that is switched on stay those of its file
    const std::vector<WantedFact> unnamed = without(
        all, [](std::string_view f) { return f == "deepspeed_file" || f == "zero_bucket" || f == "zero_overlap"; });
    std::vector<Form> out;
    const bool wants_engine = std::ranges::any_of(all, [](const WantedFact& f) { return is_of_engine(f.name); });
    const auto names = std::ranges::find(all, "deepspeed_file", &WantedFact::name);
    if (names == all.end() || !names->value.is_null())
      out.push_back({unnamed, {}});
    else
      out.push_back({all, {}});
    if (!wants_engine || strategy_of(wanted, strategy).engine != ShardingEngine::Zero) return out;
    const std::vector<WantedFact> rest = without(unnamed, is_of_engine);
    for (const SettingsPart& part : question_.given.reading.parts)
      for (const ShippedFile& shipped : shipped_files()) {
        if (shipped.format != part.table->name || shipped.named.empty()) continue;
        std::vector<WantedFact> facts = rest;
        facts.push_back({"deepspeed_file", shipped.named});
        out.push_back({std::move(facts), {}});
      }
    const KeyTable* table = find_key_table("deepspeed");
    if (has(FileRole::Engine) || !table) return out;
    const Strategy made = strategy_of(wanted, strategy);
    const ExportJob job{.request = wanted, .strategy = made, .setup = setup_of(wanted, made), .mark = {}};
    const std::string folder = folder_of_trainer();
    std::vector<WantedFact> facts = rest;
    facts.push_back({"deepspeed_file", table->file});
    out.push_back({std::move(facts), MendedFile{folder + table->file, "", plain_table_text(job, *table)}});
    return out;
  }

  std::string folder_of_trainer() const {
    for (const SettingsPart& part : question_.given.reading.parts)
      if (part.table->role == FileRole::Trainer) {
        const std::string& name = part.file.empty() ? part.script : part.file;
        return name.substr(0, name.rfind('/') + 1);
      }
    return {};
  }

  /// Writes it as export does, without the line that names a plan.
  static std::string plain_table_text(const ExportJob& job, const KeyTable& table) {
    KeyTable headless = table;
    headless.has_head = false;
    return table_file(job, headless).content;
  }

  bool take(const std::vector<WantedFact>& facts, const std::optional<MendedFile>& added, const EstimateRequest& wanted,
            const MendWay& way, FixAnswer& answer) {
    MendedFiles mended = state_facts(question_.given.files, question_.given.reading.parts, facts);
    if (!mended.why_not.empty()) return refuse(mended.why_not);
    std::vector<ConfigFile> files = question_.given.files;
    for (ConfigFile& file : files)
      for (const MendedFile& changed : mended.files)
        if (changed.name == file.name) file.text = changed.after;
    if (added) {
      files.push_back({added->name, added->after});
      mended.files.push_back(*added);
      mended.keys.push_back({added->name, "", "", "new"});
    }
    ReadFiles read;
    try {
      read = question_.read(files);
    } catch (const InputError& error) {
      return refuse(error.where().empty() ? error.problem() : fmt::format("{} {}", error.where(), error.problem()));
    }
    if (std::string why = difference(wanted, read.request, !way.strategy.empty()); !why.empty()) return refuse(why);
    if (std::string why = other_division(wanted, read.reading); !why.empty()) return refuse(why);
    const auto estimate = estimate_as_given({read.request, question_.profile});
    if (!estimate || !serves(*estimate, question_.goal, answer.before)) return refuse("it would not fit");
    const OptimizerSpec &now = *asked_.recipe.optimizer, &then = *read.request.recipe.optimizer;
    if (then.is_8bit && !now.is_8bit)
      answer.notes.push_back(fmt::format(
          "{} keeps what it remembers in 8 bit: close to the training of {}, and not the same", then.name, now.name));
    const std::int64_t length = read.request.recipe.seq_len, cut = question_.given.rows.num_longer_than(length);
    if (cut > 0 && length < asked_.recipe.seq_len)
      answer.notes.push_back(
          fmt::format("{} {} longer than {} tokens: trainers cut them, or leave them out; the longest "
                      "has {}{}",
                      cut, cut == 1 ? "row is" : "rows are", length, question_.given.rows.is_about ? "about " : "",
                      question_.given.rows.longest()));
    if (!read.reading.stands_in.empty()) answer.notes.push_back(read.reading.stands_in);
    answer.after = estimate;
    answer.not_started.clear();
    answer.asks = std::move(read.request);
    answer.mended = std::move(mended);
    for (const Setting& setting : way.settings) answer.flags.push_back(describe(setting));
    if (!way.strategy.empty()) answer.flags.push_back("--strategy " + way.strategy);
    return true;
  }

  bool refuse(const std::string& why) {
    if (first_reason_.empty()) first_reason_ = why;
    return false;
  }

 public:
  bool cannot_divide() const { return !division_.why_not.empty(); }

  std::string first_reason_;

 private:
  const FixQuestion& question_;
  const EstimateRequest& asked_;
  const GpuDivision division_;
  const std::vector<WantedFact> always_;
  const std::string now_;
};

std::string words_of(const MendWay& way) {
  std::string out;
  for (const Setting& setting : way.settings) out += (out.empty() ? "" : " ") + describe(setting);
  if (!way.strategy.empty()) out += (out.empty() ? "" : " ") + ("--strategy " + way.strategy);
  return out;
}

bool starts_otherwise(const ReadFiles& given) {
  const GpuDivision division = gpu_division(given);
  return !division.facts.empty() || !division.why_not.empty();
}

/// Says that a script shows its processes fewer GPUs than it now starts of them; empty where it does not.
std::string hidden_gpus_note(const ReadFiles& given) {
  const auto& visible = given.reading.setup.visible_gpus;
  const std::int64_t num_gpus = given.request.cluster.num_gpus();
  if (!visible || *visible >= num_gpus || !starts_otherwise(given)) return {};
  return fmt::format(
      "the script shows the training {} GPUs alone (CUDA_VISIBLE_DEVICES, or what the job asks for): show it {}",
      *visible, num_gpus);
}

/// The first way whose files can be written.
bool take_first(const FixQuestion& question, FixAnswer& answer) {
  FixQuestion asked = question;
  asked.given.request = with_same_batch(question.given);
  const std::string strategy = asked.given.request.strategy;
  Attempts attempts(question, asked.given.request,
                    answer.before        ? answer.before->strategy.name
                    : strategy == "auto" ? "single"
                                         : strategy);
  const bool changes_anyhow = starts_otherwise(question.given) || !question.given.why_refused.empty();
  const auto as_they_are =
      answer.before || !changes_anyhow ? answer.before : estimate_as_given({asked.given.request, question.profile});
  if (changes_anyhow && as_they_are && as_they_are->fits_well()) {
    if (attempts.make({}, answer)) return true;
    answer.not_started = attempts.first_reason_;
    if (attempts.cannot_divide()) return false;
  }
  std::size_t num_tried = 0;
  std::map<std::string, std::size_t> tried;  // by strategy: what cannot be said of one is often the strategy itself
  for (const MendWay& way : find_ways(asked, answer.before, kMostChanges)) {
    if (num_tried == kMostTried) break;
    if (tried[way.strategy]++ >= kMostOfStrategy) continue;
    ++num_tried;
    attempts.first_reason_.clear();
    if (attempts.make(way, answer)) return true;
    if (num_tried == 1) answer.unsayable = fmt::format("{} ({})", words_of(way), attempts.first_reason_);
  }
  return false;
}

/// What each further permission would do.
void add_permissions(const FixQuestion& question, FixAnswer& answer) {
  constexpr std::pair<const char*, bool Allowed::*> kAll[] = {
      {"batch", &Allowed::batch}, {"context", &Allowed::context}, {"method", &Allowed::method}};
  for (const auto& [name, member] : kAll) {
    if (question.allowed.*member) continue;
    FixQuestion wider = question;
    wider.allowed.*member = true;
    FixAnswer found;
    found.before = answer.before;
    if (take_first(wider, found))
      answer.would_do.push_back({name, fmt::format("{}", fmt::join(found.flags, " "))});
    else if (answer.unsayable.empty())
      answer.unsayable = found.unsayable;
  }
}

std::optional<StrategyEstimate> started_plainly(const EstimateRequest& asked, const FixAnswer& answer,
                                                const Profile& profile) {
  if (asked.strategy != "auto" || asked.cluster.num_gpus() < 2 || !answer.before) return std::nullopt;
  EstimateRequest plain = asked;
  set_strategy_of_batch(plain, std::string(simplest_strategy(asked.cluster.num_gpus())));
  if (plain.strategy == answer.before->strategy.name) return std::nullopt;
  return estimate_as_given({plain, profile});
}

/// Says why the files do not start or do not fit, where more memory of GPUs would not help; empty: it would, or they
/// fit.
std::string other_reason(const EstimateRequest& asked, const std::optional<StrategyEstimate>& before) {
  if (before && (before->fit != Fit::No || before->tiers.needed > before->tiers.usable)) return {};
  try {
    if (before) {
      StepProgram program;
      return estimate_strategy(Job(asked, before->strategy), program).why_not_yes;
    }
    for (const StrategyEstimate& e : estimate(asked).strategies)
      if (!e.not_applicable.empty()) return e.not_applicable;
  } catch (const InputError& error) {
    return error.hint().empty() ? error.problem() : fmt::format("{} ({})", error.problem(), error.hint());
  }
  return {};
}

}  // namespace

FixAnswer find_fix(const FixQuestion& question) {
  FixAnswer answer;
  const EstimateRequest asked = with_same_batch(question.given);
  if (question.given.why_refused.empty()) answer.before = estimate_as_given({asked, question.profile});
  if (asked.strategy == "auto" && asked.cluster.num_gpus() > 1 && answer.before)
    answer.counted = answer.before->strategy.name;
  if (question.given.why_refused.empty()) answer.why_not = other_reason(asked, answer.before);
  answer.plain = started_plainly(asked, answer, question.profile);
  const bool is_done = answer.before && answer.before->fits_well() && !starts_otherwise(question.given);
  if (question.goal == Goal::Fits && is_done) return answer;
  if (take_first(question, answer)) {
    if (std::string note = hidden_gpus_note(question.given); !note.empty()) answer.notes.push_back(std::move(note));
    return answer;
  }
  if (!answer.fits() && answer.not_started.empty()) add_permissions(question, answer);
  return answer;
}

}  // namespace gpuplan
