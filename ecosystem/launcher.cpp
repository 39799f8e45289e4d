#include "ecosystem/launcher.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "ecosystem/key_table.h"
#include "ecosystem/launch_rows.h"
#include "ecosystem/slurm_header.h"

namespace gpuplan {
namespace {

using CommandWords = std::vector<ShellWord>;

const std::vector<std::string> kWanted{"CUDA_VISIBLE_DEVICES", "NPROC_PER_NODE", "NNODES"};
constexpr int kMostScripts = 3;  // bash -c "bash -c '...'"

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// "python", "/usr/bin/python3.11", "$(which python)".
std::string program_name(const std::string& word) {
  std::string name = base_name(word);
  if (name.ends_with(")") && word.find("which ") != std::string::npos) {
    name = word.substr(word.find("which ") + 6);
    name = base_name(name.substr(0, name.find_first_of(" )")));
  }
  if (name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string::npos) return "python";
  return name;
}

bool is_flag(const ShellWord& word) {
  const std::string& t = word.text;
  return t.size() > 1 && t[0] == '-' && std::isdigit(static_cast<unsigned char>(t[1])) == 0 && t[1] != '.' &&
         t.find(' ') == std::string::npos;
}

/// An expansion alone whose words are not known: "$@", $EXTRA_ARGS.
bool is_open(const ShellWord& word) { return word.is_bare && word.text.starts_with("$"); }

/// "--per-device-batch=4" as "per_device_batch" and "4".
std::pair<std::string, std::optional<std::string>> flag_parts(const std::string& word) {
  const std::size_t begin = word.find_first_not_of('-'), equals = word.find('=');
  if (begin == std::string::npos) return {"", {}};
  std::string name = word.substr(begin, equals == std::string::npos ? equals : equals - begin);
  std::replace(name.begin(), name.end(), '-', '_');
  if (equals == std::string::npos) return {name, {}};
  return {name, word.substr(equals + 1)};
}

bool is_config_file(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
}

/// How many words of `command` from `at` on are those of a row; python's own switches may stand between. 0: others.
std::size_t matched(const CommandWords& command, std::size_t at, const std::vector<std::string>& words) {
  std::size_t i = at;
  for (const std::string& word : words) {
    if (i > at && words[0] == "python")
      while (i < command.size() && command[i].text != word && command[i].text.starts_with("-") &&
             command[i].text.size() == 2 && command[i].text != "-m")
        ++i;
    if (i >= command.size()) return 0;
    if ((i == at ? program_name(command[i].text) : command[i].text) != word) return 0;
    ++i;
  }
  return i - at;
}

struct Match {
  const CommandRow* row = nullptr;
  std::size_t num_words = 0;
};

/// The row with the longest beginning at `at`.
Match find_words(std::span<const CommandRow> rows, const CommandWords& command, std::size_t at) {
  Match best;
  for (const CommandRow& row : rows)
    for (const auto& words : row.words)
      if (const std::size_t count = matched(command, at, words); count > best.num_words) best = {&row, count};
  return best;
}

/// A command that may start a training.
struct Start {
  const CommandRow* launcher = nullptr;
  const CommandRow* program = nullptr;  // null: a script that no row names
  const CommandRow* other = nullptr;
  std::string script;  // as it is named
  int line = 1;
  bool is_known_by_words = false, under_srun = false;
  std::vector<LaunchFlag> launcher_flags, flags;
  CommandWords loose;  // arguments without a flag before them
  std::vector<std::string> open;
  std::map<std::string, ShellWord> environment;

  std::string what() const {
    const std::string by = launcher && !is_known_by_words ? launcher->name + " " : "";
    return by + (is_known_by_words && program ? program->name : script);
  }
};

class CommandReader {
 public:
  explicit CommandReader(const ShellCommand& command) : words_(command.words) {
    start_.environment = command.environment;
  }

