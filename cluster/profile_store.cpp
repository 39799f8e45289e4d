#include "cluster/profile_store.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "cluster/cpu_ranks.h"

namespace gpuplan {
namespace {

constexpr double kMemoryTolerance = 0.1;  // of a GPU's memory: ECC and the driver change it, another product differs by more

std::string date_of(const StoredProfile& stored) {
  return stored.profile && stored.profile->measured ? stored.profile->measured->on.date : "";
}

StoredProfile read_stored(const std::filesystem::path& file) {
  try {
    return {.file = file, .profile = std::make_shared<Profile>(load_profile(file))};
  } catch (const InputError& error) { return {.file = file, .problem = error.what()}; }
}

std::vector<std::string> ids_of(const std::vector<StoredProfile>& all) {
  std::vector<std::string> out;
  for (const StoredProfile& one : all)
    if (one.profile) out.push_back(one.profile->id);
  return out;
}

}  // namespace

std::filesystem::path profile_dir() {
  if (const char* const set = std::getenv("GPUPLAN_PROFILE_DIR"); set && *set) return set;
  if (const char* const data = std::getenv("XDG_DATA_HOME"); data && *data)
    return std::filesystem::path(data) / "gpuplan" / "profiles";
  const char* const home = std::getenv("HOME");
  return std::filesystem::path(home ? home : ".") / ".local" / "share" / "gpuplan" / "profiles";
}

std::vector<StoredProfile> stored_profiles() {
  std::vector<StoredProfile> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(profile_dir(), none))
    if (entry.path().extension() == ".yaml") out.push_back(read_stored(entry.path()));
  std::sort(out.begin(), out.end(), [](const StoredProfile& a, const StoredProfile& b) {
    const std::string one = date_of(a), other = date_of(b);
    return one != other ? one > other : a.file < b.file;
  });
  return out;
}

std::shared_ptr<const Profile> find_profile(const std::string& text, const std::string& where) {
  std::error_code none;
  if (std::filesystem::is_regular_file(text, none)) return std::make_shared<Profile>(load_profile(text));
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

bool is_for(const Profile& profile, const ClusterSpec& cluster) {
  if (!profile.measured) return false;
  const MeasuredOn& on = profile.measured->on;
  const GpuSpec& gpu = cluster.gpus.front();
  if (on.gpu != gpu.id) return false;
  if (!gpu.is_cpu) return std::abs(on.memory / gpu.device_memory - 1) < kMemoryTolerance;
  const HostFacts host = read_host_facts();
  return on.device == host.cpu_name && on.num_cores == host.num_cores;
}

std::shared_ptr<const Profile> profile_for(const ClusterSpec& cluster, std::vector<std::string>& notes) {
  for (const StoredProfile& one : stored_profiles()) {
    if (!one.profile)
      notes.push_back(fmt::format("profile {} is not used: {}", one.file.string(), split(one.problem, '\n').front()));
    else if (is_for(*one.profile, cluster))
      return one.profile;
  }
  return std::make_shared<Profile>(default_profile(cluster.gpus.front()));
}

}  // namespace gpuplan
