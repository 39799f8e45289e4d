// What one op costs: waves over the SMs, traffic beside arithmetic, fp8 conversions, head sizes,
// dequantisation.
#include <doctest/doctest.h>

#include "planner/cost.h"

using namespace gpuplan;

namespace {

/// 1 TFLOP/s and 10 GB/s, nothing lost.
CostModel plain_model() {
  CostModel d;
  d.gemm = {1e12}, d.batched_gemm = {5e11}, d.flash = {2e11}, d.cudnn = {4e11}, d.flash3 = {5e11}, d.memory = {1e10};
  d.bytes_factor = {2, 1, 0.5}, d.dequant_bytes = 3, d.gptq_bytes = 6;
  d.small_heads = 0.8;
  return d;
}

LayerOp gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.cost = CostClass::Gemm, .m = m, .n = n, .k = k, .flops = 2.0 * double(m * n * k), .traffic = 1};
}

double time_of(const CostModel& d, const LayerOp& op, Software software = Software::Eager) {
  return d.op_time(op, software).value;
}

}  // namespace

TEST_CASE("a GEMM whose tiles leave SMs idle in the last wave loses the stated share of them") {
  CostModel d = plain_model();
  const LayerOp op = gemm(1280, 1280, 512);  // 10 x 10 tiles of 128 x 128; k is too short to split
  const double full = time_of(d, op);
  d.num_sms = 100, d.wave_loss = 1;
  CHECK(time_of(d, op) == doctest::Approx(full));  // one full wave
  d.num_sms = 80;                                  // 100 tiles in two waves of 80
  CHECK(time_of(d, op) == doctest::Approx(full * 160 / 100));
  d.wave_loss = 0.5;
  CHECK(time_of(d, op) == doctest::Approx(full * (1 + 0.5 * 0.6)));
  d.num_sms = 400, d.wave_loss = 1;  // a quarter of a wave
  CHECK(time_of(d, op) == doctest::Approx(4 * full));
  CHECK(time_of(d, gemm(1280, 1280, 2048)) == doctest::Approx(4 * full));  // four times the work, split in four over k
}

TEST_CASE("a GEMM shows a share of the shorter of its two times") {
  CostModel d = plain_model();
  d.exposed_traffic = 0.25;
  LayerOp op = gemm(1024, 1024, 1024);
  op.flops = 1e9, op.traffic = 4e6;  // 1 ms of arithmetic, 0.4 ms of traffic
  CHECK(time_of(d, op) == doctest::Approx(1.1e-3));
  op.traffic = 4e7;  // 4 ms of traffic
  CHECK(time_of(d, op) == doctest::Approx(4.25e-3));
}

TEST_CASE("a framework's kernels take their bytes at the rate of the memory, and again at that of the SMs") {
  GpuSpec wide{.memory_bandwidth = {2e12}, .bf16 = {3e14}, .sm_count = 100};  // 20 GB/s per SM
  const Profile profile{.gemm_efficiency = 1,
                        .gemm_fallback = 1,
                        .memory_efficiency = 0.5,
                        .eager_sm_bandwidth = {4e10},
                        .dequant_sm_bandwidth = {2e10},
                        .fused_bytes_factor = 0.8,
                        .compiled_bytes_factor = 1};
  const LayerOp norm{.kind = OpKind::Norm, .cost = CostClass::Memory, .traffic = 1e9};
  const LayerOp unpacked{.kind = OpKind::Dequantise, .cost = CostClass::Dequantise, .traffic = 1e9};
  const CostModel fast = make_cost_model(wide, profile, {.dtype = Dtype::BF16});
  CHECK(time_of(fast, norm) == doctest::Approx(1e-3 + 0.25e-3));  // 1 TB/s, and 100 x 40 GB/s
  CHECK(time_of(fast, unpacked) == doctest::Approx(1e-3 + 0.5e-3));
  CHECK(time_of(fast, norm, Software::Handwritten) == doctest::Approx(0.8e-3));
  CHECK(time_of(fast, norm, Software::Compiled) == doctest::Approx(1e-3));
  wide.memory_bandwidth = {1e12};  // the memory of a consumer card: less of the time is the SMs'
  CHECK(time_of(make_cost_model(wide, profile, {.dtype = Dtype::BF16}), norm) == doctest::Approx(2e-3 + 0.25e-3));
  wide.sm_count = 0;  // not known
  CHECK(time_of(make_cost_model(wide, profile, {.dtype = Dtype::BF16}), norm) == doctest::Approx(2e-3));
}

TEST_CASE("tensor cores take both 16-bit formats alike: what was measured of one holds for the other") {
  GpuSpec gpu{.memory_bandwidth = {2e12}, .fp16 = {3e14}, .bf16 = {3e14}, .gemm_bf16 = {2.7e14}};
  const Profile profile{.gemm_efficiency = 1, .gemm_fallback = 0.5};
  const auto rate = [&](Dtype dtype) { return make_cost_model(gpu, profile, {.dtype = dtype}).gemm.value; };
  CHECK(rate(Dtype::BF16) == doctest::Approx(2.7e14));
  CHECK(rate(Dtype::F16) == doctest::Approx(2.7e14));
  gpu.gemm_fp16 = {2.6e14};
  CHECK(rate(Dtype::F16) == doctest::Approx(2.6e14));
  gpu.gemm_bf16 = {};
  CHECK(rate(Dtype::BF16) == doctest::Approx(2.6e14));
  gpu.bf16 = {1.5e14};  // a card whose bf16 path is half as fast
  CHECK(rate(Dtype::BF16) == doctest::Approx(1.3e14));
  gpu.bf16 = {};  // none: fp32
  CHECK(rate(Dtype::F16) == doctest::Approx(2.6e14));
}

