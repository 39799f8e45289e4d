// The training kernels of the CPU device: plain functions as in device/cpu/kernels.h, a table of them per instruction
// set, and the object that enqueues them.
#pragma once

#include <memory>

#include "device/adamw_step.h"
#include "device/training_kernels.h"

namespace gpuplan {

/// Arguments as in TrainingKernels, without the stream and with what is derived from settings alone done before. Every
/// sum is cut by shape and not by thread, so results do not depend on the number of threads.
struct CpuTrainingKernels {
  void (*add)(Numbers y, ConstNumbers a, ConstNumbers b, std::int64_t count);
  void (*add_scaled)(Numbers y, ConstNumbers x, float factor, std::int64_t count);
  void (*embed)(Numbers y, ConstNumbers table, const std::int32_t* ids, std::int64_t rows, std::int64_t hidden);
  void (*embed_backward)(Numbers gradient, ConstNumbers dy, const std::int32_t* ids, std::int64_t rows,
                         std::int64_t hidden);
  void (*add_bias)(Numbers y, ConstNumbers bias, std::int64_t rows, std::int64_t width);
  void (*bias_backward)(Numbers gradient, ConstNumbers dy, std::int64_t rows, std::int64_t width);
  void (*rms_norm_forward)(Numbers y, ConstNumbers x, ConstNumbers weight, std::int64_t rows, std::int64_t hidden,
                           float epsilon);
  void (*rms_norm_backward)(Numbers dx, const void* residual, Numbers weight_gradient, ConstNumbers dy, ConstNumbers x,
                            ConstNumbers weight, std::int64_t rows, std::int64_t hidden, float epsilon);
  void (*rotate)(Numbers y, ConstNumbers x, const RotaryTurn& rotation);
  void (*attention_forward)(const SequenceAttention& shape, const void* q, const void* k, const void* v, void* out,
                            float* lse);
  void (*attention_backward)(const SequenceAttention& shape, const void* dout, const void* q, const void* k,
                             const void* v, const void* out, const float* lse, void* dq, void* dk, void* dv,
                             float* scratch);
  void (*swiglu_backward)(Numbers dgate, Numbers dup, ConstNumbers dout, ConstNumbers gate, ConstNumbers up,
                          std::int64_t count);
  void (*add_squares)(double* sum, ConstNumbers x, std::int64_t count);
  void (*add_sum)(double* sum, const float* x, std::int64_t count);
  void (*adamw_range)(const AdamWRange& range, const AdamWStep& step, float gradient_scale);
  void (*adamw8_range)(const AdamW8Range& range, const AdamWStep& step, float gradient_scale);
  void (*nf4_expand)(Numbers out, const std::uint8_t* codes, const std::uint8_t* absmax_codes,
                     const float* absmax_scales, float absmax_offset, std::int64_t count);
};

const CpuTrainingKernels& cpu_training_kernels();

/// For streams of a CPU device.
std::unique_ptr<TrainingKernels> make_cpu_training();

}  // namespace gpuplan
