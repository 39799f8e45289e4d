// The largest size of every input that a user names, as docs/limits.md states them and tests/questions/limits_test.cpp
// checks: a larger one is refused with exit code 2, at the limit it is answered within the page's work and 2 GB.
#pragma once

#include <array>
#include <cstddef>

namespace gpuplan {

struct InputLimit {
  const char* input;  // as the message and the page call it
  std::size_t bytes;
};

constexpr std::size_t kMebibyte = std::size_t(1) << 20;

inline constexpr InputLimit kConfigLimit{"a config.json", 16 * kMebibyte};  // the largest published one is below 1 MB
inline constexpr InputLimit kIndexLimit{"a safetensors index", 64 * kMebibyte};
inline constexpr InputLimit kPlanLimit{"a plan", 16 * kMebibyte};
inline constexpr InputLimit kProfileLimit{"a calibration", 4 * kMebibyte};
inline constexpr InputLimit kClusterLimit{"a description of a machine", 2 * kMebibyte};
inline constexpr InputLimit kLengthsLimit{"a list of lengths", 64 * kMebibyte};
inline constexpr InputLimit kTrainerLimit{"a trainer's YAML configuration", 1 * kMebibyte};
inline constexpr InputLimit kScriptLimit{"a script", 1 * kMebibyte};
inline constexpr InputLimit kNotebookLimit{"a notebook", 16 * kMebibyte};
inline constexpr InputLimit kLogLimit{"a log", 256 * kMebibyte};
inline constexpr InputLimit kPricesLimit{"a list of prices", 1 * kMebibyte};
inline constexpr InputLimit kHostsLimit{"a list of hosts", 1 * kMebibyte};
inline constexpr InputLimit kPointsLimit{"a file of points", 64 * kMebibyte};
/// A line: of such rows there may be any number, which are read one by one.
inline constexpr InputLimit kRowLimit{"a row of --data", 16 * kMebibyte};
/// Every other file.
inline constexpr InputLimit kFileLimit{"a file", 256 * kMebibyte};

inline constexpr std::array kInputLimits{kConfigLimit,  kIndexLimit,   kPlanLimit,   kProfileLimit,  kClusterLimit,
                                         kLengthsLimit, kTrainerLimit, kScriptLimit, kNotebookLimit, kLogLimit,
                                         kPricesLimit,  kHostsLimit,   kPointsLimit, kRowLimit,      kFileLimit};

}  // namespace gpuplan
