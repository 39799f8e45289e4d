// What launchers do on a GPU of sm_75: less shared memory, and no tensor cores for bf16.
#include "cuda_device/emulated/emulator.h"
#include "cuda_device/kernels/attention_under_test.h"
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
  const AttentionProblem problem{
      .heads = 1, .kv_heads = 1, .queries = 70, .keys = 70, .head_size = 128, .dtype = Dtype::F16};
  const auto count = problem.queries * problem.head_size;
  const Tensor q = bench.random(count, Dtype::F16, -2, 2, 1), k = bench.random(count, Dtype::F16, -2, 2, 2);
  const Tensor v = bench.random(count, Dtype::F16, -1, 1, 3), out = bench.empty(count, Dtype::F16);
  bench.device.attention(problem, q.data(), k.data(), v.data(), out.data(), nullptr, *bench.stream);
  const auto expected = naive_attention(problem, bench.download(q), bench.download(k), bench.download(v));
  check_close(bench.download(out), expected, tolerance_of(Dtype::F16), 1);
}

TEST_CASE("Turing: attention of training refuses bf16, and fp32 whose tiles do not fit the shared memory") {
  const AsTuring turing;
  Bench bench;
  const auto is_refused = [&](std::int64_t head_size, Dtype dtype) {
    const SequenceAttention shape{
        .batch = 1, .seq = 8, .heads = 1, .kv_heads = 1, .head_size = head_size, .dtype = dtype};
    return !run_attention_backward(shape, {}, bench.device, *bench.stream);
  };
  CHECK(is_refused(64, Dtype::BF16));
  CHECK(is_refused(256, Dtype::F32));
}
