#include "report/profile_list.h"

#include <algorithm>

#include "base/error.h"

namespace gpuplan {
namespace {

/// Holds what a plan may run on here.
struct LocalUse {
  const char* name;
  ClusterSpec cluster;
};

std::vector<LocalUse> local_uses() {
  std::vector<LocalUse> out;
  const auto gpus = find_local_gpus();
  if (const auto* const cluster = std::get_if<ClusterSpec>(&gpus)) out.push_back({"GPUs of this machine", *cluster});
  out.push_back({"CPU ranks of this machine", parse_gpus("1xcpu")});
  return out;
}

void add_use(std::string& uses, const std::string& use) { uses += (uses.empty() ? "" : ", ") + use; }

}  // namespace

ProfileList list_profiles() {
  ProfileList out{.folder = profile_dir(), .measured = {}, .shipped = {}};
  for (StoredProfile& stored : stored_profiles()) out.measured.push_back({std::move(stored), {}});
  for (const Profile& shipped : shipped_profiles()) out.shipped.push_back({shipped.id, shipped.title, {}});
  for (const LocalUse& use : local_uses()) {
    std::vector<std::string> unread;
    const auto used = profile_for(use.cluster, unread);
    for (ListedProfile& one : out.measured)
      if (one.stored.profile && one.stored.file == used->file) add_use(one.used_for, use.name);
    for (ListedClass& one : out.shipped)
      if (!used->measured && one.id == used->id) add_use(one.used_for, use.name);
  }
  return out;
}

}  // namespace gpuplan
