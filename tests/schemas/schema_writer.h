// Makes a JSON Schema (draft 7) of the listings that FieldWriter makes answers of: report/json/*_fields.h. A sample, of
// any content, stands in for an answer: types are those of the members. Objects are closed.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/archive.h"

namespace gpuplan::test {

class SchemaWriter {
 public:
  using Json = nlohmann::ordered_json;

  template <class T, class... Facts>
  bool operator()(std::string_view key, const T&, Facts... facts) {
    Json schema = schema_of<T>();
    (add_fact(schema, facts), ...);
    return add(key, std::move(schema));
  }
  template <class T, class... Facts>
  bool optional(std::string_view key, const T& value, Facts... facts) {
    (*this)(key, value, facts...);
    return leave_out(key);
  }
  template <class List>
  bool object(std::string_view key, List list) {
    return add(key, schema_of_object(list));
  }
  template <class List>
  bool nullable_object(std::string_view key, bool, List list) {
    return add(key, or_null(schema_of_object(list)));
  }
  template <class List>
  bool optional_object(std::string_view key, bool, List list) {
    object(key, list);
    return leave_out(key);
  }
  template <class List>
  void all_or_null(bool, List list) {
    SchemaWriter inner;
    list(inner);
    for (auto& [key, schema] : inner.properties_.items()) add(key, or_null(std::move(schema)));
  }
  template <class List>
  void all_if(bool, List list) {
    SchemaWriter inner;
    list(inner);
    for (auto& [key, schema] : inner.properties_.items()) add(key, std::move(schema)), leave_out(key);
  }
  template <class NamedValues>
  void named(std::string_view key, const NamedValues&, const char* meaning) {
    using Value = typename NamedValues::value_type::second_type;
    add(key, {{"type", "object"}, {"additionalProperties", schema_of<Value>()}, {"description", meaning}});
  }
  template <class T, class List>
  void objects(std::string_view key, const std::vector<T>&, List list) {
    const T item{};
    add(key, {{"type", "array"}, {"items", schema_of_object([&](SchemaWriter& inner) { list(inner, item); })}});
  }
  template <class T, class List>
  void optional_objects(std::string_view key, const std::vector<T>& items, List list) {
    objects(key, items, list);
    leave_out(key);
  }
  void raw(std::string_view key, const Json& sample, const char* meaning) {
    add(key, {{"type", sample.type_name()}, {"description", meaning}});
  }

  /// The schema of the whole answer.
  Json take(std::string_view title, std::string_view description) {
    Json out{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", title}, {"description", description}};
    out.update(closed());
    return out;
  }

 private:
  template <class T>
  static Json schema_of() {
    using fields_detail::Inside;
    if constexpr (Inside<T>::is_optional)
      return or_null(schema_of<typename T::value_type>());
    else if constexpr (Inside<T>::is_vector)
      return {{"type", "array"}, {"items", schema_of<typename T::value_type>()}};
    else if constexpr (Named<T>)
      return {{"type", "string"}, {"enum", names_of(T{}).canonical()}};
    else if constexpr (std::is_same_v<T, bool>)
      return {{"type", "boolean"}};
    else if constexpr (std::is_integral_v<T> || std::is_same_v<T, Bytes>)
      return {{"type", "integer"}, {"minimum", 0}};
    else if constexpr (std::is_floating_point_v<T> || Inside<T>::is_quantity)
      return {{"type", "number"}, {"minimum", 0}};
    else
      return {{"type", "string"}};
  }

  static Json or_null(Json schema) {
    Json& type = schema["type"];
    if (!type.is_array()) type = {type, "null"};
    if (schema.contains("enum") && schema["enum"].back() != nullptr) schema["enum"].push_back(nullptr);
    return schema;
  }

  static void add_fact(Json& schema, const char* meaning) { schema["description"] = meaning; }
  static void add_fact(Json& schema, NumberRange range) {
    if (range.least == kAnyNumber.least) schema.erase("minimum");
  }

  template <class List>
  static Json schema_of_object(List list) {
    SchemaWriter inner;
    list(inner);
    return inner.closed();
  }

  Json closed() const {
    return {{"type", "object"}, {"additionalProperties", false}, {"required", required_}, {"properties", properties_}};
  }

  bool add(std::string_view key, Json schema) {
    properties_[std::string(key)] = std::move(schema);
    required_.emplace_back(key);
    return true;
  }
  bool leave_out(std::string_view key) {
    std::erase(required_, key);
    return true;
  }

  Json properties_ = Json::object();
  std::vector<std::string> required_;
};

}  // namespace gpuplan::test
