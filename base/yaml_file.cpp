#include "base/yaml_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "base/data_archive.h"
#include "base/error.h"
#include "base/files.h"
#include "base/narrow.h"
#include "base/utf8.h"
#include "base/value_tree.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepestLevel = 256;      // levels; what walks a value recurses, and no file of ours has ten
constexpr std::size_t kMostValues = 1'000'000;  // aliases may repeat a few lines without end

std::size_t num_values(const json& value) {
  std::size_t count = 1;
  if (value.is_structured())
    for (const json& item : value) count += num_values(item);
  return count;
}

/// Meaning of a scalar: every one a text, or by the rules of YAML 1.1 where it has no quotes.
enum class Scalars : std::uint8_t { Texts, Yaml11 };

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// Digits, with underscores between them, in a base that is named by its prefix; nothing for other text.
std::optional<std::int64_t> yaml11_integer(std::string_view text) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits), [](char c) { return c != '_'; });
  const bool is_negative = digits.starts_with('-');
  if (digits.starts_with('-') || digits.starts_with('+')) digits.erase(0, 1);
  int base = 10;
  if (digits.starts_with("0x"))
    base = 16, digits.erase(0, 2);
  else if (digits.starts_with("0b"))
    base = 2, digits.erase(0, 2);
  else if (digits.size() > 1 && digits.front() == '0')
    base = 8;
  if (digits.empty() || digits.front() == '-' || digits.front() == '+' || text.starts_with('_')) return {};
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || end != digits.data() + digits.size()) return {};
  return is_negative ? -value : value;
}

