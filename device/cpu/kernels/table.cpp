#include "device/cpu/kernels.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {

#define GPUPLAN_CPU_KERNEL(Name) .Name = run,
constinit const CpuKernels kKernels{GPUPLAN_KERNELS(GPUPLAN_CPU_KERNEL).widen_block = widen_block,
                                    .narrow_block = narrow_block};
#undef GPUPLAN_CPU_KERNEL

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
