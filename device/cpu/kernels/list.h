// Declares every kernel of kernels.h and training.h in the namespace of the variant that is being compiled.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/training.h"
#include "device/cpu/variant.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {

template <class>
struct PointedTo;
template <class Table, class Kernel>
struct PointedTo<Kernel * Table::*> {
  using type = Kernel;
};
template <auto member>
using KernelOf = typename PointedTo<decltype(member)>::type;

KernelOf<&CpuKernels::fill_uniform> fill_uniform;
KernelOf<&CpuKernels::cast> cast;
KernelOf<&CpuKernels::rms_norm> rms_norm;
KernelOf<&CpuKernels::swiglu> swiglu;
KernelOf<&CpuKernels::cross_entropy> cross_entropy;
KernelOf<&CpuKernels::adamw> adamw;
KernelOf<&CpuKernels::nf4_dequantise> nf4_dequantise;
KernelOf<&CpuKernels::softmax> softmax;
KernelOf<&CpuKernels::flash_attention> flash_attention;

KernelOf<&CpuTrainingKernels::add> add;
KernelOf<&CpuTrainingKernels::add_scaled> add_scaled;
KernelOf<&CpuTrainingKernels::embed> embed;
KernelOf<&CpuTrainingKernels::embed_backward> embed_backward;
KernelOf<&CpuTrainingKernels::add_bias> add_bias;
KernelOf<&CpuTrainingKernels::bias_backward> bias_backward;
KernelOf<&CpuTrainingKernels::rms_norm_forward> rms_norm_forward;
KernelOf<&CpuTrainingKernels::rms_norm_backward> rms_norm_backward;
KernelOf<&CpuTrainingKernels::rotate> rotate;
KernelOf<&CpuTrainingKernels::attention_forward> attention_forward;
KernelOf<&CpuTrainingKernels::attention_backward> attention_backward;
KernelOf<&CpuTrainingKernels::swiglu_backward> swiglu_backward;
KernelOf<&CpuTrainingKernels::add_squares> add_squares;
KernelOf<&CpuTrainingKernels::add_sum> add_sum;
KernelOf<&CpuTrainingKernels::adamw_range> adamw_range;
KernelOf<&CpuTrainingKernels::adamw8_range> adamw8_range;
KernelOf<&CpuTrainingKernels::nf4_expand> nf4_expand;

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
