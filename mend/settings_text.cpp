#include "mend/settings_text.h"

#include <algorithm>

#include "base/error.h"
#include "base/names.h"
#include "base/yaml_file.h"
#include "mend/json_places.h"
#include "mend/toml_text.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::size_t kNowhere = ValueTree::kNowhere;

/// The value at "a.b.c"; null where there is none. `tree` is there.
const json* setting_at(const json& top, const std::string& path) {
  if (path.empty()) return &top;
  const json* at = &top;
  std::size_t begin = 0;
  while (at->is_object()) {
    const std::string rest = path.substr(begin);
    if (const auto whole = at->find(rest); whole != at->end()) return &*whole;
    const std::size_t dot = rest.find('.');
    if (dot == std::string::npos) return nullptr;
    const auto below = at->find(rest.substr(0, dot));
    if (below == at->end()) return nullptr;
    at = &*below;
    begin += dot + 1;
  }
  return nullptr;
}

void put_below(OrderedJson& top, const std::string& path, const OrderedJson& value) {
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos)
    top[path] = value;
  else
    put_below(top[path.substr(0, dot)], path.substr(dot + 1), value);
}

/// Every line of `text`, indented, without the last line end.
std::string indented(const std::string& text, const std::string& indent, const std::string& line_break) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += (out.empty() ? "" : line_break) + indent + text.substr(at, end - at);
    at = end + 1;
  }
  return out;
}

}  // namespace

SettingsText::SettingsText(ConfigFile file, const KeyTable& table) : file_(std::move(file)), table_(table) {
  tree_ = parse_config(file_, &table).tree;
  if (is_json()) tree_->places = json_places(file_.text);
  line_break_ = file_.text.find("\r\n") == std::string::npos ? "\n" : "\r\n";
}

std::size_t SettingsText::line_begin(std::size_t at) const {
  const std::size_t before = at == 0 ? std::string::npos : file_.text.rfind('\n', at - 1);
  return before == std::string::npos ? 0 : before + 1;
}

/// Says where the line ends, before its line break.
std::size_t SettingsText::line_end(std::size_t at) const {
  const std::size_t end = std::min(file_.text.find('\n', at), file_.text.size());
  return end > at && file_.text[end - 1] == '\r' ? end - 1 : end;
}

std::size_t SettingsText::column(std::size_t at) const { return at - line_begin(at); }

std::string SettingsText::value_text(const OrderedJson& value) const {
  if (is_json()) return value.dump();
  const std::string entry = yaml_text({{"k", value}});
  return entry.substr(3, entry.size() - 4);
}

/// Returns the place behind the colon of a key.
std::size_t SettingsText::behind_key(std::size_t key_begin) const {
  const std::string& text = file_.text;
  std::size_t at = key_begin;
  if (text[at] == '"' || text[at] == '\'') at = text.find(text[at], at + 1);
  at = at == std::string::npos ? at : text.find(':', at);
  return at == std::string::npos ? kNowhere : at + 1;
}

