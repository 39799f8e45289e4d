// A small calibrated machine with round numbers, for tests of everything that reads profiles.
#pragma once

#include "cluster/profile/profile.h"

namespace gpuplan::test {

inline Fitted exactly(double value) { return {value, 0.9 * value, 1.1 * value}; }

/// 1 TFLOP/s, 100 GB/s, 10 us, no other loss; measured from 64 to 4096.
inline GemmSurface plain_surface(GemmType type, GemmLayout layout) {
  GemmSurface s{
      .type = type, .layout = layout, .rate = exactly(1e12), .bandwidth = exactly(100e9), .launch = exactly(10e-6)};
  s.range = {{64, 64, 64, 1}, {4096, 4096, 4096, 1}};
  s.quality = {.num_points = 40,
               .num_outliers = 1,
               .median_error = 0.01,
               .p90_error = 0.04,
               .held_out_median = 0.02,
               .held_out_p90 = 0.06};
  return s;
}

/// Two GPUs of a kind: every GEMM type and layout, kernels, flash attention, collectives of two ranks.
inline Measured two_devices(const std::string& gpu, const std::string& fabric) {
  Measured m{.on = {.kind = "cuda",
                    .device = "Test GPU",
                    .gpu = gpu,
                    .architecture = "sm_90",
                    .fabric = fabric,
                    .num_devices = 2,
                    .num_cores = 100,
                    .memory = Bytes{80'000'000'000},
                    .date = "2026-11-21",
                    .versions = {{"driver", "580.1"}, {"NCCL", "2.28"}},
                    .warnings = {"a \"quoted\" warning"}}};
  MeasurementsAtRanks load;
  for (const GemmType type : kGemmTypes)
    for (const GemmLayout layout : kGemmLayouts) load.gemm.push_back(plain_surface(type, layout));
  for (const char* kernel : {"copy", "rms-norm", "swiglu", "cross-entropy", "adamw", "nf4-dequantise"})
    load.kernels.push_back({.kernel = kernel,
                            .dtype = Dtype::F32,
                            .launch = exactly(5e-6),
                            .bandwidth = exactly(50e9),
                            .quality = {.num_points = 5}});
  load.attention.push_back({.kernel = "flash",
                            .dtype = Dtype::BF16,
                            .head_size = 128,
                            .launch = exactly(8e-6),
                            .rate = exactly(2e11),
                            .quality = {.num_points = 4}});
  m.loads.push_back(load);
  for (const CollectiveKind kind : kCollectiveKinds)
    m.collectives.push_back(
        {.kind = kind,
         .num_ranks = 2,
         .scope = RankScope::All,
         .segments = {{Bytes{0}, exactly(20e-6), exactly(1e9)}, {Bytes{1 << 20}, exactly(100e-6), exactly(10e9)}},
         .least = Bytes{1024},
         .most = Bytes{1 << 28},
         .quality = {.num_points = 11}});
  m.scalars.push_back(
      {.name = "dispatch empty-kernel", .unit = "s", .value = exactly(4e-6), .quality = {.num_points = 1}});
  m.samples = "{\"probe\": 1}\n{\"probe\": 2}\n";
  return m;
}

}  // namespace gpuplan::test
