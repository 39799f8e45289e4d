// YAML from files people write: parsed with the place of every mistake, and read field by field with types and units.
// All objects of one file share a list of problems, so that a user sees them together, each with its line.
// Units stand in the key: `memory_gib: 80`, `bandwidth_gb_s: 768`, `latency_us: 3.4`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "base/units.h"

namespace gpuplan {

/// Inclusive bounds of a number in a file. Above 10^15 of any of our units it is a slip; products of a few stay finite.
struct NumberRange {
  double least = 0;
  double most = 1e15;
};

/// One mapping of a YAML file. A bad field is noted and a harmless value returned; `YamlFile::finish` then throws once
/// for all of them. An absent field and an explicit null are both "not given", except where `has` is asked.
class YamlFields {
 public:
  bool has(const std::string& key) const;  // present, even as null
  bool is_given(const std::string& key);   // present and not null
  int line() const;                        // 1-based

  std::string text(const std::string& key);  // required
  std::optional<std::string> optional_text(const std::string& key);
  std::int64_t integer(const std::string& key, NumberRange range = {});
  std::optional<std::int64_t> optional_integer(const std::string& key, NumberRange range = {});
  double number(const std::string& key, NumberRange range = {});
  std::optional<double> optional_number(const std::string& key, NumberRange range = {});
  std::optional<bool> optional_flag(const std::string& key);

  /// The unit is the end of the key: `_mib` and `_gib`; `_gb_s`, `_tb_s` and `_gbit_s`; `_tflops` and `_gflops`; `_us`.
  /// Decimal units are exact: what base/yaml_text writes comes back to the last bit.
  std::optional<Bytes> optional_bytes(const std::string& key);
  std::optional<BytesPerSec> optional_rate(const std::string& key, NumberRange range = {});
  std::optional<FlopsPerSec> optional_flops(const std::string& key);
  std::optional<Seconds> optional_time(const std::string& key);

  /// One value or a list of them; empty when not given.
  std::vector<std::string> texts(const std::string& key);
  std::vector<double> numbers(const std::string& key, NumberRange range = {});
  std::vector<BytesPerSec> rates(const std::string& key, NumberRange range = {});

  YamlFields fields(const std::string& key);  // required mapping
  std::optional<YamlFields> optional_fields(const std::string& key);
  std::vector<YamlFields> list(const std::string& key);  // list of mappings; empty when not given
  std::vector<std::string> keys() const;

  /// Notes a problem with `key`, at its line.
  void report(const std::string& key, std::string problem);
  /// These keys are for people and not read.
  void allow(const std::vector<std::string>& keys);
  /// Notes every key that was never asked for, with the nearest known key.
  void refuse_unknown();

 private:
  friend class YamlFile;
  struct Problems;
  YamlFields(YAML::Node node, std::string prefix, std::shared_ptr<Problems> problems);
  YAML::Node find(const std::string& key);  // Null when not given
  YAML::Node require(const std::string& key);
  std::optional<double> to_number(const YAML::Node& node, const std::string& key, NumberRange range);
  void report_at(const YAML::Node& node, const std::string& key, std::string problem);

  YAML::Node node_;
  std::string prefix_;  // "intra." in messages
  std::shared_ptr<Problems> problems_;
  std::set<std::string> asked_;
};

/// A whole file, whose top is a mapping.
class YamlFile {
 public:
  /// Throws InputError with where = "file:line:column" when it is not YAML, or is no mapping.
  static YamlFile parse(const std::string& text, const std::string& name);
  static YamlFile read(const std::filesystem::path& path);

  YamlFields& top() { return top_; }
  const std::string& content() const { return content_; }
  /// Throws InputError listing every noted problem as "file:line: key: problem".
  void finish(std::string hint = {}) const;

 private:
  YamlFile(YamlFields top, std::string name, std::string content);
  YamlFields top_;
  std::string name_, content_;
};

}  // namespace gpuplan
