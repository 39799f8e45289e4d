// A row of a table, found by name where the name is read and held from then on.
#pragma once

#include <string_view>
#include <type_traits>

namespace gpuplan {

/// Row has `const Row& row_named(std::string_view, std::type_identity<Row>)` beside it: the row of a name or alias,
/// the usual one for an empty name. It throws InputError for a name that no row has.
template <class Row>
class RowOf {
 public:
  RowOf() = default;  // the usual row
  RowOf(const Row& row) : row_(&row) {}
  template <class Name>
  requires std::is_convertible_v<const Name&, std::string_view> RowOf(const Name& name)
      : row_(&row_named(std::string_view(name), std::type_identity<Row>{})) {}

  const Row& operator*() const { return row_ ? *row_ : row_named({}, std::type_identity<Row>{}); }
  const Row* operator->() const { return &**this; }
  /// No row was named, so that it is the usual one.
  bool is_usual() const { return !row_; }
  friend bool operator==(const RowOf& a, const RowOf& b) { return a.row_ == b.row_ || &*a == &*b; }

 private:
  const Row* row_ = nullptr;
};

}  // namespace gpuplan
