#include "run/rank_memory.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/files.h"

namespace gpuplan {

RankMemory::RankMemory(const NativeJob& job, const RankProgram& program, Device& device, Bytes least)
    : RankMemory(job, program, device, least, nullptr, false) {}

RankMemory::RankMemory(const NativeJob& job, const RankProgram& program, Device& device, const RankMemory& lender,
                       bool shares_state)
    : RankMemory(job, program, device, {}, &lender, shares_state) {}

RankMemory::RankMemory(const NativeJob& job, const RankProgram& program, Device& device, Bytes least,
                       const RankMemory* lender, bool shares_state)
    : program_(program),
      trace_(trace_step(job.program(), program)),
      offsets_(trace_.lifetimes.size()) {
  for (const ProgramBuffer& b : program.buffers) {
    Buffer& own = buffers_.emplace_back();
    is_borrowed_.push_back(false);
    if (!b.is_persistent || b.bytes.count == 0) continue;
    if (shares_state) {
      own = lender->buffers_[lender->find(b.unit, b.role)];
      GPUPLAN_CHECK(own.size() == b.bytes, "a pass over the lender's state finds it as it expects it");
      is_borrowed_.back() = true;
      continue;
    }
    GPUPLAN_CHECK(b.space == MemorySpace::Device || b.space == MemorySpace::Host,
                  "a native step keeps its state on the device or the host");
    own = b.space == MemorySpace::Host ? device.allocate_host(b.bytes, HostMemory::Pinned) : device.allocate(b.bytes);
  }
  const Bytes needed = place(MemorySpace::Device);
  if (lender) {
    GPUPLAN_CHECK(needed <= lender->arena_.size(), "the lender's arena is as large as every pass needs");
    arena_ = lender->arena_;
  } else if (std::max(needed, least).count > 0) {
    arena_ = device.allocate(std::max(needed, least));
  }
  if (const Bytes size = place(MemorySpace::Host); size.count > 0)
    host_arena_ = device.allocate_host(size, HostMemory::Pinned);
}

static std::vector<Lifetime> lifetimes_of(const StepTrace& trace, MemorySpace space) {
  std::vector<Lifetime> out;
  for (std::size_t i = 0; i < trace.lifetimes.size(); ++i)
    if (trace.spaces[i] == space) out.push_back(trace.lifetimes[i]);
  return out;
}

Bytes RankMemory::arena_of(const NativeJob& job, const RankProgram& program) {
  return plan_addresses(lifetimes_of(trace_step(job.program(), program), MemorySpace::Device)).size;
}

std::vector<Lifetime> RankMemory::lifetimes_in(MemorySpace space) const { return lifetimes_of(trace_, space); }

Bytes RankMemory::place(MemorySpace space) {
  const AddressPlan plan = plan_addresses(lifetimes_in(space));
  std::size_t next = 0;
  for (std::size_t i = 0; i < trace_.lifetimes.size(); ++i)
    if (trace_.spaces[i] == space) offsets_[i] = plan.offsets[next++];
  return plan.size;
}

std::byte* RankMemory::at(const Piece& piece) const {
  if (piece.is_none()) return nullptr;
  if (piece.lifetime < 0) return persistent(piece.buffer);
  const auto at = std::size_t(piece.lifetime);
  return (trace_.spaces[at] == MemorySpace::Host ? host_arena_ : arena_).as<std::byte>() + offsets_[at].count;
}

Bytes RankMemory::size(const Piece& piece) const {
  if (piece.is_none()) return {};
  return piece.lifetime < 0 ? program_.buffers[piece.buffer].bytes
                            : trace_.lifetimes[std::size_t(piece.lifetime)].bytes;
}

std::uint32_t RankMemory::find(std::uint16_t unit, BufferRole role) const {
  for (std::uint32_t id = 1; id < program_.buffers.size(); ++id) {
    const ProgramBuffer& b = program_.buffers[id];
    if (b.is_persistent && b.unit == unit && b.role == role) return id;
  }
  return 0;
}

Bytes RankMemory::sum_of(MemorySpace space) const {
  Bytes sum;
  for (std::size_t id = 0; id < buffers_.size(); ++id)
    if (program_.buffers[id].space == space && !is_borrowed_[id]) sum += buffers_[id].size();
  return sum;
}

CategoryBytes RankMemory::at_peak() const {
  CategoryBytes out{};
  for (std::uint32_t id = 0; id < buffers_.size(); ++id)
    out[std::size_t(program_.buffers[id].category)] += own_bytes(id);
  const std::uint32_t when = instant_of_peak(lifetimes_in(MemorySpace::Device));
  for (std::size_t i = 0; i < trace_.lifetimes.size(); ++i)
    if (const Lifetime& life = trace_.lifetimes[i];
        trace_.spaces[i] == MemorySpace::Device && life.begin <= when && when < life.end)
      out[std::size_t(trace_.categories[i])] += life.bytes;
  return out;
}

Bytes peak_resident_bytes() {
  std::istringstream status(read_if_there("/proc/self/status").value_or(""));
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return Bytes{kib * 1024};
  }
  return {};
}

ProcessMemory::ProcessMemory() : resident_(peak_resident_bytes()) {}

void ProcessMemory::opened(const Device& device) {
  context_ = device.overhead();
  free_ = device.facts().memory_free;
}

Bytes ProcessMemory::now(const Device& device, Bytes held) const {
  const DeviceFacts facts = device.facts();
  if (facts.kind == DeviceKind::Cpu) return peak_resident_bytes() - resident_;
  return std::max(context_ + (free_ - facts.memory_free), device.overhead() + held);
}

}  // namespace gpuplan
