// A line that a trainer writes while it trains.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuplan {

/// Figures in a line of output.
struct LoggedStep {
  std::optional<std::int64_t> step, total;  // of a progress bar
  std::optional<double> elapsed;            // s since the bar began, as it prints it: whole seconds
  std::optional<double> seconds_per_step;   // that the bar prints
  std::optional<double> loss, grad_norm, learning_rate;
};

/// The number that follows `text` in a line, and is followed by `then`: past quotes, colons and spaces, with commas
/// between thousands.
std::optional<double> number_behind(std::string_view line, std::string_view text, std::string_view then = {});

/// Seconds of the "1:02:03" or "02:03" that follows `text`.
std::optional<double> clock_behind(std::string_view line, std::string_view text);

/// "{'loss': 1.2, 'grad_norm': 0.5, …}" of transformers and TRL, wherever it stands in the line, with or without quotes
/// around the numbers; "12/100 [00:30<03:40, 2.5s/it]" of tqdm. Nothing in any other line.
std::optional<LoggedStep> read_log_line(std::string_view line);

}  // namespace gpuplan
