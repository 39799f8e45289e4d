#include "ecosystem/config_reader.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/yaml_file.h"
#include "ecosystem/given_files.h"
#include "ecosystem/key_reader.h"
#include "ecosystem/meaning.h"
#include "ecosystem/methods.h"
#include "ecosystem/open_flags.h"
#include "ecosystem/own_facts.h"
#include "ecosystem/rules.h"
#include "ecosystem/shipped_files.h"
#include "ecosystem/torchtune.h"
#include "ecosystem/versioned_defaults.h"
#include "models/framework.h"
#include "models/rollout.h"
#include "models/training_method.h"
#include "planner/strategy.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// The files together: later roles fill what earlier ones do not say.
class Reading {
 public:
  Reading(const std::vector<ConfigFile>& files, const FindConfig& find, const StackVersions& versions,
          const std::string& objective, const std::vector<FlagFact>& flags, Broken broken, const SaidBeside& beside)
      : given_(files, find, beside.num_gpus),
        beside_(beside),
        versions_(versions),
        defaults_(versions),
        objective_(objective),
        flags_(flags),
        broken_(broken) {}

  ConfigReading read() {
    if (const auto script = given_.take_script()) add_launch(*script);
    out_.folder = given_.folder();
    while (const auto file = given_.take_next()) add(*file);
    if (out_.plan) return read_plan();
    add_named_engine();
    for (const ReadFile& file : files_) merge(file);
    merge_own_facts();
    take_named_method();
    take_flags();
    list_parts();
    count_processes();
    check_batch();
    if (std::string note = resolve_component(out_.setup); !note.empty()) out_.notes.push_back(std::move(note));
    fill_defaults();
    divide_processes();
    count_answers();
    settle_engine();
    keep_rules();
    make_request();
    return std::move(out_);
  }

 private:
  const ReadFile* of_role(FileRole role) const {
    const auto found =
        std::find_if(files_.begin(), files_.end(), [&](const ReadFile& f) { return f.table->role == role; });
    return found == files_.end() ? nullptr : &*found;
  }

  void add(const ConfigFile& file) {
    if (const auto message = find_out_of_memory(file.text)) {
      if (out_.out_of_memory) throw InputError(file.name, "is a second log", "give one of them");
      out_.out_of_memory = message;
      return out_.notes.push_back(fmt::format("{}: {}", file.name, describe(*message)));
    }
    const ParsedConfig parsed = given_.parse_with_base(file);
    if (parsed.is_guess)
      out_.notes.push_back(
          fmt::format("{} is no file of a program that gpuplan knows; its keys are read as those of {}", file.name,
                      parsed.table->title));
    if (!parsed.table) {
      if (out_.plan) throw InputError(file.name, fmt::format("is a plan, and so is {}", out_.plan->name), "give one");
      out_.plan = file;
      return;
    }
    if (const ReadFile* other = of_role(parsed.table->role))
      throw InputError(
          file.name,
          fmt::format("is read as {}, and {} as {}", parsed.table->title, other->file.name, other->table->title),
          "give one of them");
    add_parsed(file, parsed);
  }

  /// The JSON file that `fsdp_config` of a trainer names stands in the place of its name.
  void put_fsdp_file(const ConfigFile& file, const ParsedConfig& parsed) {
    const KeyRow* row = parsed.table->find("fsdp_config");
    json& root = parsed.tree->root;
    if (!row || !row->field || row->field->name != "fsdp_file" || !root.contains("fsdp_config")) return;
    if (!root["fsdp_config"].is_string() || trim(root["fsdp_config"].get<std::string>()).empty()) return;
    const std::string named = root["fsdp_config"];
    const auto found = given_.take_or_find(named, file.name);
    if (!found)
      throw InputError(fmt::format("{}: fsdp_config", file.name), fmt::format("names {}, which is not there", named),
                       fmt::format("give it too: --from {}", named.substr(named.rfind('/') + 1)));
    root["fsdp_config"] = parse_json(found->text, found->name);
  }

  void add_parsed(const ConfigFile& file, ParsedConfig parsed) {
    given_.put_base_files(file, parsed);
    put_fsdp_file(file, parsed);
    parsed.table = &table_for(*parsed.table, parsed.tree->root);
    files_.push_back({.table = parsed.table,
                      .file = file,
                      .setup = {},
                      .stated_by = {},
                      .is_guess = parsed.is_guess,
                      .part = {.file = file.name}});
    read_keys(files_.back(), parsed, out_.notes, objective_);
    add_own_facts(file);
  }

