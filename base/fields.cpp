#include "base/fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/utf8.h"
#include "base/value_tree.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::size_t kMostSuggestions = 20;  // unknown keys of one object; each is compared with every known key
constexpr std::size_t kMostShown = 100;       // problems of one file

struct KeyUnit {
  std::string_view ending;
  int exponent;  // a unit is 10^exponent x factor base units
  double factor = 1;
};
constexpr std::array kKeyUnits{KeyUnit{"_mib", 0, 0x1p20}, KeyUnit{"_gib", 0, 0x1p30},  KeyUnit{"_gb_s", 9},
                               KeyUnit{"_tb_s", 12},       KeyUnit{"gbit_s", 9, 0.125}, KeyUnit{"_tflops", 12},
                               KeyUnit{"_gflops", 9},      KeyUnit{"_us", -6}};

const KeyUnit* find_unit(std::string_view key) {
  const auto* const unit =
      std::find_if(kKeyUnits.begin(), kKeyUnits.end(), [&](const KeyUnit& u) { return key.ends_with(u.ending); });
  return unit == kKeyUnits.end() ? nullptr : unit;
}

/// `value`, which stands as `text`, in base units: the decimal point moves before rounding, so that 15.6 GB/s is
/// 15600000000 B/s to the last bit, and every number that is written comes back.
double in_base_units(double value, const std::string& text, const KeyUnit& unit) {
  if (unit.exponent == 0) return value * unit.factor;
  const auto mark = std::min(text.find_first_of("eE"), text.size());
  int exponent = 0;
  if (mark < text.size()) exponent = std::clamp(std::atoi(text.c_str() + mark + 1), -400, 400);
  const std::string moved = fmt::format("{}e{}", text.substr(0, mark), exponent + unit.exponent);
  const char* const begin = moved.data() + (moved.starts_with('+') ? 1 : 0);
  double exact = 0;
  const auto [end, error] = std::from_chars(begin, moved.data() + moved.size(), exact);
  const bool is_read = error == std::errc{} && end == moved.data() + moved.size();
  return (is_read ? exact : value * std::pow(10, unit.exponent)) * unit.factor;
}

std::string cut(const std::string& text) { return text.size() > 60 ? text.substr(0, 57) + "..." : text; }

/// The value as it stands in the file, cut to fit a message.
std::string shown(const json& value, bool is_yaml) {
  if (!is_yaml) return cut(value.dump(-1, ' ', false, json::error_handler_t::replace));
  if (value.is_object()) return "a mapping";
  if (value.is_array()) return "a list";
  return value.is_string() ? fmt::format("'{}'", cut(value.get_ref<const std::string&>())) : "nothing";
}

/// 3 as "3", 0.5 as "0.5": as people wrote it.
std::string plain(double value) { return fmt::format("{:.12g}", value); }

std::string item_key(std::string_view key, std::size_t index) { return fmt::format("{}[{}]", key, index); }

/// `value` without the keys that nobody asked for; texts as they are read.
json part_that_was_read(const ValueTree& tree, const json& value) {
  if (value.is_string()) return printable_line(value.get_ref<const std::string&>());
  json out = value.is_object() ? json::object() : json::array();
  if (value.is_array()) {
    for (const json& item : value) out.push_back(part_that_was_read(tree, item));
    return out;
  }
  if (!value.is_object()) return value;
  if (const auto asked = tree.asked.find(&value); asked != tree.asked.end())
    for (const auto& [key, inner] : value.items())
      if (asked->second.keys.contains(key)) out[key] = part_that_was_read(tree, inner);
  return out;
}

}  // namespace

void ValueTree::finish(std::string hint) const {
  if (problems.empty()) return;
  std::vector<Problem> found = problems;
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.line < b.line; });
  const auto place = [&](const Problem& problem) {
    if (problem.line == 0) return problem.key.empty() ? file : problem.key;
    const std::string line = fmt::format("{}:{}", file, problem.line);
    return problem.key.empty() ? line : fmt::format("{}: {}", line, problem.key);
  };
  if (found.size() == 1) {
    const Problem& only = found.front();
    throw InputError(only.line > 0 || only.key.empty() ? place(only) : fmt::format("{}: {}", file, only.key), only.text,
                     only.hint.empty() ? std::move(hint) : only.hint);
  }
  std::string text = fmt::format("{} problems:", found.size());
  for (const Problem& problem : found) {
    if (&problem == &found.front() + kMostShown) {
      text += fmt::format("\n  and {} more", found.size() - kMostShown);
      break;
    }
    text += fmt::format("\n  {}: {}{}{}", place(problem), problem.text, problem.hint.empty() ? "" : "; ", problem.hint);
  }
  throw InputError(file, text, std::move(hint));
}

