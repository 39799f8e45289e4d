// A struct lists its fields once, in a template over the archive:
//
//   template <class Archive, class Link>
//   void list_link(Archive& f, Link& link) {
//     f("latency_seconds", link.latency, NumberRange{0, 3600});
//     f("kind", link.kind);                      // an enumeration with a name table
//     f.optional("note", link.note);             // keeps its value when the file does not give it
//     f.object("shape", [&](auto& inner) { list_shape(inner, link.shape); });
//   }
//
// Fields fills the members and notes every problem with its place; FieldWriter makes the values that are read back.
// A range or a meaning behind the value is for readers and for schemas; a writer ignores it.
// Amounts stand in base units, or in the unit that the key ends with (base/fields.h). A type with a shape of its own in
// the file has read_field(Fields&, key, const json&, T&) and write_field(const T&) beside it; one that is an object of
// an answer has list_fields(archive, const T&), and is then a value like any other: in lists, optional, or by name.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/fields.h"
#include "base/table_row.h"
#include "base/units.h"

namespace gpuplan {

/// Makes the object that Fields reads back.
class FieldWriter {
 public:
  static constexpr bool kReads = false;
  using Json = nlohmann::ordered_json;

  bool has(std::string_view) const { return true; }

  /// Puts `value` at `key`: base units, canonical names, null for "not given".
  template <class T, class... Range>
  bool operator()(std::string_view key, const T& value, Range...) {
    raw(key, written(value));
    return true;
  }
  /// The same, but nothing at all for what is null or empty.
  template <class T, class... Range>
  bool optional(std::string_view key, const T& value, Range...) {
    if (Json json = written(value); !json.is_null() && json != "" && json != Json::array()) raw(key, std::move(json));
    return true;
  }
  template <class Canonical>
  void name(std::string_view key, const std::string& value, Canonical canonical) {
    raw(key, canonical(value));
  }
  template <class Row>
  void row(std::string_view key, const RowOf<Row>& value) {
    raw(key, std::string(value->name));
  }
  template <class List>
  bool object(std::string_view key, List list, const char* /*meaning*/ = "") {
    return nullable_object(key, true, list);
  }
  template <class List>
  bool nullable_object(std::string_view key, bool is_given, List list) {
    FieldWriter inner;
    if (is_given) list(inner);
    raw(key, is_given ? inner.take() : Json());
    return is_given;
  }
  /// The same, but nothing at all where it is not given.
  template <class List>
  bool optional_object(std::string_view key, bool is_given, List list) {
    return is_given && object(key, list);
  }
  /// The fields of `list`, all null where they are not given.
  template <class List>
  void all_or_null(bool is_given, List list) {
    FieldWriter inner;
    list(inner);
    for (auto& [key, value] : inner.out_.items()) raw(key, is_given ? std::move(value) : Json());
  }
  /// The fields of `list`, none of them where they are not given.
  template <class List>
  void all_if(bool is_given, List list) {
    if (is_given) list(*this);
  }
  /// An object whose keys are names: pairs, a map, or structs of a name and a value.
  template <class Named>
  void named(std::string_view key, const Named& values, const char* /*meaning*/ = "") {
    FieldWriter inner;
    for (const auto& [name, value] : values) inner(name, value);
    raw(key, inner.take());
  }
  template <class T, class List>
  void objects(std::string_view key, const std::vector<T>& items, List list) {
    Json out = Json::array();
    for (const T& item : items) {
      FieldWriter inner;
      list(inner, item);
      out.push_back(inner.take());
    }
    raw(key, std::move(out));
  }
  template <class T, class List>
  void optional_objects(std::string_view key, const std::vector<T>& items, List list) {
    if (!items.empty()) objects(key, items, list);
  }

  /// A value of another listing. `meaning` says which.
  void raw(std::string_view key, Json value, const char* /*meaning*/ = "") {
    out_[std::string(key)] = std::move(value);
  }
  Json take() { return std::move(out_); }

 private:
  static double finite(double value) {
    GPUPLAN_CHECK(std::isfinite(value), "a file holds finite numbers only");
    return value;
  }

  template <class T>
  static Json written(const T& value) {
    using fields_detail::Inside;
    if constexpr (requires { write_field(value); })
      return write_field(value);
    else if constexpr (requires(FieldWriter & inner) { list_fields(inner, value); }) {
      FieldWriter inner;
      list_fields(inner, value);
      return inner.take();
    } else if constexpr (std::is_enum_v<T>)
      return std::string(to_string(value));
    else if constexpr (std::is_same_v<T, double>)
      return finite(value);
    else if constexpr (std::is_same_v<T, Bytes>)
      return value.count;
    else if constexpr (Inside<T>::is_quantity)
      return finite(value.value);
    else if constexpr (Inside<T>::is_optional)
      return value ? written(*value) : Json();
    else if constexpr (Inside<T>::is_vector) {
      Json list = Json::array();
      for (const auto& item : value) list.push_back(written(item));
      return list;
    } else
      return value;
  }

  Json out_ = Json::object();
};

/// The object of a listing.
template <class List>
nlohmann::ordered_json written(List list) {
  FieldWriter out;
  list(out);
  return out.take();
}

}  // namespace gpuplan
