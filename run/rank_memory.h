// The memory of one rank: persistent buffers of the step program, each an allocation of exactly its size, and an arena
// for all that lives for a part of the step. What is offloaded is in pinned memory of the host, with an arena of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "device/device.h"
#include "run/native_job.h"
#include "run/step_trace.h"

namespace gpuplan {

class RankMemory {
 public:
  /// The arena has `least` bytes at least, for programs that borrow it.
  RankMemory(const NativeJob& job, const RankProgram& program, Device& device, Bytes least);
  /// Memory of a pass that runs while the lender's program does not: the lender's arena and, where `shares_state`
  /// says so, its persistent buffers. The lender outlives this.
  RankMemory(const NativeJob& job, const RankProgram& program, Device& device, const RankMemory& lender,
             bool shares_state);
  /// Bytes of the arena that a program needs.
  static Bytes arena_of(const NativeJob& job, const RankProgram& program);

  const StepTrace& trace() const { return trace_; }
  std::byte* at(const Piece& piece) const;  // null for none
  Bytes size(const Piece& piece) const;
  /// The persistent buffer of a unit in a role, or 0.
  std::uint32_t find(std::uint16_t unit, BufferRole role) const;
  std::byte* persistent(std::uint32_t buffer) const { return static_cast<std::byte*>(buffers_[buffer].data()); }
  const RankProgram& program() const { return program_; }

  bool is_on_host(std::uint32_t buffer) const { return program_.buffers[buffer].space == MemorySpace::Host; }

  // On the device; a pass has what is not the lender's.
  Bytes persistent_bytes() const { return sum_of(MemorySpace::Device); }
  Bytes arena_bytes() const { return arena_.size(); }
  /// Pinned, all the time.
  Bytes host_bytes() const { return sum_of(MemorySpace::Host) + host_arena_.size(); }
  /// Nothing lives in it between steps.
  std::byte* arena() const { return arena_.as<std::byte>(); }
  /// Bytes on the device that this rank has allocated for a persistent buffer.
  Bytes own_bytes(std::uint32_t buffer) const {
    return is_on_host(buffer) || is_borrowed_[buffer] ? Bytes{} : buffers_[buffer].size();
  }
  /// Bytes allocated on the device for each category, at the instant of the step when most is in use.
  CategoryBytes at_peak() const;

 private:
  RankMemory(const NativeJob& job, const RankProgram& program, Device& device, Bytes least, const RankMemory* lender,
             bool shares_state);

  const RankProgram& program_;
  StepTrace trace_;
  std::vector<Bytes> offsets_;     // of each lifetime, in its arena
  std::vector<Buffer> buffers_;    // by id, empty where not persistent
  std::vector<char> is_borrowed_;  // by id: the lender counts it
  Buffer arena_, host_arena_;

  Bytes sum_of(MemorySpace space) const;
  std::vector<Lifetime> lifetimes_in(MemorySpace space) const;
  /// Places the lifetimes there; returns the size of the arena.
  Bytes place(MemorySpace space);
};

/// Memory that a rank holds where its tensors lie: on a CPU in the host's memory, libraries included; on a GPU there,
/// with CUDA's context, NCCL and workspaces. The row "process" of predicted against measured.
class ProcessMemory {
 public:
  /// Call it before the device is opened.
  ProcessMemory();
  /// Right after: the first reading of a GPU.
  void opened(const Device& device);
  /// So far. CPU: growth of the highest resident memory. GPU: the context, and by how much free memory has fallen since
  /// it was opened; what other processes allocate there meanwhile counts with it, what they free does not make it less
  /// than `held`, this rank's buffers, and the device's overhead.
  Bytes now(const Device& device, Bytes held) const;

 private:
  Bytes resident_, context_, free_;
};

/// Highest resident memory of this process so far (VmHWM).
Bytes peak_resident_bytes();

}  // namespace gpuplan
