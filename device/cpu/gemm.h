// Matrix products of one stream of the CPU device, by oneDNN. Prepared primitives are kept: making one takes 0.1 to 3
// ms.
#pragma once

#include <memory>

#include "device/device.h"

namespace gpuplan {

/// Used by one thread, and by the OpenMP team of the thread that first runs a problem.
class CpuGemm {
 public:
  CpuGemm();
  ~CpuGemm();
  CpuGemm(const CpuGemm&) = delete;
  CpuGemm& operator=(const CpuGemm&) = delete;
  /// Returns when C is written. 16-bit operands are converted to fp32 where the processor does not multiply them
  /// (device/cpu/widened_gemm.h). Throws EnvError when oneDNN refuses, BugError for tf32 and fp8.
  void run(const GemmProblem& problem, const void* a, const void* b, void* c);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpuplan
