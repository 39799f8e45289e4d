#include "validate/constants.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "base/files.h"
#include "base/json_file.h"
#include "base/yaml_file.h"
#include "models/framework.h"

namespace gpuplan {
namespace {

/// Names of a profile that memory depends on; the others are about time.
constexpr std::array<std::string_view, 5> kMemoryNames{"context", "nccl", "blas_workspace", "pool_slack", "margin"};

bool is_empirical(const std::string& kind) { return kind != "datasheet"; }

ConstantUse use_of(const std::string& name) {
  return std::find(kMemoryNames.begin(), kMemoryNames.end(), name) != kMemoryNames.end() ? ConstantUse::Memory
                                                                                         : ConstantUse::Time;
}

nlohmann::json read_ablation() {
  const auto file = data_dir() / "validation" / "ablation.json";
  return is_there(file) ? read_json_file(file) : nlohmann::json::object();
}

Ablation parse_ablation(const nlohmann::json& row) {
  return {.num_points = row.value("points", std::int64_t{}), .median = row.at("median"), .p90 = row.at("p90")};
}

/// Finds the ablation of a constant, under its own name or under that of one of its classes.
std::optional<Ablation> find_ablation(const nlohmann::json& ablation, const std::string& name,
                                      const std::vector<std::string>& classes) {
  const nlohmann::json constants = ablation.value("constants", nlohmann::json::object());
  if (constants.contains(name)) return parse_ablation(constants.at(name));
  for (const std::string& id : classes)
    if (const std::string key = name + "/" + id; constants.contains(key)) return parse_ablation(constants.at(key));
  return std::nullopt;
}

/// A value that several classes share is one number: "flash_efficiency (default-ampere, default-volta)".
void add_profiles(std::vector<EmpiricalConstant>& out, const std::vector<Profile>& profiles) {
  struct Shared {
    const ProfileValue* value;
    std::vector<std::string> classes;
  };
  std::vector<std::pair<std::string, Shared>> found;
  for (const Profile& profile : profiles)
    for (const auto& [name, value] : profile.values) {
      const bool is_whole = value.value == 1 && (value.unit.starts_with("share") || value.unit.starts_with("factor"));
      if (!is_empirical(value.kind) || value.value == 0 || is_whole) continue;  // no such effect, nothing lost
      const auto same = std::find_if(found.begin(), found.end(), [&, &name = name, &value = value](const auto& row) {
        return row.first == name && row.second.value->value == value.value;
      });
      if (same == found.end())
        found.push_back({name, {&value, {profile.id}}});
      else
        same->second.classes.push_back(profile.id);
    }
  const nlohmann::json ablation = read_ablation();
  for (const auto& [name, shared] : found) {
    const ProfileValue& value = *shared.value;
    const bool is_of_all = shared.classes.size() == profiles.size();
    out.push_back({is_of_all ? name : fmt::format("{} ({})", name, fmt::join(shared.classes, ", ")), value.value,
                   value.unit, value.kind, value.source, use_of(name), find_ablation(ablation, name, shared.classes)});
  }
}

/// Adds the constants of machines' links where nothing was measured.
void add_links(std::vector<EmpiricalConstant>& out) {
  YamlFile file = YamlFile::read(data_dir() / "links.yaml");
  for (Fields& row : file.top().list("fabrics")) {
    const auto share = row.optional_number("share_of_link");
    const std::string kind = row.text("kind");
    if (share && *share != 1 && is_empirical(kind))
      out.push_back({fmt::format("share_of_link ({})", row.text("fabric")), *share, "share", kind, row.text("source"),
                     ConstantUse::Time});
  }
  Fields staging = file.top().fields("staging");
  out.push_back({"share_of_memory (staging)", staging.number("share_of_memory"), "share", staging.text("kind"),
                 staging.text("source"), ConstantUse::Time});
}

/// Adds how NCCL's messages fill their channels.
void add_collectives(std::vector<EmpiricalConstant>& out) {
  YamlFile file = YamlFile::read(data_dir() / "nccl.yaml");
  Fields fill = file.top().fields("pipeline_fill");
  for (const char* name : {"handshake_share", "saturation"})
    out.push_back({fmt::format("{} (pipeline_fill)", name), fill.number(name), "in latencies", fill.text("kind"),
                   fill.text("source"), ConstantUse::Time});
}

/// Adds what is taken for slots that a source calls slow.
void add_slots(std::vector<EmpiricalConstant>& out) {
  const nlohmann::json aliases = read_json_file(data_dir() / "validation" / "aliases.json");
  for (const auto& [text, row] : aliases.at("slots").items())
    out.push_back({fmt::format("share_of_lanes ({})", text), row.at("share_of_lanes").get<double>(), "share", "derived",
                   row.at("source").get<std::string>(), ConstantUse::Time});
}

void add_frameworks(std::vector<EmpiricalConstant>& out) {
  std::set<std::int64_t> values;
  for (const FrameworkConvention& f : list_frameworks())
    for (const EngineTraits& traits : kEngines)
      if (const std::int64_t kernels = engine_of(f, traits.engine).hook_kernels; kernels != 0) values.insert(kernels);
  for (const std::int64_t value : values)
    out.push_back({"hook_kernels (frameworks)", double(value), "per gathered message", "fitted",
                   "the records in data/frameworks", ConstantUse::Time});
}

}  // namespace

std::optional<Ablation> ablation_of_none() {
  const nlohmann::json ablation = read_ablation();
  return ablation.contains("all") ? std::optional(parse_ablation(ablation.at("all"))) : std::nullopt;
}

std::vector<EmpiricalConstant> empirical_constants(const std::vector<Profile>& profiles) {
  std::vector<EmpiricalConstant> out;
  add_profiles(out, profiles);
  add_links(out);
  add_collectives(out);
  add_slots(out);
  add_frameworks(out);
  return out;
}

}  // namespace gpuplan
