// YAML that people write: the same text as a cluster, as a profile and as a GPU of the catalogue. A cluster that is
// read survives the way through a plan file.
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "cluster/cluster_file.h"
#include "cluster/gpu_file.h"
#include "cluster/profile/profile.h"
#include "fuzz/fuzz_input.h"
#include "planner/plan/plan_parts.h"

namespace {

using namespace gpuplan;

std::string as_plan(const ClusterSpec& cluster) {
  FieldWriter out;
  write_cluster(out, cluster);
  return out.take().dump();
}

void check_survives_plan(const ClusterSpec& cluster) {
  const std::string text = as_plan(cluster);
  const nlohmann::json plan = parse_json(text, "plan");
  ClusterSpec again;
  Fields in(plan, "plan", "cluster.");
  read_cluster(in, again);
  in.refuse_unknown();
  GPUPLAN_CHECK(!in.has_problems(), "a plan holds any cluster that can be described");
  GPUPLAN_CHECK(as_plan(again) == text, "a cluster read back from a plan is the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = fuzz::as_file("fuzz.yaml", fuzz::text_of(data, size));
  if (size % 4 >= 2) {  // reading is fast; working out the links reads the catalogue and is not
    fuzz::try_to([&] { read_cluster_file(file); });
  } else {
    ClusterSpec cluster;
    const auto num_gpus = size % 2 == 0 ? std::nullopt : std::optional<std::int64_t>(3);
    if (fuzz::try_to([&] { cluster = load_cluster(file.string(), num_gpus); })) check_survives_plan(cluster);
  }
  fuzz::try_to([&] { load_profile(file); });
  fuzz::try_to([&] { read_gpu_file(file); });
  return 0;
}
