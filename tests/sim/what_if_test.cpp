// What a lever leaves of a calibration: what was measured of other parts still holds.
#include <doctest/doctest.h>

#include "measured_machine.h"
#include "sim/what_if.h"

using namespace gpuplan;

namespace {

Measured after(const char* lever) {
  ClusterSpec cluster = parse_gpus("2xH100");
  Profile profile = default_profile(cluster.gpus.front());
  const auto before = std::make_shared<const Measured>(test::two_devices("h100-sxm", "nvswitch"));
  profile.measured = before;
  apply_what_if(parse_what_if(lever), cluster, profile);
  CHECK(before->loads[0].gemm.size() * before->loads[0].kernels.size() * before->collectives.size() >
        0);  // others may hold it
  return *profile.measured;
}

}  // namespace

TEST_CASE("what if: another GEMM rate replaces the measured products, not the kernels, attention and collectives") {
  const Measured m = after("gemm=700");
  CHECK(m.loads[0].gemm.empty());
  CHECK(m.loads[0].kernels.size() == 6);
  CHECK(m.loads[0].attention.size() == 1);
  CHECK(m.collectives.size() == kCollectiveKinds.size());
}

TEST_CASE("what if: another memory replaces the measured kernels, not the products") {
  const Measured m = after("memory=2000");
  CHECK(m.loads[0].gemm.size() == kGemmTypes.size() * kGemmLayouts.size());
  CHECK(m.loads[0].kernels.empty());
  CHECK(m.collectives.size() == kCollectiveKinds.size());
}

TEST_CASE("what if: another link replaces the measured collectives alone") {
  const Measured m = after("nvlink=600");
  CHECK(m.collectives.empty());
  CHECK(!m.loads[0].gemm.empty());
  CHECK(!m.loads[0].kernels.empty());
}