  /// Takes what an exported file says beside its keys; a key that says the same thing counts.
  void add_own_facts(const ConfigFile& file) {
    const Setup facts = read_own_facts(file.text, file.name);
    for (const SetupField& field : setup_fields())
      if (is_stated(facts, field)) state(own_facts_, field, value_of(facts, field));
  }

  void merge_own_facts() {
    for (const SetupField& field : setup_fields())
      if (is_stated(own_facts_, field) && !is_stated(out_.setup, field))
        state(out_.setup, field, value_of(own_facts_, field));
  }

  /// Takes the method that a flag names where no file states one: what the files say of answers and of an engine is
  /// its.
  void take_named_method() {
    if (!objective_.empty() && !out_.setup.objective && find_training_method(objective_).generates)
      out_.setup.objective = objective_;
  }

  // --- scripts ---
  /// Each part of the command is read as a file of its program, above the file that it names.
  void add_launch(const ConfigFile& script) {
    add_own_facts(script);
    Launch launch = given_.read_script(script);
    out_.notes.insert(out_.notes.end(), launch.notes.begin(), launch.notes.end());
    for (const LaunchPart& part : launch.parts)
      add_part(part.file.empty() ? script.name : part.file, part, launch.script);
  }

  void add_part(const std::string& script, const LaunchPart& part, const std::string& started) {
    const KeyTable* table = find_key_table(part.table);
    const std::optional<ConfigFile> config = given_.take_below(script, part, table, out_.notes);
    ParsedConfig below;
    if (config) {
      below = parse_config(*config, table);
      if (!below.table) throw InputError(config->name, "is a plan", "give the plan alone");
    }
    const auto raw = tree_of(part, script, nullptr, below.tree.get(), out_.notes);
    if (table) table = &table_for(*table, raw->root);
    const bool is_guess = !table || (part.may_be_own && has_unknown_flags(part, *table));
    if (is_guess) {
      table = config ? below.table : &table_of_flags(raw->root, script);
      out_.notes.push_back(fmt::format("{}: {} is no script that gpuplan knows; its flags are read as those of {}",
                                       script, started, table->title));
    }
    if (is_guess) refuse_open_flags(script, part, *table, started);
    const std::string name = to_lower(started.substr(started.rfind('/') + 1));
    const bool speaks =
        is_guess && !config && (name.find("lora") != std::string::npos || name.find("peft") != std::string::npos);
    add_parsed(config ? *config : ConfigFile{script, {}},
               {.table = table,
                .tree = tree_of(part, script, table, below.tree.get(), out_.notes, beside_.facts),
                .is_program = part.is_program,
                .is_guess = is_guess});
    files_.back().part = {.file = config ? config->name : "", .script = script, .flags = part.flags};
    if (speaks && files_.back().open_method.empty()) files_.back().open_method = started;
  }

  void count_processes() {
    Setup& s = out_.setup;
    if (s.num_processes) return;
    if (s.learners)
      s.num_processes = std::accumulate(s.learners->begin(), s.learners->end(), std::int64_t{0});
    else if (s.processes_per_machine)
      s.num_processes = *s.processes_per_machine * s.num_machines.value_or(1);
    else if (s.visible_gpus && s.distributed != "no")
      s.num_processes = s.visible_gpus;
  }

  ConfigReading read_plan() {
    if (!files_.empty())
      throw InputError(files_.front().file.name,
                       fmt::format("says other settings, and {} is a plan, which says all of them", out_.plan->name),
                       "give one of them; a log with an out-of-memory message may stand beside a plan");
    return std::move(out_);
  }

