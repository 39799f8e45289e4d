// The fields of one object of a file, JSON or YAML: read by key with types, ranges and units. Every object of a file
// shares one list of problems, so that a user sees them together, each with its key and, in YAML, its line.
// In data files the unit stands in the key: `memory_gib: 80`, `bandwidth_gb_s: 768`, `latency_us: 3.4`.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/name_table.h"
#include "base/table_row.h"
#include "base/units.h"

namespace gpuplan {

struct AskedObject;
struct ValueTree;

/// Inclusive bounds of a whole number.
struct IntRange {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// Inclusive bounds of a number. Above 10^15 of any of our units it is a slip; products of a few stay finite.
struct NumberRange {
  double least = 0;
  double most = 1e15;
};
inline constexpr NumberRange kAnyNumber{std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()};

class Fields;

constexpr std::int64_t kMostBytes = std::int64_t(1) << 60;  // 1 EiB; sums of a few stay inside 64 bits

namespace fields_detail {

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

/// A type that read_field reads.
template <class T>
concept HasOwnShape = requires(Fields& fields, std::string_view key, const nlohmann::json& from, T& value) {
  read_field(fields, key, from, value);
};

}  // namespace fields_detail

/// One object. A bad field is noted and a harmless value returned, or a member left as it is; `finish` then throws once
/// for all of them. An absent field and an explicit null are both "not given", except where `has` is asked.
class Fields {
 public:
  /// Keeps a reference to `object`; `prefix` goes before its keys in messages: "text_config.". Throws InputError when
  /// `object` is none.
  Fields(const nlohmann::json& object, std::string file, std::string prefix = {});
  Fields(nlohmann::json&&, std::string, std::string = {}) = delete;  // it would not outlive this line
  /// The top of `tree`. Requires: it is an object.
  explicit Fields(std::shared_ptr<ValueTree> tree);

  bool has(std::string_view key) const;  // present, even as null
  bool is_given(std::string_view key) { return find(key) != nullptr; }
  std::vector<std::string> keys() const;  // in the order of a YAML file, by name in JSON
  int line() const;                       // 1-based; 1 in JSON
  const std::string& file() const;

  const nlohmann::json* find(std::string_view key);     // nullptr when not given
  const nlohmann::json* require(std::string_view key);  // nullptr and a problem when not given

  std::string text(std::string_view key);  // required
  std::optional<std::string> optional_text(std::string_view key);
  std::optional<std::string> optional_lines(std::string_view key);  // a text whose line feeds stay
  std::int64_t integer(std::string_view key, IntRange range = {});
  std::optional<std::int64_t> optional_integer(std::string_view key, IntRange range = {});
  double number(std::string_view key, NumberRange range = {});
  std::optional<double> optional_number(std::string_view key, NumberRange range = {});
  std::optional<bool> optional_flag(std::string_view key);

  /// The end of the key is the unit: `_mib` and `_gib`; `_gb_s`, `_tb_s` and `gbit_s`; `_tflops` and `_gflops`; `_us`.
  /// Decimal units of YAML are exact: what base/yaml_file writes comes back to the last bit.
  std::optional<Bytes> optional_bytes(std::string_view key);
  std::optional<BytesPerSec> optional_rate(std::string_view key, NumberRange range = {});
  std::optional<FlopsPerSec> optional_flops(std::string_view key);
  std::optional<Seconds> optional_time(std::string_view key);

  /// One value or a list of them; empty when not given.
  std::vector<std::string> texts(std::string_view key);
  std::vector<double> numbers(std::string_view key, NumberRange range = {});
  std::vector<BytesPerSec> rates(std::string_view key, NumberRange range = {});

  Fields fields(std::string_view key);  // required object
  std::optional<Fields> optional_fields(std::string_view key);
  std::vector<Fields> list(std::string_view key);  // list of objects; empty when not given
  /// The object at `key` as a reader completed it, for the same messages. Requires: `values`, an object, outlives it.
  Fields fields_as(std::string_view key, const nlohmann::json& values) const;
  Fields fields_as(std::string_view, nlohmann::json&&) const = delete;

  // A struct shows its fields in a template that works both ways: base/archive.h
  static constexpr bool kReads = true;