TEST_CASE("fp8 GEMMs of block linears convert their operands first, at the bytes of the software") {
  CostModel d = plain_model();
  d.gemm_fp8 = {2e12};
  LayerOp op = gemm(1000, 640, 640);
  const double in_16bit = 2.0 * 1000 * 640 * 640 / 1e12;
  CHECK(time_of(d, op) == doctest::Approx(in_16bit));  // no weight: an adapter or the head
  op.weight = 0;
  // 640 x (1000 + 640) elements, read in 2 bytes and written in 1
  const double convert = 3.0 * 640 * 1640 / 1e10;
  CHECK(time_of(d, op, Software::Compiled) == doctest::Approx(in_16bit / 2 + convert));
  CHECK(time_of(d, op, Software::Eager) == doctest::Approx(in_16bit / 2 + 2 * convert));
  op.is_weight_gradient = true;  // both operands are there in 8 bits
  CHECK(time_of(d, op) == doctest::Approx(in_16bit / 2));
}

TEST_CASE("a product of fp32 operands beside narrower ones runs at the fp32 rate") {
  CostModel d = plain_model();
  d.gemm_fp32 = {1e11};
  LayerOp op = gemm(1000, 640, 640);
  const double narrow = time_of(d, op);
  op.is_fp32 = true;
  CHECK(time_of(d, op) == doctest::Approx(10 * narrow));
}

TEST_CASE("attention: kernels differ, and heads below 128 cost more") {
  const CostModel d = plain_model();
  LayerOp op{.cost = CostClass::FlashAttention, .k = 128, .flops = 1e8};
  CHECK(time_of(d, op) == doctest::Approx(5e-4));
  op.k = 64;
  CHECK(time_of(d, op) == doctest::Approx(5e-4 / 0.8));
  op.cost = CostClass::CudnnAttention, op.k = 128;
  CHECK(time_of(d, op) == doctest::Approx(2.5e-4));
  op.cost = CostClass::Flash3Attention;
  CHECK(time_of(d, op) == doctest::Approx(2e-4));
  op.cost = CostClass::BatchedGemm;
  CHECK(time_of(d, op) == doctest::Approx(2e-4));
}

TEST_CASE("batched products of heads that do not begin at 16 bytes leave the tensor cores idle") {
  CostModel d = plain_model();
  d.aligned_head = 8, d.unaligned = 0.1;
  LayerOp op{.cost = CostClass::BatchedGemm, .n = 2048, .k = 144, .flops = 1e8};
  CHECK(time_of(d, op) == doctest::Approx(2e-4));
  op.k = 108;  // queries with keys
  CHECK(time_of(d, op) == doctest::Approx(2e-3));
  op.layout = GemmLayout::InputGradient, op.n = 108, op.k = 2048;  // weights with values
  CHECK(time_of(d, op) == doctest::Approx(2e-3));
  op.k = 2047, op.n = 144;
  CHECK(time_of(d, op) == doctest::Approx(2e-4));
}

TEST_CASE("GPTQ weights are unpacked by torch ops, which move more than a kernel of their own") {
  const CostModel d = plain_model();
  CHECK(time_of(d, {.cost = CostClass::Dequantise, .traffic = 1e7}) == doctest::Approx(3e-3));
  CHECK(time_of(d, {.cost = CostClass::DequantiseGptq, .traffic = 1e7}) == doctest::Approx(6e-3));
}

TEST_CASE("an offloaded optimizer steps at the rate of who steps it") {
  const Profile profile{.cpu_optimizer_bandwidth = {22e9}, .torch_cpu_optimizer_bandwidth = {4e9}};
  FrameworkConvention framework;
  CHECK(host_optimizer_rate(profile, framework, ShardingEngine::Zero, {}, 1).value == 22e9);
  CHECK(host_optimizer_rate(profile, framework, ShardingEngine::Fsdp1, {}, 1).value == 4e9);
  CHECK(host_optimizer_rate(profile, framework, ShardingEngine::Fsdp2, {}, 1).value == 4e9);
  CHECK(host_optimizer_rate(profile, framework, ShardingEngine::Zero, {}, 4).value ==
        5.5e9);  // four ranks share a machine
  CHECK(host_optimizer_rate(profile, framework, ShardingEngine::Fsdp1, {}, 4).value == 4e9);  // a thread each
  CHECK(host_optimizer_rate(profile, framework, ShardingEngine::Fsdp1, {}, 8).value ==
        2.75e9);  // which the memory feeds no more
  framework.fsdp2.host_step = HostStep::Vectorised;
  CHECK(host_optimizer_rate(profile, framework, ShardingEngine::Fsdp2, {}, 1).value == 22e9);
}

TEST_CASE("the slowest of many GPUs: 1.42 standard deviations of eight, 3.04 of 512, none of one") {
  // means of the largest of n normal variables: 0, 0.564, 1.424, 2.35 (64), 3.04 (512); David and Nagaraja, Order
  // Statistics
  CHECK(expected_maximum(1) == doctest::Approx(0).epsilon(1e-6));
  CHECK(expected_maximum(2) == doctest::Approx(0.564).epsilon(0.05));
  CHECK(expected_maximum(8) == doctest::Approx(1.424).epsilon(0.02));
  CHECK(expected_maximum(64) == doctest::Approx(2.35).epsilon(0.02));
  CHECK(expected_maximum(512) == doctest::Approx(3.04).epsilon(0.02));
}
