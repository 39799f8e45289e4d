// Declares every kernel of kernels.h in the namespace of the variant that is being compiled.
#pragma once

#include <type_traits>
#include <utility>

#include "device/cpu/kernels.h"
#include "device/cpu/variant.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {

template <auto member>
using KernelOf = std::remove_pointer_t<std::remove_reference_t<decltype(std::declval<CpuKernels&>().*member)>>;

KernelOf<&CpuKernels::fill_uniform> fill_uniform;
KernelOf<&CpuKernels::cast> cast;
KernelOf<&CpuKernels::rms_norm> rms_norm;
KernelOf<&CpuKernels::swiglu> swiglu;
KernelOf<&CpuKernels::cross_entropy> cross_entropy;
KernelOf<&CpuKernels::adamw> adamw;
KernelOf<&CpuKernels::nf4_dequantise> nf4_dequantise;
KernelOf<&CpuKernels::softmax> softmax;
KernelOf<&CpuKernels::flash_attention> flash_attention;

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
