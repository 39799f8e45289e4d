#include "validate/constants.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "base/files.h"
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

void add_profiles(std::vector<EmpiricalConstant>& out, const std::vector<Profile>& profiles) {
  const auto is_shared = [&](const std::string& name, const ProfileValue& value) {
    return std::all_of(profiles.begin(), profiles.end(), [&](const Profile& p) {
      return std::any_of(p.values.begin(), p.values.end(),
                         [&](const auto& row) { return row.first == name && row.second.value == value.value; });
    });
  };
  std::set<std::string> seen;
  for (const Profile& profile : profiles)
    for (const auto& [name, value] : profile.values) {
      const std::string shown = is_shared(name, value) ? name : fmt::format("{} ({})", name, profile.id);
      if (!is_empirical(value.kind) || !seen.insert(shown).second) continue;
      out.push_back({shown, value.value, value.unit, value.kind, value.source, use_of(name)});
    }
}

/// What the links of machines add where nothing was measured.
void add_links(std::vector<EmpiricalConstant>& out) {
  YamlFile file = YamlFile::read(data_dir() / "links.yaml");
  for (Fields& row : file.top().list("fabrics")) {
    const auto share = row.optional_number("share_of_link");
    const std::string kind = row.text("kind");
    if (share && *share != 1 && is_empirical(kind))
      out.push_back({fmt::format("share_of_link ({})", row.text("fabric")), *share, "share", kind, row.text("source"),
                     ConstantUse::Time});
  }
}

struct EngineNumber {
  const char* name;
  std::int64_t EngineConvention::*value;
  std::int64_t neutral;
};
constexpr std::array kEngineNumbers{EngineNumber{"hook_kernels", &EngineConvention::hook_kernels, 0},
                                    EngineNumber{"messages_per_unit", &EngineConvention::messages_per_unit, 1}};

void add_frameworks(std::vector<EmpiricalConstant>& out) {
  for (const EngineNumber& number : kEngineNumbers) {
    std::set<std::int64_t> values;
    for (const FrameworkConvention& f : list_frameworks())
      for (const EngineConvention* engine : {&f.fsdp1, &f.fsdp2, &f.zero})
        if (engine->*number.value != number.neutral) values.insert(engine->*number.value);
    for (const std::int64_t value : values)
      out.push_back({fmt::format("{} (frameworks)", number.name), double(value), "per gathered unit", "fitted",
                     "the records in data/frameworks", ConstantUse::Time});
  }
}

}  // namespace

std::vector<EmpiricalConstant> empirical_constants(const std::vector<Profile>& profiles) {
  std::vector<EmpiricalConstant> out;
  add_profiles(out, profiles);
  add_links(out);
  add_frameworks(out);
  return out;
}

}  // namespace gpuplan
