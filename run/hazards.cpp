#include "run/hazards.h"

#include <algorithm>

namespace gpuplan {
namespace {

bool conflict(const MemoryAccess& a, const MemoryAccess& b) {
  return (a.is_write || b.is_write) && a.begin < b.end && b.begin < a.end;
}

}  // namespace

std::array<std::array<std::int64_t, kNumStreams>, kNumStreams> Hazards::none() {
  std::array<std::array<std::int64_t, kNumStreams>, kNumStreams> all{};
  for (auto& row : all) row.fill(-1);
  return all;
}

std::vector<std::uint32_t> Hazards::enter(std::uint32_t task, StreamId stream,
                                          const std::vector<MemoryAccess>& accesses) {
  std::vector<std::uint32_t> waits;
  auto& covered = covered_[std::size_t(stream)];
  for (std::size_t other = 0; other < std::size_t(kNumStreams); ++other) {
    if (other == std::size_t(stream)) continue;
    const auto& past = past_[other];
    const auto meets = [&](const Entry& e) {
      return std::any_of(accesses.begin(), accesses.end(),
                         [&](const MemoryAccess& a) { return conflict(a, e.access); });
    };
    for (auto e = past.rbegin(); e != past.rend() && std::int64_t(e->task) > covered[other]; ++e) {
      if (!meets(*e)) continue;
      covered[other] = e->task;
      waits.push_back(e->task);
      break;
    }
  }
  for (const MemoryAccess& a : accesses) past_[std::size_t(stream)].push_back({a, task});
  return waits;
}

}  // namespace gpuplan