bool KeySet::contains(std::string_view key) const {
  return std::find(few_.begin(), few_.end(), key) != few_.end() || many_.contains(key);
}

void KeySet::insert(std::string_view key) {
  constexpr std::size_t kFew = 8;
  if (contains(key)) return;
  if (few_.size() == kFew) return static_cast<void>(many_.emplace(key));
  few_.reserve(kFew);
  few_.emplace_back(key);
}

std::vector<std::string> KeySet::all() const {
  std::vector<std::string> out(many_.begin(), many_.end());
  out.insert(out.end(), few_.begin(), few_.end());
  std::ranges::sort(out);
  return out;
}

std::string AskedObject::prefix() const {
  if (!inside) return name;
  return inside->prefix() + (index ? item_key(name, *index) : name) + ".";
}

Fields::Fields(std::shared_ptr<ValueTree> tree, const json* object, const json* identity, AskedObject place)
    : tree_(std::move(tree)),
      object_(object),
      asked_(&tree_->asked.try_emplace(identity, std::move(place)).first->second) {}

Fields::Fields(std::shared_ptr<ValueTree> tree)
    : tree_(std::move(tree)),
      object_(&tree_->root),
      asked_(&tree_->asked[object_]) {}

Fields::Fields(const json& object, std::string file, std::string prefix)
    : tree_(std::make_shared<ValueTree>()),
      object_(&object),
      asked_(&tree_->asked[object_]) {
  tree_->file = std::move(file);
  asked_->name = std::move(prefix);
  if (object.is_object()) return;
  const std::string part = asked_->name.empty() ? "" : ": " + asked_->name.substr(0, asked_->name.size() - 1);
  throw InputError(tree_->file + part, fmt::format("expected an object {{...}}, found {}", shown(object, false)));
}

std::string Fields::path(std::string_view key) const { return asked_->prefix() + std::string(key); }
bool Fields::is_yaml() const { return tree_->format == FileFormat::Yaml; }
const std::string& Fields::file() const { return tree_->file; }
bool Fields::has(std::string_view key) const { return object_->contains(key); }

std::vector<std::string> Fields::keys() const {
  std::vector<std::string> out;
  for (const auto& entry : object_->items()) out.push_back(entry.key());
  if (!is_yaml()) return out;
  const std::string prefix = asked_->prefix();
  std::vector<std::pair<std::size_t, std::string>> ordered;
  for (std::string& key : out) {
    const auto* const place = tree_->find_place(prefix + key);
    ordered.emplace_back(place ? place->order : 0, std::move(key));
  }
  std::ranges::sort(ordered);
  std::transform(ordered.begin(), ordered.end(), out.begin(), [](auto& entry) { return std::move(entry.second); });
  return out;
}

int Fields::line() const {
  std::string here = asked_->prefix();
  if (!here.empty()) here.pop_back();
  const auto* const place = tree_->find_place(here);
  return place ? place->line : 1;
}

