// NCCL's choice and its cost: arithmetic by hand from the constants of data/nccl.yaml, and the measured curves of that
// file.
#include <algorithm>
#include <cmath>
#include <map>

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/yaml_file.h"
#include "planner/collective.h"
#include "planner/comm_model.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

constexpr auto kHopper = NcclGeneration::Hopper, kAmpere = NcclGeneration::Ampere,
               kBlackwell = NcclGeneration::Blackwell;

GroupLinks nvlink(NcclGeneration generation, double bus_gb_s, double all_reduce_gb_s, GroupShape shape = {8, 1}) {
  return {.shape = shape,
          .bandwidth = {bus_gb_s * 1e9},
          .all_reduce_bandwidth = {all_reduce_gb_s * 1e9},
          .intra_latency = 3.4_us,
          .inter_latency = 14.0_us,
          .inside = NcclLink::NvLink,
          .generation = generation,
          .has_switch = true};
}
GroupLinks h100(std::int64_t ranks = 8) { return nvlink(kHopper, 365, 478.9, {ranks, 1}); }
GroupLinks a6000(std::int64_t ranks = 4) {
  return {.shape = {ranks, 1},
          .bandwidth = 20.0_GBps,
          .all_reduce_bandwidth = 20.0_GBps,
          .intra_latency = 5.7_us,
          .inside = NcclLink::Pci};
}

double latency_us(const CollectiveChoice& c, double fill_us = 0) {
  return (c.base + double(c.intra_steps) * c.intra_step + double(c.inter_steps) * c.inter_step).value * 1e6 - fill_us;
}
double fill_us(Protocol protocol, double latency_us, double wire_us) {
  return pipeline_fill(protocol, {latency_us * 1e-6}, {wire_us * 1e-6}).value * 1e6;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

/// |ln| of every point of a measured curve: payload in bytes, and the error.
std::map<std::int64_t, double> curve_errors(const std::string& name, const GroupLinks& links) {
  YamlFile file = YamlFile::read(data_dir() / "nccl.yaml");
  Fields curve = file.top().fields("all_reduce_curves").fields(name);
  const double bus_factor = 2.0 * double(links.shape.size - 1) / double(links.shape.size);
  std::map<std::int64_t, double> out;
  for (const std::string& key : curve.keys()) {
    const std::int64_t bytes = std::stoll(key);
    const double measured = bus_factor * double(bytes) / (curve.number(key) * 1e9);
    const Seconds predicted =
        choose_collective(CollectiveKind::AllReduce, links, {bytes}).time + nccl_table().benchmark_overhead;
    out[bytes] = std::abs(std::log(predicted.value / measured));
  }
  return out;
}

double median_between(const std::map<std::int64_t, double>& errors, Bytes least, Bytes most) {
  std::vector<double> v;
  for (const auto& [bytes, error] : errors)
    if (bytes >= least.count && bytes <= most.count) v.push_back(error);
  return median(v);
}

constexpr Bytes kAll{std::int64_t(1) << 60};

}  // namespace

TEST_CASE("ring LL: 6.6 us and 14 steps of 0.6 us; half the bus, at most 141 GB/s on one Hopper machine") {
  const CollectiveChoice c = choose_collective(CollectiveKind::AllReduce, h100(), 1_KiB);
  CHECK(c.algorithm == Algorithm::Ring);
  CHECK(c.protocol == Protocol::LL);
  CHECK(latency_us(c) == doctest::Approx(6.6 + 14 * 0.6));
  CHECK(c.intra_steps == 14);
  CHECK(c.inter_steps == 0);
  CHECK(c.wire_factor == doctest::Approx(365 / 141.0));
  CHECK(c.time.value * 1e6 == doctest::Approx(15 + 1.75 * 1024 / 141e3));
}

TEST_CASE("8x H200 as observed: ring LL up to 1 MiB, NVLS Simple from 2 MiB on") {
  CHECK(choose_collective(CollectiveKind::AllReduce, h100(), 512_KiB).protocol == Protocol::LL);
  for (const Bytes message : {2_MiB, 16_MiB, 1_GiB})
    CHECK(choose_collective(CollectiveKind::AllReduce, h100(), message).algorithm == Algorithm::Nvls);
  const GroupLinks without = nvlink(kHopper, 365, 365);
  CHECK(choose_collective(CollectiveKind::AllReduce, without, 1_GiB).algorithm == Algorithm::Ring);
  CHECK(choose_collective(CollectiveKind::AllReduce, without, 1_GiB).protocol == Protocol::Simple);
}

