// The measured part of a profile file: which machine, fits of every load, collectives, samples. Read and written here,
// in the same order, so that a number has one name.
#pragma once

#include <optional>
#include <string>

#include "base/fields.h"
#include "cluster/profile/measured.h"

namespace gpuplan {

constexpr std::int64_t kProfileSchema = 1;

/// Nothing when the file has no `measured_on`. Problems are noted in `top`.
std::optional<MeasuredOn> read_machine(Fields& top);
std::optional<Measured> read_measured(Fields& top);

/// YAML, ending in a line break.
std::string measured_text(const Measured& measured);

}  // namespace gpuplan