  /// DeepSpeed's own file, where another file names it.
  void add_named_engine() {
    const auto names = std::find_if(files_.begin(), files_.end(),
                                    [](const ReadFile& f) { return f.setup.deepspeed_file.has_value(); });
    if (names == files_.end() || of_role(FileRole::Engine)) return;
    const std::string named = *names->setup.deepspeed_file, by = names->file.name;
    if (const auto inside = names->engine) return add(*inside);
    auto found = given_.find_named(named, by);
    if (!found)
      if (const ShippedFile* shipped = find_shipped_file(names->table->name, named)) {
        out_.notes.push_back(fmt::format("{} names {}, which is not there: taken as {} ships it ({})", by, named,
                                         names->table->title, shipped->source));
        if (!shipped->brought_by.empty()) {
          out_.stands_in = fmt::format("{} has to be there: {}", named, shipped->brought_by);
          out_.notes.push_back(out_.stands_in);
        }
        found = ConfigFile{named, shipped->text};
      }
    if (!found)
      throw InputError(by, fmt::format("names {}, which is not there", named),
                       fmt::format("give it too: --from {}", named));
    if (!found->other.empty())
      out_.notes.push_back(
          fmt::format("{} names {}: that of the current folder is read, as the trainer opens it, and not {}", by, named,
                      found->other));
    add(*found);
  }

  void merge(const ReadFile& file) {
    for (const SetupField& field : setup_fields()) {
      if (!is_stated(file.setup, field)) continue;
      const json value = value_of(file.setup, field);
      const auto& first =
          stated_by_.try_emplace(field.name, fmt::format("{}: {}", file.file.name, file.stated_by.at(field.name)));
      if (first.second)
        state(out_.setup, field, value);
      else if (value_of(out_.setup, field) != value && field.name != "deepspeed_file" && file.table->name != "launch")
        throw InputError(
            fmt::format("{}: {}", file.file.name, file.stated_by.at(field.name)),
            fmt::format("is {}, and {} is {}{}", value.dump(), first.first->second, value_of(out_.setup, field).dump(),
                        of_role(FileRole::Adapter) ? "" : ": DeepSpeed and accelerate stop at values that differ"),
            of_role(FileRole::Adapter) ? "only one of them is trained; leave the other file out"
                                       : "write \"auto\" in DeepSpeed's file, or the same value");
    }
  }

  void take_flags() {
    for (const FlagFact& said : flags_) {
      state(out_.setup, *find_setup_field(said.fact), said.value);
      stated_by_[said.fact] = said.flag;
    }
  }

  const FlagFact* flag_of(std::string_view fact) const {
    const auto found = std::ranges::find(flags_, fact, &FlagFact::fact);
    return found == flags_.end() ? nullptr : &*found;
  }

  /// Rows that hold prompt and answer are as long as the flags make them.
  void take_lengths() {
    Setup& s = out_.setup;
    if (s.answers_in_seq != true || (!flag_of("prompt_len") && !flag_of("completion_len"))) return;
    const std::int64_t row = s.seq_len.value_or(0);
    const auto rest = [&](std::int64_t other, std::int64_t usual) { return row > other ? row - other : usual; };
    if (!s.completion_len) s.completion_len = rest(*s.prompt_len, usual_lengths().completion);
    if (!s.prompt_len || (!flag_of("prompt_len") && *s.prompt_len >= row))
      s.prompt_len = rest(*s.completion_len, usual_lengths().prompt);
    s.seq_len = *s.prompt_len + *s.completion_len;
  }

  /// A flag that says the optimizer steps of a generation divides what the files generate at once; where they say the
  /// passes of a step, so many steps are generated.
  void take_updates() {
    Setup& s = out_.setup;
    const FlagFact* const said = flag_of("mini_batches");
    if (!said) return;
    s.update_prompts.reset(), s.update_rows.reset();
    if (!s.generation_batch || says_passes_) return void(s.generation_batch.reset());
    if (*s.generation_batch % said->value != 0)
      throw InputError(std::string(said->flag),
                       fmt::format("{} optimizer steps do not divide the {} answers of a generation", said->value,
                                   *s.generation_batch),
                       fmt::format("a divisor of {}", *s.generation_batch));
  }

  /// Fewer answers to a prompt may leave less than an optimizer step takes.
  void check_step() const {
    const Setup& s = out_.setup;
    const FlagFact* const said = flag_of("generations");
    if (!said || !s.update_rows || !s.generation_batch || *s.update_rows <= *s.generation_batch) return;
    throw InputError(std::string(said->flag),
                     fmt::format("{} answers to a prompt are {} in all, and an optimizer step of the files takes {}",
                                 said->value, *s.generation_batch, *s.update_rows),
                     "more answers, or --global-batch with fewer sequences");
  }

