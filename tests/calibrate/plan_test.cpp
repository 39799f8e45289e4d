// The design of probes: what it covers, what it avoids, and in which order.
#include <algorithm>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "calibrate/plan.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

DeviceFacts cpu() {
  return {.kind = DeviceKind::Cpu,
          .architecture = "avx512_core_amx",
          .memory = 24_GiB,
          .memory_free = 22_GiB,
          .num_cores = 2,
          .gemm_types = {GemmType::F32, GemmType::BF16}};
}

DeviceFacts gpu() {
  return {.kind = DeviceKind::Cuda,
          .architecture = "sm_90",
          .memory = 80_GiB,
          .memory_free = 79_GiB,
          .num_cores = 132,
          .gemm_types = {GemmType::F32, GemmType::TF32, GemmType::BF16, GemmType::F16, GemmType::F8}};
}

bool is_sync_latency(const Probe& probe) {
  return probe.family == ProbeFamily::Dispatch && probe.dispatch == DispatchKind::SyncLatency;
}

using Surface = std::tuple<GemmType, GemmLayout, GemmRegime>;

std::map<Surface, std::vector<Probe>> surfaces(const std::vector<Probe>& probes) {
  std::map<Surface, std::vector<Probe>> found;
  for (const Probe& probe : probes)
    if (probe.family == ProbeFamily::Gemm) found[{probe.type, probe.layout, regime_of(probe.shape)}].push_back(probe);
  return found;
}

}  // namespace

TEST_CASE("no probe is planned twice, and a plan is the same every time") {
  for (const DeviceFacts& facts : {cpu(), gpu()})
    for (const bool is_quick : {false, true}) {
      const auto probes = plan_probes(facts, {.is_quick = is_quick, .rank_counts = {1, 4}});
      std::set<std::string> keys;
      for (const Probe& probe : probes) CHECK_MESSAGE(keys.insert(probe.key()).second, probe.key());
      const auto again = plan_probes(facts, {.is_quick = is_quick, .rank_counts = {1, 4}});
      REQUIRE(again.size() == probes.size());
      for (std::size_t i = 0; i < probes.size(); ++i) CHECK(again[i].key() == probes[i].key());
    }
}

TEST_CASE(
    "more CPU ranks than cores measure what they share alone: they take turns, which a short probe does not see") {
  for (const Probe& probe : plan_probes(cpu(), {.rank_counts = {1, 2, 4}}))
    if (probe.num_ranks == 4)
      CHECK_MESSAGE(
          (is_sync_latency(probe) || probe.family == ProbeFamily::Collective || probe.family == ProbeFamily::Copy ||
           probe.family == ProbeFamily::Overhead || probe.family == ProbeFamily::Overlap),
          probe.key());
}

TEST_CASE("all numbers of ranks that share something meet; where ranks fill the cores, twice as many do too") {
  const auto counts = [](const DeviceFacts& facts, const ProbeScope& scope) {
    std::vector<std::int64_t> out;
    for (const Probe& probe : plan_probes(facts, scope))
      if (is_sync_latency(probe)) out.push_back(probe.num_ranks);
    return out;
  };
  using Counts = std::vector<std::int64_t>;
  CHECK(counts(cpu(), {.rank_counts = {1, 2}}) == Counts{2, 4});
  CHECK(counts(cpu(), {.only = {ProbeFamily::Gemm}, .rank_counts = {1, 2}}) == Counts{});
  CHECK(counts(cpu(), {.rank_counts = {1}}) == Counts{});  // no MPI
  CHECK(counts(cpu(), {.rank_counts = {1, 2, 4}}) == Counts{2, 4});
  CHECK(counts(gpu(), {.rank_counts = {1, 2, 4}}) == Counts{2, 4});
}

TEST_CASE("every surface has more points than parameters, in each dimension many values") {
  for (const DeviceFacts& facts : {cpu(), gpu()}) {
    const auto all = surfaces(plan_probes(facts, {}));
    const bool has_fp8 = facts.gemm_types.back() == GemmType::F8;  // forward alone, and not batched
    CHECK(all.size() == (facts.gemm_types.size() - has_fp8) * 3 * 5 + (has_fp8 ? 4 : 0));
    for (const auto& [surface, probes] : all) {
      const GemmRegime regime = std::get<2>(surface);
      const bool is_wide = regime == GemmRegime::Wide;
      CHECK(probes.size() >= (regime == GemmRegime::Batched ? 8 : 16));
      std::set<std::int64_t> m, n, k;
      for (const Probe& probe : probes) m.insert(probe.shape.m), n.insert(probe.shape.n), k.insert(probe.shape.k);
      CHECK(m.size() + n.size() + k.size() >= (is_wide ? 26 : 11));
    }
  }
}

