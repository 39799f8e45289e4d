// Samples of a machine whose truth is known: what probes would have measured, with noise, and some of them wrong.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "cluster/profile/probe.h"
#include "sanitized.h"

namespace gpuplan::testing {

/// Statistics need many seeds; what sanitizers look for shows with a few.
inline constexpr int kSeeds = test::kIsSanitized ? 2 : 20;

/// How measurements stray from the truth. Numbers come from the engine alone, so that every standard library gives the
/// same.
struct Noise {
  std::uint64_t seed = 1;
  double deviation = 0.02;      // of ln(measured / true)
  double outlier_share = 0.05;  // these take 1.5 to 5 times as long
};

class NoisyClock {
 public:
  explicit NoisyClock(const Noise& noise) : noise_(noise), engine_(noise.seed) {}
  double measure(double truth) {
    double normal = -6;  // sum of twelve uniforms: deviation 1
    for (int i = 0; i < 12; ++i) normal += uniform();
    const bool is_outlier = uniform() < noise_.outlier_share;
    const double late = 1.5 * std::pow(5 / 1.5, uniform());
    return truth * std::exp(noise_.deviation * normal) * (is_outlier ? late : 1);
  }

 private:
  double uniform() { return double(engine_() >> 11) * 0x1p-53; }
  Noise noise_;
  std::mt19937_64 engine_;
};

inline Sample sample_of(const Probe& probe, double truth, NoisyClock& clock) {
  return {.probe = probe, .median = clock.measure(truth), .num_runs = 7};
}

}  // namespace gpuplan::testing
