// From tensors to what nvidia-smi shows: three tiers of device memory, and the verdict against the device. The host has
// its own verdict. Rules and sources: docs/memory_model.md.
#pragma once

#include <array>

#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"
#include "models/framework.h"
#include "planner/memory.h"

namespace gpuplan {

/// tensors <= reserved <= process. `needed` is what must fit when the allocator has to give back its cache.
struct MemoryTiers {
  Bytes tensors, reserved, process;
  Bytes needed;    // tensors + unavoidable fragmentation + fixed overheads
  Bytes capacity;  // what the framework sees as total
  Bytes usable;    // capacity less what is in use and the margin
  bool fits{};
};

/// `in_use` by others on the device; `uses_nccl`: the plan has more than one process.
/// `lengths_vary`: batches differ in shape, so that cached blocks of one do not fit the next.
struct TierQuestion {
  Bytes in_use;
  bool uses_nccl{}, lengths_vary{};
  AllocatorKind allocator = AllocatorKind::Caching;
};
MemoryTiers memory_tiers(const Peak& peak, const GpuSpec& gpu, const Profile& profile, TierQuestion question);

/// Process bytes by category; they add up to tiers.process.
std::array<Bytes, std::size_t(kNumCategories)> process_breakdown(const DetailedPeak& peak, const MemoryTiers& tiers,
                                                                 const GpuSpec& gpu, const Profile& profile,
                                                                 bool uses_nccl);

}  // namespace gpuplan