  void list_parts() {
    for (const ReadFile& file : files_) {
      out_.mistyped.insert(out_.mistyped.end(), file.mistyped.begin(), file.mistyped.end());
      SettingsPart part = file.part;
      part.table = file.table;
      for (const auto& [fact, key] : file.stated_by)
        if (const SetupField* field = find_setup_field(fact); !field || is_stated(file.setup, *field))
          part.keys_of.emplace(fact, key);
      out_.parts.push_back(std::move(part));
    }
  }

  /// Ranks that work on the same sequences.
  static std::int64_t ranks_of_sequences(const Setup& s) {
    return s.tensor_parallel.value_or(1) * s.pipeline_parallel.value_or(1) * s.context_parallel.value_or(1);
  }

  /// Machines may be counted whole, for those that train and for engines, and those that train may hold the engine's
  /// GPUs too.
  void divide_processes() {
    Setup& s = out_.setup;
    if (s.machine_gpus && stated_by_.count("num_machines"))
      for (const auto& [fact, count] :
           {std::pair("processes_per_machine", &s.processes_per_machine), std::pair("engine_gpus", &s.engine_gpus)})
        if (!stated_by_.count(fact)) *count = s.machine_gpus;
    if (s.machine_gpus && !s.num_processes && s.processes_per_machine)
      s.num_processes = *s.processes_per_machine * s.num_machines.value_or(1);
    const bool is_apart = s.engine_colocated == false || s.engine_place == "server";
    if (!is_apart || !s.counts_engine.value_or(false) || !s.engine_gpus || !s.num_processes) return;
    const std::int64_t all = *s.num_processes,
                       own = *s.engine_gpus * s.engine_machines.value_or(1) * s.engine_copies.value_or(1);
    if (own < 1 || own >= all)
      throw InputError(stated_by_["engine_gpus"],
                       fmt::format("the engine has {} of {} GPUs, so that none is left that trains", own, all),
                       "fewer GPUs of the engine, or more machines");
    s.num_processes = all - own;
  }

  /// Prompts of a generation and of a step stand for all their answers; a micro batch of so many tokens holds as many
  /// of the longest rows as fit, one at least. Where a file says the tokens, the program leaves its rows out.
  void count_answers() {
    Setup& s = out_.setup;
    const std::int64_t answers = s.generations.value_or(1);
    take_lengths();
    if (s.answers_in_seq == true && !stated_by_.count("seq_len") && s.prompt_len && s.completion_len)
      s.seq_len = *s.prompt_len + *s.completion_len;
    if (s.generation_rows) s.generation_batch = *s.generation_rows;
    if (s.generation_prompts) s.generation_batch = *s.generation_prompts * answers;
    if (s.mini_batches && s.global_batch && !s.generation_batch) s.generation_batch = *s.global_batch * *s.mini_batches;
    const std::int64_t row =
        s.answers_in_seq == true ? s.seq_len.value_or(0) : s.prompt_len.value_or(0) + s.completion_len.value_or(0);
    const bool says_tokens =
        s.fills_by_tokens == true || stated_by_.count("micro_tokens") + stated_by_.count("own_tokens") > 0;
    if (s.own_tokens) s.micro_tokens = *s.own_tokens * std::max<std::int64_t>(1, s.context_parallel.value_or(1));
    if (row == 0 || (s.micro_batch && !says_tokens)) s.micro_tokens.reset();
    if (s.micro_tokens) s.micro_batch = out_.filled_rows = std::max<std::int64_t>(1, *s.micro_tokens / row);
    take_updates();
    if (s.update_prompts) s.update_rows = *s.update_prompts * answers;
    if (s.mini_batches && s.generation_batch && *s.mini_batches > 0)
      s.update_rows = *s.generation_batch / *s.mini_batches;
    check_step();
    if (!says_passes_) out_.step_rows = s.update_rows ? s.update_rows : s.global_batch;
    if (!s.update_rows || !s.num_processes || s.grad_accum) return;
    const std::int64_t shared = ranks_of_sequences(s);
    if (shared == 0 || *s.num_processes % shared != 0) return;  // which the planner says
    const std::int64_t one_pass = s.micro_batch.value_or(1) * (*s.num_processes / shared);
    if (one_pass > 0) s.grad_accum = std::max<std::int64_t>(1, (*s.update_rows + one_pass - 1) / one_pass);
  }