TEST_CASE("NVLS: from 5 GPUs, on Hopper and newer, in one machine with NVSwitch, for all-reduce alone") {
  const auto algorithm = [](const GroupLinks& g, CollectiveKind kind = CollectiveKind::AllReduce) {
    return choose_collective(kind, g, 1_GiB).algorithm;
  };
  CHECK(algorithm(h100(4)) == Algorithm::Ring);
  CHECK(algorithm(h100(5)) == Algorithm::Nvls);
  CHECK(algorithm(nvlink(kAmpere, 365, 478.9)) == Algorithm::Ring);
  CHECK(algorithm(nvlink(kHopper, 365, 478.9, {32, 4})) != Algorithm::Nvls);
  CHECK(algorithm(h100(), CollectiveKind::AllGather) == Algorithm::Ring);
  GroupLinks no_switch = h100();
  no_switch.has_switch = false;
  CHECK(algorithm(no_switch) == Algorithm::Ring);
}

TEST_CASE("large messages reach the bandwidth of the cluster: rings Simple the bus, NVLS all-reduce's own") {
  const auto bus_gb_s = [](const GroupLinks& g, CollectiveKind kind) {
    const double n = double(g.shape.size), factor = (kind == CollectiveKind::AllReduce ? 2 : 1) * (n - 1) / n;
    return factor * 1e12 / choose_collective(kind, g, {std::int64_t(1e12)}).time.value / 1e9;
  };
  CHECK(bus_gb_s(h100(), CollectiveKind::AllReduce) == doctest::Approx(478.9).epsilon(1e-3));
  CHECK(bus_gb_s(h100(4), CollectiveKind::AllReduce) == doctest::Approx(365).epsilon(1e-3));
  CHECK(bus_gb_s(h100(), CollectiveKind::AllGather) == doctest::Approx(365).epsilon(1e-3));
  CHECK(bus_gb_s(h100(), CollectiveKind::ReduceScatter) == doctest::Approx(365).epsilon(1e-3));
  CHECK(bus_gb_s(a6000(), CollectiveKind::AllReduce) == doctest::Approx(20).epsilon(1e-3));
}

TEST_CASE("an all-gather over PCIe: 8.4 us, n - 1 steps of 5.7 us, the bus, and the filling of the pipeline") {
  // 64 MiB x 3/4 / 20 GB/s = 2516.58 us; L = 8.4 + 3 x 5.7 = 25.5; fill = 2 sqrt(0.2 x 25.5 x min(2516.58, 6 x 25.5))
  // = 55.87
  const CollectiveChoice c = choose_collective(CollectiveKind::AllGather, a6000(), 64_MiB);
  CHECK(c.protocol == Protocol::Simple);
  CHECK(c.time.value * 1e6 == doctest::Approx(25.5 + 2516.58 + 55.87).epsilon(1e-5));
  CHECK(fill_us(Protocol::Simple, 25.5, 2516.58) == doctest::Approx(55.87).epsilon(1e-3));
  CHECK(fill_us(Protocol::Simple, 20, 45) == doctest::Approx(2 * std::sqrt(0.2 * 20 * 45)));
  CHECK(fill_us(Protocol::LL, 20, 45) == 0);
}

TEST_CASE("LL128 needs NVLink inside the machine") {
  for (std::int64_t bytes = 1024; bytes < (std::int64_t(1) << 34); bytes *= 2)
    CHECK(choose_collective(CollectiveKind::AllReduce, a6000(), {bytes}).protocol != Protocol::LL128);
  CHECK(choose_collective(CollectiveKind::AllReduce, nvlink(kAmpere, 235, 235), 8_MiB).protocol == Protocol::LL128);
}

TEST_CASE("across machines only the steps between them pay the network: 2 (N - 1) of 2 (n - 1)") {
  const GroupLinks g = nvlink(kHopper, 300, 300, {1024, 128});
  const CollectiveChoice gather = choose_collective(CollectiveKind::AllGather, g, 64_GiB);
  CHECK(gather.protocol == Protocol::Simple);
  CHECK(gather.inter_steps == 127);
  CHECK(gather.intra_steps == 1023 - 127);
  const double latency = 8.4 + 896 * 3.4 + 127 * 14, wire = 1023.0 / 1024 * double((64_GiB).count) / 300e3;
  CHECK(latency_us(gather, fill_us(Protocol::Simple, latency, wire)) == doctest::Approx(latency));
  CHECK(choose_collective(CollectiveKind::AllReduce, g, 4_KiB).algorithm == Algorithm::Tree);
  // ring Simple all-reduce: NCCL's factor of 1.4 on its latency
  const CollectiveChoice reduce =
      choose_collective(CollectiveKind::AllReduce, nvlink(kHopper, 300, 300, {16, 2}), 64_GiB);
  CHECK(reduce.algorithm == Algorithm::Ring);
  CHECK(reduce.inter_steps == 2);
  CHECK(reduce.intra_step.value * 1e6 == doctest::Approx(1.4 * 3.4));
  CHECK(reduce.inter_step.value * 1e6 == doctest::Approx(1.4 * 14));
}

