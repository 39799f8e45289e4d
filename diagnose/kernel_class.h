// Classes of kernels by name: those in which measured and predicted time are set side by side.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/name_table.h"

namespace gpuplan {

enum class KernelClass : std::uint8_t {
  Gemm,
  Attention,
  Scan,  // of a recurrence
  Dequantise,
  Memory,  // norms, activations, sums: what moves memory
  Optimizer,
  Copy,  // between host and GPU
  AllReduce,
  AllGather,
  ReduceScatter,
  SendRecv,
  Count
};
constexpr int kNumKernelClasses = int(KernelClass::Count);
inline constexpr std::array kKernelClasses{NameRow<KernelClass>{"gemm", KernelClass::Gemm},
                                           NameRow<KernelClass>{"attention", KernelClass::Attention},
                                           NameRow<KernelClass>{"scan", KernelClass::Scan},
                                           NameRow<KernelClass>{"dequantise", KernelClass::Dequantise},
                                           NameRow<KernelClass>{"memory", KernelClass::Memory},
                                           NameRow<KernelClass>{"optimizer", KernelClass::Optimizer},
                                           NameRow<KernelClass>{"copy", KernelClass::Copy},
                                           NameRow<KernelClass>{"all-reduce", KernelClass::AllReduce},
                                           NameRow<KernelClass>{"all-gather", KernelClass::AllGather},
                                           NameRow<KernelClass>{"reduce-scatter", KernelClass::ReduceScatter},
                                           NameRow<KernelClass>{"send-recv", KernelClass::SendRecv}};
constexpr NameTable<KernelClass> names_of(KernelClass) { return {"kernel class", kKernelClasses}; }

constexpr bool is_collective(KernelClass c) { return c >= KernelClass::AllReduce && c < KernelClass::Count; }

/// Returns the class of a kernel on a GPU; Memory where no row of data/profiler.yaml knows it.
KernelClass class_of_kernel(std::string_view name);
/// Returns the class of an operation on a CPU; Count: no op that does work of its own.
KernelClass class_of_op(std::string_view name);

}  // namespace gpuplan
