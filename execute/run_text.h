// What a run shows: a moving line while it trains, then predicted against measured; the same as a timeline.
#pragma once

#include "report/text/screen.h"
#include "run/engine_report.h"
#include "run/run_report.h"

namespace gpuplan {

/// Loss, speed, memory and time left: one moving line on a terminal, a line now and then elsewhere.
class RunProgress {
 public:
  RunProgress(Console& console, bool is_quiet);
  void show(const StepMetrics& metrics, std::int64_t total_steps);
  void finish();

 private:
  Console& console_;
  bool is_quiet_, is_terminal_;
  Screen screen_;  // of standard error
  Seconds elapsed_;
  std::int64_t first_ = 0, tenths_ = -1;
};

std::string run_text(const RunReport& report, const std::vector<std::string>& notes, const TrainingOptions& options,
                     const Screen& screen);
/// Report on another program's engine: predicted against measured.
std::string engine_text(const EngineReport& report, const std::vector<std::string>& notes, const Screen& screen);
/// The measured step in the simulator's trace format.
std::string run_trace(const RunReport& report);

}  // namespace gpuplan
