// The learning rate of a step. Source: transformers optimization.py, get_constant/linear/cosine_schedule_with_warmup.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace gpuplan {

enum class LrSchedule : std::uint8_t { Constant, Linear, Cosine };
inline constexpr std::array kLrSchedules{LrSchedule::Constant, LrSchedule::Linear, LrSchedule::Cosine};
std::string_view to_string(LrSchedule schedule);  // "constant", "linear", "cosine"
/// Throws InputError naming `where`.
LrSchedule parse_lr_schedule(std::string_view text, std::string_view where);

struct LearningRate {
  double peak = 2e-4;
  LrSchedule schedule = LrSchedule::Constant;
  std::int64_t warmup_steps = 0, total_steps = 1;
  /// Of optimizer step `step`, counted from 0.
  double at(std::int64_t step) const;
};

}  // namespace gpuplan
