#include "ecosystem/launcher.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/input_limits.h"
#include "base/names.h"
#include "ecosystem/key_table.h"
#include "ecosystem/launch_start.h"
#include "ecosystem/methods.h"
#include "ecosystem/slurm_header.h"

namespace gpuplan {
namespace {

using Start = LaunchStart;

bool is_config_file(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json") || word.ends_with(".toml");
}

/// Says whether a script gets a file of settings.
bool names_settings(const Start& start) {
  const auto is_file = [](const ShellWord& word) { return is_config_file(word.text); };
  return std::any_of(start.loose.begin(), start.loose.end(), is_file) ||
         std::any_of(start.flags.begin(), start.flags.end(), [&](const LaunchFlag& flag) {
           return flag.name == "config" && flag.values.size() == 1 &&
                  (is_file(flag.values[0]) || !flag.values[0].unknown.empty());
         });
}

/// Says whether the flags of an unknown script are those of a trainer: they set batch, length or epochs, or it takes a
/// configuration file behind a launcher.
bool looks_like_training(const Start& start) {
  if (start.other || start.program) return false;
  const std::initializer_list<std::string_view> facts{"micro_batch", "grad_accum", "seq_len", "epochs", "rank"};
  for (const KeyTable& table : key_tables()) {
    if (table.role != FileRole::Trainer) continue;
    int num_used = 0;
    bool sets_batch = false;
    for (const LaunchFlag& flag : start.flags)
      if (const KeyRow* row = table.find(flag.name); row && row->field) {
        ++num_used;
        sets_batch = sets_batch || std::find(facts.begin(), facts.end(), row->field->name) != facts.end();
      }
    if (num_used >= 2 && sets_batch) return true;
  }
  return start.launcher->name != "python" && names_settings(start);
}

std::string known_launchers() {
  std::string names;
  for (const auto* group : {&command_rows().launchers, &command_rows().programs})
    for (const CommandRow& row : *group)
      if (!row.words.empty()) names += (names.empty() ? "" : ", ") + row.name;
  return names;
}

/// The first training that can be planned; else the reason of the first that cannot.
const Start& choose(const std::vector<Start>& starts, const ConfigFile& script, std::vector<std::string>& notes) {
  const Start* chosen = nullptr;
  for (const Start& start : starts) {
    if (!start.program && !looks_like_training(start)) continue;
    if (!chosen)
      chosen = &start;
    else
      notes.push_back(fmt::format("{}:{}: a further start, {}, is not counted", script.name, start.line, start.what()));
  }
  if (chosen) return *chosen;
  for (const Start& start : starts)
    if (!start.other && start.launcher && (start.script.ends_with(".py") || start.is_module) &&
        (start.launcher->name != "python" || names_settings(start) || start.script.find("train") != std::string::npos ||
         start.script.find("tun") != std::string::npos || start.script.find("sft") != std::string::npos))
      return start;
  const Start* refused = nullptr;
  for (const Start& start : starts)
    if (start.other &&
        (!refused || (refused->other->why == "nothing is trained" && start.other->why != refused->other->why)))
      refused = &start;
  if (refused)
    throw InputError(
        fmt::format("{}:{}", script.name, refused->line),
        fmt::format("{} is {}, which is not planned: {}", refused->script, refused->other->name, refused->other->why),
        std::string(kPlannedMethods));
  std::string found;
  for (const Start& start : starts) found += (found.empty() ? "" : ", ") + start.what();
  throw InputError(script.name,
                   found.empty() ? "starts no training that gpuplan knows"
                                 : fmt::format("starts no training that gpuplan knows ({})", found.substr(0, 200)),
                   fmt::format("known are {}, and scripts with flags of TRL, transformers, axolotl or LLaMA-Factory",
                               known_launchers()));
}

// --- what the command says to launcher and trainer ---

const LaunchFlag* find_flag(const std::vector<LaunchFlag>& flags, const std::string& name) {
  const auto found = std::find_if(flags.begin(), flags.end(), [&](const LaunchFlag& f) { return f.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

LaunchFlag flag_of(const std::string& name, const std::string& value, int line) {
  return {.name = name, .values = {{value, {}, line, false}}, .line = line};
}

/// The flag that accelerate's file spells "fsdp_config.fsdp_version".
std::string key_in(const KeyTable& table, const std::string& flag) {
  if (table.find(flag)) return flag;
  for (const char* section : {"fsdp_config", "deepspeed_config", "parallelism_config", "dynamo_config", "fp8_config",
                              "megatron_lm_config", "mpirun_config"})
    if (const std::string key = fmt::format("{}.{}", section, flag); table.find(key)) return key;
  return flag;
}

/// Takes out the flags of an engine that no flag and no file switches on.
void drop_unswitched(const CommandRow& row, const std::vector<LaunchFlag>& flags, LaunchPart& part,
                     std::vector<std::string>& notes) {
  if (!part.config.empty()) return;
  for (const auto& words : row.switched) {
    if (find_flag(flags, words[0])) continue;
    const auto is_of = [&](const LaunchFlag& flag) { return flag.name.starts_with(words[1] + "."); };
    for (const LaunchFlag& flag : part.flags)
      if (is_of(flag))
        notes.push_back(fmt::format("{} is not counted: {} reads it with --{} alone",
                                    flag.name.substr(words[1].size() + 1), row.name, words[0]));
    std::erase_if(part.flags, is_of);
  }
}

/// The flags of a launcher with a key table of its own.
LaunchPart table_part(const CommandRow& row, const std::vector<LaunchFlag>& flags, std::vector<std::string>& notes) {
  LaunchPart part{.table = row.table, .config = {}, .flags = {}};
  const KeyTable& table = *find_key_table(row.table);
  for (const LaunchFlag& flag : flags) {
    const auto means =
        std::find_if(row.means.begin(), row.means.end(), [&](const auto& m) { return m[0] == flag.name; });
    const bool is_config = std::find(row.config.begin(), row.config.end(), flag.name) != row.config.end();
    if (is_config && !flag.values.empty()) {
      part.config = flag.values[0].text;
      part.config_line = flag.line;
    } else if (means != row.means.end()) {
      part.flags.push_back(flag_of((*means)[1], (*means)[2], flag.line));
    } else if (!row.has_switch(flag.name) && !row.names_module(flag.name)) {
      LaunchFlag known = flag;
      known.name = key_in(table, flag.name);
      if (table.find(known.name)) part.flags.push_back(std::move(known));
    }
  }
  drop_unswitched(row, flags, part, notes);
  return part;
}

/// Counts the devices that "0,1,2,3" shows; nothing for other texts.
std::optional<std::int64_t> num_visible(const ShellWord& word) {
  if (!word.unknown.empty() || word.text.empty() || word.text == "-1") return {};
  std::int64_t count = 0;
  for (const std::string& part : split(word.text, ',')) count += trim(part).empty() ? 0 : 1;
  return count > 0 ? std::optional(count) : std::nullopt;
}

/// "localhost:0,1,2,3": slots that deepspeed's --include names on one machine.
std::optional<std::int64_t> num_included(const LaunchFlag* include) {
  if (!include || include->values.empty()) return {};
  const std::string& text = include->values[0].text;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || text.find('@') != std::string::npos) return {};
  return num_visible({text.substr(colon + 1), {}, 1, false});
}

/// Facts about the processes, the most telling source of each first.
class ProcessCount {
 public:
  ProcessCount(const Start& start, const SlurmHeader& slurm) : start_(start), slurm_(slurm) {}

  LaunchPart part() {
    const bool has_table = start_.launcher && start_.launcher->table != "launch";
    const bool by_environment =
        start_.program && (start_.program->starts == "environment" || start_.program->starts == "all");
    const bool is_single = !start_.launcher || start_.launcher->name == "python";
    if (start_.launcher && !has_table)
      for (const LaunchFlag& flag : start_.launcher_flags) add_launcher_flag(flag);
    if (start_.launcher && start_.launcher->name == "torchrun") add("torchrun.nproc_per_node", 1);  // its default
    if (by_environment && is_single) {
      add_variable("NPROC_PER_NODE");
      add_variable("NNODES");
    }
    const bool has_tasks = is_single && !by_environment && start_.under_srun && slurm_.tasks_per_node.value_or(1) > 1;
    if (has_tasks) add("torchrun.nproc_per_node", *slurm_.tasks_per_node);
    if (slurm_.num_nodes && !has_table && (has_tasks || !is_single)) add("slurm.nodes", *slurm_.num_nodes);
    add_visible();
    add_starts(has_tasks, is_single);
    return std::move(part_);
  }

 private:
  void add(const std::string& key, std::int64_t number) {
    const KeyRow* row = find_key_table("launch")->find(key);
    for (const LaunchFlag& other : part_.flags)
      if (const KeyRow* same = find_key_table("launch")->find(other.name); same && same->field == row->field) return;
    part_.flags.push_back(flag_of(key, std::to_string(number), start_.line));
  }

  void add_launcher_flag(const LaunchFlag& flag) {
    if (flag.name == "include") {
      if (const auto slots = num_included(&flag)) add("deepspeed.num_gpus", *slots);
      return;
    }
    LaunchFlag named = flag;
    named.name = start_.launcher->section + "." + flag.name;
    if (flag.name == "nnodes" && !named.values.empty()) {  // "1:4": from one to four
      std::string& text = named.values[0].text;
      text = text.substr(text.find(':') + 1);
    }
    part_.flags.push_back(std::move(named));
  }

  void add_variable(const std::string& name) {
    const auto found = start_.environment.find(name);
    if (found == start_.environment.end()) return;
    const ShellWord& word = found->second;
    if (word.text.empty()) return;  // NNODES=${NNODES:-}
    const bool stands = word.begin < word.end && word.begin > name.size();
    part_.flags.push_back({.name = kEnvironment + name,
                           .values = {word},
                           .line = start_.line,
                           .begin = stands ? word.begin - name.size() - 1 : 0,
                           .end = stands ? word.end : 0});
  }

  void add_visible() {
    const auto shown = start_.environment.find("CUDA_VISIBLE_DEVICES");
    auto count = shown == start_.environment.end() ? std::nullopt : num_visible(shown->second);
    if (!count) count = slurm_.gpus_per_node;
    if (count) add("visible_gpus", *count * slurm_.num_nodes.value_or(1));
  }

  bool has(const std::string& key) const { return find_flag(part_.flags, key) != nullptr; }

  void add_starts(bool has_tasks, bool is_single) {
    std::string starts;
    const bool says_engine =
        start_.launcher &&
        (find_flag(start_.launcher_flags, "config_file") || find_flag(start_.launcher_flags, "use_fsdp") ||
         find_flag(start_.launcher_flags, "use_deepspeed") || find_flag(start_.launcher_flags, "multi_gpu"));
    if (has_tasks)
      starts = "multi";
    else if (!is_single)
      starts = says_engine ? "" : start_.launcher->engine;
    else if (start_.program && start_.program->starts == "environment")
      starts = has("environment.NPROC_PER_NODE") || has("environment.NNODES") ? "multi" : "no";
    else if (!start_.program || start_.program->starts.empty() || start_.program->starts == "one")
      starts = start_.launcher ? start_.launcher->engine : "";
    if (!starts.empty()) part_.flags.push_back(flag_of("starts", starts, start_.line));
  }

  const Start& start_;
  const SlurmHeader& slurm_;
  LaunchPart part_{.table = "launch", .config = {}, .flags = {}};
};

/// Adds the flags of a server of answers that a script starts beside the training.
void add_servers(const std::vector<Start>& starts, LaunchPart& part, std::vector<std::string>& notes,
                 const std::string& script) {
  for (const Start& start : starts) {
    if (!start.other || start.other->section.empty()) continue;
    for (const auto& [key, value] : start.other->says)
      if (!find_flag(start.flags, key))
        part.flags.push_back(flag_of(fmt::format("{}.{}", start.other->section, key), value, start.line));
    for (LaunchFlag flag : start.flags) {
      flag.name = fmt::format("{}.{}", start.other->section, flag.name);
      part.flags.push_back(std::move(flag));
    }
    notes.push_back(fmt::format("{}:{}: {} says where answers are written", script, start.line, start.script));
    return;
  }
}

/// The trainer's flags, and those of them that are the launcher's.
class TrainerPart {
 public:
  TrainerPart(Start& start, const ConfigFile& script) : start_(start), script_(script) {}

  LaunchPart read() {
    const CommandRow* program = start_.program;
    part_.table = program ? program->table : "";
    part_.is_program = program && start_.is_known_by_words;
    part_.may_be_own = program && !start_.is_known_by_words && is_known_by_bare_name(*program, start_.script);
    const std::vector<std::string> config =
        program && !program->config.empty() ? program->config : std::vector<std::string>{"config"};
    const CommandRow* launcher = program ? find_launcher(program->launcher) : nullptr;
    const KeyTable* own = part_.table.empty() ? nullptr : find_key_table(part_.table);
    for (LaunchFlag& flag : start_.flags) {
      const bool names_config = std::find(config.begin(), config.end(), flag.name) != config.end();
      if (names_config && flag.values.size() == 1 && !(program && is_own_config(*program, flag.values[0].text)))
        set_config(program && !program->config_folder.empty() ? in_folder(*program, flag.values[0]) : flag.values[0]);
      else if (program && launcher && own && !own->find(flag.name) && belongs_to(*launcher, *program, flag))
        continue;
      else
        part_.flags.push_back(std::move(flag));
    }
    if (program)
      for (const auto& [key, value] : program->says)
        if (!find_flag(part_.flags, key)) part_.flags.push_back(flag_of(key, value, start_.line));
    for (const ShellWord& word : start_.loose)
      if (part_.config.empty() && (is_config_file(word.text) || (program && program->name == "axolotl train")))
        set_config(word);
    return std::move(part_);
  }

 private:
  /// Hydra's name of a configuration that the program itself brings along, whose values are those of the table.
  static bool is_own_config(const CommandRow& program, const std::string& name) {
    const auto& own = program.own_configs;
    return std::find(own.begin(), own.end(), name.substr(0, name.rfind(".yaml"))) != own.end();
  }

  /// Hydra names a file without its ending, below the folder of another flag.
  ShellWord in_folder(const CommandRow& program, ShellWord name) const {
    if (name.text.empty() || !name.unknown.empty()) return name;
    if (!is_config_file(name.text)) name.text += ".yaml";
    for (const std::string& folder : program.config_folder) {
      const LaunchFlag* flag = find_flag(part_.flags, folder);
      if (!flag) flag = find_flag(start_.flags, folder);
      if (flag && flag->values.size() == 1) name.text = flag->values[0].text + "/" + name.text;
    }
    return name;
  }

  void set_config(const ShellWord& word) {
    part_.config = word.text;
    part_.config_line = word.line;
    if (!word.unknown.empty() && word.text.substr(word.text.rfind('/') + 1).find('$') != std::string::npos)
      throw InputError(fmt::format("{}:{}", script_.name, word.line),
                       fmt::format("the configuration file {} depends on {}", word.text, fmt::join(word.unknown, ", ")),
                       "give the file itself: --from FILE");
  }

  /// trl sft and axolotl train take accelerate's flags too.
  bool belongs_to(const CommandRow& launcher, const CommandRow& program, LaunchFlag& flag) {
    const bool names_engine =
        std::find(program.engine_config.begin(), program.engine_config.end(), flag.name) != program.engine_config.end();
    const KeyTable* table = find_key_table(launcher.table);
    const bool is_known = launcher.has_switch(flag.name) || (table && table->find(key_in(*table, flag.name)));
    if ((!names_engine && !is_known) || !start_.is_known_by_words) return false;
    if (names_engine) flag.name = launcher.config.front();
    start_.launcher = &launcher;
    start_.launcher_flags.push_back(std::move(flag));
    return true;
  }

  Start& start_;
  const ConfigFile& script_;
  LaunchPart part_;
};

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

/// Says whether a line of text has the words with which a launcher or a trainer starts; behind a single word stands a
/// flag or a script.
bool starts_training(const std::string& line) {
  constexpr std::size_t kNearBegin = 120;
  for (const auto* rows : {&command_rows().launchers, &command_rows().programs})
    for (const CommandRow& row : *rows)
      for (const std::vector<std::string>& words : row.words) {
        const bool is_shown =
            words.size() > 1 || line.find(" -") != std::string::npos || line.find(".py") < line.size();
        if (is_shown && line.find(fmt::format("{} ", fmt::join(words, " "))) < kNearBegin) return true;
      }
  return false;
}

}  // namespace

bool is_launch_script(const ConfigFile& file) {
  if (ends_with_any(to_lower(file.name), {".sh", ".bash", ".slurm", ".sbatch", ".sub"})) return true;
  if (ends_with_any(to_lower(file.name), {".yaml", ".yml", ".json", ".toml", ".py", ".ipynb"})) return false;
  const std::string first = file.text.substr(0, file.text.find('\n'));
  if (first.starts_with("#!"))
    return first.find("sh") != std::string::npos && first.find("python") == std::string::npos;
  if (file.text.size() > kScriptLimit.bytes) return false;
  const std::size_t begin = file.text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || file.text[begin] == '{') return false;
  for (std::size_t at = 0; at < file.text.size();) {
    const std::size_t end = std::min(file.text.find('\n', at), file.text.size());
    const std::string line = file.text.substr(at, end - at);
    if (line.find(": ") == std::string::npos && starts_training(line)) return true;
    at = end + 1;
  }
  return false;
}

Launch read_launch(const ConfigFile& script) {
  require_size(script.text.size(), script.name, kScriptLimit);
  const SlurmHeader slurm = read_slurm_header(script.text);
  Launch launch;
  const std::vector<Start> starts = find_starts(script, slurm.variables(), launch.written);
  Start start = choose(starts, script, launch.notes);
  const bool is_training = start.program || looks_like_training(start);
  launch.parts.push_back(TrainerPart(start, script).read());
  if (start.launcher && start.launcher->table != "launch")
    launch.parts.push_back(table_part(*start.launcher, start.launcher_flags, launch.notes));
  LaunchPart surroundings = ProcessCount(start, slurm).part();
  add_servers(starts, surroundings, launch.notes, script.name);
  if (!surroundings.flags.empty()) launch.parts.push_back(std::move(surroundings));
  launch.notes.insert(launch.notes.begin(), fmt::format("{}:{}: starts {}", script.name, start.line, start.what()));
  launch.folder = start.folder;
  launch.script = start.program && !launch.parts.front().may_be_own ? "" : start.script;
  launch.is_module = start.is_module;
  launch.environment = start.environment;
  launch.needs_source = !start.program && !is_training;
  if (!start.open.empty())
    launch.notes.push_back(
        fmt::format("{}: what {} adds is not known and not counted", script.name, fmt::join(start.open, ", ")));
  if (!slurm.gpu_type.empty())
    launch.notes.push_back(
        fmt::format("{}: asks Slurm for GPUs of type {}; --gpus says what is counted", script.name, slurm.gpu_type));
  return launch;
}

}  // namespace gpuplan
