// Makes a JSON Schema (draft 7) of the listings that FieldWriter makes answers of: report/json/*_fields.h. A sample, of
// any content, stands in for an answer: types are those of the members. Objects are closed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <boost/core/demangle.hpp>
#include <nlohmann/json.hpp>

#include "base/archive.h"

namespace gpuplan::test {

class SchemaWriter {
 public:
  static constexpr bool kReads = false;
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
  bool object(std::string_view key, List list, const char* meaning = nullptr) {
    Json schema = schema_of_object(list);
    if (meaning) add_fact(schema, meaning);
    return add(key, std::move(schema));
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
  void named(std::string_view key, const NamedValues&, const char* meaning = nullptr) {
    const typename NamedValues::value_type item{};
    [[maybe_unused]] const auto& [name, value] = item;
    Json schema{{"type", "object"}, {"additionalProperties", schema_of<std::remove_cvref_t<decltype(value)>>()}};
    if (meaning) add_fact(schema, meaning);
    add(key, std::move(schema));
  }
  template <class T, class List>
  void objects(std::string_view key, const std::vector<T>&, List list) {
    const T item{};
    add(key, {{"type", "array"}, {"items", schema_of_object([&](SchemaWriter& inner) { list(inner, item); })}});
  }
  void raw(std::string_view key, const Json& sample, const char* meaning) {
    add(key, {{"type", sample.type_name()}, {"description", meaning}});
  }

  /// The schema of the whole answer.
  Json take(std::string_view title, std::string_view description) {
    Json out{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", title}, {"description", description}};
    out.update(closed());
    std::map<std::string, int> uses;
    count_uses(out, uses);
    Json definitions = Json::object();
    share(out, uses, definitions);
    if (!definitions.empty()) out["definitions"] = std::move(definitions);
    return out;
  }

 private:
  static constexpr const char* kType = "$type";  // of what has list_fields, until the whole schema is known

  template <class T>
  static Json schema_of_type() {
    Json schema = schema_of_object([](SchemaWriter& inner) { list_fields(inner, T{}); });
    const std::string name = boost::core::demangle(typeid(T).name());
    schema[kType] = name.substr(name.rfind(':') + 1);
    return schema;
  }

  /// How often each type stands in `schema`; inside a type once.
  static void count_uses(const Json& schema, std::map<std::string, int>& uses) {
    if (schema.contains(kType) && ++uses[schema[kType]] > 1) return;
    for (const Json& inner : schema)
      if (inner.is_structured()) count_uses(inner, uses);
  }

  /// Moves types that stand in several places to `definitions`.
  static void share(Json& schema, const std::map<std::string, int>& uses, Json& definitions) {
    for (Json& inner : schema)
      if (inner.is_structured()) share(inner, uses, definitions);
    if (!schema.contains(kType)) return;
    const std::string type = schema[kType];
    schema.erase(kType);
    if (uses.at(type) < 2) return;
    Json reference{{"$ref", "#/definitions/" + type}};
    if (schema.contains("description")) reference["description"] = schema["description"];
    schema.erase("description");
    definitions[type] = std::exchange(schema, std::move(reference));
  }

  template <class T>
  static Json schema_of() {
    using fields_detail::Inside;
    if constexpr (requires(SchemaWriter & inner, const T& value) { list_fields(inner, value); })
      return schema_of_type<T>();
    else if constexpr (Inside<T>::is_optional)
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
    schema.erase(kType);
    if (schema.contains("enum") && schema["enum"].back() != nullptr) schema["enum"].push_back(nullptr);
    return schema;
  }

  static void add_fact(Json& schema, const char* meaning) { schema["description"] = meaning; }
  static void add_fact(Json& schema, NumberRange range) {
    if (range.least == kAnyNumber.least) schema.erase("minimum");
  }
  static void add_fact(Json& schema, IntRange range) {
    schema["minimum"] = range.least;
    if (range.most < IntRange{}.most) schema["maximum"] = range.most;
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
