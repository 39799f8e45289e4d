#include "ecosystem/python_launch.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"
#include "ecosystem/key_table.h"
#include "ecosystem/launch_rows.h"
#include "ecosystem/notebook.h"
#include "ecosystem/python_data.h"
#include "ecosystem/python_source.h"

namespace gpuplan {
namespace {

using nlohmann::json;
using Pairs = std::vector<std::pair<std::string, std::string>>;

struct CallRow {
  std::string call;
  std::vector<std::string> positional;
  Pairs keys, sets, defaults;
  std::vector<std::string> tables;  // whose scripts read it; empty: all
  std::vector<std::string> unset;   // arguments of which None, or an option that is None by default, says nothing
  bool passes_all = false, is_first = false, is_of_loop = false;
};

struct RefusedCalls {
  std::vector<std::string> calls;
  std::string name, why;
};

/// A dict that the source writes to a trainer's file, or hands to it: its keys tell whose it is.
struct DictRow {
  std::vector<std::string> calls, has;
  std::string table;
};

/// A training loop of the script's own: known by its calls, below the last of which nothing is trained.
struct LoopRow {
  std::vector<std::string> calls, needs, no_defaults;
  std::string table, note;
};

struct CallRows {
  Pairs trainers;  // call, table
  std::vector<LoopRow> loops;
  std::vector<DictRow> dicts;
  std::vector<CallRow> calls;
  std::vector<RefusedCalls> refused;
  std::vector<std::string> assumed, loads, makes_dicts, usual, settings, parsers, counts_gpus, names;
  std::map<std::string, bool> answers;
  DataCalls data;
};

Pairs pairs_of(const json& row, const char* key) {
  Pairs pairs;
  const json mapping = row.value(key, json::object());
  for (const auto& [name, value] : mapping.items())
    pairs.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  return pairs;
}

CallRows read_call_rows() {
  const std::string where = (data_dir() / "ecosystem" / "python_calls.yaml").string();
  const auto tree = read_yaml11(where);
  CallRows rows;
  try {
    for (const json& row : tree->root.at("trainers")) rows.trainers.emplace_back(row.at("call"), row.at("table"));
    for (const json& row : tree->root.at("calls")) {
      CallRow call{.call = {}, .positional = row.value("positional", std::vector<std::string>{})};
      call.keys = pairs_of(row, "keys");
      call.sets = pairs_of(row, "sets");
      call.defaults = pairs_of(row, "defaults");
      call.passes_all = row.value("keys", json::object()).contains("*");
      call.unset = row.value("unset", std::vector<std::string>{});
      call.tables = row.value("tables", std::vector<std::string>{});
      call.is_first = row.value("first", false);
      call.is_of_loop = row.value("of_loop", false);
      const json& names = row.at("call");
      for (const json& name : names.is_array() ? names : json::array({names})) {
        call.call = name;
        rows.calls.push_back(call);
      }
    }
    for (const json& row : tree->root.at("dicts"))
      rows.dicts.push_back({row.at("calls").get<std::vector<std::string>>(),
                            row.at("has").get<std::vector<std::string>>(), row.at("table")});
    for (const json& row : tree->root.at("loops"))
      rows.loops.push_back({row.at("calls").get<std::vector<std::string>>(),
                            row.at("needs").get<std::vector<std::string>>(),
                            row.value("no_defaults", std::vector<std::string>{}), row.at("table"), row.at("note")});
    for (const json& row : tree->root.at("refused"))
      rows.refused.push_back({row.at("calls").get<std::vector<std::string>>(), row.at("name"), row.at("why")});
    rows.settings = tree->root.at("settings").get<std::vector<std::string>>();
    rows.parsers = tree->root.at("parsers").get<std::vector<std::string>>();
    rows.counts_gpus = tree->root.at("counts_gpus").get<std::vector<std::string>>();
    rows.answers = tree->root.at("answers").get<std::map<std::string, bool>>();
    rows.loads = tree->root.at("loads").get<std::vector<std::string>>();
    rows.makes_dicts = tree->root.at("makes_dicts").get<std::vector<std::string>>();
    rows.usual = tree->root.at("usual").get<std::vector<std::string>>();
    rows.assumed = tree->root.at("assumed").get<std::vector<std::string>>();
    const json& data = tree->root.at("data");
    for (const auto& [key, names] : {std::pair{"loads", &rows.data.loads},
                                     {"readers", &rows.data.readers},
                                     {"from_files", &rows.data.from_files},
                                     {"joins", &rows.data.joins},
                                     {"cuts", &rows.data.cuts}})
      *names = data.at(key).get<std::vector<std::string>>();
  } catch (const json::exception& error) { throw InputError(where, error.what()); }
  for (const auto& [call, table] : rows.trainers) rows.names.push_back(call);
  for (const CallRow& row : rows.calls) rows.names.push_back(row.call);
  for (const LoopRow& row : rows.loops) rows.names.insert(rows.names.end(), row.calls.begin(), row.calls.end());
  for (const RefusedCalls& row : rows.refused) rows.names.insert(rows.names.end(), row.calls.begin(), row.calls.end());
  return rows;
}

const CallRows& call_rows() { return read_once<read_call_rows>(); }

/// The value of an option on the command line; "None" is what the text says.
PythonValue value_of_flag(const LaunchFlag& flag) {
  PythonValue value;
  if (flag.values.empty()) {
    value.kind = PythonValue::Kind::Literal;
    value.text = "true";
    return value;
  }
  const ShellWord& word = flag.values.front();
  value.text = word.text;
  if (!word.unknown.empty() || flag.values.size() > 1) return value;
  value.kind = PythonValue::Kind::Literal;
  const std::string lower = to_lower(word.text);
  if (lower == "true" || lower == "false" || lower == "none") value.text = lower == "none" ? "null" : lower;
  value.is_text = value.text == word.text && !as_number(word.text) && lower != "true" && lower != "false";
  return value;
}

std::map<std::string, PythonValue> options_of(const LaunchPart& started) {
  std::map<std::string, PythonValue> options;
  if (!started.config.empty()) options["config"] = python_literal(started.config, true);
  for (const LaunchFlag& flag : started.flags) options[flag.name] = value_of_flag(flag);
  return options;
}

/// `torch.bfloat16` and `TaskType.CAUSAL_LM` are names of a library; `args.lr` is a value of the run.
bool is_library_name(const std::string& name) {
  const std::string first = name.substr(0, name.find('.')), last = name.substr(name.rfind('.') + 1);
  return first == "torch" || (!last.empty() && last.find_first_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos);
}

class CallReader {
 public:
  CallReader(const ConfigFile& script, LaunchPart& part, std::vector<std::string>& notes, const LoopRow* loop = nullptr,
             bool has_parser = false)
      : script_(script),
        part_(part),
        notes_(notes),
        loop_(loop),
        has_parser_(has_parser) {}

