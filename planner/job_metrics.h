// What the time of a step means for the whole job: speed, use of the cards, time and cost of the data. Estimate and
// simulation ask the same function, each with its own step time.
#pragma once

#include <cstdint>
#include <optional>

#include "planner/job.h"

namespace gpuplan {

struct JobMetrics {
  std::int64_t global_batch{};     // sequences per optimizer step; pairs where answers are compared
  double tokens_per_second{};      // of the whole job, without padding
  double mfu{};                    // model FLOPs over the datasheet rates of the GPUs
  std::int64_t steps_per_epoch{};  // the last of which may be a smaller one
  Seconds epoch, total;            // once through the data, and as often as asked
  std::optional<double> cost_usd;  // of all epochs, on the GPUs that the strategy uses
};

/// Tokens of a sequence that are no padding, on average. Rows that are longer than a sequence are cut.
double tokens_without_padding(const Recipe& recipe, const Dataset& data);

/// The length to which `dynamic` pads the sequences of a micro batch, on average: that of its longest row. Rows of mean
/// T are taken to be spread evenly over [T - d, T + d] with d = min(T, S - T), so that none exceeds the sequence length
/// S; the longest of b such rows is T + d (b - 1) / (b + 1) on average. Otherwise S.
std::int64_t padded_length(const Recipe& recipe, const Dataset& data);

/// The job with sequences of their mean padded length: what a step takes on average. Memory is planned for the longest.
/// A micro batch that is filled up to a number of tokens (Rollout::step_tokens) holds as many such rows as fit.
Job average_job(const Job& job);

/// The job with micro batches filled so, by the mean length of rows; the same where their rows count.
Job filled_job(const Job& job);
/// The job with micro batches that have all tokens up to which they are filled, which is what memory has to hold;
/// nothing where they hold no more than the longest rows.
std::optional<Job> fullest_job(const Job& job);

/// Of all epochs, with steps that take so long.
Seconds total_time(const Job& job, Seconds step);

/// `peak`: the datasheet rates of all GPUs together. `before`: what runs once before the first step.
JobMetrics job_metrics(const Job& job, Seconds step, FlopsPerSec peak, Seconds before = {});

/// FLOPs of the model for one optimizer step of `global_batch` sequences of `seq_len`, recompute excluded: 6 P per
/// token for full fine-tuning, 4 P plus 6 per adapter parameter for LoRA, plus causal attention. Source: Kaplan et al.
/// 2020, table 1; attention: Narayanan et al. 2021, arXiv 2104.04473, appendix.
double model_flops(const Job& job, std::int64_t global_batch, std::int64_t seq_len);

}  // namespace gpuplan