  /// train_batch_size = micro batch x accumulation x ranks that have sequences of their own.
  void check_batch() {
    Setup& s = out_.setup;
    says_passes_ = s.grad_accum.has_value();
    if (!s.global_batch || !s.micro_batch) return;
    const std::int64_t shared = ranks_of_sequences(s);
    if (!s.num_processes || shared == 0 || *s.num_processes % shared != 0) return;  // which the planner says
    const std::int64_t replicas = *s.num_processes / shared, one_pass = *s.micro_batch * replicas;
    if (!s.grad_accum && one_pass > 0 && *s.global_batch % one_pass == 0) s.grad_accum = *s.global_batch / one_pass;
    if (one_pass * s.grad_accum.value_or(1) != *s.global_batch)
      throw InputError(
          stated_by_["global_batch"],
          fmt::format("is {}, but {} sequences x {} passes x {} {} are {}", *s.global_batch, *s.micro_batch,
                      s.grad_accum.value_or(1), replicas, shared > 1 ? "data parallel ranks" : "processes",
                      one_pass * s.grad_accum.value_or(1)),
          "leave the global batch out, or make them agree");
  }

  /// Stops at keys that are not there, have no default, and without which the program stops.
  void refuse_missing(const ReadFile& file) const {
    std::vector<std::string> missing;
    for (const KeyRow& row : file.table->rows) {
      if (row.needed_by.empty() || is_stated(out_.setup, *row.field)) continue;
      if (!row.needed_unless.empty() && value_at(file.carried, row.needed_unless)) continue;
      const json by = value_of(out_.setup, *find_setup_field(row.needed_by));
      if (!by.is_null() && by != "none") missing.push_back(row.key);
    }
    if (!missing.empty())
      throw InputError(
          file.file.name,
          fmt::format("{}: not stated, without a default, and the trainer stops", fmt::join(missing, " and ")),
          fmt::format("{}: 16", fmt::join(missing, ": 16, ")));
  }

  void fill_defaults() {
    settle_launcher_precision();
    for (const ReadFile& file : files_) {
      const bool has_fp16 = out_.setup.fp16.value_or(false);
      for (const KeyRow& row : file.table->rows) {
        if (row.otherwise.is_null() || is_stated(out_.setup, *row.field)) continue;
        if (std::ranges::find(file.idle, &row) != file.idle.end()) continue;
        if ((has_fp16 || out_.setup.precision_by_card) && row.field->name == "bf16") continue;  // one of the two
        if (file.is_guess && row.field->name == "adapter") continue;
        state(out_.setup, *row.field, defaults_.usual(*file.table, row));
      }
      if (!file.is_guess) refuse_missing(file);
      for (const auto& [fact, value] : file.table->assumes)
        if (!file.stated_by.count(fact)) state(out_.setup, *find_setup_field(fact), value);
      if (file.is_guess && !out_.setup.adapter)
        out_.setup.adapter = stated_by_.count("rank") || out_.setup.dora.value_or(false) ? "lora" : "none";
    }
    const FrameworkDistributed& habits = habits_of_trainer();
    if (habits.fsdp2_shards_4bit) out_.setup.fsdp2_shards_4bit = true;
    if (habits.fsdp2_shards_8bit) out_.setup.fsdp2_shards_8bit = true;
    const ReadFile* const trainer = of_role(FileRole::Trainer);
    defaults_.settle_loaded(out_.setup, trainer ? trainer->table->framework : "");
  }

  /// Hands the launcher's word to DeepSpeed too where no trainer says in which type it computes.
  void settle_launcher_precision() {
    Setup& s = out_.setup;
    if (of_role(FileRole::Trainer) || s.bf16 || s.fp16 || !s.mixed_precision) return;
    if (s.mixed_precision == "bf16") s.bf16 = true;
    if (s.mixed_precision == "fp16") s.fp16 = true;
  }