  void read(const PythonValue& dict, int line) {
    const CallRow all{.call = "",
                      .positional = {},
                      .keys = {{"*", "*"}},
                      .sets = {},
                      .defaults = {},
                      .tables = {},
                      .unset = {},
                      .passes_all = true};
    for (const auto& [key, value] : dict.keys) add(all, key, value, line);
  }

  void read(const PythonCall& call) {
    if (call.name.empty())
      notes_.push_back(fmt::format("{}:{}: {} is not counted: by the defaults of the script its branch is not taken",
                                   script_.name, call.line, fmt::join(call.open, ", ")));
    const auto& rows = call_rows().calls;
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const CallRow& r) { return r.call == call.name; });
    if (row == rows.end() || (row->is_of_loop && !loop_)) return;
    if (!row->tables.empty() && std::ranges::find(row->tables, part_.table) == row->tables.end()) return;
    if (row->passes_all) refuse_unknown_parameters(*row, call);
    for (std::size_t i = 0; i < call.positional.size() && i < row->positional.size(); ++i)
      add(*row, row->positional[i], call.positional[i], call.line);
    for (const auto& [name, value] : call.keywords) add(*row, name, value, call.line);
    for (const auto& [key, value] : row->sets) set(key, json::parse(value, nullptr, false), {}, call.line);
    for (const auto& [key, value] : row->defaults)
      if (!has(key) && !leaves_open(key))
        set(key, json::accept(value) ? json::parse(value) : json(value), {}, call.line);
    for (const std::string& open : call.open)
      notes_.push_back(fmt::format("{}:{}: what {} adds to {} is not known and not counted", script_.name, call.line,
                                   open, call.name));
  }

