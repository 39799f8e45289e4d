#include "planner/tiers.h"

#include <algorithm>
#include <cmath>

#include "base/fields.h"

namespace gpuplan {

namespace {

/// Holds what a process holds beside its tensors.
struct Fixed {
  Bytes context, workspace, collectives;
  Bytes total() const { return context + workspace + collectives; }
};

Fixed fixed_bytes(const GpuSpec& gpu, const Profile& profile, bool uses_collectives) {
  Fixed f = gpu.is_cpu ? Fixed{gpu.own_memory, {}, gpu.collectives_memory}
                       : Fixed{profile.context, profile.blas_workspace, profile.nccl};
  if (!uses_collectives) f.collectives = {};
  return f;
}

}  // namespace

MemoryTiers memory_tiers(const Peak& peak, const GpuSpec& gpu, const Profile& profile, TierQuestion question) {
  if (peak.pools.count > kMostBytes) refuse_overflow();  // what is derived from it would not fit 64 bits
  MemoryTiers t;
  t.tensors = peak.tensors;
  t.resident = peak.resident;
  t.capacity = gpu.framework_memory;
  t.usable = Bytes{std::int64_t(double(t.capacity.count) * (1 - profile.margin))} - question.in_use;
  const Bytes offloaded = gpu.is_cpu ? peak.host : Bytes{};  // there host and device are one memory
  const Bytes fixed = fixed_bytes(gpu, profile, question.uses_nccl).total() + offloaded;
  const Bytes pools =
      question.allocator == AllocatorKind::Planned ? peak.tensors
      : question.unplaced
          ? std::clamp(std::max(peak.joined_pools + *question.unplaced, peak.joined_step), peak.tensors, peak.pools)
          : peak.pools;
  const Bytes spread = pools - peak.tensors;  // classes that do not share segments
  const Bytes unavoidable{std::int64_t(double(spread.count) * profile.pool_slack)};
  t.needed = peak.tensors + unavoidable + fixed;
  // Batches of other lengths leave blocks that fit nothing: what is not persistent is cached about twice.
  const Bytes cached =
      question.lengths_vary && question.allocator == AllocatorKind::Caching ? pools + (pools - peak.resident) : pools;
  t.reserved = std::max(cached, peak.tensors + unavoidable);
  // Paged states take what is left; the rest of them moves to the host.
  const Bytes paged = std::clamp(t.usable - fixed - t.reserved, Bytes{}, peak.managed);
  t.process = t.reserved + fixed + paged;
  return t;
}

double chance_to_run(const MemoryTiers& t, const std::optional<AccuracyRange>& range) {
  constexpr double kTenth = 1.2815515655446004;  // of a normal distribution, a tenth lies further out
  const AccuracyRange r = range.value_or(AccuracyRange{});
  if (t.resident > t.capacity || t.usable.count <= 0) return 0;
  const double room = std::log(double(t.usable.count) / double(t.needed.count));
  const double tenth = room < 0 ? -std::log(r.low) : std::log(r.high);
  if (tenth <= 0) return room < 0 ? 0 : 1;
  constexpr double kDigits = 1e12;  // that all C libraries agree on
  return std::round(0.5 * std::erfc(-kTenth * room / tenth / std::sqrt(2.0)) * kDigits) / kDigits;
}

Fit fit_of(double chance) {
  return chance >= kYesFrom     ? Fit::Yes
         : chance >= kTightFrom ? Fit::Tight
         : chance >= kNoUpTo    ? Fit::Unlikely
                                : Fit::No;
}

std::array<Bytes, std::size_t(kNumCategories)> process_breakdown(const DetailedPeak& peak, const MemoryTiers& tiers,
                                                                 const GpuSpec& gpu, const Profile& profile,
                                                                 bool uses_nccl) {
  auto out = peak.by_category;
  const auto at = [&](Category c) -> Bytes& { return out[std::size_t(c)]; };
  const Fixed fixed = fixed_bytes(gpu, profile, uses_nccl);
  const Bytes fixed_total = tiers.process - tiers.reserved;
  at(Category::Context) = std::min(fixed.context, fixed_total);
  at(Category::Nccl) = std::min(fixed.collectives, fixed_total - at(Category::Context));
  const Bytes workspace = std::min(fixed.workspace, fixed_total - at(Category::Context) - at(Category::Nccl));
  at(Category::Workspace) += workspace;
  at(Category::Optimizer) += fixed_total - at(Category::Context) - at(Category::Nccl) -
                             workspace;  // paged states on the device; on a CPU what is offloaded
  at(Category::Allocator) = tiers.reserved - tiers.tensors;
  return out;
}

}  // namespace gpuplan
