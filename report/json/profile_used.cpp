#include "report/json/profile_used.h"

namespace gpuplan {

nlohmann::ordered_json profile_used_json(const Profile& profile) {
  nlohmann::ordered_json out{
      {"id", profile.id}, {"title", profile.title}, {"sha256", profile.sha256}, {"measured", nullptr}};
  if (profile.measured)
    out["measured"] = {{"device", profile.measured->on.device}, {"date", profile.measured->on.date}};
  return out;
}

}  // namespace gpuplan
