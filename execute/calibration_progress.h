// What a calibration shows while it runs: one moving line with a bar and the time left on a terminal, a few plain lines
// elsewhere.
#pragma once

#include "calibrate/session.h"
#include "calibrate/worker.h"
#include "report/text/screen.h"

namespace gpuplan {

class CalibrationProgress {
 public:
  explicit CalibrationProgress(Console& console) : console_(console) {}
  void start(const WorkerFacts& facts, std::size_t num_probes, std::size_t num_kept);
  void show(const Progress& progress);
  void finish();

 private:
  Console& console_;
  Screen screen_;  // of standard error
  bool is_terminal_ = false;
  std::size_t tenths_ = 0;  // shown on a pipe
};

/// "gemm bf16 forward 2048x4096x4096   [#######     ]  123/480   1 min 20 s left"
std::string progress_line(const Progress& progress, const Screen& screen);

}  // namespace gpuplan