TEST_CASE(
    "trees: 2 (g - 1) steps inside and 2 log2 N across; the table of corrections is for all-reduce of that size") {
  const CollectiveChoice c = choose_collective(CollectiveKind::AllReduce, nvlink(kHopper, 300, 300, {32, 4}), 4_KiB);
  CHECK(c.algorithm == Algorithm::Tree);
  CHECK(c.protocol == Protocol::LL);
  CHECK(latency_us(c) == doctest::Approx(6.8 + 14 * 0.6 + 4 * 5.0));
  // 4 KiB is 2^6 x 64 B: 0.7; the bus at most 35 GB/s for LL in four machines, of 300 x 0.92 / 3.8 = 72.6
  CHECK(c.time.value * 1e6 == doctest::Approx(35.2 + 2 * 4096 / (35e3 * 0.7)));
}

TEST_CASE(
    "what host memory adds to a PCIe step, every protocol pays; less than NCCL's latency never gets below nothing") {
  GroupLinks staged = a6000();
  staged.intra_latency = 19.7_us;
  CHECK(latency_us(choose_collective(CollectiveKind::AllGather, staged, 64_B)) ==
        doctest::Approx(6.6 + 3 * (1.0 + 14)));
  staged.intra_latency = 0.0_us;
  CHECK(latency_us(choose_collective(CollectiveKind::AllGather, staged, 64_B)) == doctest::Approx(6.6));
}

TEST_CASE("the parts of a choice add up to its time, for every kind, shape and size") {
  for (const GroupLinks& g : {h100(), h100(3), a6000(), a6000(2), nvlink(kBlackwell, 690, 838),
                              nvlink(kAmpere, 150, 150, {64, 8}), nvlink(kHopper, 48, 48, {16, 16})})
    for (const CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                                      CollectiveKind::AllReduce, CollectiveKind::Broadcast})
      for (std::int64_t bytes = 1; bytes < (std::int64_t(1) << 36); bytes = bytes * 3 + 1) {
        const CollectiveChoice c = choose_collective(kind, g, {bytes});
        const double parts = latency_us(c) + double(c.sent.count) * c.wire_factor / g.bandwidth.value * 1e6;
        INFO(to_string(kind) << " of " << bytes << ", " << g.shape.size << ": " << to_string(c.algorithm) << " "
                             << to_string(c.protocol));
        CHECK(parts == doctest::Approx(c.time.value * 1e6).epsilon(1e-9));
        CHECK(CollectiveLines(kind, g).time({bytes}) == c.time);
      }
}

TEST_CASE(
    "payload: bytes of rings and trees as busbw counts them, (n + 1) / n through the switch; one rank sends nothing") {
  CHECK(choose_collective(CollectiveKind::AllGather, a6000(), {4000}).sent == Bytes{3000});
  CHECK(choose_collective(CollectiveKind::AllReduce, a6000(), {4000}).sent == Bytes{6000});
  CHECK(choose_collective(CollectiveKind::AllReduce, h100(), 1_GiB).sent == 1152_MiB);
  CHECK(choose_collective(CollectiveKind::AllReduce, h100(1), 1_GiB).time.value == 0);
  CHECK(choose_collective(CollectiveKind::AllReduce, h100(1), 1_GiB).sent.count == 0);
}

TEST_CASE("the choice is the least of all candidates' latency + bytes / bandwidth: no other line is faster") {
  const GroupLinks g = nvlink(kAmpere, 235, 235);
  // at 64 MiB: ring Simple 8.4 + 14 x 3.4 + 1.75 x 67.1 MB / 235 GB/s = 555.7, LL128 14 + 26.6 + 499.7 / 0.92 = 583.8
  CHECK(choose_collective(CollectiveKind::AllReduce, g, 64_MiB).protocol == Protocol::Simple);
  // at 8 MiB: 118.5 against 40.6 + 67.9 = 108.5
  CHECK(choose_collective(CollectiveKind::AllReduce, g, 8_MiB).protocol == Protocol::LL128);
}

