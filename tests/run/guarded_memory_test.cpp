// The executor never touches device memory from the host: on a device where that ends the process, it trains, saves and
// resumes alike.
#include <array>
#include <fstream>

#include <doctest/doctest.h>

#include "run/thread_ranks.h"
#include "sanitized.h"
#include "scratch_folder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

std::string bytes_in(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::filesystem::path saved_guarded(const std::filesystem::path& folder, const NativeCase& c) {
  return folder / (c.method == Method::Full ? "model.safetensors" : "adapter_model.safetensors");
}

/// Four steps, and four with a stop after two, on guarded memory: the same losses and files as on memory that anybody
/// can touch.
void check_guarded(NativeCase c, DeviceBackend& backend) {
  c.checkpointing = Checkpointing::Full;
  c.grad_accum = 2;
  CAPTURE(c.name());
  const ScratchFolder scratch;
  TrainingOptions o = short_run(4);
  o.output = scratch.path() / "plain";
  const std::vector<double> expected = train_on_threads(c, o, backend).losses();
  o.output = scratch.path() / "guarded";
  o.save_every = 2;
  CHECK(train_on_threads(c, o, backend, RankMemoryKind::Guarded).losses() == expected);
  CHECK(bytes_in(saved_guarded(scratch.path() / "guarded", c)) == bytes_in(saved_guarded(scratch.path() / "plain", c)));
  std::filesystem::remove(saved_guarded(o.output, c));
  o.resumes = true;
  const std::vector<double> rest = train_on_threads(c, o, backend, RankMemoryKind::Guarded).losses();
  CHECK(rest == std::vector<double>(expected.begin() + 2, expected.end()));
  CHECK(bytes_in(saved_guarded(scratch.path() / "guarded", c)) == bytes_in(saved_guarded(scratch.path() / "plain", c)));
}

}  // namespace

TEST_CASE("guarded memory: one rank trains, checkpoints, saves and resumes without the host touching device memory" *
          needs_cpu()) {
  const int step = num_rounds(2, 2, 1);
  int first = 0;  // each method, and each precision
  for (const Method method : kMethods) {
    constexpr std::array kPrecisions{Precision::Fp32, Precision::Bf16Mixed};
    for (std::size_t k = std::size_t(first++ % step); k < kPrecisions.size(); k += std::size_t(step))
      check_guarded({.method = method, .precision = kPrecisions[k]}, cpu_backend());
  }
}

TEST_CASE("guarded memory: ranks of every strategy hand collectives device memory alone, and save the same model" *
          needs_cpu()) {
  const int every = num_rounds(4, 4, 1);  // 3 methods: each in turn
  int num_asked = 0;
  for (const NativeCase& c : every_case())
    if (c.ranks == 2 || (c.ranks == 4 && c.strategy == "hsdp"))
      if (num_asked++ % every == 0) check_guarded(c, cpu_backend());
}
