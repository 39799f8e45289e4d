#include "run/rank_memory.h"

#include "base/error.h"

namespace gpuplan {

RankMemory::RankMemory(const NativeJob& job, const RankProgram& program, Device& device)
    : program_(program), trace_(trace_step(job.program(), program)), plan_(plan_addresses(trace_.lifetimes)) {
  for (const ProgramBuffer& b : program.buffers) {
    Buffer& own = buffers_.emplace_back();
    if (!b.is_persistent || b.bytes.count == 0) continue;
    GPUPLAN_CHECK(b.space == MemorySpace::Device, "a native step keeps its state in device memory");
    own = device.allocate(b.bytes);
  }
  if (plan_.size.count > 0) arena_ = device.allocate(plan_.size);
}

std::byte* RankMemory::at(const Piece& piece) const {
  if (piece.is_none()) return nullptr;
  if (piece.lifetime < 0) return persistent(piece.buffer);
  return arena_.as<std::byte>() + plan_.offsets[std::size_t(piece.lifetime)].count;
}

Bytes RankMemory::size(const Piece& piece) const {
  if (piece.is_none()) return {};
  return piece.lifetime < 0 ? program_.buffers[piece.buffer].bytes : trace_.lifetimes[std::size_t(piece.lifetime)].bytes;
}

std::uint32_t RankMemory::find(std::uint16_t unit, BufferRole role) const {
  for (std::uint32_t id = 1; id < program_.buffers.size(); ++id) {
    const ProgramBuffer& b = program_.buffers[id];
    if (b.is_persistent && b.unit == unit && b.role == role) return id;
  }
  return 0;
}

Bytes RankMemory::persistent_bytes() const {
  Bytes sum;
  for (const Buffer& b : buffers_) sum += b.size();
  return sum;
}

CategoryBytes RankMemory::at_peak() const {
  CategoryBytes out{};
  for (std::size_t id = 0; id < buffers_.size(); ++id) out[std::size_t(program_.buffers[id].category)] += buffers_[id].size();
  const std::uint32_t when = instant_of_peak(trace_.lifetimes);
  for (std::size_t i = 0; i < trace_.lifetimes.size(); ++i)
    if (const Lifetime& life = trace_.lifetimes[i]; life.begin <= when && when < life.end) out[std::size_t(trace_.categories[i])] += life.bytes;
  return out;
}

}  // namespace gpuplan
