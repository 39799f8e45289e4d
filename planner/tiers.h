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
  Bytes resident;  // tensors that live all the step, which are counted exactly
  Bytes needed;    // tensors + unavoidable fragmentation + fixed overheads
  Bytes capacity;  // what the framework sees as total
  Bytes usable;    // capacity less what is in use and the margin

  /// Gives what is cached beyond what the device has room for: a run gives it back, so measurements do not show it.
  Bytes given_back() const { return std::max(Bytes{}, process - std::max(usable, needed)); }
};

/// The probability that a plan runs, in a word.
enum class Fit : std::uint8_t {
  No,        // below kNoUpTo, or what lives all the step, which is counted exactly, is more than the device has
  Unlikely,  // below kTightFrom
  IfHost,    // the GPUs have room for it, and nobody said how much memory the host has: more than is usual is needed
  Tight,
  Yes  // from kYesFrom on
};
inline constexpr std::array kFits{NameRow<Fit>{"yes", Fit::Yes}, NameRow<Fit>{"tight", Fit::Tight},
                                  NameRow<Fit>{"if-host", Fit::IfHost}, NameRow<Fit>{"unlikely", Fit::Unlikely},
                                  NameRow<Fit>{"no", Fit::No}};
constexpr NameTable<Fit> names_of(Fit) { return {"verdict", kFits}; }
inline constexpr double kYesFrom = 0.8, kTightFrom = 0.2, kNoUpTo = 0.01;

/// The probability that a run finds what it needs: `needed`, since the allocator gives its cache back where the device
/// has no room. Measurements lie around predictions: `range` holds 8 of 10 of them, a tenth beyond either end, and
/// their logarithms are taken to be normal on either side of 1. Without a range predictions count as exact.
double chance_to_run(const MemoryTiers& tiers, const std::optional<AccuracyRange>& range);
Fit fit_of(double chance);

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