 private:
  bool leaves_open(const std::string& key) const {
    return loop_ && std::ranges::find(loop_->no_defaults, key) != loop_->no_defaults.end();
  }

  /// Says whether None is a value that the table knows, or the key changes nothing.
  bool says_nothing_unset(const std::string& key) const {
    const KeyTable* table = find_key_table(part_.table);
    const KeyRow* row = table ? table->find(key) : nullptr;
    return row && (row->use == KeyUse::Ignored || row->find_value(nullptr));
  }

  /// Python stops at a keyword that a class of settings does not have; a single one may be of another version.
  void refuse_unknown_parameters(const CallRow& row, const PythonCall& call) const {
    const KeyTable* const table = find_key_table(part_.table);
    const auto& settings = call_rows().settings;
    if (!table || std::ranges::find(settings, call.name) == settings.end()) return;
    std::vector<std::string> unknown;
    bool decides = false;
    for (const auto& keyword : call.keywords) {
      const std::string& name = keyword.first;
      const bool is_mapped = std::ranges::any_of(row.keys, [&](const auto& key) { return key.first == keyword.first; });
      if (is_mapped || name.empty() || table->find(name) || table->has_below(name)) continue;
      unknown.push_back(name);
      decides = decides || command_rows().looks_deciding(name);
    }
    if (decides || unknown.size() > 1)
      throw InputError(fmt::format("{}:{}", script_.name, call.line),
                       fmt::format("{} has no parameter {}: Python stops there", call.name, fmt::join(unknown, ", ")),
                       "give the names of the library's documentation");
  }

  bool has(const std::string& key) const {
    return std::any_of(part_.flags.begin(), part_.flags.end(), [&](const LaunchFlag& f) { return f.name == key; });
  }

  void add(const CallRow& row, const std::string& name, const PythonValue& value, int line) {
    if (name.empty()) return;
    const auto known = std::find_if(row.keys.begin(), row.keys.end(), [&](const auto& k) { return k.first == name; });
    if (known == row.keys.end() && !row.passes_all) return;
    const std::string key = known != row.keys.end() && known->first != "*" ? known->second : name;
    const bool may_be_unset =
        std::ranges::find(row.unset, name) != row.unset.end() || (row.passes_all && says_nothing_unset(key));
    if ((row.is_first && has(key)) || (may_be_unset && (value.is_unset || value.text == "null"))) return;
    if (value.is_usual) return;
    if (key == "whole_model") {  // {"": rank}: a module without a name is the whole model
      part_.is_whole = value.kind == PythonValue::Kind::Dict && value.keys.size() == 1 && value.keys[0].first.empty();
      return;
    }
    if (value.asks_card && (key == "bf16" || key == "fp16")) return set("precision_by_card", true, {}, line);
    std::vector<std::string> unknown;
    if (!value.argument.empty())
      notes_.push_back(fmt::format("{}:{}: {} is counted with the default of the script's own {}, {}", script_.name,
                                   line, key, value.argument, value.text));
    json content = json_of(value, unknown);
    if (value.kind == PythonValue::Kind::Name && !is_library_name(value.text)) unknown.push_back(value.text);
    if (key == "model_name_or_path" && !unknown.empty() && (row.call.ends_with("Trainer") || has(key)))
      return;  // a model that is loaded, or what was trained, loaded again
    if (has_parser_ && !unknown.empty() && value.kind == PythonValue::Kind::Name)
      return;  // torch_dtype=model_args.dtype: of the parser, whose default it has where no flag says it
    if (!row.tables.empty() && !loop_ && !unknown.empty()) {  // a trainer may cut rows elsewhere
      notes_.push_back(fmt::format("{}:{}: {} of {} depends on {} and is not counted: --seq-len says how long rows are",
                                   script_.name, line, key, row.call, fmt::join(unknown, ", ")));
      return;
    }
    set(key, content, unknown, line);
  }

