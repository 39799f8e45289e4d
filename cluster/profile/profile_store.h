// Profiles that were measured on machines of this user: where they are kept, which one fits a plan.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"

namespace gpuplan {

/// $GPUPLAN_PROFILE_DIR, else gpuplan/profiles in $XDG_DATA_HOME or ~/.local/share.
std::filesystem::path profile_dir();

struct StoredProfile {
  std::filesystem::path file;
  std::shared_ptr<const Profile> profile;  // null: it cannot be read
  std::string problem;                     // then why
};

/// Every profile in profile_dir(), newest measurement first. A file that cannot be read is in the list with its
/// problem.
std::vector<StoredProfile> stored_profiles();

/// Finds a profile by id, a shipped class included, or reads a file. Throws InputError with `where` and the nearest
/// ids.
std::shared_ptr<const Profile> find_profile(const std::string& id_or_file, const std::string& where = "--profile");

/// "profile default-ampere is read from FILE, not the shipped one"; empty for every other profile.
std::string read_instead_of_shipped(const Profile& profile);

/// Says whether it was measured on hardware like the first GPU of the cluster: the product and its memory; of CPU ranks
/// the processor of this host and its cores.
bool is_for(const Profile& profile, const ClusterSpec& cluster);

/// The newest stored profile for the cluster, else the shipped one of its GPUs; `notes` says what was passed over.
std::shared_ptr<const Profile> profile_for(const ClusterSpec& cluster, std::vector<std::string>& notes);

}  // namespace gpuplan
