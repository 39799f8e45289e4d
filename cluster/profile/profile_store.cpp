#include "cluster/profile/profile_store.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/user_folders.h"
#include "cluster/cpu_ranks.h"

namespace gpuplan {
namespace {

constexpr double kMemoryTolerance =
    0.1;  // of a GPU's memory: ECC and the driver change it, another product differs by more

/// Later days first; ids of one day end in the time, so the later one first too.
bool is_newer(const MeasuredOn* a, const std::string& id_a, const MeasuredOn* b, const std::string& id_b) {
  const std::string none, &day_a = a ? a->date : none, &day_b = b ? b->date : none;
  return day_a != day_b ? day_a > day_b : id_a > id_b;
}

const MeasuredOn* machine_of(const StoredProfile& stored) {
  return stored.profile && stored.profile->measured ? &stored.profile->measured->on : nullptr;
}

/// The first line of a problem; `profiles show` tells all.
std::string not_used(const std::filesystem::path& file, const std::string& problem) {
  return fmt::format("profile {} is not used: {}", file.string(), split(problem, '\n').front());
}

std::string id_of(const StoredProfile& stored) {
  return stored.profile ? stored.profile->id : stored.file.stem().string();
}

StoredProfile read_stored(const std::filesystem::path& file) {
  try {
    return {.file = file, .profile = std::make_shared<Profile>(load_profile(file))};
  } catch (const InputError& error) { return {.file = file, .problem = error.what()}; }
}

std::vector<std::filesystem::path> profile_files() { return files_in(profile_dir(), ".yaml"); }

bool is_on(const MeasuredOn& on, const ClusterSpec& cluster) {
  const GpuSpec& gpu = cluster.gpus.front();
  if (on.gpu != gpu.id) return false;
  if (!gpu.is_cpu) return std::abs(on.memory / gpu.device_memory - 1) < kMemoryTolerance;
  const HostFacts host = read_host_facts();
  return on.device == host.cpu_name && on.num_cores == host.num_cores;
}

/// A profile of the folder that was measured on such hardware.
struct Candidate {
  std::filesystem::path file;
  ProfileHead head;
};

/// Newest first. Their heads alone are read: a folder of many calibrations must not slow every answer down.
std::vector<Candidate> candidates(const ClusterSpec& cluster, std::vector<std::string>& notes) {
  std::vector<Candidate> out;
  for (const auto& file : profile_files()) {
    try {
      const ProfileHead head = read_profile_head(file);
      if (head.on && is_on(*head.on, cluster)) out.push_back({file, head});
    } catch (const InputError& error) { notes.push_back(not_used(file, error.what())); }
  }
  std::ranges::sort(out, [](const Candidate& a, const Candidate& b) {
    return is_newer(&*a.head.on, a.head.id, &*b.head.on, b.head.id);
  });
  return out;
}

std::vector<std::string> ids_of(const std::vector<StoredProfile>& all) {
  std::vector<std::string> out;
  for (const StoredProfile& one : all)
    if (one.profile) out.push_back(one.profile->id);
  return out;
}

}  // namespace

std::filesystem::path profile_dir() {
  if (const std::string set = text_of_variable("GPUPLAN_PROFILE_DIR"); !set.empty()) return set;
  return user_data_dir() / "profiles";
}

std::vector<StoredProfile> stored_profiles() {
  std::vector<StoredProfile> out;
  for (const auto& file : profile_files()) out.push_back(read_stored(file));
  std::ranges::stable_sort(out, [](const StoredProfile& a, const StoredProfile& b) {
    return is_newer(machine_of(a), id_of(a), machine_of(b), id_of(b));
  });
  return out;
}

std::shared_ptr<const Profile> find_profile(const std::string& text, const std::string& where) {
  if (is_file(text)) return std::make_shared<Profile>(load_profile(text));
  const std::vector<StoredProfile> all = stored_profiles();
  for (const StoredProfile& one : all) {
    if (one.profile && one.profile->id == text) return one.profile;
    if (!one.profile && one.file.stem() == text) throw InputError(where, one.problem);
  }
  std::vector<std::string> ids = ids_of(all);
  for (const Profile& shipped : shipped_profiles()) {
    if (shipped.id == text) return std::make_shared<Profile>(shipped);
    ids.push_back(shipped.id);
  }
  throw InputError(where, fmt::format("no profile '{}' in {}", text, profile_dir().string()),
                   did_you_mean(text, ids, "'gpuplan profiles' lists them, 'gpuplan calibrate' makes one"));
}

std::string read_instead_of_shipped(const Profile& profile) {
  const auto is_named = [&](const Profile& shipped) {
    return shipped.id == profile.id && shipped.file != profile.file;
  };
  if (!std::ranges::any_of(shipped_profiles(), is_named)) return {};
  return fmt::format("profile {} is read from {}, not the shipped one", profile.id, profile.file);
}

bool is_for(const Profile& profile, const ClusterSpec& cluster) {
  return profile.measured && is_on(profile.measured->on, cluster);
}

std::shared_ptr<const Profile> profile_for(const ClusterSpec& cluster, std::vector<std::string>& notes) {
  for (const Candidate& one : candidates(cluster, notes)) {
    const StoredProfile stored = read_stored(one.file);
    if (stored.profile) return stored.profile;
    notes.push_back(not_used(one.file, stored.problem));
  }
  return std::make_shared<Profile>(default_profile(cluster.gpus.front()));
}

}  // namespace gpuplan
