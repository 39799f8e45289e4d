// Internal to the plan file: fields are listed once, in templates that work both ways. PlanWriter makes JSON of what it
// is shown; PlanReader fills what it is shown and notes every problem with its place, so that all of a file come
// together.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/units.h"
#include "cluster/fabric.h"
#include "models/recipe_names.h"
#include "planner/estimate.h"

namespace gpuplan {

constexpr std::int64_t kMostCount = 1'000'000'000;
constexpr std::int64_t kMostBytes = std::int64_t(1) << 60;  // 1 EiB; sums of a few stay inside 64 bits

/// Inclusive bounds of a real number.
struct RealRange {
  double least = 0, most = 1e30;
};
/// Of what was computed from such numbers.
constexpr RealRange kAnyReal{0, std::numeric_limits<double>::max()};

std::span<const NameRow<Preference>> preference_names();  // speed, cost, memory
std::string_view to_string(Preference preference);

namespace plan_detail {

template <class T>
struct Inside {
  static constexpr bool is_optional = false, is_vector = false, is_quantity = false;
};
template <class T>
struct Inside<std::optional<T>> : Inside<void> {
  static constexpr bool is_optional = true;
};
template <class T>
struct Inside<std::vector<T>> : Inside<void> {
  static constexpr bool is_vector = true;
};
template <class Tag>
struct Inside<Quantity<Tag>> : Inside<void> {
  static constexpr bool is_quantity = true;
};

inline double finite(double value) {
  GPUPLAN_CHECK(std::isfinite(value), "a plan holds finite numbers only");
  return value;
}

/// How a value stands in the file: base units, canonical names, null for "not given".
template <class T>
nlohmann::json to_plan_value(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return std::string(to_string(value));
  else if constexpr (std::is_same_v<T, double>)
    return finite(value);
  else if constexpr (std::is_same_v<T, Bytes>)
    return value.count;
  else if constexpr (Inside<T>::is_quantity)
    return finite(value.value);
  else if constexpr (Inside<T>::is_optional)
    return value ? to_plan_value(*value) : nlohmann::json();
  else if constexpr (Inside<T>::is_vector) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& item : value) list.push_back(to_plan_value(item));
    return list;
  } else
    return value;
}

}  // namespace plan_detail

class PlanWriter {
 public:
  static constexpr bool kReads = false;

  /// Puts `value` at `key`. Ranges matter to the reader only.
  template <class T, class... Range>
  bool operator()(const char* key, const T& value, Range...) {
    out_[key] = plan_detail::to_plan_value(value);
    return true;
  }

  /// A name of a table, as the table spells it. `canonical` throws InputError for an unknown one.
  template <class Canonical>
  void name(const char* key, const std::string& value, Canonical canonical) {
    out_[key] = canonical(value);
  }

  template <class List>
  void object(const char* key, List list) {
    nullable_object(key, true, list);
  }

  void raw(const char* key, nlohmann::json value) { out_[key] = std::move(value); }

  /// `list` shows the fields of the object at `key`, which is null unless `is_given`.
  template <class List>
  bool nullable_object(const char* key, bool is_given, List list) {
    PlanWriter inner;
    if (is_given) list(inner);
    out_[key] = is_given ? std::move(inner.out_) : nlohmann::json();
    return is_given;
  }

  nlohmann::json take() { return std::move(out_); }

 private:
  nlohmann::json out_ = nlohmann::json::object();
};

/// Every problem of one file, in the order found.
class PlanProblems {
 public:
  explicit PlanProblems(std::string where) : where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool empty() const { return lines_.empty(); }
  void add(const std::string& key, const std::string& problem) { lines_.push_back({key, problem}); }
  /// Takes over what a loader of a part of this file threw. `prefix` ("model.config.") goes before its keys.
  void add(const InputError& error, const std::string& prefix = {});
  /// Throws InputError when there is any problem. One problem: where = "file: key".
  void finish() const;

 private:
  struct Line {
    std::string key, problem;
  };
  std::string where_;
  std::vector<Line> lines_;
};

/// One object of the file. A bad field is noted and what it was to fill keeps its value.
class PlanReader {
 public:
  static constexpr bool kReads = true;

  /// `path` is "" for the whole file, else "recipe.lora". Requires: `object` is an object that outlives this.
  PlanReader(const nlohmann::json& object, std::string path, PlanProblems& problems)
      : problems_(problems),
        path_(std::move(path)),
        fields_(object, problems.where(), path_.empty() ? "" : path_ + ".") {}

  /// Reads `key` into `value`; false when that failed. Only optional values may be null, and no key may be left out.
  bool operator()(const char* key, std::string& value) { return text(key, value); }
  bool operator()(const char* key, bool& value) {
    return keep(value, require(key) ? fields_.optional_bool(key) : std::nullopt);
  }
  bool operator()(const char* key, std::int64_t& value, IntRange range = {0, kMostCount}) {
    return keep(value, require(key) ? fields_.optional_int(key, range) : std::nullopt);
  }
  bool operator()(const char* key, Bytes& value) { return (*this)(key, value.count, IntRange{0, kMostBytes}); }
  bool operator()(const char* key, double& value, RealRange range = {});
  template <class Tag>
  bool operator()(const char* key, Quantity<Tag>& value, RealRange range = {}) {
    return (*this)(key, value.value, range);
  }
  bool operator()(const char* key, std::vector<std::string>& values);
  bool operator()(const char* key, std::vector<Bytes>& values);

