// What can be rented: machines with their links, and who offers them at what price. Prices stand in data/gpus and
// data/clusters, or in a file of the user's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"
#include "search/spot.h"

namespace gpuplan {

/// A machine at the price of one vendor.
struct Offer {
  std::string vendor;  // "runpod"; empty: the user's own machine
  std::string name;    // "runpod on-demand"
  std::string source, date;
  std::optional<double> usd_per_gpu_hour;
  bool is_spot{};
  SpotTerms spot;  // of a spot offer

  bool is_dated() const { return !date.empty() && date != "undated"; }
};

/// One machine (or several alike) and everyone who offers it, the cheapest first.
struct Hardware {
  ClusterSpec cluster;           // of the GPUs that train
  std::int64_t engine_gpus = 0;  // beside them, where an engine has its own
  Profile profile;               // that times it
  std::string flags;             // "--gpus 2xh100-sxm", "--cluster aws-p5.48xlarge"
  std::vector<Offer> offers;

  std::int64_t num_gpus() const { return cluster.num_gpus() + engine_gpus; }
};

/// Holds what is looked for. Unset: any.
struct RentalWish {
  std::optional<std::string> vendor;
  bool takes_spot = false;                      // also offers that may be interrupted
  std::optional<std::filesystem::path> prices;  // in place of those of the catalogue
};

/// Every machine that can be rented: NxGPU with 1, 2, 4, … cards as far as their vendor sells them so, boards also as
/// several nodes, and the machines of data/clusters that have a price. Products that gpuplan cannot run are left out.
/// Sorted by name. Throws InputError for a vendor that offers nothing (with the known ones), and for a bad price file.
std::vector<Hardware> rentable(const RentalWish& wish);

/// A machine that the user has (or names), at its usual price if one is known.
Hardware own_machine(const ClusterSpec& cluster, const Profile& profile, std::string flags,
                     std::optional<double> usd_per_gpu_hour);

}  // namespace gpuplan
