#include "mend/script_text.h"

#include <algorithm>

namespace gpuplan {
namespace {

/// accelerate's flags leave the section out: --fsdp_version is fsdp_config.fsdp_version.
std::string bare(const std::string& key) { return key.substr(key.rfind('.') + 1); }

bool is_launcher(const SettingsPart& part) { return part.table->role == FileRole::Launcher; }

}  // namespace

const LaunchFlag* flag_for(const SettingsPart& part, const std::string& key) {
  const auto found = std::find_if(part.flags.begin(), part.flags.end(), [&](const LaunchFlag& flag) {
    return flag.name == key || flag.name == "no_" + key || (is_launcher(part) && flag.name == bare(key)) ||
           key.starts_with(flag.name + ".");
  });
  return found == part.flags.end() ? nullptr : &*found;
}

bool ScriptText::stands(const LaunchFlag& flag) const {
  if (flag.begin >= flag.end || flag.end > file_.text.size()) return false;
  const std::string_view text = std::string_view(file_.text).substr(flag.begin, flag.end - flag.begin);
  return text.find('$') == std::string_view::npos || text.find('=') < text.find('$');
}

/// As the other flags of the command spell it: "True" beside them, else "true".
std::string ScriptText::word_of(const SettingsPart& part, const OrderedJson& value) const {
  if (value.is_string()) return shell_word(value.get<std::string>());
  if (!value.is_boolean()) return shell_word(value.dump());
  const bool is_capital = std::ranges::any_of(part.flags, [](const LaunchFlag& flag) {
    return flag.values.size() == 1 && (flag.values[0].text == "True" || flag.values[0].text == "False");
  });
  if (is_capital) return value.get<bool>() ? "True" : "False";
  return value.dump();
}

bool ScriptText::put(const SettingsPart& part, const std::string& key, const OrderedJson& value) {
  edits_.drop(key);
  const LaunchFlag* const stated = flag_for(part, key);
  if (value.is_array() && value.size() == 1 && stated && stands(*stated) && file_.text[stated->begin] == '-')
    return put(part, key, value.front());  // argparse takes "--gpus 8" for a list of one
  const std::string word = word_of(part, value);
  const LaunchFlag* flag = flag_for(part, key);
  if (!flag) return add(part, key, value);
  if (!stands(*flag) || flag->values.size() > 1 || flag->name.starts_with("no_")) return false;
  if (key.starts_with(flag->name + ".")) return false;  // JSON inside a word
  if (value == false && part.table->bare_switches) return clear(part, key);
  if (flag->values.empty()) {
    if (value != true) edits_.add(key, {flag->end, flag->end, " " + word});
    return true;
  }
  const ShellWord& before = flag->values[0];
  if (before.begin >= before.end) return false;
  edits_.add(key, {before.begin, before.end, word});
  return true;
}

bool ScriptText::clear(const SettingsPart& part, const std::string& key) {
  edits_.drop(key);
  const LaunchFlag* flag = flag_for(part, key);
  if (!flag || !stands(*flag)) return false;
  std::size_t begin = flag->begin, end = flag->end;
  for (const ShellWord& value : flag->values) {
    if (value.begin >= value.end) return false;
    end = std::max(end, value.end);
  }
  const std::string& text = file_.text;
  std::size_t line = text.rfind('\n', begin);
  line = line == std::string::npos ? 0 : line + 1;
  const bool begins_line = text.find_first_not_of(" \t", line) == begin;
  const bool ends_line = text.compare(end, 3, " \\\n") == 0;
  if (begins_line && ends_line)  // the whole line goes
    edits_.add(key, {line, end + 3, ""});
  else
    edits_.add(key, {begin, end + (text[end] == ' ' ? 1 : 0), ""});
  return true;
}

/// Puts it behind the line of a flag that is followed by another line, as a line of its own; else behind the last flag.
bool ScriptText::add(const SettingsPart& part, const std::string& key, const OrderedJson& json) {
  const std::string& text = file_.text;
  const LaunchFlag *last = nullptr, *with_line = nullptr;
  std::size_t last_end = 0;
  const auto end_of = [](const LaunchFlag& flag) {
    std::size_t end = flag.end;
    for (const ShellWord& value : flag.values) end = std::max(end, value.end);
    return end;
  };
  const bool is_switch = json.is_boolean() && part.table->bare_switches;
  if (is_switch && json == false) return true;  // no flag says it
  bool has_pairs = false, has_dashes = false, has_dots = false;
  for (const LaunchFlag& flag : part.flags) {
    if (!stands(flag) || flag.name.starts_with(kEnvironment)) continue;
    const std::size_t end = end_of(flag);
    has_pairs = has_pairs || text[flag.begin] != '-';
    has_dots = has_dots || flag.name.find('.') != std::string::npos;
    const std::string written = text.substr(flag.begin, flag.end - flag.begin);  // with a value behind '='
    has_dashes = has_dashes || written.substr(0, written.find('=')).find('-', 2) != std::string::npos;
    if (end > last_end) last = &flag, last_end = end;
    if (text.compare(end, 3, " \\\n") == 0) with_line = &flag;
  }
  if (!last) return false;
  std::string name = key, value = word_of(part, json);
  if (is_launcher(part)) name = bare(key);
  const std::size_t dot = name.find('.');
  if (dot != std::string::npos && !has_pairs && !has_dots) {  // a mapping is JSON in a word
    value = shell_word("{\"" + name.substr(dot + 1) + "\": " + json.dump() + "}");
    name.resize(dot);
  }
  if (has_dashes) std::replace(name.begin(), name.end(), '_', '-');
  const std::string flag = has_pairs ? name + "=" + value : "--" + name + (is_switch ? "" : " " + value);
  if (!with_line) {
    edits_.add(key, {last_end, last_end, " " + flag});
    return true;
  }
  const std::size_t begin = text.rfind('\n', with_line->begin) + 1, at = end_of(*with_line) + 3;
  const std::size_t first = text.find_first_not_of(" \t", begin);
  const std::string indent = first == with_line->begin ? text.substr(begin, first - begin) : "    ";
  edits_.add(key, {at, at, indent + flag + " \\\n"});
  return true;
}

}  // namespace gpuplan