  /// Nothing where the command starts no script or program that a row names.
  std::optional<Start> read() {
    const auto& passive = command_rows().not_starting;
    if (std::find(passive.begin(), passive.end(), words_[0].text) != passive.end()) return {};
    // what a program of one's own starts stands behind "--": submit.py --gpus 8 -- torchrun train.py
    const auto dashes = std::find_if(words_.begin(), words_.end(), [](const ShellWord& w) { return w.text == "--"; });
    if (dashes != words_.end())
      if (auto behind = read_from(std::size_t(dashes - words_.begin()) + 1)) return behind;
    return read_from(0);
  }

 private:
  std::optional<Start> read_from(std::size_t begin) {
    const CommandRows& rows = command_rows();
    for (at_ = begin; at_ < words_.size(); ++at_) {
      start_.line = words_[at_].line;
      start_.under_srun = start_.under_srun || words_[at_].text == "srun";
      if (const Match other = find_words(rows.others, words_, at_); other.row) return start_of_other(*other.row);
      if (const Match program = find_words(rows.programs, words_, at_); program.row) return start_of_program(program);
      if (const Match launcher = find_words(rows.launchers, words_, at_); launcher.row)
        return start_of_script(launcher);
    }
    return {};
  }

  std::optional<Start> start_of_other(const CommandRow& row) {
    start_.other = &row;
    start_.script = words_[at_].text + (at_ + 1 < words_.size() ? " " + words_[at_ + 1].text : "");
    return start_;
  }

  std::optional<Start> start_of_program(const Match& match) {
    start_.program = match.row;
    start_.is_known_by_words = true;
    at_ += match.num_words;
    if (const CommandRow* launcher = find_launcher(match.row->launcher); launcher && launcher->name == "torchrun") {
      start_.launcher = launcher;
      read_launcher_flags(*launcher);
      if (at_ < words_.size()) ++at_;  // the recipe
    }
    read_flags(match.row->takes_pairs);
    return start_;
  }

  std::optional<Start> start_of_script(const Match& match) {
    start_.launcher = match.row;
    at_ += match.num_words;
    bool is_module = read_launcher_flags(*match.row);
    if (at_ >= words_.size()) return {};
    if (program_name(words_[at_].text) == "python" && at_ + 1 < words_.size()) {  // deepspeed's --no_python
      ++at_;
      if (words_[at_].text == "-m") is_module = ++at_ < words_.size();
      if (at_ >= words_.size()) return {};
    }
    const CommandRows& rows = command_rows();
    for (const auto& [group, found] :
         {std::pair{&rows.others, &start_.other}, std::pair{&rows.programs, &start_.program}})
      if (const Match named = find_words(*group, words_, at_); named.row && !*found) {
        *found = named.row;
        at_ += named.num_words - 1;
      }
    start_.script = words_[at_].text;
    start_.line = words_[at_].line;
    if (!start_.other) start_.other = find_script(rows.others, start_.script, is_module);
    if (!start_.program) start_.program = find_script(rows.programs, start_.script, is_module);
    if (start_.program) start_.other = nullptr;
    ++at_;
    read_flags(start_.program && start_.program->takes_pairs);
    return start_;
  }

  /// True where what follows is a module's name.
  bool read_launcher_flags(const CommandRow& row) {
    bool is_module = false;
    while (at_ < words_.size() && (is_flag(words_[at_]) || is_open(words_[at_]))) {
      const ShellWord& word = words_[at_++];
      if (is_open(word)) {
        start_.open.push_back(word.text);
        continue;
      }
      auto [name, value] = flag_parts(word.text);
      is_module = is_module || row.names_module(name);
      LaunchFlag flag{.name = name, .values = {}, .line = word.line};
      if (value)
        flag.values.push_back({*value, word.unknown, word.line, false});
      else if (!row.has_switch(name) && !row.names_module(name) && at_ < words_.size())
        flag.values.push_back(words_[at_++]);
      start_.launcher_flags.push_back(std::move(flag));
    }
    return is_module;
  }