/// A number with a point; its exponent needs a sign. "1e-4" is therefore a text, as in PyYAML.
std::optional<double> yaml11_float(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  const std::size_t point = digits.find('.'), mark = digits.find_first_of("eE");
  const bool has_digit = digits.find_first_of("0123456789") < std::min(mark, digits.size());
  if (point == std::string::npos || point > mark || !has_digit) return {};
  if (mark != std::string::npos && (mark + 1 >= digits.size() || (digits[mark + 1] != '+' && digits[mark + 1] != '-')))
    return {};
  if (mark != std::string::npos && digits[mark + 1] == '+') digits.erase(mark + 1, 1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return {};
  return value;
}

/// Reads a scalar without quotes as PyYAML's safe loader does. Source: YAML 1.1 types; yaml/resolver.py of PyYAML 6.
json yaml11_value(const std::string& text) {
  if (text.empty() || is_one_of(text, {"~", "null", "Null", "NULL"})) return {};
  if (is_one_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) return false;
  if (const auto integer = yaml11_integer(text)) return *integer;
  if (const auto number = yaml11_float(text)) return *number;
  return text;
}

/// Builds the tree while yaml-cpp reads the text.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(ValueTree& tree, Scalars scalars, DuplicateKeys duplicates)
      : tree_(tree),
        scalars_(scalars),
        duplicates_(duplicates) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, anchor, json()); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (!open_.empty() && open_.back().wants_key) return start_entry(mark, text);
    const bool is_plain = tag.empty() || tag == "?";
    add(mark, anchor, scalars_ == Scalars::Yaml11 && is_plain ? yaml11_value(text) : json(text));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) fail(mark, "an alias stands inside what it repeats");
    add(mark, 0, known->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor, json::array());
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, anchor, json::object());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    json value;
    std::string path, key;
    YAML::anchor_t anchor = 0;
    bool wants_key = false, skips_value = false;
    int key_line = 1;
    std::size_t key_begin = 0;
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& problem) const {
    throw InputError(fmt::format("{}:{}:{}", tree_.file, mark.line + 1, mark.column + 1), problem);
  }

  std::string path_of_next() const {
    if (open_.empty()) return {};
    const Level& level = open_.back();
    if (level.value.is_array()) return fmt::format("{}[{}]", level.path, level.value.size());
    return level.path.empty() ? level.key : fmt::format("{}.{}", level.path, level.key);
  }

  ValueTree::Problem problem(const YAML::Mark& mark, const std::string& key, const char* text) const {
    return {mark.line + 1, open_.back().path.empty() ? key : fmt::format("{}.{}", open_.back().path, key), text, {}};
  }

  /// A key of the mapping that is open.
  void start_entry(const YAML::Mark& mark, const std::string& key) {
    Level& level = open_.back();
    level.wants_key = false;
    level.key = key;
    level.key_line = mark.line + 1;
    level.key_begin = std::size_t(mark.pos);
    const bool is_repeated = level.value.contains(key);
    level.skips_value = is_repeated && duplicates_ == DuplicateKeys::Refuse;
    if (is_repeated) (level.skips_value ? tree_.problems : tree_.repeated).push_back(problem(mark, key, "comes twice"));
  }

  /// A key that is no text; its value is skipped.
  bool is_odd_key(const YAML::Mark& mark) {
    if (open_.empty() || !open_.back().wants_key) return false;
    tree_.problems.push_back(problem(mark, "?", "a key must be a plain text"));
    return true;
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, json value) {
    if (open_.size() == kDeepestLevel) fail(mark, fmt::format("is nested more than {} levels deep", kDeepestLevel));
    const bool is_key = is_odd_key(mark);
    Level level{.value = std::move(value), .path = is_key ? "?" : path_of_next(), .anchor = anchor};
    level.wants_key = level.value.is_object();
    note_place(mark, level.path, is_key);
    open_.push_back(std::move(level));
  }

  void close() {
    Level level = std::move(open_.back());
    open_.pop_back();
    if (level.anchor != 0) anchors_[level.anchor] = level.value;
    put(std::move(level.value));
  }

  void add(const YAML::Mark& mark, YAML::anchor_t anchor, json value) {
    if (anchor != 0) anchors_[anchor] = value;
    note_place(mark, path_of_next(), is_odd_key(mark));
    num_values_ += num_values(value);
    if (num_values_ > kMostValues) fail(mark, fmt::format("holds more than {} values", kMostValues));
    put(std::move(value));
  }

  /// Keeps the place of the value that counts when a key comes twice.
  void note_place(const YAML::Mark& mark, const std::string& path, bool is_key) {
    const int line = mark.line + 1;
    const bool is_entry = !open_.empty() && open_.back().value.is_object();
    if (is_key) return;
    ValueTree::Place place{
        line, is_entry ? open_.back().key_line : line, tree_.places.size(), {}, std::size_t(mark.pos)};
    if (is_entry) place.key_begin = open_.back().key_begin;
    if (duplicates_ == DuplicateKeys::LastWins)
      tree_.places.insert_or_assign(path, place);
    else
      tree_.places.try_emplace(path, place);
  }

  void put(json value) {
    if (open_.empty()) {
      tree_.root = std::move(value);
      return;
    }
    Level& level = open_.back();
    if (level.value.is_array()) return level.value.push_back(std::move(value));
    if (level.wants_key) {  // a key that is no text
      level.wants_key = false;
      level.skips_value = true;
      return;
    }
    if (!level.skips_value) level.value[level.key] = std::move(value);
    level.wants_key = true;
    level.skips_value = false;
  }

  ValueTree& tree_;
  Scalars scalars_;
  DuplicateKeys duplicates_;
  std::vector<Level> open_;
  std::map<YAML::anchor_t, json> anchors_;
  std::size_t num_values_ = 0;
};

void check_utf8(const std::string& text, const std::string& name) {
  if (const auto at = first_invalid_utf8(text))
    throw InputError(fmt::format("{}:{}", name, 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(*at), '\n')),
                     fmt::format("the byte 0x{:02x} is not UTF-8 text", static_cast<unsigned char>(text[*at])),
                     "save the file as UTF-8");
}

std::shared_ptr<ValueTree> parse_tree(const std::string& text, const std::string& name,
                                      Scalars scalars = Scalars::Texts,
                                      DuplicateKeys duplicates = DuplicateKeys::Refuse) {
  auto tree = std::make_shared<ValueTree>();
  tree->file = name;
  tree->format = FileFormat::Yaml;
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    TreeBuilder builder(*tree, scalars, duplicates);
    parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}:{}:{}", name, error.mark.line + 1, error.mark.column + 1),
                     "not valid YAML: " + error.msg, "mind the indentation and the quotes");
  }
  return tree;
}