  /// Reads `key` into `value`; false when that failed. The key must be there, and only optional values may be null.
  template <class T, class... Range>
  bool operator()(std::string_view key, T& value, Range... range) {
    if constexpr (fields_detail::Inside<T>::is_optional)
      if (has(key) && !find(key)) return value.reset(), true;
    const nlohmann::json* found = require(key);
    return found && read(*found, key, value, range...);
  }

  /// The same for a key that may be left out or null: then `value` keeps what it has.
  template <class T, class... Range>
  bool optional(std::string_view key, T& value, Range... range) {
    const nlohmann::json* found = find(key);
    return found && read(*found, key, value, range...);
  }

  /// A name that `canonical` knows; only the spelling that it returns is taken. `canonical` throws InputError.
  template <class Canonical>
  void name(std::string_view key, std::string& value, Canonical canonical) {
    if (!(*this)(key, value)) return;
    try {
      const std::string right = canonical(value);
      if (right != value) report(key, "unknown name '" + value + "': did you mean '" + right + "'?");
    } catch (const InputError& error) { report(key, error.problem() + "; " + error.hint()); }
  }

  /// The row of a table, by the name that it has there.
  template <class Row>
  void row(std::string_view key, RowOf<Row>& value) {
    std::string text;
    name(key, text, [&](const std::string& given) { return std::string((value = given)->name); });
  }

  /// `list` shows the fields of the object at `key`.
  template <class List>
  bool object(std::string_view key, List list) {
    return require(key) && optional_object(key, list);
  }

  template <class List>
  bool optional_object(std::string_view key, List list) {
    auto inner = optional_fields(key);
    if (!inner) return false;
    list(*inner);
    inner->refuse_unknown();
    return true;
  }

  /// The same for one that may be null, but not left out; false when it is.
  template <class List>
  bool nullable_object(std::string_view key, bool /*is_given*/, List list) {
    return has(key) ? optional_object(key, list) : object(key, list);
  }

  /// The fields of `list`, which are there where they are given.
  template <class List>
  void all_if(bool is_given, List list) {
    if (is_given) list(*this);
  }

  /// An object whose keys are names, in the order of `keys`.
  template <class Value>
  void named(std::string_view key, std::vector<std::pair<std::string, Value>>& values) {
    Fields inner = fields(key);
    for (const std::string& name : inner.keys()) inner(name, values.emplace_back(name, Value{}).second);
  }

  /// A list of objects, each shown by `show(fields, item)`.
  template <class T, class List>
  void objects(std::string_view key, std::vector<T>& items, List show) {
    if (require(key)) optional_objects(key, items, show);
  }

  template <class T, class List>
  void optional_objects(std::string_view key, std::vector<T>& items, List show) {
    items.clear();
    for (Fields& item : this->list(key)) {
      show(item, items.emplace_back());
      item.refuse_unknown();
    }
  }

  /// `value`, which stands under `key`, as a type; nothing and a problem when it is of another.
  std::optional<std::string> to_text(const nlohmann::json& value, std::string_view key);
  std::optional<std::int64_t> to_integer(const nlohmann::json& value, std::string_view key, IntRange range);
  std::optional<double> to_number(const nlohmann::json& value, std::string_view key, NumberRange range);
  std::optional<bool> to_flag(const nlohmann::json& value, std::string_view key);
  /// A number in the unit that `key` ends with, in base units; as it is when `key` ends with none.
  std::optional<double> to_amount(const nlohmann::json& value, std::string_view key, NumberRange range);
  std::optional<double> to_amount(const nlohmann::json& value, std::string_view key);  // in a range that fits the unit

  std::optional<std::vector<const nlohmann::json*>> to_items(const nlohmann::json& value, std::string_view key);

  /// Notes a problem with `key`, at its line.
  void report(std::string_view key, std::string problem);
  /// Notes a problem with this object as a whole.
  void report_here(std::string problem, std::string hint = {});
  /// "must be `wanted`, found …"
  void report_type(std::string_view key, std::string_view wanted, const nlohmann::json& value);
  /// Problems of the file so far.
  std::size_t num_problems() const;
  bool has_problems() const { return num_problems() > 0; }

  /// Returns each key that was asked for so far and is there, with its value. Reading that gives the same.
  nlohmann::json as_read() const;

