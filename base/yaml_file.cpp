#include "base/yaml_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/utf8.h"

namespace gpuplan {

struct YamlFields::Problems {
  struct Problem {
    int line;
    std::string key, text;
  };
  std::vector<Problem> found;
};

namespace {

struct KeyUnit {
  std::string_view ending;
  int exponent;  // a unit is 10^exponent x factor base units
  double factor = 1;
};

constexpr std::array kByteKeys{KeyUnit{"_mib", 0, 0x1p20}, KeyUnit{"_gib", 0, 0x1p30}};
constexpr std::array kRateKeys{KeyUnit{"_gb_s", 9}, KeyUnit{"_tb_s", 12}, KeyUnit{"gbit_s", 9, 1.0 / 8}};
constexpr std::array kFlopsKeys{KeyUnit{"_tflops", 12}, KeyUnit{"_gflops", 9}};
constexpr std::array kTimeKeys{KeyUnit{"_us", -6}};

/// The unit of `key`, which one of `units` must end.
template <std::size_t N>
KeyUnit unit_of(const std::string& key, const std::array<KeyUnit, N>& units) {
  for (const KeyUnit& unit : units)
    if (key.ends_with(unit.ending)) return unit;
  GPUPLAN_CHECK(false, "a key read with a unit must end in that unit");
  return units[0];
}

/// `value`, which stands as `text`, in base units: the decimal point moves before rounding, so that 15.6 GB/s is
/// 15600000000 B/s to the last bit, and every number that is written (base/yaml_text) comes back.
double in_base_units(double value, const std::string& text, KeyUnit unit) {
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

int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

std::string shown(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (!node.IsScalar()) return "nothing";
  const std::string& text = node.Scalar();
  return fmt::format("'{}'", text.size() > 60 ? text.substr(0, 57) + "..." : text);
}

/// 3 as "3", 0.5 as "0.5": as people wrote it.
std::string plain(double value) { return fmt::format("{:.12g}", value); }

}  // namespace

YamlFields::YamlFields(YAML::Node node, std::string prefix, std::shared_ptr<Problems> problems)
    : node_(std::move(node)),
      prefix_(std::move(prefix)),
      problems_(std::move(problems)) {
  std::set<std::string> seen;
  for (const auto& entry : node_)
    if (!entry.first.IsScalar())
      report_at(entry.first, "?", "a key must be a plain text");
    else if (!seen.insert(entry.first.Scalar()).second)
      report_at(entry.first, entry.first.Scalar(), "comes twice");
}

YAML::Node YamlFields::find(const std::string& key) {
  asked_.insert(key);
  for (const auto& entry : node_)
    if (entry.first.IsScalar() && entry.first.Scalar() == key) return entry.second;
  return YAML::Node(YAML::NodeType::Null);
}

YAML::Node YamlFields::require(const std::string& key) {
  YAML::Node node = find(key);
  if (node.IsNull()) report(key, has(key) ? "is null, a value is needed" : "is missing");
  return node;
}

bool YamlFields::has(const std::string& key) const {
  return std::any_of(node_.begin(), node_.end(),
                     [&](const auto& entry) { return entry.first.IsScalar() && entry.first.Scalar() == key; });
}

bool YamlFields::is_given(const std::string& key) { return !find(key).IsNull(); }
int YamlFields::line() const { return std::max(1, line_of(node_)); }

std::string YamlFields::text(const std::string& key) {
  return require(key).IsNull() ? "" : optional_text(key).value_or("");
}

std::optional<std::string> YamlFields::optional_text(const std::string& key) {
  const YAML::Node node = find(key);
  if (node.IsNull()) return std::nullopt;
  if (node.IsScalar()) return node.Scalar();
  report_at(node, key, fmt::format("must be a text, found {}", shown(node)));
  return std::nullopt;
}

std::optional<double> YamlFields::to_number(const YAML::Node& node, const std::string& key, NumberRange range) {
  try {
    if (!node.IsScalar()) throw InputError("", "");
    const double value = parse_number(node.Scalar(), "");
    if (value >= range.least && value <= range.most) return value;
    const bool is_small = value < range.least;
    report_at(node, key,
              fmt::format("{} is too {}, must be {} or {}", node.Scalar(), is_small ? "small" : "large",
                          plain(is_small ? range.least : range.most), is_small ? "more" : "less"));
  } catch (const InputError&) { report_at(node, key, fmt::format("must be a number, found {}", shown(node))); }
  return std::nullopt;
}

double YamlFields::number(const std::string& key, NumberRange range) {
  return require(key).IsNull() ? 0 : optional_number(key, range).value_or(0);
}

std::optional<double> YamlFields::optional_number(const std::string& key, NumberRange range) {
  const YAML::Node node = find(key);
  return node.IsNull() ? std::nullopt : to_number(node, key, range);
}

std::int64_t YamlFields::integer(const std::string& key, NumberRange range) {
  return require(key).IsNull() ? 0 : optional_integer(key, range).value_or(0);
}

std::optional<std::int64_t> YamlFields::optional_integer(const std::string& key, NumberRange range) {
  range.most = std::min(range.most, 0x1p53);  // above that a double skips whole numbers
  const auto value = optional_number(key, range);
  if (!value) return std::nullopt;
  if (*value == std::floor(*value)) return std::int64_t(*value);
  report(key, fmt::format("must be a whole number, found {}", shown(find(key))));
  return std::nullopt;
}

std::optional<bool> YamlFields::optional_flag(const std::string& key) {
  const YAML::Node node = find(key);
  if (node.IsNull()) return std::nullopt;
  if (node.IsScalar() && (node.Scalar() == "true" || node.Scalar() == "false")) return node.Scalar() == "true";
  report_at(node, key, fmt::format("must be true or false, found {}", shown(node)));
  return std::nullopt;
}

std::optional<Bytes> YamlFields::optional_bytes(const std::string& key) {
  const double factor = unit_of(key, kByteKeys).factor;
  const auto value = optional_number(key, {.most = 0x1p60 / factor});  // 1 EiB, as in a plan file
  return value ? std::optional(Bytes{std::llround(*value * factor)}) : std::nullopt;
}

std::optional<BytesPerSec> YamlFields::optional_rate(const std::string& key, NumberRange range) {
  const auto value = optional_number(key, range);
  return value ? std::optional(BytesPerSec{in_base_units(*value, find(key).Scalar(), unit_of(key, kRateKeys))})
               : std::nullopt;
}

std::optional<FlopsPerSec> YamlFields::optional_flops(const std::string& key) {
  const auto value = optional_number(key);
  return value ? std::optional(FlopsPerSec{in_base_units(*value, find(key).Scalar(), unit_of(key, kFlopsKeys))})
               : std::nullopt;
}

std::optional<Seconds> YamlFields::optional_time(const std::string& key) {
  const auto value = optional_number(key);
  return value ? std::optional(Seconds{in_base_units(*value, find(key).Scalar(), unit_of(key, kTimeKeys))})
               : std::nullopt;
}

std::vector<BytesPerSec> YamlFields::rates(const std::string& key, NumberRange range) {
  std::vector<BytesPerSec> out;
  const KeyUnit unit = unit_of(key, kRateKeys);
  const YAML::Node node = find(key);
  const std::vector<double> values = numbers(key, range);
  if (!node.IsSequence() && values.size() == 1) return {BytesPerSec{in_base_units(values[0], node.Scalar(), unit)}};
  for (std::size_t i = 0; i < values.size() && values.size() == node.size(); ++i)
    out.push_back(BytesPerSec{in_base_units(values[i], node[i].Scalar(), unit)});
  return out;
}

std::vector<std::string> YamlFields::texts(const std::string& key) {
  const YAML::Node node = find(key);
  if (node.IsNull()) return {};
  if (node.IsScalar()) return {node.Scalar()};
  std::vector<std::string> out;
  for (const auto& item : node)
    if (node.IsSequence() && item.IsScalar())
      out.push_back(item.Scalar());
    else {
      report_at(node, key, "must be a text or a list of texts");
      break;
    }
  return out;
}

std::vector<double> YamlFields::numbers(const std::string& key, NumberRange range) {
  const YAML::Node node = find(key);
  if (node.IsNull()) return {};
  std::vector<double> out;
  if (!node.IsSequence()) {
    if (const auto value = to_number(node, key, range)) out.push_back(*value);
    return out;
  }
  for (const auto& item : node)
    if (const auto value = to_number(item, key, range)) out.push_back(*value);
  if (node.size() == 0) report_at(node, key, "must not be empty");
  return out;
}

YamlFields YamlFields::fields(const std::string& key) {
  if (auto found = optional_fields(key)) return *std::move(found);
  if (find(key).IsNull()) require(key);
  return {YAML::Node(YAML::NodeType::Map), prefix_ + key + ".", std::make_shared<Problems>()};  // one message is enough
}

std::optional<YamlFields> YamlFields::optional_fields(const std::string& key) {
  const YAML::Node node = find(key);
  if (node.IsNull()) return std::nullopt;
  if (node.IsMap()) return YamlFields(node, prefix_ + key + ".", problems_);
  report_at(node, key, fmt::format("must be a mapping of keys to values, found {}", shown(node)));
  return std::nullopt;
}

std::vector<YamlFields> YamlFields::list(const std::string& key) {
  const YAML::Node node = find(key);
  std::vector<YamlFields> out;
  if (node.IsNull()) return out;
  if (!node.IsSequence()) report_at(node, key, fmt::format("must be a list, found {}", shown(node)));
  for (std::size_t i = 0; node.IsSequence() && i < node.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", key, i);
    if (node[i].IsMap())
      out.push_back(YamlFields(node[i], prefix_ + place + ".", problems_));
    else
      report_at(node[i], place, fmt::format("must be a mapping of keys to values, found {}", shown(node[i])));
  }
  return out;
}

std::vector<std::string> YamlFields::keys() const {
  std::vector<std::string> out;
  for (const auto& entry : node_)
    if (entry.first.IsScalar()) out.push_back(entry.first.Scalar());
  return out;
}

void YamlFields::report_at(const YAML::Node& node, const std::string& key, std::string problem) {
  problems_->found.push_back({std::max(1, line_of(node)), prefix_ + key, std::move(problem)});
}

void YamlFields::report(const std::string& key, std::string problem) {
  for (const auto& entry : node_)
    if (entry.first.IsScalar() && entry.first.Scalar() == key) return report_at(entry.first, key, std::move(problem));
  report_at(node_, key, std::move(problem));
}

void YamlFields::allow(const std::vector<std::string>& known) { asked_.insert(known.begin(), known.end()); }

void YamlFields::refuse_unknown() {
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const std::string& key : keys()) {
    if (asked_.contains(key)) continue;
    const std::string suggestion = did_you_mean(key, known);
    report(key, suggestion.empty() ? "is not a known key" : "is not a known key; " + suggestion);
  }
}

YamlFile::YamlFile(YamlFields top, std::string name, std::string content)
    : top_(std::move(top)),
      name_(std::move(name)),
      content_(std::move(content)) {}

YamlFile YamlFile::parse(const std::string& text, const std::string& name) {
  if (const auto at = first_invalid_utf8(text))
    throw InputError(fmt::format("{}:{}", name, 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(*at), '\n')),
                     fmt::format("the byte 0x{:02x} is not UTF-8 text", static_cast<unsigned char>(text[*at])),
                     "save the file as UTF-8");
  try {
    const YAML::Node node = YAML::Load(text);
    if (node.IsNull()) throw InputError(name + ":1:1", "the file is empty", "expected keys and values");
    if (!node.IsMap())
      throw InputError(fmt::format("{}:{}:1", name, line_of(node)),
                       fmt::format("expected keys and values, found {}", shown(node)));
    return {YamlFields(node, "", std::make_shared<YamlFields::Problems>()), name, text};
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}:{}:{}", name, error.mark.line + 1, error.mark.column + 1),
                     "not valid YAML: " + error.msg, "mind the indentation and the quotes");
  }
}

YamlFile YamlFile::read(const std::filesystem::path& path) { return parse(read_file(path), path.string()); }

void YamlFile::finish(std::string hint) const {
  auto found = top_.problems_->found;
  if (found.empty()) return;
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  const auto place = [&](const auto& problem) { return fmt::format("{}:{}: {}", name_, problem.line, problem.key); };
  if (found.size() == 1) throw InputError(place(found[0]), found[0].text, std::move(hint));
  std::string text = fmt::format("{} problems:", found.size());
  for (const auto& problem : found) text += fmt::format("\n  {}: {}", place(problem), problem.text);
  throw InputError(name_, text, std::move(hint));
}

}  // namespace gpuplan
