// Reading one point field by field: what the two kinds of points share. Internal to reading points.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_file.h"
#include "cluster/machine.h"
#include "validate/point.h"

namespace gpuplan {

inline constexpr IntRange kBatchRange{1, 1 << 24}, kTokenRange{1, 1 << 26}, kGpuRange{1, kMostGpus};

/// Empty when not given.
std::string text_of(Fields& fields, const char* key);
/// A number above zero.
std::optional<double> amount_of(Fields& fields, const char* key, double most = 1e18);

constexpr double kMostGib = 1 << 30;  // 1 EiB: beyond it bytes do not fit 63 bits
/// True, or a text; false and null are not.
bool flag_of(Fields& fields, const char* key);

/// Runs `read` over the object under `key`, when there is one.
template <class Read>
void read_nested(Fields& fields, const char* key, Read read) {
  if (auto inner = fields.optional_fields(key)) read(*inner);
}

void read_memory_point(Fields& fields, Point& point);
void read_speed_point(Fields& fields, Point& point);

}  // namespace gpuplan