  /// axolotl's older spelling, [full_shard, auto_wrap, offload]; what fsdp_config says counts.
  void read_fsdp_words(Setup& s) {
    const auto has = [&](std::string_view word) {
      return std::find(s.fsdp_words->begin(), s.fsdp_words->end(), word) != s.fsdp_words->end();
    };
    const FrameworkDistributed& habits = habits_of_trainer();
    if (habits.own_fsdp_version > 0 && !s.fsdp_version) s.fsdp_version = habits.own_fsdp_version;
    const bool is_second = s.fsdp_version == 2 && habits.own_fsdp_version > 0;
    if (is_second && habits.own_fsdp_wraps && !has("full_shard") && !has("shard_grad_op"))
      throw InputError(stated_by_["fsdp_words"], "these words are of FSDP1, and the trainer takes FSDP2",
                       "fsdp_config with version: 1, or the versions of libraries that are installed, as in --versions "
                       "transformers=4.57");
    if (is_second && !stated_by_.count("fsdp_reshard"))
      s.fsdp_reshard = has("shard_grad_op") ? "no" : "yes";
    else if (!is_second && !stated_by_.count("fsdp_sharding"))
      s.fsdp_sharding = has("shard_grad_op")        ? "grad-op"
                        : has("hybrid_shard")       ? "hybrid"
                        : has("hybrid_shard_zero2") ? "hybrid-grad-op"
                        : has("no_shard")           ? "none"
                                                    : "full";
    if (!stated_by_.count("fsdp_wrap")) {
      const bool by_size = has("auto_wrap") && !habits.own_fsdp_wraps && s.fsdp_min_params.value_or(0) > 0;
      s.fsdp_wrap = by_size ? "size" : has("auto_wrap") || habits.own_fsdp_wraps ? "layer" : "none";
    }
    if (has("offload")) s.fsdp_offload = true;
  }

  /// Takes what the trainer's program does by itself on several GPUs, with the versions that are asked about.
  const FrameworkDistributed& habits_of_trainer() const {
    static const FrameworkDistributed kNone;
    const ReadFile* trainer = of_role(FileRole::Trainer);
    if (!trainer) return kNone;
    return resolve_framework(trainer->table->framework, {.given = versions_, .date = {}}).distributed;
  }

  /// A rank may say that there are adapters, and so does a quantised base in a script of one's own; a program that is
  /// known trains it in its way, or not at all.
  void settle_adapters() {
    Setup& s = out_.setup;
    if (s.adapter != "none") return;
    const bool is_quantised = s.quant_bits.value_or(0) > 0;
    const bool has_rank =
        s.rank_means_adapters == true && (stated_by_.count("rank") || s.dora == true || stated_by_.count("targets"));
    const ReadFile* trainer = of_role(FileRole::Trainer);
    if (is_quantised && !has_rank && trainer && !trainer->is_guess)
      if (const auto& [why, hint] = trainer->table->quantised_alone; !why.empty())
        throw InputError(stated_by_["quant_bits"], why, hint);
    if ((is_quantised || has_rank) && !stated_by_.count("adapter")) s.adapter = "lora";
  }

  /// Says which engine it is, where accelerate does not say.
  void settle_engine() {
    Setup& s = out_.setup;
    const ReadFile* trainer = of_role(FileRole::Trainer);
    if (trainer && trainer->setup.deepspeed_file && (s.distributed == "no" || s.distributed == "multi"))
      s.distributed = "deepspeed";
    settle_adapters();
    if (s.fsdp_words && habits_of_trainer().own_fsdp_version > 0) {
      if (s.distributed == "no")
        throw InputError(stated_by_["fsdp_words"], "FSDP works between several processes alone, and one is started",
                         "torchrun --nproc_per_node N, or accelerate launch");
      if (s.distributed == "multi") s.distributed.reset();
    }
    if (s.distributed) {
      if (*s.distributed == "deepspeed" && !s.zero_stage) s.zero_stage = 2;
      if (*s.distributed != "deepspeed" && s.zero_stage && of_role(FileRole::Engine) == nullptr) s.zero_stage.reset();
      return;
    }
    const bool has_fsdp = stated_by_.count("fsdp_version") || stated_by_.count("fsdp_wrap") ||
                          stated_by_.count("fsdp_reshard") || stated_by_.count("fsdp_sharding") ||
                          stated_by_.count("fsdp_offload");
    if (s.fsdp_words) read_fsdp_words(s);
    if (has_fsdp || s.fsdp_words)
      s.distributed = "fsdp";
    else if (of_role(FileRole::Engine))
      s.distributed = "deepspeed";
  }

