#include "search/spot.h"

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

struct VendorTerms {
  std::string vendor;
  SpotTerms terms;
};

std::vector<VendorTerms> read_terms() {
  const std::filesystem::path path = data_dir() / "spot.yaml";
  std::vector<VendorTerms> all;
  if (!is_there(path)) return all;
  YamlFile file = YamlFile::read(path);
  for (Fields& row : file.top().list("vendors")) {
    VendorTerms& one = all.emplace_back();
    one.vendor = row.text("vendor");
    SpotTerms& t = one.terms;
    t.share_of_on_demand = row.number("share_of_on_demand", {.least = 0, .most = 1});
    t.interruptions_per_hour = row.number("interruptions_per_hour");
    t.restart = 60 * Seconds{row.number("restart_minutes")};
    t.checkpoint_rate = BytesPerSec{row.number("checkpoint_gb_per_s", {.least = 1e-3}) * 1e9};
    t.source = row.text("source");
    row.allow({"kind"});
    row.refuse_unknown();
  }
  file.finish("the fields are explained at the top of the file");
  return all;
}

}  // namespace

std::optional<SpotTerms> spot_terms(const std::string& vendor) {
  for (const VendorTerms& one : read_once<read_terms>())
    if (one.vendor == vendor) return one.terms;
  return std::nullopt;
}

double spot_slowdown(const SpotTerms& terms, Bytes checkpoint, std::int64_t num_machines) {
  const double rate = terms.interruptions_per_hour / 3600 * double(num_machines);
  if (rate <= 0) return 1;
  const double write = std::max(1e-3, (checkpoint / terms.checkpoint_rate).value);
  const double interval = std::sqrt(2 * write / rate);
  return 1 + write / interval + rate * (interval / 2 + terms.restart.value);
}

}  // namespace gpuplan