  void set(const std::string& key, const json& value, const std::vector<std::string>& unknown, int line) {
    std::erase_if(part_.flags, [&](const LaunchFlag& f) { return f.name == key; });
    LaunchFlag flag{.name = key, .values = {}, .line = line};
    const auto text = [](const json& item) { return item.is_string() ? item.get<std::string>() : item.dump(); };
    if (value.is_array() && value.empty()) return;
    if (value.is_null() && unknown.empty()) {  // None is the default
      if (key == "max_length" || key == "max_seq_length")
        notes_.push_back(fmt::format("{}:{}: {} is None, so rows are not cut; --seq-len says how long they are",
                                     script_.name, line, key));
      return;
    }
    if (value.is_array() && unknown.empty())
      for (const json& item : value) flag.values.push_back({text(item), {}, line, false});
    else
      flag.values.push_back({text(value), unknown, line, false});
    part_.flags.push_back(std::move(flag));
  }

  const ConfigFile& script_;
  LaunchPart& part_;
  std::vector<std::string>& notes_;
  const LoopRow* loop_;  // nullptr: a trainer is called
  const bool has_parser_;
};

void refuse_others(const std::vector<PythonCall>& calls, const ConfigFile& script) {
  for (const PythonCall& call : calls)
    for (const RefusedCalls& row : call_rows().refused)
      if (std::find(row.calls.begin(), row.calls.end(), call.name) != row.calls.end())
        throw InputError(fmt::format("{}:{}: {}", script.name, call.line, call.name),
                         fmt::format("belongs to {}, which is not modelled: {}", row.name, row.why),
                         "only supervised fine-tuning of decoder language models is planned");
}

/// A script whose settings come from its command line says nothing of batch and length.
void require_settings(const std::vector<PythonCall>& calls, const ConfigFile& script) {
  const auto& settings = call_rows().settings;
  const bool is_there = std::any_of(calls.begin(), calls.end(), [&](const PythonCall& call) {
    return std::find(settings.begin(), settings.end(), call.name) != settings.end();
  });
  if (!is_there)
    throw InputError(
        script.name,
        fmt::format("has no call of {}: its settings come from its command line", fmt::join(settings, ", ")),
        "give the command in a .sh file, or the YAML file that it reads");
}

/// The key table of the first trainer in the order of the rows.
std::string table_of_calls(const std::vector<PythonCall>& calls, const ConfigFile& script) {
  for (const auto& [name, table] : call_rows().trainers)
    for (const PythonCall& call : calls)
      if (call.name == name) return table;
  std::string known;
  for (const auto& [name, table] : call_rows().trainers) known += (known.empty() ? "" : ", ") + name;
  throw InputError(script.name, "sets up no training that gpuplan reads", fmt::format("read are calls of {}", known));
}

/// Says whether a call loads a model that is read: other scripts train what is not planned, such as images.
bool loads_model(std::span<const PythonCall> calls) {
  return std::ranges::any_of(calls, [](const PythonCall& call) {
    const auto row = std::ranges::find(call_rows().calls, call.name, &CallRow::call);
    return row != call_rows().calls.end() && call.name.ends_with("from_pretrained") &&
           std::ranges::any_of(row->keys, [](const auto& key) { return key.second == "model_name_or_path"; });
  });
}