  /// These keys are for people and not read.
  void allow(const std::vector<std::string>& keys);
  /// Notes the keys that were never asked for, with the nearest known key.
  void refuse_unknown();
  /// Throws InputError listing every problem of the file. One problem: where = "file: key" or "file:line: key".
  void finish(std::string hint = {}) const;

 private:
  /// `place` of it, if no reader came to it before.
  Fields(std::shared_ptr<ValueTree> tree, const nlohmann::json* object, const nlohmann::json* identity,
         AskedObject place);
  std::string path(std::string_view key) const;
  bool is_yaml() const;
  void add_problem(int line, std::string_view key, std::string problem);
  std::optional<double> amount_with_unit(std::string_view key, NumberRange range);

  template <class T>
  static bool keep(T& value, std::optional<T> found) {
    if (!found) return false;
    value = *std::move(found);
    return true;
  }

  bool read(const nlohmann::json& from, std::string_view key, std::string& value) {
    return keep(value, to_text(from, key));
  }
  bool read(const nlohmann::json& from, std::string_view key, bool& value) { return keep(value, to_flag(from, key)); }
  bool read(const nlohmann::json& from, std::string_view key, std::int64_t& value, IntRange range = {}) {
    return keep(value, to_integer(from, key, range));
  }
  bool read(const nlohmann::json& from, std::string_view key, int& value, IntRange range = {0, 1 << 30}) {
    const auto found = to_integer(from, key, range);
    if (found) value = int(*found);
    return found.has_value();
  }
  bool read(const nlohmann::json& from, std::string_view key, std::size_t& value, IntRange range = {0, 1 << 30}) {
    const auto found = to_integer(from, key, range);
    if (found) value = std::size_t(*found);
    return found.has_value();
  }
  bool read(const nlohmann::json& from, std::string_view key, Bytes& value) {
    if (!key.ends_with("_mib") && !key.ends_with("_gib"))
      return keep(value.count, to_integer(from, key, {0, kMostBytes}));
    const auto found = optional_bytes(key);
    return found && keep(value, found);
  }
  bool read(const nlohmann::json& from, std::string_view key, double& value, NumberRange range = {}) {
    return keep(value, to_number(from, key, range));
  }
  template <class Tag>
  bool read(const nlohmann::json& from, std::string_view key, Quantity<Tag>& value) {
    return keep(value.value, to_amount(from, key));
  }
  template <class Tag>
  bool read(const nlohmann::json& from, std::string_view key, Quantity<Tag>& value, NumberRange range) {
    return keep(value.value, to_amount(from, key, range));
  }
  template <class T, class... Range>
  bool read(const nlohmann::json& from, std::string_view key, std::optional<T>& value, Range... range) {
    T inner{};
    if (!read(from, key, inner, range...)) return false;
    value = std::move(inner);
    return true;
  }

  template <class T>
  requires(!fields_detail::HasOwnShape<std::vector<T>>) bool read(const nlohmann::json& from, std::string_view key,
                                                                  std::vector<T>& values) {
    const auto found = to_items(from, key);
    if (!found) return false;
    std::vector<T> items(found->size());
    bool is_good = true;
    for (std::size_t i = 0; i < items.size(); ++i)
      is_good &= read(*(*found)[i], std::string(key) + "[" + std::to_string(i) + "]", items[i]);
    if (is_good) values = std::move(items);
    return is_good;
  }

  /// Takes the canonical spelling alone.
  template <Named Enum>
  bool read(const nlohmann::json& from, std::string_view key, Enum& value) {
    const auto given = to_text(from, key);
    if (!given) return false;
    const NameRow<Enum>* row = names_of(Enum{}).find(*given);
    if (row && to_string(row->value) == *given) return value = row->value, true;
    const std::string hint =
        row ? "did you mean '" + std::string(to_string(row->value)) + "'?" : name_hint<Enum>(*given);
    report(key, "unknown " + std::string(names_of(Enum{}).what) + " '" + *given + "': " + hint);
    return false;
  }

  template <fields_detail::HasOwnShape T>
  bool read(const nlohmann::json& from, std::string_view key, T& value) {
    return read_field(*this, key, from, value);
  }

  std::shared_ptr<ValueTree> tree_;
  const nlohmann::json* object_;
  AskedObject* asked_;  // in the tree: all readers of an object share it
};

}  // namespace gpuplan
