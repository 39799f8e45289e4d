#include "cluster/rank_gpus.h"

#include <algorithm>

#include "base/error.h"

namespace gpuplan {

void RankGpus::add(const GpuSpec& gpu, std::size_t count) {
  if (count == 0) return;
  if (kinds_.empty() || kinds_.back() != gpu) {
    kinds_.push_back(gpu);
    ends_.push_back(size());
  }
  ends_.back() += count;
}

void RankGpus::keep(std::size_t count) {
  if (count >= size()) return;
  const std::size_t kinds = count == 0 ? 0 : kind_of(count - 1) + 1;
  kinds_.resize(kinds);
  ends_.resize(kinds);
  if (kinds > 0) ends_.back() = count;
}

std::size_t RankGpus::kind_of(std::size_t rank) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), rank);
  GPUPLAN_CHECK(end != ends_.end(), "the rank is in the cluster");
  return std::size_t(end - ends_.begin());
}

}  // namespace gpuplan
