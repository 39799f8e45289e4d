// From tensors to what nvidia-smi shows: three tiers of device memory, and the verdict against the device. The host has
// its own verdict. Rules and sources: docs/memory_model.md.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/name_table.h"
#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"
#include "models/framework.h"
#include "planner/accuracy.h"
#include "planner/memory.h"

namespace gpuplan {

/// tensors <= reserved <= process, on a device that has room for all of it. `needed` is what remains when the allocator
/// gives back its cache.
struct MemoryTiers {
  Bytes tensors, reserved, process;
  Bytes needed;    // tensors + unavoidable fragmentation + fixed overheads
  Bytes capacity;  // what the framework sees as total
  Bytes usable;    // capacity less what is in use and the margin

  /// What is cached beyond what the device has room for: a run gives it back, so measurements do not show it.
  Bytes given_back() const { return std::max(Bytes{}, process - std::max(usable, needed)); }
};

/// Whether a plan fits, as far as predictions can tell.
enum class Fit : std::uint8_t {
  No,     // not even the low end of the range of `needed` fits
  Tight,  // it depends on the error of the prediction, or on the allocator giving back its cache
  Yes     // the high end of the range of `process` fits
};
inline constexpr std::array kFits{NameRow<Fit>{"yes", Fit::Yes}, NameRow<Fit>{"tight", Fit::Tight},
                                  NameRow<Fit>{"no", Fit::No}};
constexpr NameTable<Fit> names_of(Fit) { return {"verdict", kFits}; }

/// `range`: around the process's bytes, of measurements; without one the predictions count as exact.
Fit fit_of(const MemoryTiers& tiers, const std::optional<AccuracyRange>& range);

/// `in_use` by others on the device; `uses_nccl`: the plan has more than one process.
/// `lengths_vary`: batches differ in shape, so that cached blocks of one do not fit the next.
struct TierQuestion {
  Bytes in_use;
  bool uses_nccl{}, lengths_vary{};
  /// The optimizer's temporaries lie where activations were: with no activation alive, the caching allocator has joined
  /// its blocks to whole segments (try_merge_blocks of c10/cuda/CUDACachingAllocator.cpp). A segment is no larger than
  /// the tensor that it was made for (alloc_block, get_allocation_size), so that these bytes find none. Unset: no
  /// temporary does.
  std::optional<Bytes> unplaced;
  AllocatorKind allocator = AllocatorKind::Caching;
};
MemoryTiers memory_tiers(const Peak& peak, const GpuSpec& gpu, const Profile& profile, TierQuestion question);

/// Process bytes by category; they add up to tiers.process.
std::array<Bytes, std::size_t(kNumCategories)> process_breakdown(const DetailedPeak& peak, const MemoryTiers& tiers,
                                                                 const GpuSpec& gpu, const Profile& profile,
                                                                 bool uses_nccl);

}  // namespace gpuplan
