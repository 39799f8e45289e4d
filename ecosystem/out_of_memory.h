// What PyTorch says when a GPU's memory runs out, in the text of a log.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "planner/accuracy.h"

namespace gpuplan {

/// Amounts of one message; empty where it does not say.
struct OutOfMemory {
  Bytes asked;
  std::optional<Bytes> capacity, free, in_use, allocated;
  /// Gives what the process would have needed then: what it held and what it asked for.
  Bytes needed() const { return in_use.value_or(allocated.value_or(Bytes{})) + asked; }
};

/// The last message in `text`; nothing where there is none. Reads those of PyTorch 1.10 to 2.9.
std::optional<OutOfMemory> find_out_of_memory(std::string_view text);

/// "2.00 GiB were asked for with 1.06 GiB of 79.2 GiB free; …"
std::string describe(const OutOfMemory& message);

/// Says how a predicted process compares with what the message says it needed. `range`: in which measured runs of this
/// kind lie around their predictions (planner/accuracy.h); without one only the prediction itself explains the message.
std::string compare_with(const OutOfMemory& message, Bytes predicted, const std::optional<AccuracyRange>& range,
                         const std::string& strategy);

}  // namespace gpuplan
