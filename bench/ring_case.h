// The case that both simulators of bench/sim_ring and bench/simgrid_ring run: every layer is 1 ms of compute, then a
// ring all-reduce of 256 MiB over links of 50 GB/s and 1 us, one per rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace ring_case {

constexpr double kComputeSeconds = 1e-3, kLatencySeconds = 1e-6, kBytesPerSecond = 50e9;
constexpr std::int64_t kBytes = std::int64_t(256) << 20;

struct Size {
  std::int64_t num_ranks = 512, num_layers = 32;
};

/// "PROGRAM [ranks [layers …]]"
inline Size read_size(int argc, char** argv) {
  Size size;
  if (argc > 1) size.num_ranks = std::atoll(argv[1]);
  if (argc > 2) size.num_layers = std::atoll(argv[2]);
  if (size.num_ranks < 2 || size.num_layers < 1) std::fprintf(stderr, "at least 2 ranks and 1 layer\n"), std::exit(2);
  return size;
}

/// 2 (N - 1) steps of a message of 1/N.
inline double closed_form_seconds(Size s) {
  const double chunk = double(kBytes) / double(s.num_ranks);
  return double(s.num_layers) *
         (kComputeSeconds + 2 * double(s.num_ranks - 1) * (chunk / kBytesPerSecond + kLatencySeconds));
}

/// Both programs have one thread, so that CPU time is what the wall would show on an idle machine.
class Stopwatch {
 public:
  double cpu_seconds() const { return double(std::clock() - cpu_) / double(CLOCKS_PER_SEC); }
  double wall_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_).count();
  }

 private:
  std::clock_t cpu_ = std::clock();
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
};

}  // namespace ring_case
