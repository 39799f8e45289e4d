// The ranges of the numbers that a profile may have: the one table from which its reader, the refusal of what lies
// outside, the bounds of fits and the table of docs/limits.md come. Ranges are wide enough for every machine that
// trains and narrow enough that no figure of an answer is absurd: the page says how far a step time can move.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "cluster/profile/fitted.h"

namespace gpuplan {

struct ProfileRange {
  std::string_view part;  // of the file: "values", "gemm", …; "fit" for what every fit has
  std::string_view name;  // of the field; of scalars, their unit
  FitUnit unit{};
  NumberRange range;  // in base units
  bool is_whole = false;
};

std::span<const ProfileRange> profile_ranges();

/// Requires: the table has it.
const ProfileRange& profile_range(std::string_view part, std::string_view name);

/// "1e+08 to 1e+18 FLOP/s".
std::string to_string(const ProfileRange& row);

/// Notes a problem with `key` unless `value`, in base units, lies in the range. `shown`: as the file has it.
bool check_range(Fields& fields, std::string_view key, double value, const ProfileRange& row,
                 const std::string& shown = {});

}  // namespace gpuplan