/// The loop that the calls make; nullptr: none. What stands below it, and reads what was trained, is taken out.
const LoopRow* take_loop(std::vector<PythonCall>& calls) {
  const auto calls_one = [](std::span<const PythonCall> some, const std::vector<std::string>& names) {
    return std::ranges::any_of(some, [&](const PythonCall& call) { return std::ranges::count(names, call.name) > 0; });
  };
  for (const LoopRow& row : call_rows().loops) {
    const auto is_whole = [&](std::span<const PythonCall> some) {
      return calls_one(some, row.calls) && calls_one(some, row.needs) && loads_model(some);
    };
    if (!is_whole(calls)) continue;
    std::size_t end = calls.size();
    while (std::ranges::count(row.calls, calls[end - 1].name) == 0) --end;
    if (is_whole(std::span(calls).first(end))) calls.resize(end);  // else it stands in a function above
    return &row;
  }
  return nullptr;
}

struct Settings {
  std::string table;
  PythonValue dict;
  int line = 1;
};

/// The first dict of a trainer's settings: dict(...) that json.dump writes, or that is handed to run_exp.
std::optional<Settings> settings_of(const std::string& code, const std::string& name) {
  for (const DictRow& row : call_rows().dicts) {
    for (const PythonCall& call : read_python_calls(code, name, row.calls)) {
      const bool is_first = !call.positional.empty() && call.positional.front().kind == PythonValue::Kind::Dict;
      PythonValue dict = is_first ? call.positional.front() : dict_of(call);
      const bool is_own = std::all_of(row.has.begin(), row.has.end(), [&](const std::string& key) {
        return std::any_of(dict.keys.begin(), dict.keys.end(), [&](const auto& own) { return own.first == key; });
      });
      if (is_own) return Settings{row.table, std::move(dict), call.line};
    }
  }
  return {};
}

bool is_notebook_name(const std::string& name) { return to_lower(name).ends_with(".ipynb"); }

}  // namespace

bool is_python_script(const ConfigFile& file) {
  const std::string name = to_lower(file.name);
  if (name.ends_with(".py") || name.ends_with(".ipynb")) return true;
  const std::string first = file.text.substr(0, file.text.find('\n'));
  return first.starts_with("#!") && first.find("python") != std::string::npos;
}

bool is_notebook_of_commands(const ConfigFile& file) {
  if (!is_notebook_name(file.name)) return false;
  require_size(file.text.size(), file.name, kNotebookLimit);
  const std::string code = code_of_notebook(file.text, file.name);
  const auto calls = read_python_calls(code, file.name, call_rows().names);
  return calls.empty() && !settings_of(code, file.name) && !trim(commands_of_notebook(file.text, file.name)).empty();
}

std::vector<KeywordCall> keyword_calls(const std::string& table) {
  std::vector<KeywordCall> out;
  for (const CallRow& row : call_rows().calls) {
    if (row.is_of_loop || (!row.tables.empty() && std::ranges::find(row.tables, table) == row.tables.end())) continue;
    KeywordCall call{.name = row.call, .keywords = row.keys, .takes_all = row.passes_all};
    std::erase(call.keywords, std::pair<std::string, std::string>("*", "*"));
    out.push_back(std::move(call));
  }
  return out;
}

bool is_of_settings(const std::string& key) {
  const auto states = [&](const Pairs& pairs) {
    return std::ranges::any_of(pairs, [&](const auto& pair) { return pair.second == key; });
  };
  const auto sets = [&](const Pairs& pairs) {
    return std::ranges::any_of(pairs, [&](const auto& pair) { return pair.first == key; });
  };
  return std::ranges::none_of(call_rows().calls, [&](const CallRow& row) {
    return !row.passes_all && !row.is_of_loop && (states(row.keys) || sets(row.sets) || sets(row.defaults));
  });
}

namespace {

bool names_trainer(const std::string& name) {
  return std::ranges::any_of(call_rows().trainers, [&](const auto& row) { return row.first == name; });
}

/// Says whether a source calls a trainer itself.
bool calls_trainer(const ConfigFile& script) {
  std::vector<std::string> names;
  for (const auto& [name, table] : call_rows().trainers) names.push_back(name);
  return !read_python_calls(script.text, script.name, names).empty();
}

/// A class of the user's own that has the name of a library's is what it is derived from: SFTTrainer(Trainer).
void name_own_trainers(std::vector<PythonCall>& calls, const ConfigFile& script, const FindNamed& find) {
  std::vector<std::string> names;
  for (const auto& [name, table] : call_rows().trainers) names.push_back(name);
  for (PythonCall& call : calls)
    if (names_trainer(call.name) && call.name.find('.') == std::string::npos && !is_notebook_name(script.name))
      if (std::string found = known_class(call.name, script, names, find); !found.empty()) call.name = std::move(found);
}

}  // namespace

