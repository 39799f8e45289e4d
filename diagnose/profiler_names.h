// Names in traces of PyTorch's profiler: the classes of kernels in which measured and predicted time are set side by
// side, kinds of events, and annotations that frame parts of a step. The names are data: data/profiler.yaml.
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

/// Names what an event is, by its category.
enum class EventKind : std::uint8_t { Other, Kernel, Copy, Fill, Launch, Op, Note };
inline constexpr std::array kEventKinds{
    NameRow<EventKind>{"other", EventKind::Other},   NameRow<EventKind>{"kernel", EventKind::Kernel},
    NameRow<EventKind>{"copy", EventKind::Copy},     NameRow<EventKind>{"fill", EventKind::Fill},
    NameRow<EventKind>{"launch", EventKind::Launch}, NameRow<EventKind>{"op", EventKind::Op},
    NameRow<EventKind>{"note", EventKind::Note}};
constexpr NameTable<EventKind> names_of(EventKind) { return {"kind of event", kEventKinds}; }

/// Names the part of a step that an annotation or an op of the host frames.
enum class FramedPart : std::uint8_t { None, Step, Optimizer, Backward, Loader };
inline constexpr std::array kFramedParts{
    NameRow<FramedPart>{"none", FramedPart::None}, NameRow<FramedPart>{"step", FramedPart::Step},
    NameRow<FramedPart>{"optimizer", FramedPart::Optimizer}, NameRow<FramedPart>{"backward", FramedPart::Backward},
    NameRow<FramedPart>{"loader", FramedPart::Loader}};
constexpr NameTable<FramedPart> names_of(FramedPart) { return {"part of a step", kFramedParts}; }

/// Returns what events of a category are; Other where no row knows it.
EventKind kind_of_category(std::string_view category);
/// Returns what an annotation or an op of the host frames; None: nothing.
FramedPart framed_by(std::string_view name);

}  // namespace gpuplan