TEST_CASE("on a CPU products last about a tenth of a second at most, and both tiny and large ones are there") {
  double least = 1e30, most = 0;
  for (const Probe& probe : plan_probes(cpu(), {})) {
    if (probe.family != ProbeFamily::Gemm || probe.type != GemmType::F32) continue;
    least = std::min(least, probe.flops());
    most = std::max(most, probe.flops());
    CHECK(probe.traffic() <= 256_MiB);
  }
  CHECK(most <= 0.15 * 240e9);  // 2 cores of 120 GFLOP/s; the anchor takes three times the usual
  CHECK(most >= 0.05 * 240e9);
  CHECK(least <= 2.0 * 64 * 512 * 512);
}

TEST_CASE("adapters and heads are among the shapes") {
  int num_thin = 0, num_wide = 0;
  for (const Probe& probe : plan_probes(gpu(), {})) {
    if (probe.family != ProbeFamily::Gemm) continue;
    num_thin += std::min({probe.shape.m, probe.shape.n, probe.shape.k}) <= 64;
    num_wide += std::max({probe.shape.m, probe.shape.n, probe.shape.k}) >= 32000;
  }
  CHECK(num_thin >= 15);
  CHECK(num_wide >= 15);
}

TEST_CASE("a small card gets shapes that fit it") {
  DeviceFacts small = gpu();
  small.memory_free = 4_GiB;
  for (const Probe& probe : plan_probes(small, {.rank_counts = {1, 2}})) CHECK(probe.traffic() <= 1_GiB);
}

TEST_CASE("only what was asked for is planned") {
  const auto probes =
      plan_probes(cpu(), {.only = {ProbeFamily::Collective, ProbeFamily::Dispatch}, .rank_counts = {1, 2}});
  CHECK(std::all_of(probes.begin(), probes.end(), [](const Probe& probe) {
    return probe.family == ProbeFamily::Collective || probe.family == ProbeFamily::Dispatch;
  }));
  CHECK(std::any_of(probes.begin(), probes.end(),
                    [](const Probe& probe) { return probe.family == ProbeFamily::Collective; }));
}

TEST_CASE("every collective is measured over all ranks and over pairs, from 1 KiB to 1 GiB on GPUs") {
  std::map<std::pair<CollectiveKind, RankScope>, std::pair<Bytes, Bytes>> ranges;
  for (const Probe& probe : plan_probes(gpu(), {.rank_counts = {1, 4}})) {
    if (probe.family != ProbeFamily::Collective) continue;
    CHECK(probe.num_ranks == 4);
    CHECK(probe.group_ranks == (probe.scope == RankScope::Pair ? 2 : 4));
    auto& [least, most] = ranges.try_emplace({probe.collective, probe.scope}, probe.bytes, probe.bytes).first->second;
    least = std::min(least, probe.bytes), most = std::max(most, probe.bytes);
  }
  CHECK(ranges.size() == 12);
  for (const auto& [which, range] : ranges) CHECK((range.first == 1_KiB && range.second == 1_GiB));
}

TEST_CASE("one load after the other, and within a load a stopped run holds something of every family") {
  const auto probes = plan_probes(cpu(), {.rank_counts = {1, 2}});
  CHECK(std::is_sorted(probes.begin(), probes.end(),
                       [](const Probe& a, const Probe& b) { return a.num_ranks < b.num_ranks; }));
  const auto second =
      std::find_if(probes.begin(), probes.end(), [](const Probe& probe) { return probe.num_ranks == 2; });
  std::set<ProbeFamily> early, all;
  for (auto probe = second; probe != probes.end(); ++probe) {
    all.insert(probe->family);
    if (probe - second < (probes.end() - second) / 3) early.insert(probe->family);
  }
  CHECK(all.size() == 8);
  CHECK(early == all);
}

TEST_CASE("GPUs are measured alone; together only what they share") {
  for (const Probe& probe : plan_probes(gpu(), {.rank_counts = {1, 4}}))
    if (probe.num_ranks > 1) CHECK((probe.family != ProbeFamily::Gemm && probe.family != ProbeFamily::Memory));
}

TEST_CASE("GPUs that work together copy to each other and to no further one") {
  std::map<std::int64_t, std::set<int>> peers;  // by number of ranks
  for (const Probe& probe : plan_probes(gpu(), {.rank_counts = {1, 2, 4}}))
    if (probe.path == CopyPath::Peer) peers[probe.num_ranks].insert(probe.peer);
  CHECK(peers[1] == std::set{1, 2, 3});
  CHECK(peers[2] == std::set{1});
  CHECK(peers[4] == std::set{1, 2, 3});
}

TEST_CASE("a quick plan is less than half as long and has every family") {
  const auto quick = plan_probes(cpu(), {.is_quick = true, .rank_counts = {1, 2}}),
             full = plan_probes(cpu(), {.rank_counts = {1, 2}});
  CHECK(2 * quick.size() < full.size());
  std::set<ProbeFamily> families;
  for (const Probe& probe : quick) families.insert(probe.family);
  CHECK(families.size() == 8);
}
