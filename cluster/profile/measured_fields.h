// How the numbers of a measured profile are read and written, and the machine of one: its file and the answers of
// `gpuplan profiles` list it alike.
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "base/archive.h"
#include "cluster/profile/measured.h"
#include "cluster/profile/profile_ranges.h"

namespace gpuplan {

inline std::optional<std::vector<double>> read_numbers(Fields& fields, std::string_view key, std::size_t count) {
  auto out = fields.numbers(key, kAnyNumber);
  if (out.size() == count) return out;
  fields.report(key, fmt::format("must be a list of {} numbers", count));
  return std::nullopt;
}

/// A number, or a fitted one with its interval: read, it is in the range that the table has for it.
template <class Archive, class T>
void list_number(Archive& f, std::string_view key, T& value, const ProfileRange& range) {
  if constexpr (!Archive::kReads) {
    f(key, value);
  } else if constexpr (std::is_same_v<T, Fitted>) {
    if (!f.require(key)) return;
    const auto n = read_numbers(f, key, 3);
    const ProfileRange& interval = profile_range("fit", "interval");
    if (n && check_range(f, key, (*n)[0], range) && check_range(f, key, (*n)[1], interval) &&
        check_range(f, key, (*n)[2], interval))
      value = {(*n)[0], (*n)[1], (*n)[2]};
  } else {
    const nlohmann::json* const found = f.require(key);
    const auto number = found ? f.to_number(*found, key, kAnyNumber) : std::nullopt;
    if (!number || !check_range(f, key, *number, range)) return;
    if constexpr (std::is_same_v<T, Bytes>)
      value.count = std::int64_t(*number);
    else
      value = T(*number);
  }
}

/// The same with the range that has the field's name.
template <class Archive, class T>
void list_number(Archive& f, std::string_view part, std::string_view key, T& value) {
  list_number(f, key, value, profile_range(part, key));
}

/// All but the warnings.
template <class Archive, class On>
void list_machine(Archive& f, On& on) {
  f("kind", on.kind);
  f("device", on.device);
  f("gpu", on.gpu);
  f("architecture", on.architecture);
  f("fabric", on.fabric);
  list_number(f, "measured_on", "num_devices", on.num_devices);
  list_number(f, "measured_on", "num_cores", on.num_cores);
  list_number(f, "measured_on", "memory_bytes", on.memory);
  f("date", on.date);
  f.named("versions", on.versions);
}

}  // namespace gpuplan