TEST_CASE("without NCCL (Infinity Fabric, CPU ranks, links set by hand): a plain ring of alpha and beta") {
  GroupLinks g{.shape = {4, 1}, .bandwidth = 1.0_GBps, .all_reduce_bandwidth = 2.0_GBps, .intra_latency = 5.0_us};
  CHECK(choose_collective(CollectiveKind::AllGather, g, {4'000'000}).time.value == doctest::Approx(3 * (5e-6 + 1e-3)));
  CHECK(choose_collective(CollectiveKind::AllReduce, g, {4'000'000}).time.value ==
        doctest::Approx(6 * (5e-6 + 0.5e-3)));
}

TEST_CASE("all-reduce against measured curves: median |ln| of each machine, over all sizes and by size") {
  // name, links (bus and all-reduce bandwidth as data/gpus has them; four machines: as measured at 16 GiB), and the
  // bounds of the medians: all, to 1 MiB, 1 to 64 MiB, 128 MiB and more
  struct Curve {
    const char* name;
    GroupLinks links;
    double all, small, middle, large;
  };
  for (const Curve& c :
       {Curve{"h100_azure", h100(), 0.12, 0.25, 0.22, 0.02}, Curve{"h200_azure", h100(), 0.25, 0.28, 0.28, 0.02},
        Curve{"h200_1node_mle", h100(), 0.05, 0.10, 0.12, 0.02},
        Curve{"a100_azure", nvlink(kAmpere, 235, 235), 0.10, 0.10, 0.12, 0.03},
        Curve{"b200_1node_mle", nvlink(kBlackwell, 690, 838), 0.15, 0.20, 0.20, 0.12},
        Curve{"b200_4node_mle", nvlink(kBlackwell, 381.8, 381.8, {32, 4}), 0.35, 2.5, 0.55, 0.10}}) {
    const auto errors = curve_errors(c.name, c.links);
    INFO(std::string(c.name));
    CHECK(errors.size() >= 20);
    CHECK(median_between(errors, {}, kAll) <= c.all);
    CHECK(median_between(errors, {}, 1_MiB) <= c.small);
    CHECK(median_between(errors, 1_MiB, 64_MiB) <= c.middle);
    CHECK(median_between(errors, 128_MiB, kAll) <= c.large);
  }
}

TEST_CASE("the bandwidths of those curves are the catalogue's") {
  const ClusterSpec h = parse_gpus("8xh100-sxm"), a = parse_gpus("8xa100-sxm-80gb"), b = parse_gpus("8xb200-sxm");
  CHECK(h.intra.bandwidth.value == doctest::Approx(365e9));
  CHECK(h.intra.all_reduce_bandwidth.value == doctest::Approx(478.9e9));
  CHECK(a.intra.bandwidth.value == doctest::Approx(235e9));
  CHECK(b.intra.all_reduce_bandwidth.value == doctest::Approx(838e9));
}

TEST_CASE("groups of a mesh: inside a machine, through all its ranks, one rank per machine") {
  const ClusterSpec cluster = load_cluster("dgx-h100", 32);
  const Profile profile = default_profile(cluster.gpus.front());
  const auto group = [&](Mesh mesh, Axis axis) {
    return make_comm_model(cluster, profile, mesh).axes[std::size_t(axis)].group;
  };
  const auto shape = [&](Mesh mesh, Axis axis) {
    const GroupShape s = group(mesh, axis).shape;
    return std::pair{s.size, s.nodes};
  };
  CHECK(shape({{Axis::DpShard, 32}}, Axis::DpShard) == std::pair<std::int64_t, std::int64_t>{32, 4});
  CHECK(shape({{Axis::DpReplicate, 4}, {Axis::DpShard, 8}}, Axis::DpShard) ==
        std::pair<std::int64_t, std::int64_t>{8, 1});
  CHECK(shape({{Axis::DpReplicate, 4}, {Axis::DpShard, 8}}, Axis::DpReplicate) ==
        std::pair<std::int64_t, std::int64_t>{4, 4});
  CHECK(group({{Axis::DpShard, 32}}, Axis::DpShard).generation == kHopper);
  CHECK(group({{Axis::DpShard, 32}}, Axis::DpShard).inside == NcclLink::NvLink);
}
