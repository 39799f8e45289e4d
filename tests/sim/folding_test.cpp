// Folding against simulating every rank, on machines whose GPUs share ways to their adapters.
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/changes.h"
#include "sim/simulated.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr double kGiga = 1e9;

/// Eight GPUs on two sockets, `per_switch` of them on a PCIe switch, which has adapters of its own: on the same switch,
/// or each device on one more below it. One in four machines has an adapter more than is even, or a slower one.
NodeLayout random_layout(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + std::ptrdiff_t(random() % values.size()));
  };
  NodeLayout layout;
  layout.sockets = 2;
  layout.bridges = {0, 1};
  const std::int64_t per_switch = one_of({1, 2, 4}), nics = one_of({1, 1, 2}), odd = one_of({0, 1, 2, 3, 4, 5, 6, 7});
  const bool is_cascaded = random() % 2 == 0;
  const BytesPerSec uplink{double(one_of({0, 16, 32})) * kGiga}, rate{double(one_of({100, 200, 400})) * kGiga / 8};
  const auto place_on = [&](std::int64_t bridge, std::int64_t outer) {
    if (!is_cascaded) return outer;
    layout.switches.push_back({bridge, outer, {}});
    return std::int64_t(layout.switches.size()) - 1;
  };
  for (std::int64_t gpu = 0; gpu < 8; gpu += per_switch) {
    const std::int64_t bridge = gpu / 4, outer = std::int64_t(layout.switches.size());
    layout.switches.push_back({bridge, -1, uplink});
    for (std::int64_t k = 0; k < per_switch; ++k) layout.gpus.push_back({bridge, place_on(bridge, outer), {}, {}});
    const bool has_more = odd == 1 && gpu == 0, is_slow = odd == 2 && gpu == 0;
    for (std::int64_t k = 0; k < nics + (has_more ? 1 : 0); ++k)
      layout.nics.push_back({bridge, place_on(bridge, outer), is_slow ? rate * 0.5 : rate, {}});
  }
  if (odd == 3) layout.nics.push_back({0, -1, rate, "storage"});
  layout.leaf_nodes = one_of({0, 1, 2});
  layout.oversubscription = double(one_of({1, 1, 4}));
  return layout;
}

ClusterSpec with_layout(ClusterSpec cluster, NodeLayout layout) {
  cluster.layout = std::move(layout);
  return cluster;
}

}  // namespace

TEST_CASE("on machines whose GPUs share ways to their adapters, folding changes no time") {
  std::int64_t num_folded = 0, num_to_one = 0;
  for (const char* gpus : {"32xA100", "32xH100", "32x4090"})
    for (std::uint32_t seed = 0; seed < 24; ++seed) {
      std::mt19937 random(seed);
      EstimateRequest r = request_for("llama-3.2-1b", gpus, Method::Full, 1);
      r.cluster = with_layout(r.cluster, random_layout(random));
      const bool is_hsdp = seed % 3 == 0 && r.cluster.fabric == FabricKind::NvSwitch;  // cards: docs/simulation.md
      const char* const name = is_hsdp ? "hsdp" : "fsdp";
      if (is_hsdp) r.options.shard_size = 8;
      const Simulation folded = simulated(r, name).simulation, full = simulated(r, name, {.folds = false}).simulation;
      CAPTURE(fmt::format("{} {} seed {}", gpus, name, seed));
      CHECK(folded.step_time().value == doctest::Approx(full.step_time().value).epsilon(1e-9));
      CHECK(folded.exposed_communication.value == doctest::Approx(full.exposed_communication.value).epsilon(1e-9));
      num_folded += folded.is_folded ? 1 : 0;
      num_to_one += folded.ranks.size() == 1 ? 1 : 0;
    }
  CHECK(num_folded > 36);
  CHECK(num_to_one > 12);
}

TEST_CASE("--what-if nic= keeps the machine's adapters, so that time goes with their rate") {
  EstimateRequest r = request_for("llama-3.1-8b", "16xA100", Method::Full, 1);
  NodeLayout layout{.sockets = 2, .bridges = {0, 1}};
  for (std::int64_t k = 0; k < 4; ++k) {  // two GPUs and an adapter on a switch
    layout.switches.push_back({k / 2, -1, {}});
    for (int i = 0; i < 2; ++i) layout.gpus.push_back({k / 2, k, {}, {}});
    layout.nics.push_back({k / 2, k, BytesPerSec{25 * kGiga}, {}});
  }
  r.cluster = with_layout(r.cluster, layout);
  const Profile profile = default_profile(r.cluster.gpus.front());
  const auto step = [&](const char* nic) {
    const Variant variant = changed({r, profile}, parse_settings(fmt::format("nic={}", nic)));
    return simulated(variant.request, "fsdp", variant.profile, {}).simulation.step_time().value;
  };
  // bound by the adapters: time x rate stays, but for latencies and what no network takes
  const double at_20 = step("20") * 20, at_40 = step("40") * 40, at_60 = step("60") * 60, at_64 = step("64") * 64;
  CHECK(at_40 == doctest::Approx(at_20).epsilon(0.15));
  CHECK(at_60 == doctest::Approx(at_40).epsilon(0.15));
  CHECK(at_64 == doctest::Approx(at_60).epsilon(0.03));
}