/// The bytes of a scalar or a list in one line. False for what stands otherwise.
bool SettingsText::find_value(const std::string& key, std::size_t& begin, std::size_t& end) const {
  const std::string& text = file_.text;
  const auto place = tree_->places.find(key);
  const json* value = setting_at(tree_->root, key);
  if (place == tree_->places.end() || !value || !place->second.file.empty() || place->second.key_begin == kNowhere)
    return false;
  begin = place->second.begin;
  if (is_json()) {
    end = json_end(text, begin);
    return true;
  }
  const std::size_t behind = behind_key(place->second.key_begin);
  if (behind == kNowhere) return false;
  const std::size_t last = line_end(behind);
  begin = std::min(text.find_first_not_of(" \t", behind), last);
  if (begin == last || text[begin] == '#') {  // nothing stands there
    begin = end = behind;
    return value->is_null();
  }
  if (std::string_view("&*!|>{").find(text[begin]) != std::string_view::npos) return false;
  if (text[begin] == '[') {
    end = text.find(']', begin);
    if (end == std::string::npos || end >= last) return false;
    ++end;
    return true;
  }
  if (text[begin] == '"' || text[begin] == '\'') {
    const char quote = text[begin];
    end = begin + 1;
    while (end < last && (text[end] != quote || (quote == '\'' && text[end + 1] == quote)))
      end += text[end] == '\\' && quote == '"' ? 2 : text[end] == quote ? 2 : 1;
    if (end++ >= last) return false;
    return true;
  }
  // a plain scalar ends before a comment, and inside of braces before the next key
  end = text.find(" #", begin);
  end = std::min({end, text.find("\t#", begin), last});
  const std::size_t line = line_begin(begin);
  if (text.find('{', line) < begin) end = std::min(end, text.find_first_of(",}", begin));
  while (end > begin && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
  const std::string raw = text.substr(begin, end - begin);
  try {  // else it goes on in the next line
    return parse_yaml11("k: " + raw + "\n", file_.name)->root["k"] == *value;
  } catch (const InputError&) { return false; }
}

/// Each change of a TOML text is made at once.
bool SettingsText::put_toml(const std::string& key, const OrderedJson& value) {
  auto changed = toml_with(file_.text, key, value);
  if (changed) file_.text = std::move(*changed);
  return changed.has_value();
}

bool SettingsText::put(const std::string& key, const OrderedJson& value) {
  now_[key] = json(value);
  if (is_toml()) return put_toml(key, value);
  take_back(key);
  std::size_t begin = 0, end = 0;
  if (is_there(key)) {
    if (!find_value(key, begin, end) || (value.is_object() && !is_json())) return false;
    std::string text = value_text(value);
    const char quote = file_.text[begin];
    const bool may_quote = value.is_string() && text.find_first_of("'\"\\") == std::string::npos;
    if (begin == end)
      text = " " + text;
    else if (!is_json() && may_quote && (quote == '"' || quote == '\''))
      text = quote + text + quote;
    edits_.add(key, {begin, end, text});
    replaced_.push_back(key);
    return true;
  }
  std::string mapping, rest = key;
  for (std::size_t dot = 0; (dot = key.find('.', dot)) != std::string::npos; ++dot) {
    const json* above = setting_at(tree_->root, key.substr(0, dot));
    if (!above || !(above->is_object() || above->is_null())) break;
    mapping = key.substr(0, dot);
    rest = key.substr(dot + 1);
  }
  if (!mapping.empty() && tree_->places.at(mapping).key_begin == kNowhere) return false;
  put_below(added_[mapping], rest, value);
  return true;
}

nlohmann::json SettingsText::value_of(const std::string& key) const {
  if (const auto changed = now_.find(key); changed != now_.end()) return changed->second;
  const json* value = setting_at(tree_->root, key);
  return value ? *value : json();
}

bool SettingsText::append(const std::string& key, const std::string& item) {
  const json before = value_of(key);
  const json* const in_text = setting_at(tree_->root, key);
  if (!before.is_null() && (!before.is_array() || before.empty() || is_json())) return false;
  if (std::ranges::find(before, json(item)) != before.end()) return true;
  OrderedJson longer = before.is_null() ? OrderedJson::array() : OrderedJson::parse(before.dump());
  longer.push_back(item);
  if (is_toml() || !in_text || in_text->is_null()) return put(key, longer);
  const auto first = tree_->places.find(key + "[0]");
  std::size_t begin = 0, end = 0;
  if (find_value(key, begin, end)) {  // in one line
    edits_.add(key, {end - 1, end - 1, ", " + yaml_word(item)});
    now_[key] = json(longer);
    return true;
  }
  if (first == tree_->places.end() || first->second.begin == kNowhere) return false;
  const std::size_t dash = file_.text.rfind('-', first->second.begin);
  if (dash == std::string::npos || dash < line_begin(first->second.begin)) return false;
  const std::size_t at = entry_end(tree_->places.at(key).key_begin);
  const std::size_t spaces = column(dash);
  edits_.add(key, {at, at, line_break_ + std::string(spaces, ' ') + "- " + yaml_word(item)});
  now_[key] = json(longer);
  return true;
}

/// Says whether the key is alone in its line of block YAML, and means the same where it is not there.
bool SettingsText::can_go(const std::string& key) const {
  const KeyRow* const row = table_.find(key);
  const std::size_t begin = tree_->places.at(key).key_begin;
  return begin != kNowhere && (!row || row->otherwise.is_null()) &&
         file_.text.find_first_not_of(" \t", line_begin(begin)) == begin;
}

bool SettingsText::clear(const std::string& key) {
  if (is_json() || is_toml()) return put(key, nullptr);
  now_[key] = nullptr;
  take_back(key);
  std::size_t begin = 0, end = 0;
  if (!is_there(key) || !find_value(key, begin, end)) return false;
  const std::size_t dot = key.rfind('.');
  const std::string above = dot == std::string::npos ? "" : key.substr(0, dot);
  if (!above.empty() && can_go(key)) {  // of a section: its line goes, and the section's where it has no other key
    gone_[above].insert(key);
    return true;
  }
  while (begin > 0 && (file_.text[begin - 1] == ' ' || file_.text[begin - 1] == '\t')) --begin;
  edits_.add(key, {begin, end, ""});
  return true;
}

void SettingsText::take_back(const std::string& key) {
  edits_.drop(key);
  for (auto& [section, keys] : gone_) keys.erase(key);
}

/// Takes an entry's lines away with the line break before them, behind which nothing else is put.
void SettingsText::remove_entry(const std::string& key, std::vector<TextEdit>& edits) const {
  const std::size_t begin = tree_->places.at(key).key_begin, end = entry_end(begin), first = line_begin(begin);
  if (first > 0)
    edits.push_back({line_end(line_begin(first - 1)), end, ""});
  else
    edits.push_back({0, std::min(file_.text.find('\n', end), file_.text.size() - 1) + 1, ""});
}

/// Keys of a section that go; the section goes with the last of them.
void SettingsText::remove_from(const std::string& section, const std::set<std::string>& keys,
                               std::vector<TextEdit>& edits) const {
  if (keys.size() == setting_at(tree_->root, section)->size() && added_.count(section) == 0 && can_go(section))
    return remove_entry(section, edits);
  for (const std::string& key : keys) remove_entry(key, edits);
}

/// The end of the last line of an entry of a block: of what stands deeper than its key, and of items at its column.
std::size_t SettingsText::entry_end(std::size_t key_begin) const {
  const std::string& text = file_.text;
  const std::size_t own = column(key_begin);
  std::size_t last = line_end(key_begin);
  for (std::size_t at = text.find('\n', key_begin); at != std::string::npos && at + 1 < text.size();
       at = text.find('\n', at)) {
    const std::size_t begin = ++at, first = std::min(text.find_first_not_of(" \t\r", begin), text.size());
    if (first == text.size() || text[first] == '\n' || text[first] == '#') continue;
    const bool is_item = first - begin == own && text[first] == '-';
    if (first - begin <= own && !is_item) break;
    last = line_end(first);
  }
  return last;
}

/// The place of a key among those that the table uses; -1 where it is none of them.
std::ptrdiff_t SettingsText::index_of(const std::string& path) const {
  for (std::size_t i = 0; i < table_.rows.size(); ++i) {
    const KeyRow& row = table_.rows[i];
    if (row.use == KeyUse::Used && (row.key == path || row.key.starts_with(path + "."))) return std::ptrdiff_t(i);
  }
  return -1;
}

/// Says whether keys of a mapping get another value.
bool SettingsText::replaces_in(const std::string& mapping) const {
  const std::string prefix = mapping.empty() ? "" : mapping + ".";
  return std::ranges::any_of(replaced_, [&](const std::string& path) {
    return path.starts_with(prefix) && path.find('.', prefix.size()) == std::string::npos;
  });
}

/// The key of a mapping that the table lists nearest to `key`, those before it first; "" where it has none. Where keys
/// of the mapping get another value, one of them, so that what changes stands together.
std::string SettingsText::neighbour(const std::string& mapping, const std::string& key) const {
  const std::string prefix = mapping.empty() ? "" : mapping + ".";
  const bool has_replaced = replaces_in(mapping);
  const std::ptrdiff_t wanted = index_of(prefix + key);
  std::string best, last;
  std::ptrdiff_t least = -1;
  std::size_t last_order = 0;
  for (const auto& [name, value] : setting_at(tree_->root, mapping)->items()) {
    const auto place = tree_->places.find(prefix + name);
    if (place == tree_->places.end() || place->second.key_begin == kNowhere) continue;
    if (has_replaced && std::ranges::count(replaced_, prefix + name) == 0) continue;
    if (last.empty() || place->second.order > last_order) last = name, last_order = place->second.order;
    const std::ptrdiff_t index = index_of(prefix + name);
    if (wanted < 0 || index < 0) continue;
    const std::ptrdiff_t distance = index < wanted ? 2 * (wanted - index) : 2 * (index - wanted) + 1;
    if (least < 0 || distance < least) best = name, least = distance;
  }
  return prefix + (best.empty() ? last : best);
}

/// Says how far the file itself indents what is below a key.
std::string SettingsText::indent_unit() const {
  for (const auto& [name, value] : tree_->root.items()) {
    if (!value.is_object() || value.empty()) continue;
    const auto below = tree_->places.find(name + "." + value.begin().key());
    if (below == tree_->places.end() || below->second.key_begin == kNowhere) continue;
    if (const std::size_t spaces = column(below->second.key_begin); spaces > 0 && spaces <= 8)
      return std::string(spaces, ' ');
  }
  return "  ";
}

/// The key that stands for all new ones of a mapping when their place is looked for: one that the table does not order,
/// which goes to the end, or else the first.
std::string SettingsText::leader(const std::string& mapping, const OrderedJson& entries) const {
  for (const auto& [key, value] : entries.items())
    if (index_of(mapping.empty() ? key : mapping + "." + key) < 0) return key;
  return entries.begin().key();
}

/// Lines of block YAML: new keys together, or each behind a key that gets another value.
void SettingsText::add_lines(const std::string& mapping, const OrderedJson& entries,
                             std::vector<TextEdit>& edits) const {
  const json* above = setting_at(tree_->root, mapping);
  const bool are_together = !replaces_in(mapping);
  for (const auto& [key, value] : entries.items()) {
    const std::string entry = yaml_text({{key, value}});
    std::string indent;
    std::size_t at = 0;
    if (above->is_null() || above->empty()) {  // "fsdp_config:" alone
      const std::size_t key_begin = tree_->places.at(mapping).key_begin;
      at = line_end(key_begin);
      indent = std::string(column(key_begin), ' ') + indent_unit();
    } else {
      const std::size_t key_begin =
          tree_->places.at(neighbour(mapping, are_together ? leader(mapping, entries) : key)).key_begin;
      at = entry_end(key_begin);
      indent = std::string(column(key_begin), ' ');
    }
    edits.push_back({at, at, line_break_ + indented(entry, indent, line_break_)});
  }
}

/// Members of a JSON object, or of a YAML mapping in braces.
void SettingsText::add_in_brackets(const std::string& mapping, const OrderedJson& entries,
                                   std::vector<TextEdit>& edits) const {
  const std::string& text = file_.text;
  const std::size_t open = tree_->places.at(mapping).begin;
  const json& above = *setting_at(tree_->root, mapping);
  const bool has_lines = is_json() && text.substr(open, json_end(text, open) - open).find('\n') != std::string::npos;
  for (const auto& [key, value] : entries.items()) {
    const std::string name = is_json() ? json(key).dump() : key;
    if (above.empty()) {
      edits.push_back({open + 1, open + 1, name + ": " + value_text(value)});
      continue;
    }
    const auto& beside = tree_->places.at(neighbour(mapping, key));
    std::size_t end = beside.begin, ignored = 0;
    if (is_json())
      end = json_end(text, beside.begin);
    else
      find_value(neighbour(mapping, key), ignored, end);
    std::string member = value_text(value), gap = " ";
    if (has_lines) {
      const std::size_t spaces = column(beside.key_begin);
      gap = line_break_ + text.substr(line_begin(beside.key_begin), spaces);
      const std::string unit = gap.find('\t') != std::string::npos ? "\t" : "  ";
      if (value.is_structured()) {
        member = value.dump(unit == "\t" ? 1 : 2, unit[0]);
        for (std::size_t at = 0; (at = member.find('\n', at)) != std::string::npos; at += gap.size())
          member.replace(at, 1, gap);
      }
    }
    edits.push_back({end, end, "," + gap + name + ": " + member});
  }
}

void SettingsText::add(const std::string& mapping, const OrderedJson& entries, std::vector<TextEdit>& edits) const {
  const json& above = *setting_at(tree_->root, mapping);
  const std::size_t begin = tree_->places.at(mapping).begin;
  const bool is_in_braces = begin != kNowhere && begin < file_.text.size() && file_.text[begin] == '{';
  if (is_json() && above.is_null())
    edits.push_back({begin, json_end(file_.text, begin), entries.dump()});
  else if (above.is_object() && is_in_braces)
    add_in_brackets(mapping, entries, edits);
  else
    add_lines(mapping, entries, edits);
}

std::string SettingsText::text() const {
  std::vector<TextEdit> edits = edits_.list();
  for (const auto& [mapping, entries] : added_) add(mapping, entries, edits);
  for (const auto& [section, keys] : gone_)
    if (!keys.empty()) remove_from(section, keys, edits);
  return with_edits(file_.text, std::move(edits));
}

}  // namespace gpuplan