/// The digits with a point after the first `whole` of them: digits "106", whole 2 is "10.6".
std::string with_point(const std::string& digits, int whole) {
  const int count = narrow<int>(digits.size());
  if (whole <= 0) return "0." + std::string(std::size_t(-whole), '0') + digits;
  if (whole >= count) return digits + std::string(std::size_t(whole - count), '0');
  return digits.substr(0, std::size_t(whole)) + "." + digits.substr(std::size_t(whole));
}

}  // namespace

YamlFile::YamlFile(std::shared_ptr<ValueTree> tree, std::string content)
    : top_(std::move(tree)),
      content_(std::move(content)) {}

std::shared_ptr<ValueTree> parse_yaml(const std::string& text, const std::string& name) {
  check_utf8(text, name);
  auto tree = parse_tree(text, name);
  if (tree->root.is_null()) throw InputError(name + ":1:1", "the file is empty", "expected keys and values");
  if (!tree->root.is_object())
    throw InputError(
        fmt::format("{}:{}:1", name, tree->places.at("").line),
        fmt::format("expected keys and values, found {}",
                    tree->root.is_array() ? "a list" : fmt::format("'{}'", tree->root.get<std::string>())));
  return tree;
}

YamlFile YamlFile::parse(const std::string& text, const std::string& name) { return {parse_yaml(text, name), text}; }

std::shared_ptr<ValueTree> parse_yaml11(const std::string& text, const std::string& name, DuplicateKeys duplicates) {
  check_utf8(text, name);
  auto tree = parse_tree(text, name, Scalars::Yaml11, duplicates);
  tree->finish("");
  return tree;
}

std::shared_ptr<ValueTree> read_yaml11(const std::filesystem::path& path) {
  if (auto packed = packed_yaml(path, DataFormat::Yaml11)) return packed;
  return parse_yaml11(read_file(path), path.string());
}

namespace {

struct Parsed {
  std::shared_ptr<const ValueTree> tree;
  std::string content;
};

/// Each is parsed once: reading what it says takes a hundredth of the time.
Parsed shipped_file(const std::filesystem::path& path, const InputLimit& limit) {
  static std::mutex mutex;
  static std::map<std::string, Parsed> known;
  const std::lock_guard lock(mutex);
  Parsed& parsed = known[path.string()];
  if (!parsed.tree) {
    parsed.content = read_file(path, limit);
    parsed.tree = parse_yaml(parsed.content, path.string());
  }
  return parsed;
}

}  // namespace

YamlFile YamlFile::read(const std::filesystem::path& path, const InputLimit& limit) {
  if (!is_shipped(path)) return parse(read_file(path, limit), path.string());
  if (auto packed = packed_yaml(path, DataFormat::Yaml)) return {std::move(packed), {}};
  Parsed parsed = shipped_file(path, limit);
  return {std::make_shared<ValueTree>(*parsed.tree), std::move(parsed.content)};  // problems are noted in a copy
}

std::string YamlFile::content() const { return content_.empty() ? read_file(top_.file()) : content_; }

std::string decimal(double value, int exponent) {
  if (value == 0) return "0";
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  std::string digits(buffer.data(), end);  // "-1.06e+10"
  const auto mark = digits.find('e');
  const int magnitude = std::atoi(digits.c_str() + mark + 1) - exponent;
  digits.resize(mark);
  const std::string sign = digits.front() == '-' ? "-" : "";
  if (!sign.empty()) digits.erase(0, 1);
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  constexpr int kPlain = 15;
  if (magnitude > kPlain || magnitude < -kPlain) return fmt::format("{}{}e{}", sign, with_point(digits, 1), magnitude);
  return sign + with_point(digits, magnitude + 1);
}

std::string in_gb_s(BytesPerSec rate) { return decimal(rate.value, 9); }
std::string in_gbit_s(BytesPerSec rate) { return decimal(rate.value * 8, 9); }
std::string in_tflops(FlopsPerSec rate) { return decimal(rate.value, 12); }
std::string in_us(Seconds time) { return decimal(time.value, -6); }
std::string in_mib(Bytes amount) { return decimal(double(amount.count) / 0x1p20); }
std::string in_gib(Bytes amount) { return decimal(double(amount.count) / 0x1p30); }

std::string in_quotes(std::string_view text) { return json(text).dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace gpuplan
