// The memory of one rank: persistent buffers of the step program, each an allocation of exactly its size, and one arena for all that
// lives for a part of the step.
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
  RankMemory(const NativeJob& job, const RankProgram& program, Device& device);

  const StepTrace& trace() const { return trace_; }
  std::byte* at(const Piece& piece) const;   // null for none
  Bytes size(const Piece& piece) const;
  /// The persistent buffer of a unit in a role, or 0.
  std::uint32_t find(std::uint16_t unit, BufferRole role) const;
  std::byte* persistent(std::uint32_t buffer) const { return static_cast<std::byte*>(buffers_[buffer].data()); }
  const RankProgram& program() const { return program_; }

  Bytes persistent_bytes() const;
  Bytes arena_bytes() const { return plan_.size; }
  /// Between steps nothing lives in it.
  std::byte* arena() const { return arena_.as<std::byte>(); }
  /// What was allocated for each category, at the instant of the step when most is in use.
  CategoryBytes at_peak() const;

 private:
  const RankProgram& program_;
  StepTrace trace_;
  AddressPlan plan_;
  std::vector<Buffer> buffers_;   // by id, empty where not persistent
  Buffer arena_;
};

}  // namespace gpuplan
