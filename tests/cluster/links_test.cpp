// data/links.yaml and data/gpus against the measurements and constants of data/nccl.yaml.
#include <algorithm>

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/yaml_file.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/links.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

GpuFile file_of(const std::string& id) { return read_gpu_file(gpu_path(id)); }

/// The Simple protocol's ring latency of NCCL's tuner.
double nccl_ring_latency_us(const std::string& hardware) {
  YamlFile file = YamlFile::read(data_dir() / "nccl.yaml");
  return file.top().fields("nccl_tuning").fields("hw_latency_us").fields(hardware).numbers("ring").at(2);
}

}  // namespace

TEST_CASE("links: latencies are those of NCCL's tuner") {
  const LinkTable& links = LinkTable::shipped();
  const GpuFile a100 = file_of("a100-sxm-80gb"), a6000 = file_of("rtx-a6000"), rtx = file_of("rtx-4090");
  const Profile profile = default_profile(a100.spec);
  const PcieSlot slot{4, 16};
  CHECK(links.ring(a100, FabricKind::NvSwitch, 8, slot, profile).latency.value * 1e6 ==
        doctest::Approx(nccl_ring_latency_us("nvlink")));
  CHECK(links.ring(a6000, FabricKind::Pcie, 4, slot, profile).latency.value * 1e6 ==
        doctest::Approx(nccl_ring_latency_us("pci")));
  CHECK(links.network(25.0_GBps, profile).latency.value * 1e6 == doctest::Approx(nccl_ring_latency_us("net")));
  CHECK(links.ring(rtx, FabricKind::PcieHostStaged, 2, slot, profile).latency.value * 1e6 ==
        doctest::Approx(nccl_ring_latency_us("pci") + 14));
}

TEST_CASE("links: rings never exceed the NVLink rate, except where the switch reduces") {
  for (const GpuNames& names : list_gpu_names()) {
    const GpuFile gpu = file_of(names.id);
    for (const RingFigure& ring : gpu.rings) {
      CAPTURE(names.id);
      CHECK(ring.bus > 5.0_GBps);
      CHECK(ring.all_reduce_bus >= ring.bus);
      CHECK(!ring.source.empty());
      if (ring.fabric == FabricKind::NvSwitch || ring.fabric == FabricKind::NvLinkBridge ||
          ring.fabric == FabricKind::NvLinkMesh)
        CHECK(ring.bus <= gpu.spec.nvlink_per_direction);
    }
  }
}

TEST_CASE("links: figures of a GPU stand in rising order of GPUs, per fabric") {
  for (const GpuNames& names : list_gpu_names()) {
    const GpuFile gpu = file_of(names.id);
    for (std::size_t i = 1; i < gpu.rings.size(); ++i) {
      CAPTURE(names.id);
      if (gpu.rings[i].fabric == gpu.rings[i - 1].fabric) CHECK(gpu.rings[i].from_gpus > gpu.rings[i - 1].from_gpus);
    }
  }
}

TEST_CASE("links: an NVLink card without a figure reaches a share of its rate") {
  GpuFile gpu = file_of("a100-sxm-80gb");
  gpu.rings.clear();
  const LinkCost ring = LinkTable::shipped().ring(gpu, FabricKind::NvSwitch, 8, {4, 16}, default_profile(gpu.spec));
  CHECK(ring.bandwidth.value / 1e9 == doctest::Approx(0.78 * 300));  // 234; 235 is measured
}

TEST_CASE("links: host copies reach the effective PCIe rate of generation and lanes") {
  const LinkTable& links = LinkTable::shipped();
  CHECK(links.host_link({3, 16}).value / 1e9 == doctest::Approx(12.0));
  CHECK(links.host_link({4, 16}).value / 1e9 == doctest::Approx(24.8));
  CHECK(links.host_link({5, 16}).value / 1e9 == doctest::Approx(51));  // the lower of 51 and 56
  CHECK(links.host_link({4, 8}).value / 1e9 == doctest::Approx(12.4));
  CHECK(links.host_link({6, 16}).value / 1e9 ==
        doctest::Approx(121 * 51 / 63.0));  // not measured: the share of generation 5
}

TEST_CASE("links: cards of the same silicon and links have rings over the same fabrics") {
  std::vector<GpuFile> all;
  for (const GpuNames& names : list_gpu_names()) all.push_back(file_of(names.id));
  for (const GpuFile& a : all)
    for (const GpuFile& b : all) {
      CAPTURE(a.spec.id);
      CAPTURE(b.spec.id);
      const bool is_alike = a.spec.compute_capability == b.spec.compute_capability &&
                            a.spec.sm_count == b.spec.sm_count && a.spec.form_factor == b.spec.form_factor &&
                            a.spec.pcie_generation == b.spec.pcie_generation && a.spec.pcie_lanes == b.spec.pcie_lanes;
      if (!is_alike) continue;
      for (const RingFigure& ring : a.rings) CHECK(std::ranges::count(b.rings, ring.fabric, &RingFigure::fabric) > 0);
    }
}

TEST_CASE("links: the measured collectives of NCCL stand beside what is used") {
  YamlFile file = YamlFile::read(data_dir() / "nccl.yaml");
  const auto rows = file.top().list("collective_measurements");
  CHECK(rows.size() == 28);
  const auto a100 = std::find_if(rows.begin(), rows.end(),
                                 [](Fields row) { return row.text("system") == "8x A100 SXM 80GB, NVSwitch"; });
  REQUIRE(a100 != rows.end());
  // 234.9 GB/s measured; the catalogue keeps 235.
  CHECK(find_ring(file_of("a100-sxm-80gb"), FabricKind::NvSwitch, 8)->bus.value / 1e9 ==
        doctest::Approx(Fields(*a100).number("busbw_gb_s")).epsilon(0.001));
}
