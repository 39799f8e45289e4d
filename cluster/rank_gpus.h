// The GPU of every rank of a cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cluster/gpu_spec.h"

namespace gpuplan {

/// Neighbours that are alike are held once: a cluster has up to 131,072 GPUs, and every plan of it has a copy.
class RankGpus {
 public:
  RankGpus() = default;
  RankGpus(const std::vector<GpuSpec>& of_ranks) {
    for (const GpuSpec& gpu : of_ranks) add(gpu);
  }

  std::size_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  bool empty() const { return kinds_.empty(); }
  const GpuSpec& operator[](std::size_t rank) const { return kinds_[kind_of(rank)]; }
  const GpuSpec& front() const { return kinds_.front(); }
  const GpuSpec& back() const { return kinds_.back(); }

  /// Kinds in the order of the ranks, neighbours that are alike once.
  const std::vector<GpuSpec>& kinds() const { return kinds_; }
  std::size_t count_of(std::size_t kind) const { return ends_[kind] - (kind == 0 ? 0 : ends_[kind - 1]); }
  /// The first rank behind `rank` and its neighbours alike.
  std::size_t behind(std::size_t rank) const { return ends_[kind_of(rank)]; }

  /// `count` more ranks.
  void add(const GpuSpec& gpu, std::size_t count = 1);
  /// The first `count` ranks alone.
  void keep(std::size_t count);
  void clear() { kinds_.clear(), ends_.clear(); }
  template <class Change>
  void change_each(Change change) {
    RankGpus changed;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      GpuSpec gpu = kinds_[kind];
      change(gpu);
      changed.add(gpu, count_of(kind));
    }
    *this = std::move(changed);
  }
  /// Changes the GPU of one rank.
  template <class Change>
  void change(std::size_t rank, Change change) {
    RankGpus changed;
    for (std::size_t i = 0; i < size(); ++i) {
      GpuSpec gpu = (*this)[i];
      if (i == rank) change(gpu);
      changed.add(gpu);
    }
    *this = std::move(changed);
  }

  bool operator==(const RankGpus&) const = default;

 private:
  std::size_t kind_of(std::size_t rank) const;

  std::vector<GpuSpec> kinds_;
  std::vector<std::size_t> ends_;  // of each kind: the first rank behind it
};

}  // namespace gpuplan
