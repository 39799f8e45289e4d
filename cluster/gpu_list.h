// A list of GPUs, "4xA6000" or "2x4090,2x3090", and the machine it stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/gpu_file.h"
#include "cluster/gpu_spec_text.h"

namespace gpuplan {

/// One part of the list: so many cards of a name.
struct NamedGpus {
  std::int64_t num_cards = 1;
  std::string name;
  std::optional<std::int64_t> num_devices{};  // of them; unset: all that the cards have
};

/// Ranks of one card of a cluster of --gpus: 2 of an MI250X.
std::int64_t devices_per_card(const ClusterSpec& cluster);

/// The parts of "4xA6000, 2 x 4090". Throws InputError.
std::vector<NamedGpus> split_gpu_list(const std::string& text);

/// True for a list of GPUs that are all known: "2x3090", "4090x2", "RTX 3060,4070".
bool names_gpus(const std::string& text);

/// The machines these GPUs usually stand in, with what was assumed. Names are looked up in `described`, then in the
/// catalogue. Throws InputError, also for a described card that no part names.
ClusterSpec cluster_of(const std::vector<NamedGpus>& parts, const std::vector<DescribedGpu>& described = {});

}  // namespace gpuplan