const json* Fields::find(std::string_view key) {
  if (!tree_->is_checked) asked_->keys.insert(key);
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const json* Fields::require(std::string_view key) {
  const json* value = find(key);
  if (!value) report(key, has(key) ? "is null, a value is needed" : "is missing");
  return value;
}

std::optional<std::string> Fields::to_text(const json& value, std::string_view key) {
  if (value.is_string()) return printable_line(value.get_ref<const std::string&>());  // it will be shown
  report_type(key, is_yaml() ? "a text" : "a text in quotes", value);
  return std::nullopt;
}

std::optional<double> Fields::to_number(const json& value, std::string_view key, NumberRange range) {
  std::optional<double> number;
  if (value.is_number()) number = value.get<double>();
  if (is_yaml() && value.is_string()) number = as_number(value.get_ref<const std::string&>());
  if (!number || !std::isfinite(*number)) return report_type(key, "a number", value), std::nullopt;
  if (*number >= range.least && *number <= range.most) return number;
  const bool is_small = *number < range.least;
  const std::string given = value.is_string() ? value.get<std::string>() : fmt::format("{}", *number);
  add_problem(0, key,
              fmt::format("{} is too {}, must be {} or {}", given, is_small ? "small" : "large",
                          plain(is_small ? range.least : range.most), is_small ? "more" : "less"));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::to_integer(const json& value, std::string_view key, IntRange range) {
  if (is_yaml()) {
    constexpr double kExact = 0x1p53;  // above that a double skips whole numbers
    const auto number = to_number(value, key, {double(range.least), std::min(double(range.most), kExact)});
    if (!number) return std::nullopt;
    if (*number == std::floor(*number)) return std::int64_t(*number);
    return report_type(key, "a whole number", value), std::nullopt;
  }
  if (!value.is_number_integer()) return report_type(key, "a whole number", value), std::nullopt;
  constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
  const bool is_huge = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t(kLargest);
  const auto number = is_huge ? kLargest : value.get<std::int64_t>();
  const bool is_small = number < range.least;
  if (!is_small && !is_huge && number <= range.most) return number;
  report(key, fmt::format("{} is too {}, must be {} or {}", shown(value, false), is_small ? "small" : "large",
                          is_small ? range.least : range.most, is_small ? "more" : "less"));
  return std::nullopt;
}

std::optional<bool> Fields::to_flag(const json& value, std::string_view key) {
  if (value.is_boolean()) return value.get<bool>();
  if (is_yaml() && (value == "true" || value == "false")) return value == "true";
  report_type(key, "true or false", value);
  return std::nullopt;
}

std::optional<double> Fields::to_amount(const json& value, std::string_view key, NumberRange range) {
  const auto number = to_number(value, key, range);
  const KeyUnit* const unit = find_unit(key);
  if (!number || !unit) return number;
  return in_base_units(*number, value.is_string() ? value.get<std::string>() : fmt::format("{}", *number), *unit);
}

std::optional<double> Fields::to_amount(const json& value, std::string_view key) {
  return to_amount(value, key, find_unit(key) ? NumberRange{} : NumberRange{0, 1e30});
}

std::optional<std::vector<const json*>> Fields::to_items(const json& value, std::string_view key) {
  if (!value.is_array()) return report_type(key, is_yaml() ? "a list" : "a list [...]", value), std::nullopt;
  std::vector<const json*> items;
  for (const json& item : value) items.push_back(&item);
  return items;
}

std::string Fields::text(std::string_view key) {
  const json* value = require(key);
  return value ? to_text(*value, key).value_or("") : "";
}

std::optional<std::string> Fields::optional_text(std::string_view key) {
  const json* value = find(key);
  return value ? to_text(*value, key) : std::nullopt;
}

std::optional<std::string> Fields::optional_lines(std::string_view key) {
  const json* value = find(key);
  if (!value || !to_text(*value, key)) return std::nullopt;
  return printable(value->get<std::string>());
}

std::int64_t Fields::integer(std::string_view key, IntRange range) {
  const json* value = require(key);
  return value ? to_integer(*value, key, range).value_or(0) : 0;
}

std::optional<std::int64_t> Fields::optional_integer(std::string_view key, IntRange range) {
  const json* value = find(key);
  return value ? to_integer(*value, key, range) : std::nullopt;
}

double Fields::number(std::string_view key, NumberRange range) {
  const json* value = require(key);
  return value ? to_number(*value, key, range).value_or(0) : 0;
}

std::optional<double> Fields::optional_number(std::string_view key, NumberRange range) {
  const json* value = find(key);
  return value ? to_number(*value, key, range) : std::nullopt;
}

std::optional<bool> Fields::optional_flag(std::string_view key) {
  const json* value = find(key);
  return value ? to_flag(*value, key) : std::nullopt;
}

std::optional<double> Fields::amount_with_unit(std::string_view key, NumberRange range) {
  GPUPLAN_CHECK(find_unit(key), "a key read with a unit must end in that unit");
  const json* value = find(key);
  return value ? to_amount(*value, key, range) : std::nullopt;
}

std::optional<Bytes> Fields::optional_bytes(std::string_view key) {
  const KeyUnit* const unit = find_unit(key);
  const auto value = amount_with_unit(key, {.most = 0x1p60 / (unit ? unit->factor : 1)});  // 1 EiB
  return value ? std::optional(Bytes{std::llround(*value)}) : std::nullopt;
}

std::optional<BytesPerSec> Fields::optional_rate(std::string_view key, NumberRange range) {
  const auto value = amount_with_unit(key, range);
  return value ? std::optional(BytesPerSec{*value}) : std::nullopt;
}

std::optional<FlopsPerSec> Fields::optional_flops(std::string_view key) {
  const auto value = amount_with_unit(key, {});
  return value ? std::optional(FlopsPerSec{*value}) : std::nullopt;
}

std::optional<Seconds> Fields::optional_time(std::string_view key) {
  const auto value = amount_with_unit(key, {});
  return value ? std::optional(Seconds{*value}) : std::nullopt;
}

std::vector<std::string> Fields::texts(std::string_view key) {
  const json* value = find(key);
  if (!value) return {};
  if (value->is_string()) return {printable_line(value->get_ref<const std::string&>())};
  std::vector<std::string> out;
  if (value->is_array())
    for (const json& item : *value)
      if (item.is_string()) out.push_back(printable_line(item.get_ref<const std::string&>()));
  if (!value->is_array() || out.size() != value->size()) report(key, "must be a text or a list of texts");
  return out;
}

std::vector<double> Fields::numbers(std::string_view key, NumberRange range) {
  const json* value = find(key);
  if (!value) return {};
  std::vector<double> out;
  if (!value->is_array()) {
    if (const auto number = to_number(*value, key, range)) out.push_back(*number);
    return out;
  }
  for (std::size_t i = 0; i < value->size(); ++i)
    if (const auto number = to_number((*value)[i], item_key(key, i), range)) out.push_back(*number);
  if (value->empty()) report(key, "must not be empty");
  return out;
}

std::vector<BytesPerSec> Fields::rates(std::string_view key, NumberRange range) {
  const json* value = find(key);
  const std::vector<double> values = numbers(key, range);
  std::vector<BytesPerSec> out;
  if (!value || values.size() != (value->is_array() ? value->size() : 1)) return out;
  for (std::size_t i = 0; i < values.size(); ++i)
    out.push_back(BytesPerSec{*to_amount(value->is_array() ? (*value)[i] : *value, key, range)});
  return out;
}

Fields Fields::fields(std::string_view key) {
  if (auto found = optional_fields(key)) return *std::move(found);
  if (!is_given(key)) require(key);
  static const json kEmpty = json::object();
  return Fields(kEmpty, "", path(key) + ".");  // one message is enough: its problems go nowhere
}

std::optional<Fields> Fields::optional_fields(std::string_view key) {
  const json* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_object()) return Fields(tree_, value, value, {.inside = asked_, .name = std::string(key)});
  report_type(key, is_yaml() ? "a mapping of keys to values" : "an object {...}", *value);
  return std::nullopt;
}

std::vector<Fields> Fields::list(std::string_view key) {
  const json* value = find(key);
  std::vector<Fields> out;
  if (!value) return out;
  if (!value->is_array()) return report_type(key, is_yaml() ? "a list" : "a list [...]", *value), out;
  for (std::size_t i = 0; i < value->size(); ++i) {
    const json& item = (*value)[i];
    if (item.is_object())
      out.push_back(Fields(tree_, &item, &item, {.inside = asked_, .name = std::string(key), .index = i}));
    else
      report_type(item_key(key, i), is_yaml() ? "a mapping of keys to values" : "an object {...}", item);
  }
  return out;
}

Fields Fields::fields_as(std::string_view key, const json& values) const {
  const auto found = object_->find(key);
  return Fields(tree_, &values, found == object_->end() ? &values : &*found,
                {.inside = asked_, .name = std::string(key)});
}

json Fields::as_read() const { return part_that_was_read(*tree_, *object_); }

void Fields::add_problem(int line, std::string_view key, std::string problem) {
  if (is_yaml() && line == 0) {
    const auto* const place = tree_->find_place(path(key));
    line = place ? place->line : this->line();
  }
  tree_->problems.push_back({line, path(key), std::move(problem), {}});
}

void Fields::report(std::string_view key, std::string problem) {
  const auto* const place = tree_->find_place(path(key));
  add_problem(place ? place->key_line : 0, key, std::move(problem));
}

void Fields::report_here(std::string problem, std::string hint) {
  std::string here = asked_->prefix();
  if (!here.empty()) here.pop_back();
  tree_->problems.push_back({is_yaml() ? line() : 0, std::move(here), std::move(problem), std::move(hint)});
}

void Fields::report_type(std::string_view key, std::string_view wanted, const json& value) {
  add_problem(0, key, fmt::format("must be {}, found {}", wanted, shown(value, is_yaml())));
}

std::size_t Fields::num_problems() const { return tree_->problems.size(); }
void Fields::allow(const std::vector<std::string>& known) {
  if (tree_->is_checked) return;
  for (const std::string& key : known) asked_->keys.insert(key);
}

void Fields::refuse_unknown() {
  if (tree_->is_checked) return;
  const auto is_known = [&](const auto& entry) { return asked_->keys.contains(entry.key()); };
  const auto entries = object_->items();
  if (std::all_of(entries.begin(), entries.end(), is_known)) return;
  const std::vector<std::string> known = asked_->keys.all();
  std::size_t found = 0;
  for (const std::string& key : keys()) {
    if (asked_->keys.contains(key)) continue;
    const std::string suggestion = ++found <= kMostSuggestions ? did_you_mean(key, known) : std::string();
    report(key, fmt::format("is not a known {}{}{}", is_yaml() ? "key" : "field", suggestion.empty() ? "" : "; ",
                            suggestion));
  }
}

void Fields::finish(std::string hint) const { tree_->finish(std::move(hint)); }

}  // namespace gpuplan
