// A whole log of a training run: how long a step took, how fast tokens went by, how much memory was in use.
#pragma once

#include <istream>
#include <optional>
#include <string>

#include "base/units.h"

namespace gpuplan {

struct TrainingLog {
  std::optional<Seconds> step;               // median
  std::optional<double> tokens_per_second;   // of all GPUs
  std::optional<double> tokens_per_gpu;      // a second, of one
  std::optional<double> samples_per_second;  // of all GPUs
  std::optional<Bytes> allocated, reserved;  // peaks of torch's allocator
  std::optional<double> prompt, completion;  // tokens of those that were generated from and to, in the mean
  std::int64_t num_figures = 0;  // that time is the median of; the first ones, which load kernels, are left out
  std::int64_t num_steps = 0;    // that the progress bar counts to; 0: there is none
  std::string source;            // "the progress bar (96 lines)"

  bool has_time() const { return step || tokens_per_second || tokens_per_gpu || samples_per_second; }
};

/// Figures of data/training_logs.yaml count, then those of progress bars, then means since the start, then
/// transformers' sum at the end. Throws InputError naming `where` for a log without any.
TrainingLog read_training_log(std::istream& in, const std::string& where);

/// Says whether a step of the trainer, as it logs it, is a generation with all optimizer steps on its answers.
bool logs_generations(const std::string& framework);

}  // namespace gpuplan
