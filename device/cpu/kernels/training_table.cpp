#include "device/cpu/kernels/list.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {

extern const CpuTrainingKernels kTrainingKernels;
const CpuTrainingKernels kTrainingKernels{.add = add,
                                          .add_scaled = add_scaled,
                                          .embed = embed,
                                          .embed_backward = embed_backward,
                                          .add_bias = add_bias,
                                          .bias_backward = bias_backward,
                                          .rms_norm_forward = rms_norm_forward,
                                          .rms_norm_backward = rms_norm_backward,
                                          .rotate = rotate,
                                          .attention_forward = attention_forward,
                                          .attention_backward = attention_backward,
                                          .swiglu_backward = swiglu_backward,
                                          .add_squares = add_squares,
                                          .add_sum = add_sum,
                                          .adamw_range = adamw_range,
                                          .adamw8_range = adamw8_range,
                                          .nf4_expand = nf4_expand};

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