std::string parsed_settings(const ConfigFile& script, const FindNamed& find) {
  const CallRows& rows = call_rows();
  if (!is_python_script(script) || is_notebook_name(script.name)) return {};
  for (const PythonCall& call : read_python_calls(script.text, script.name, rows.parsers)) {
    std::vector<PythonValue> classes = call.positional;
    for (const auto& [name, value] : call.keywords)
      if (name == "dataclass_types") classes.push_back(value);
    if (!classes.empty() && classes.front().kind == PythonValue::Kind::List) {
      const std::vector<PythonValue> items = classes.front().items;
      classes = items;
    }
    for (const PythonValue& one : classes) {
      std::string found = known_class(one.text, script, rows.settings, find);
      if (!found.empty() && (names_trainer(found) || calls_trainer(script))) return found;
    }
  }
  return {};
}

bool reads_own_options(const ConfigFile& script, bool has_config) {
  const bool loads = std::ranges::any_of(call_rows().loads, [&](const std::string& call) {
    return call.find('.') != std::string::npos && script.text.find(call + "(") != std::string::npos;
  });
  const bool has_options =
      !has_config && std::ranges::any_of(std::array{"add_argument", "fire.Fire("},
                                         [&](const char* word) { return script.text.find(word) != std::string::npos; });
  if (!is_python_script(script) || !(has_options || (has_config && loads))) return false;
  try {
    const auto calls = read_python_calls(script.text, script.name, call_rows().settings);
    return std::ranges::any_of(calls, [](const PythonCall& call) { return !call.keywords.empty(); });
  } catch (const InputError&) { return false; }
}

namespace {

/// The settings of a file that a script loads.
PythonValue values_of_file(const std::string& path, const std::string& script, const FindNamed& find,
                           std::vector<std::string>& notes) {
  PythonValue missing = unknown_python_value("");
  missing.text = fmt::format("{} (give it too: --from {})", path, path.substr(path.rfind('/') + 1));
  missing.is_missing = true;
  const auto file = find ? find(path, script) : std::nullopt;
  if (!file) return missing;
  if (file->text.size() > kTrainerLimit.bytes) return unknown_python_value(path);
  try {
    const auto tree = parse_yaml11(file->text, file->name);
    if (!tree || !tree->root.is_object()) return unknown_python_value(path);
    const std::string note = fmt::format("{}: reads its settings from {}", script, file->name);
    if (std::ranges::count(notes, note) == 0) notes.push_back(note);
    return python_value_of(tree->root);
  } catch (const InputError&) { return unknown_python_value(path); }
}

/// Puts the flags of the command that starts a script over what the script itself says, as its parser does; those that
/// are of the script's own classes alone are left to it.
void put_flags(const LaunchPart& started, LaunchPart& part, const ConfigFile& script, std::vector<std::string>& notes) {
  for (LaunchFlag& flag : part.flags) flag.file = script.name;
  const KeyTable* const table = find_key_table(part.table);
  std::string own_flags;
  for (const LaunchFlag& flag : started.flags) {
    if (table && !table->find(table->whole_key(flag.name)) && !table->has_below(flag.name)) {
      own_flags += (own_flags.empty() ? "" : ", ") + flag.name;
      continue;
    }
    std::erase_if(part.flags, [&](const LaunchFlag& own) { return own.name == flag.name; });
    part.flags.push_back(flag);
  }
  part.config = started.config;
  part.config_line = started.config_line;
  if (!own_flags.empty())
    notes.push_back(
        fmt::format("{}: counted only where the script hands them to calls that are read: {}", script.name, own_flags));
}

}  // namespace

