#include "device/cpu/kernels/list.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {

extern const CpuKernels kKernels;
const CpuKernels kKernels{.fill_uniform = fill_uniform,
                          .cast = cast,
                          .rms_norm = rms_norm,
                          .swiglu = swiglu,
                          .cross_entropy = cross_entropy,
                          .adamw = adamw,
                          .nf4_dequantise = nf4_dequantise,
                          .softmax = softmax,
                          .flash_attention = flash_attention};

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
