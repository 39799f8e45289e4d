// What launchers do on a GPU of sm_75: less shared memory, and no tensor cores for bf16.
#include "base/error.h"
#include "cuda_device/emulated/emulator.h"
#include "cuda_device/kernels/bench.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

struct AsTuring {
  AsTuring() { emulation::g_gpu = {.capability_major = 7, .shared_memory = 64 * 1024}; }
  ~AsTuring() { emulation::g_gpu = {}; }
};

}  // namespace

TEST_CASE("Turing: fp16 attention of 128 columns takes fewer queries at once") {
  const AsTuring turing;
  Bench bench;
  const AttentionShape shape{.seq = 70, .heads = 1, .kv_heads = 1, .head_size = 128, .dtype = Dtype::F16};
  const Tensor q = bench.random(shape.elements(), Dtype::F16, -2, 2, 1),
               k = bench.upload(Doubles(70 * 128), Dtype::F16),
               v = bench.random(shape.elements(), Dtype::F16, -1, 1, 3),
               out = bench.empty(shape.elements(), Dtype::F16);
  bench.run(kernels::Attention{shape, q.data(), k.data(), v.data(), out.data()});
  // keys of 0: a query weighs all values alike that it sees
  const Doubles values = bench.download(v);
  Doubles expected(values.size()), sum(128);
  for (std::size_t i = 0; i < values.size(); ++i) expected[i] = (sum[i % 128] += values[i]) / double(i / 128 + 1);
  check_close(bench.download(out), expected, tolerance_of(Dtype::F16), 1);
}

TEST_CASE("Turing: attention of training refuses bf16, and fp32 whose tiles do not fit the shared memory") {
  const AsTuring turing;
  Bench bench;
  const auto gradients = [&](std::int64_t head_size, Dtype dtype) {
    bench.run(kernels::AttentionBackward{
        {.batch = 1, .seq = 8, .heads = 1, .kv_heads = 1, .head_size = head_size, .dtype = dtype}});
  };
  CHECK_THROWS_AS(gradients(64, Dtype::BF16), EnvError);
  CHECK_THROWS_AS(gradients(256, Dtype::F32), EnvError);
}