  template <class T, class... Range>
  bool operator()(const char* key, std::optional<T>& value, Range... range) {
    if (!fields_.has(key)) return require(key);
    T inner{};
    if (!fields_.find(key)) return value.reset(), true;
    if (!(*this)(key, inner, range...)) return false;
    value = inner;
    return true;
  }

  template <class Enum>
  requires std::is_enum_v<Enum>
  bool operator()(const char* key, Enum& value) {
    std::string given;
    return text(key, given) && choose(key, given, value);
  }

  template <class Canonical>
  void name(const char* key, std::string& value, Canonical canonical) {
    if (!text(key, value)) return;
    try {
      const std::string right = canonical(value);
      if (right != value) fields_.report(key, "unknown name '" + value + "': did you mean '" + right + "'?");
    } catch (const InputError& error) { fields_.report(key, error.problem() + "; " + error.hint()); }
  }

  template <class List>
  void object(const char* key, List list) {
    if (require(key)) nullable_object(key, true, list);
  }

  template <class List>
  bool nullable_object(const char* key, bool, List list) {
    if (!fields_.has(key)) return require(key);
    const nlohmann::json* found = fields_.find(key);
    if (!found) return false;
    if (!found->is_object()) return report_type(key, "an object {...}", *found);
    PlanReader inner(*found, path_of(key), problems_);
    list(inner);
    inner.close();
    return true;
  }

  /// The object at `key`, which may be left out.
  template <class List>
  void optional_object(const char* key, List list) {
    if (fields_.has(key)) object(key, list);
  }

  /// Each object of the list at `key`, which must not be empty.
  template <class List>
  void objects(const char* key, List list) {
    if (!require(key)) return;
    const nlohmann::json& found = *fields_.find(key);
    if (!found.is_array() || found.empty()) return void(report_type(key, "a list [...] of one or more", found));
    objects_or_none(key, list);
  }

  template <class List>
  void objects_or_none(const char* key, List list) {
    if (!require(key)) return;
    const nlohmann::json& found = *fields_.find(key);
    if (!found.is_array()) return void(report_type(key, "a list [...]", found));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::string item = std::string(key) + "[" + std::to_string(i) + "]";
      if (!found[i].is_object()) {
        report_type(item, "an object {...}", found[i]);
        continue;
      }
      PlanReader inner(found[i], path_of(item), problems_);
      list(inner);
      inner.close();
    }
  }

  /// The value at `key` as it is; nullptr (and a problem) when there is none.
  const nlohmann::json* any(const char* key) { return require(key) ? fields_.find(key) : nullptr; }

  /// Whether nothing was wrong so far, here and elsewhere in the file.
  bool is_clean() const { return problems_.empty() && !fields_.has_problems(); }
  void report(std::string_view key, std::string problem) { fields_.report(key, std::move(problem)); }
  /// Hands the problems over, those of unknown fields too.
  void close();

 private:
  bool require(const char* key);
  bool text(const char* key, std::string& value) {
    return keep(value, require(key) ? fields_.optional_string(key) : std::nullopt);
  }
  bool report_type(std::string_view key, std::string_view wanted, const nlohmann::json& found);
  std::string path_of(std::string_view key) const { return (path_.empty() ? "" : path_ + ".") + std::string(key); }

  template <class T>
  static bool keep(T& value, std::optional<T> found) {
    if (!found) return false;
    value = *std::move(found);
    return true;
  }

  bool choose(const char* key, const std::string& given, Dtype& value);
  bool choose(const char* key, const std::string& given, FabricKind& value);
  bool choose(const char* key, const std::string& given, Method& value) {
    return choose(key, given, value, method_names());
  }
  bool choose(const char* key, const std::string& given, BaseQuant& value) {
    return choose(key, given, value, quant_names());
  }
  bool choose(const char* key, const std::string& given, Precision& value) {
    return choose(key, given, value, precision_names());
  }
  bool choose(const char* key, const std::string& given, AttentionKernel& value) {
    return choose(key, given, value, attention_names());
  }
  bool choose(const char* key, const std::string& given, LossKernel& value) {
    return choose(key, given, value, loss_names());
  }
  bool choose(const char* key, const std::string& given, LayerKernels& value) {
    return choose(key, given, value, kernels_names());
  }
  bool choose(const char* key, const std::string& given, Checkpointing& value) {
    return choose(key, given, value, checkpointing_names());
  }
  bool choose(const char* key, const std::string& given, OffloadTarget& value) {
    return choose(key, given, value, offload_names());
  }
  bool choose(const char* key, const std::string& given, Packing& value) {
    return choose(key, given, value, packing_names());
  }
  bool choose(const char* key, const std::string& given, Preference& value) {
    return choose(key, given, value, preference_names());
  }

  /// Only the canonical spelling: the schema knows no other.
  template <class Enum>
  bool choose(const char* key, const std::string& given, Enum& value, std::span<const NameRow<Enum>> rows) {
    const NameRow<Enum>* row = find_name(rows, given);
    if (row && name_in(rows, row->value) == given) return value = row->value, true;
    return report_name(key, given, row ? std::string(name_in(rows, row->value)) : std::string(), canonical_names(rows));
  }
  bool report_name(const char* key, const std::string& given, const std::string& meant,
                   const std::vector<std::string>& names);

  PlanProblems& problems_;
  std::string path_;
  JsonFields fields_;
};

}  // namespace gpuplan