Launch read_python_launch(const ConfigFile& script, const FindNamed& find, const LaunchPart& started,
                          const PythonStart& start) {
  const bool is_notebook = is_notebook_name(script.name);
  require_size(script.text.size(), script.name, is_notebook ? kNotebookLimit : kScriptLimit);
  const std::string code = is_notebook ? code_of_notebook(script.text, script.name) : script.text;
  if (is_notebook) require_size(code.size(), script.name, kScriptLimit);
  Launch launch;
  const CallRows& rows = call_rows();
  PythonSurroundings around;
  around.assumed = rows.assumed;
  around.answers = rows.answers;
  around.loads = rows.loads;
  around.makes_dicts = rows.makes_dicts;
  around.usual = rows.usual;
  around.options = options_of(started);
  around.counts_gpus = rows.counts_gpus;
  around.num_gpus = start.num_gpus;
  for (const auto& [name, word] : start.environment)
    around.environment[name] =
        word.unknown.empty() ? python_literal(word.text, true) : unknown_python_value("$" + name);
  PythonModules modules(script, find, around);
  around.import_module = [&](const std::string& module) { return modules.find(module); };
  if (!started.config.empty()) around.arguments.push_back(python_literal(started.config, true));
  std::map<std::string, PythonValue> files;  // a source is read twice where its functions have parameters
  around.read_file = [&](const std::string& path) {
    if (!files.contains(path)) files[path] = values_of_file(path, script.name, find, launch.notes);
    return files[path];
  };
  std::vector<std::string> names = rows.names;
  for (const auto* more : {&rows.data.loads, &rows.data.from_files})
    names.insert(names.end(), more->begin(), more->end());
  auto calls = read_python_calls(code, script.name, names, around);
  refuse_others(calls, script);
  const std::string parsed = parsed_settings(script, find);
  const bool has_parser = !parsed.empty() && (!started.flags.empty() || !started.config.empty());
  if (!parsed.empty() && !has_parser)
    throw InputError(script.name, fmt::format("has a parser of {}: its settings come from its command line", parsed),
                     "give the command in a .sh file, or beside the script the file that it reads: --from FILE");
  name_own_trainers(calls, script, find);
  if (has_parser)
    calls.insert(calls.begin(), PythonCall{.name = parsed, .line = 1, .positional = {}, .keywords = {}, .open = {}});
  const bool has_trainer = std::any_of(calls.begin(), calls.end(), [](const PythonCall& call) {
    const auto& trainers = call_rows().trainers;
    return std::any_of(trainers.begin(), trainers.end(), [&](const auto& row) { return row.first == call.name; });
  });
  if (const auto settings = has_trainer ? std::nullopt : settings_of(code, script.name)) {
    launch.parts.push_back({.table = settings->table, .config = {}, .flags = {}});
    CallReader(script, launch.parts.back(), launch.notes).read(settings->dict, settings->line);
    return launch;
  }
  const LoopRow* loop = has_trainer ? nullptr : take_loop(calls);
  LaunchPart part{.table = loop ? loop->table : table_of_calls(calls, script), .config = {}, .flags = {}};
  if (loop)
    launch.notes.push_back(fmt::format("{}: {}", script.name, loop->note));
  else
    require_settings(calls, script);
  CallReader reader(script, part, launch.notes, loop, has_parser);
  for (const PythonCall& call : calls) reader.read(call);
  if (auto sets = data_of_calls(calls, rows.data, code, script.name, launch.notes); !sets.empty()) {
    LaunchFlag flag{.name = "dataset_name", .values = {}, .line = 1};
    for (std::string& set : sets) flag.values.push_back({std::move(set), {}, 1, false});
    std::erase_if(part.flags, [&](const LaunchFlag& own) { return own.name == flag.name; });
    part.flags.push_back(std::move(flag));
  }
  if (has_parser) put_flags(started, part, script, launch.notes);
  launch.parts.push_back(std::move(part));
  return launch;
}

}  // namespace gpuplan
