#include "ecosystem/launch_start.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "ecosystem/script_folder.h"
#include "ecosystem/shell_variables.h"

namespace gpuplan {
namespace {

using CommandWords = std::vector<ShellWord>;

const std::vector<std::string> kWanted{"CUDA_VISIBLE_DEVICES", "NPROC_PER_NODE", "NNODES"};
constexpr std::size_t kMostStarts = 512, kMostFlags = 1024;
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

/// Counts the words of `command` from `at` on that are those of a row; python's own switches may stand between.
/// `first` is the program's name at `at`.
std::size_t matched(const CommandWords& command, std::size_t at, const std::string& first,
                    const std::vector<std::string>& words) {
  std::size_t i = at;
  for (const std::string& word : words) {
    if (i > at && words[0] == "python")
      while (i < command.size() && command[i].text != word && command[i].text.starts_with("-") &&
             command[i].text.size() == 2 && command[i].text != "-m")
        ++i;
    if (i >= command.size()) return 0;
    if ((i == at ? first : command[i].text) != word) return 0;
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
  const std::string first = program_name(command[at].text);
  for (const CommandRow& row : rows)
    for (const auto& words : row.words)
      if (const std::size_t count = matched(command, at, first, words); count > best.num_words) best = {&row, count};
  return best;
}

class CommandReader {
 public:
  explicit CommandReader(const ShellCommand& command) : words_(command.words) {
    start_.environment = command.environment;
  }

  /// Nothing where the command starts no script or program that a row names.
  std::optional<LaunchStart> read() {
    const auto& passive = command_rows().not_starting;
    if (std::find(passive.begin(), passive.end(), words_[0].text) != passive.end()) return {};
    // what a program of one's own starts stands behind "--": submit.py --gpus 8 -- torchrun train.py
    const auto dashes = std::find_if(words_.begin(), words_.end(), [](const ShellWord& w) { return w.text == "--"; });
    if (dashes != words_.end())
      if (auto behind = read_from(std::size_t(dashes - words_.begin()) + 1)) return behind;
    return read_from(0);
  }

 private:
  /// A program that is not known and starts a module that a row names: "${LAUNCH[@]}" -m verl.trainer.main_ppo.
  bool starts_module(std::size_t at) const {
    if (words_[at].unknown.empty() || at + 2 >= words_.size() || words_[at + 1].text != "-m") return false;
    const CommandRows& rows = command_rows();
    const std::string& module = words_[at + 2].text;
    return find_script(rows.programs, module, true) || find_script(rows.others, module, true);
  }

  std::optional<LaunchStart> read_from(std::size_t begin) {
    const CommandRows& rows = command_rows();
    for (at_ = begin; at_ < words_.size(); ++at_) {
      start_.line = words_[at_].line;
      start_.under_srun = start_.under_srun || words_[at_].text == "srun";
      if (const Match other = find_words(rows.others, words_, at_); other.row) return start_of_other(other);
      if (const Match program = find_words(rows.programs, words_, at_); program.row) return start_of_program(program);
      if (const Match launcher = find_words(rows.launchers, words_, at_); launcher.row)
        return start_of_script(launcher);
      if (starts_module(at_)) return start_of_script({find_launcher("python"), 1});
    }
    return {};
  }

  std::optional<LaunchStart> start_of_other(const Match& match) {
    start_.other = match.row;
    start_.script = words_[at_].text + (at_ + 1 < words_.size() ? " " + words_[at_ + 1].text : "");
    at_ += match.num_words;
    if (!match.row->section.empty()) read_flags(false);
    return start_;
  }

  std::optional<LaunchStart> start_of_program(const Match& match) {
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

  std::optional<LaunchStart> start_of_script(const Match& match) {
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
    start_.is_module = is_module;
    start_.line = words_[at_].line;
    if (!start_.other) start_.other = find_script(rows.others, start_.script, is_module);
    if (!start_.program) {
      start_.program = find_script(rows.programs, start_.script, is_module);
      // a path says more than the bare name of a script
      if (start_.program && start_.other && is_known_by_bare_name(*start_.program, start_.script) &&
          !is_known_by_bare_name(*start_.other, start_.script))
        start_.program = nullptr;
    }
    if (start_.program) start_.other = nullptr;
    ++at_;
    read_flags(start_.program && start_.program->takes_pairs);
    return start_;
  }

  /// The value behind the '=' of a word.
  static ShellWord value_in(const ShellWord& word, const std::string& value) {
    ShellWord out{value, word.unknown, word.line, false};
    if (word.begin == word.end) return out;
    out.begin = word.begin + word.text.find('=') + 1;
    out.end = word.end;
    return out;
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
      LaunchFlag flag{.name = name, .values = {}, .line = word.line, .begin = word.begin, .end = word.end};
      if (value)
        flag.values.push_back(value_in(word, *value));
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
        start_.flags.push_back({.name = name, .values = {}, .line = word.line, .begin = word.begin, .end = word.end});
        if (value) start_.flags.back().values.push_back(value_in(word, *value));
        may_take = !value;
      } else if (const std::size_t equals = word.text.find('=');
                 takes_pairs && !is_value && equals != std::string::npos && equals > 0) {
        const std::size_t begin = std::min(word.text.find_first_not_of('+'), equals);  // Hydra adds such keys
        start_.flags.push_back({.name = word.text.substr(begin, equals - begin),
                                .values = {value_in(word, word.text.substr(equals + 1))},
                                .line = word.line,
                                .begin = word.begin,
                                .end = word.end});
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
  LaunchStart start_;
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

/// Says where the text of a shell stands, of `bash -c "…"` or `srun --nodes 2 bash -lc "…"`. 0: the command has none.
std::size_t text_of_shell(const CommandWords& words) {
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    const std::string program = program_name(words[i].text);
    const std::string& option = words[i + 1].text;
    if ((program == "bash" || program == "sh") && (option == "-c" || option == "-lc" || option == "-xc")) return i + 2;
  }
  return 0;
}

/// The words of a text inside the script stand elsewhere in it.
void forget_places(LaunchStart& start) {
  for (std::vector<LaunchFlag>* flags : {&start.flags, &start.launcher_flags})
    for (LaunchFlag& flag : *flags) {
      flag.begin = flag.end = 0;
      for (ShellWord& value : flag.values) value.begin = value.end = 0;
    }
  for (auto& [name, value] : start.environment) value.begin = value.end = 0;
}

/// Places and names of a text inside the script: its lines count from the command's, and what the command itself does
/// not know is named as it is there.
void put_outside(LaunchStart& start, const ShellCommand& command) {
  std::vector<std::string> outside;
  for (const ShellWord& word : command.words) add_names(outside, word.unknown);
  const int above = command.words[0].line - 1;
  const auto put = [&](ShellWord& word) {
    word.line += above;
    std::vector<std::string> both;
    for (const std::string& name : word.unknown)
      if (std::ranges::find(outside, name) != outside.end()) both.push_back(name);
    if (!outside.empty() && !word.unknown.empty()) word.unknown = both.empty() ? outside : both;
  };
  start.line += above;
  for (std::vector<LaunchFlag>* flags : {&start.flags, &start.launcher_flags})
    for (LaunchFlag& flag : *flags) {
      flag.line += above;
      std::ranges::for_each(flag.values, put);
    }
}

/// All commands that may start something, those of texts behind `bash -c` and `eval` too.
void add_starts(const ShellText& text, const ConfigFile& script, const std::map<std::string, std::string>& known,
                int depth, ScriptFolder folder, std::vector<LaunchStart>& starts) {
  for (const ShellCommand& command : split_commands(text)) {
    folder.take(command);
    const std::string first = program_name(command.words[0].text);
    const std::size_t shell_text = text_of_shell(command.words);
    const bool is_shell = shell_text > 0;
    const std::size_t inner = is_shell ? shell_text : first == "eval" && command.words.size() > 1 ? 1 : 0;
    if (inner > 0 && depth < kMostScripts) {
      std::string joined;
      for (std::size_t i = inner; i < (is_shell ? inner + 1 : command.words.size()); ++i)
        joined += command.words[i].text + " ";
      const std::size_t before = starts.size();
      try {
        add_starts(read_shell(joined, script.name, known, kWanted), script, known, depth + 1, folder, starts);
      } catch (const InputError&) { continue; }  // a text that is put together in the run
      for (std::size_t i = before; i < starts.size(); ++i) {
        forget_places(starts[i]);
        put_outside(starts[i], command);
        starts[i].under_srun = starts[i].under_srun || first == "srun";
        for (const auto& [name, value] : command.environment) starts[i].environment.try_emplace(name, value);
      }
      continue;
    }
    if (auto start = CommandReader(command).read()) {
      if (starts.size() >= kMostStarts || start->flags.size() > kMostFlags)
        throw InputError(fmt::format("{}:{}", script.name, start->line), "has too many commands or flags",
                         "leave the one command that trains");
      if (depth > 0)
        for (const auto& [name, value] : command.environment) start->environment.try_emplace(name, value);
      start->folder = folder.text();
      starts.push_back(std::move(*start));
    }
  }
}

}  // namespace

std::vector<LaunchStart> find_starts(const ConfigFile& script, const std::map<std::string, std::string>& known,
                                     std::map<std::string, std::string>& written) {
  std::vector<LaunchStart> starts;
  ShellText text = read_shell(script.text, script.name, known, kWanted);
  add_starts(text, script, known, 0, ScriptFolder(script.name), starts);
  written = std::move(text.written);
  return starts;
}

}  // namespace gpuplan