  void read_flags(bool takes_pairs) {
    bool may_take = false;  // the last flag may have a further value
    for (; at_ < words_.size(); ++at_) {
      const ShellWord& word = words_[at_];
      const bool is_value = may_take && start_.flags.back().values.empty();
      if (word.text == "--") {
        may_take = false;
      } else if (is_open(word) && !is_value) {
        start_.open.push_back(word.text);
      } else if (is_flag(word)) {
        auto [name, value] = flag_parts(word.text);
        start_.flags.push_back({.name = name, .values = {}, .line = word.line});
        if (value) start_.flags.back().values.push_back({*value, word.unknown, word.line, false});
        may_take = !value;
      } else if (const std::size_t equals = word.text.find('=');
                 takes_pairs && !is_value && equals != std::string::npos && equals > 0) {
        start_.flags.push_back({.name = word.text.substr(0, equals),
                                .values = {{word.text.substr(equals + 1), word.unknown, word.line, false}},
                                .line = word.line});
        may_take = false;
      } else if (may_take) {
        start_.flags.back().values.push_back(word);
      } else {
        start_.loose.push_back(word);
      }
    }
  }

  const CommandWords& words_;
  std::size_t at_ = 0;
  Start start_;
};

/// The commands; those that a program of one's own gets in one line, `submit -- a "&&" b`, are apart.
std::vector<ShellCommand> split_commands(const ShellText& text) {
  std::vector<ShellCommand> commands;
  for (const ShellCommand& whole : text.commands) {
    ShellCommand part{.words = {}, .environment = whole.environment};
    for (const ShellWord& word : whole.words) {
      if (word.text != "&&" && word.text != "||" && word.text != ";") {
        part.words.push_back(word);
      } else if (!part.words.empty()) {
        commands.push_back(part);
        part.words.clear();
      }
    }
    if (!part.words.empty()) commands.push_back(std::move(part));
  }
  return commands;
}

/// All commands that may start something, those of texts behind `bash -c` and `eval` too.
void add_starts(const ShellText& text, const ConfigFile& script, const std::map<std::string, std::string>& known,
                int depth, std::vector<Start>& starts) {
  for (const ShellCommand& command : split_commands(text)) {
    const std::string first = program_name(command.words[0].text);
    const bool is_shell =
        (first == "bash" || first == "sh") && command.words.size() > 2 && command.words[1].text == "-c";
    const std::size_t inner = is_shell ? 2 : first == "eval" && command.words.size() > 1 ? 1 : 0;
    if (inner > 0 && depth < kMostScripts) {
      std::string joined;
      for (std::size_t i = inner; i < (is_shell ? inner + 1 : command.words.size()); ++i)
        joined += command.words[i].text + " ";
      add_starts(read_shell(joined, script.name, known, kWanted), script, known, depth + 1, starts);
      continue;
    }
    if (auto start = CommandReader(command).read()) {
      if (depth > 0)
        for (const auto& [name, value] : command.environment) start->environment.try_emplace(name, value);
      starts.push_back(std::move(*start));
    }
  }
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
  if (start.launcher->name == "python") return false;
  const auto is_file = [](const ShellWord& word) { return is_config_file(word.text); };
  return std::any_of(start.loose.begin(), start.loose.end(), is_file) ||
         std::any_of(start.flags.begin(), start.flags.end(), [&](const LaunchFlag& flag) {
           return flag.name == "config" && flag.values.size() == 1 &&
                  (is_file(flag.values[0]) || !flag.values[0].unknown.empty());
         });
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
    if (!start.other && start.launcher && start.script.ends_with(".py") &&
        (start.launcher->name != "python" || start.script.find("train") != std::string::npos ||
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
        "only supervised fine-tuning is planned");
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

/// The flags of a launcher with a key table of its own.
LaunchPart table_part(const CommandRow& row, const std::vector<LaunchFlag>& flags) {
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
  return part;
}

/// How many devices "0,1,2,3" shows; nothing for others.
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
    part_.flags.push_back({.name = "environment." + name, .values = {found->second}, .line = start_.line});
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

/// The trainer's flags, and those of them that are the launcher's.
class TrainerPart {
 public:
  TrainerPart(Start& start, const ConfigFile& script) : start_(start), script_(script) {}

  LaunchPart read() {
    const CommandRow* program = start_.program;
    part_.table = program ? program->table : "";
    const std::vector<std::string> config =
        program && !program->config.empty() ? program->config : std::vector<std::string>{"config"};
    const CommandRow* launcher = program ? find_launcher(program->launcher) : nullptr;
    const KeyTable* own = part_.table.empty() ? nullptr : find_key_table(part_.table);
    for (LaunchFlag& flag : start_.flags) {
      const bool names_config = std::find(config.begin(), config.end(), flag.name) != config.end();
      if (names_config && flag.values.size() == 1)
        set_config(flag.values[0]);
      else if (program && launcher && own && !own->find(flag.name) && belongs_to(*launcher, *program, flag))
        continue;
      else
        part_.flags.push_back(std::move(flag));
    }
    for (const ShellWord& word : start_.loose)
      if (part_.config.empty() && (is_config_file(word.text) || (program && program->name == "axolotl train")))
        set_config(word);
    return std::move(part_);
  }

 private:
  void set_config(const ShellWord& word) {
    part_.config = word.text;
    part_.config_line = word.line;
    if (!word.unknown.empty() && base_name(word.text).find('$') != std::string::npos)
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

}  // namespace

bool is_launch_script(const ConfigFile& file) {
  if (ends_with_any(to_lower(file.name), {".sh", ".bash", ".slurm", ".sbatch", ".sub"})) return true;
  if (ends_with_any(to_lower(file.name), {".yaml", ".yml", ".json", ".py", ".ipynb"})) return false;
  const std::string first = file.text.substr(0, file.text.find('\n'));
  if (first.starts_with("#!"))
    return first.find("sh") != std::string::npos && first.find("python") == std::string::npos;
  if (file.text.size() > kTrainerLimit.bytes) return false;
  const std::size_t begin = file.text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || file.text[begin] == '{') return false;
  for (std::size_t at = 0; at < file.text.size();) {
    const std::size_t end = std::min(file.text.find('\n', at), file.text.size());
    const std::string line = file.text.substr(at, end - at);
    for (const char* start : {"accelerate launch ", "torchrun ", "deepspeed --", "swift sft", "llamafactory-cli train ",
                              "axolotl train ", "trl sft ", "tune run ", "python -m "})
      if (line.find(start) < 120 && line.find(": ") == std::string::npos) return true;
    at = end + 1;
  }
  return false;
}

Launch read_launch(const ConfigFile& script) {
  require_size(script.text.size(), script.name, kTrainerLimit);
  const SlurmHeader slurm = read_slurm_header(script.text);
  const auto known = slurm.variables();
  ShellText text = read_shell(script.text, script.name, known, kWanted);
  std::vector<Start> starts;
  add_starts(text, script, known, 0, starts);
  Launch launch;
  Start start = choose(starts, script, launch.notes);
  const bool is_training = start.program || looks_like_training(start);
  launch.parts.push_back(TrainerPart(start, script).read());
  if (start.launcher && start.launcher->table != "launch")
    launch.parts.push_back(table_part(*start.launcher, start.launcher_flags));
  if (LaunchPart surroundings = ProcessCount(start, slurm).part(); !surroundings.flags.empty())
    launch.parts.push_back(std::move(surroundings));
  launch.written = std::move(text.written);
  launch.notes.insert(launch.notes.begin(), fmt::format("{}:{}: starts {}", script.name, start.line, start.what()));
  launch.script = start.program ? "" : start.script;
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