  void keep_rules() {
    KeptRules kept = gpuplan::keep_rules(out_.setup, broken_ == Broken::Mended, places());
    out_.notes.insert(out_.notes.end(), kept.notes.begin(), kept.notes.end());
    out_.mended = std::move(kept.mended);
    out_.why_mended = std::move(kept.why_mended);
  }

  std::string places() const {
    std::string names;
    for (const ReadFile& file : files_) names += (names.empty() ? "" : ", ") + file.file.name;
    return names;
  }

  void make_request() {
    const ReadFile* trainer = of_role(FileRole::Trainer);
    EstimateRequest& r = out_.request;
    if (trainer) r.recipe.framework = out_.setup.runs_as.value_or(trainer->table->framework);
    // a script of one's own shares its layers among the GPUs of its one process, whosever flags it takes
    if (trainer && trainer->is_guess && out_.setup.distributed == "no" && !has_strategy(*r.recipe.framework, "mp"))
      r.recipe.framework = kUsualFramework;
    if (trainer && !trainer->is_guess && !trainer->carried.empty())
      out_.carried = std::make_shared<const CarriedSettings>(
          CarriedSettings{trainer->table->name, trainer->file.name, trainer->carried});
    if (trainer && trainer->carried.is_object() && !trainer->table->warmup_key.empty())
      if (const auto at = trainer->carried.find(trainer->table->warmup_key);
          at != trainer->carried.end() && at->is_number_integer())
        out_.warmup_steps = at->get<std::int64_t>();
    r.recipe.optimizer = r.recipe.framework->default_optimizer;
    out_.has_trainer = trainer != nullptr;
    out_.has_files = !files_.empty();
    out_.has_method = out_.setup.adapter.has_value();
    if (trainer && out_.setup.adapter.value_or("none") == "none") out_.open_method = trainer->open_method;
    if (trainer) out_.trainer = trainer->table->title;
    if (trainer || out_.has_files) out_.file = (trainer ? *trainer : files_.front()).file.name;
    std::vector<std::string> first;
    for (const ReadFile& file : files_)
      first.push_back(fmt::format("{} is read as {}", file.file.name, file.table->title));
    try {
      apply_setup(out_.setup, r, first);
    } catch (const InputError& error) { throw error.add_context(places()); }
    if (trainer && !r.recipe.objective.method.is_usual())
      for (std::size_t i = 0; i < files_.size(); ++i)
        if (&files_[i] == trainer) first[i] += fmt::format(" that trains with {}", r.recipe.objective.method->name);
    const Setup& s = out_.setup;
    if (s.distributed == "multi" && s.checkpointing == true && s.reentrant == true && r.recipe.is_adapter())
      first.push_back(
          "reentrant checkpointing under DDP with adapters stops with \"marked a variable ready only once\": "
          "use_reentrant: false");
    if (s.resumes == true) first.push_back("a checkpoint is resumed on as many GPUs as wrote it (R17)");
    if (trainer && trainer->table->usual_strategy.empty() && !s.distributed)
      first.push_back(
          fmt::format("{} does not say how it is started, so every strategy is shown; accelerate's file says "
                      "it, and so does --strategy",
                      trainer->file.name));
    out_.notes.insert(out_.notes.begin(), first.begin(), first.end());
    out_.older_defaults = defaults_.note();
    if (!out_.older_defaults.empty()) out_.notes.insert(out_.notes.begin(), out_.older_defaults);
    out_.model = s.model;
    out_.model_config = config_of_sizes(s);
  }

  GivenFiles given_;
  const SaidBeside& beside_;
  StackVersions versions_;
  VersionedDefaults defaults_;  // of what nobody states
  std::string objective_;
  std::vector<FlagFact> flags_;
  std::vector<ReadFile> files_;
  Setup own_facts_;
  std::map<std::string_view, std::string> stated_by_;  // fact: file and key
  bool says_passes_ = false;                           // beside the batch of all ranks
  const Broken broken_;
  ConfigReading out_;
};

}  // namespace

ConfigReading read_configs(const std::vector<ConfigFile>& files, const FindConfig& find, const StackVersions& versions,
                           const std::string& objective, const std::vector<FlagFact>& flags, Broken broken,
                           const SaidBeside& beside) {
  return Reading(files, find, versions, objective, flags, broken, beside).read();
}

}  // namespace gpuplan
