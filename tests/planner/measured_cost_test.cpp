// What a calibrated profile changes in the cost of ops and collectives. The machine's numbers are round:
// measured_machine.h.
#include <doctest/doctest.h>

#include "cluster/cpu_ranks.h"
#include "cluster/gpu_catalogue.h"
#include "measured_machine.h"
#include "planner/comm_model.h"
#include "planner/cost.h"
#include "planner/coverage.h"

namespace gpuplan {
namespace {

Profile calibrated(const std::string& gpu, const std::string& fabric) {
  Profile profile = default_profile(gpu);
  profile.measured = std::make_shared<Measured>(test::two_devices(gpu, fabric));
  return profile;
}

CostModel model_of(KernelTimes times) {
  return make_cost_model(find_gpu("h100-sxm", nullptr), calibrated("h100-sxm", "nvswitch"),
                         {.dtype = Dtype::BF16, .kernel_times = times});
}

LayerOp product(std::int64_t m, std::int64_t n, std::int64_t k) {
  LayerOp op{.kind = OpKind::Linear, .cost = CostClass::Gemm, .m = m, .n = n, .k = k};
  op.flops = 2.0 * double(m) * double(n) * double(k);
  return op;
}

}  // namespace

TEST_CASE("calibrated products take what was measured; other software sustains its share of it") {
  const LayerOp op = product(1024, 1024, 1024);
  // 2 x 1024^3 / 1e12 = 2.147 ms, and 10 us of launch
  const double alone = 2.147483648e-3 + 10e-6;
  CHECK(model_of(KernelTimes::Measured).op_time(op, Software::Handwritten).value == doctest::Approx(alone));
  CHECK(model_of(KernelTimes::Modelled).op_time(op, Software::Eager).value ==
        doctest::Approx(alone / default_profile(std::string("h100-sxm")).gemm_efficiency));
}

TEST_CASE("an op that stands for three products takes three times as long") {
  LayerOp op = product(1024, 1024, 1024);
  op.flops *= 3;
  CHECK(model_of(KernelTimes::Measured).op_time(op, Software::Handwritten).value ==
        doctest::Approx(3 * (2.147483648e-3 + 10e-6)));
}

TEST_CASE("the launches of an op's products are counted once; kernels beyond them launch too") {
  LayerOp op = product(1024, 1024, 1024);
  op.flops *= 3;
  op.kernels = 3;
  CHECK(model_of(KernelTimes::Measured).op_time(op, Software::Handwritten).value ==
        doctest::Approx(3 * (2.147483648e-3 + 10e-6)));
  op.kernels = 5;
  CHECK(model_of(KernelTimes::Measured).op_time(op, Software::Handwritten).value ==
        doctest::Approx(3 * (2.147483648e-3 + 10e-6) + 2 * 10e-6));
}

TEST_CASE("experts take the time of as many products of their share of the rows") {
  LayerOp op = product(1024, 512, 512);
  op.experts = 8, op.kernels = 8;
  CHECK(shape_of(op).m == 128);
  // each: 2 x 128 x 512 x 512 / 1e12 = 67.1 us and 10 us of launch
  CHECK(model_of(KernelTimes::Measured).op_time(op, Software::Handwritten).value ==
        doctest::Approx(8 * (67.108864e-6 + 10e-6)));
  op.layout = GemmLayout::WeightGradient;  // the rows are summed over
  CHECK(shape_of(op).m == 1024);
  CHECK(shape_of(op).k == 64);
}

TEST_CASE("own dequantisation without a measured kernel moves what the profile says dequantisation moves") {
  Profile profile = calibrated("h100-sxm", "nvswitch");
  Measured measured = *profile.measured;
  std::erase_if(measured.loads[0].kernels, [](const KernelRate& k) { return k.kernel == "nf4-dequantise"; });
  profile.measured = std::make_shared<Measured>(measured);
  const GpuSpec gpu = find_gpu("h100-sxm", nullptr);
  const LayerOp op{.kind = OpKind::Dequantise, .cost = CostClass::Dequantise, .traffic = 1e9};
  const CostModel model = make_cost_model(gpu, profile, {.dtype = Dtype::BF16, .kernel_times = KernelTimes::Measured});
  CHECK(model.op_time(op, Software::Handwritten).value ==
        doctest::Approx(1e9 / (gpu.memory_bandwidth.value * profile.memory_efficiency) +
                        1e9 / (132 * profile.dequant_sm_bandwidth.value)));
}

TEST_CASE("own kernels and attention take what was measured") {
  LayerOp norm{.kind = OpKind::Norm, .cost = CostClass::Memory, .traffic = 1e9};
  CHECK(model_of(KernelTimes::Measured).op_time(norm, Software::Handwritten).value ==
        doctest::Approx(5e-6 + 1e9 / 50e9));
  LayerOp attention{
      .kind = OpKind::Attention, .cost = CostClass::FlashAttention, .m = 2048, .n = 2048, .k = 128, .flops = 1e9};
  // 2e11 FLOP/s of the full square, half of which is masked
  CHECK(model_of(KernelTimes::Measured).op_time(attention, Software::Handwritten).value ==
        doctest::Approx(8e-6 + 1e9 / 1e11));
  CHECK(model_of(KernelTimes::Modelled).op_time(attention, Software::Eager).value <
        5e-3);  // flash attention of the framework, not ours
}

TEST_CASE("attention's backward takes what was measured of it, once") {
  Profile profile = calibrated("h100-sxm", "nvswitch");
  Measured measured = *profile.measured;
  measured.loads[0].attention.push_back({.kernel = "backward",
                                         .dtype = Dtype::BF16,
                                         .head_size = 128,
                                         .launch = test::exactly(9e-6),
                                         .rate = test::exactly(4e11)});
  profile.measured = std::make_shared<Measured>(measured);
  const CostModel model = make_cost_model(find_gpu("h100-sxm", nullptr), profile,
                                          {.dtype = Dtype::BF16, .kernel_times = KernelTimes::Measured});
  const LayerOp backward{.kind = OpKind::Attention,
                         .cost = CostClass::FlashAttention,
                         .num_reads = 6,
                         .kernels = 3,
                         .m = 2048,
                         .n = 2048,
                         .k = 128,
                         .flops = 1e9};
  CHECK(model.op_time(backward, Software::Handwritten).value == doctest::Approx(9e-6 + 1e9 / 2e11));
}

TEST_CASE("calibrated collectives take what was measured, by the size of the message") {
  const ClusterSpec cluster = parse_gpus("2xH100");
  const CommModel comm = make_comm_model(cluster, calibrated("h100-sxm", "nvswitch"), {{Axis::DpShard, 2}});
  // below 1 MiB: 20 us and 1 GB/s; above: 100 us and 10 GB/s
  CHECK(comm.gather_time(Axis::DpShard, Bytes{100'000}).value == doctest::Approx(20e-6 + 1e5 / 1e9));
  CHECK(comm.all_reduce_time(Axis::DpShard, Bytes{100'000'000}).value == doctest::Approx(100e-6 + 1e8 / 10e9));
  const CollectiveChoice choice = comm.choose(CollectiveKind::AllReduce, Axis::DpShard, Bytes{100'000'000});
  CHECK(choice.time.value == doctest::Approx(100e-6 + 1e8 / 10e9));
  const double parts =
      choice.base.value + double(choice.intra_steps) * choice.intra_step.value +
      double(choice.sent.count) * choice.wire_factor / comm.axes[std::size_t(Axis::DpShard)].link.bandwidth.value;
  CHECK(parts == doctest::Approx(choice.time.value));
}

TEST_CASE("four ranks from curves of two: latency by steps, the same bus bandwidth") {
  const CommModel comm =
      make_comm_model(parse_gpus("4xH100"), calibrated("h100-sxm", "nvswitch"), {{Axis::DpShard, 4}});
  // three steps for one; busbw of all-reduce 2 x 3/4 for 2 x 1/2
  CHECK(comm.all_reduce_time(Axis::DpShard, Bytes{100'000'000}).value ==
        doctest::Approx(3 * 100e-6 + 1.5 * 1e8 / 10e9));
}

TEST_CASE("a CPU rank of one core communicates or computes") {
  Profile profile = default_profile(std::string("cpu"));
  profile.overlap_slowdown = 0.25;
  const auto slowdown = [&](std::int64_t ranks) {
    return make_cost_model(find_gpu("h100-sxm", nullptr), profile,
                           {.dtype = Dtype::F32, .num_ranks = ranks, .ranks_per_node = ranks, .host_cores = 4})
        .overlap_slowdown;
  };
  CHECK(slowdown(2) == 0.25);
  CHECK(slowdown(4) >= 100);
  CHECK(slowdown(8) >= 100);
}

TEST_CASE("CPU ranks that outnumber their cores take turns with messages too; stages of a pipeline do not") {
  Profile profile = default_profile(std::string("cpu"));
  Measured measured = test::two_devices("cpu", "shared-memory");
  measured.on.kind = "cpu";
  profile.measured = std::make_shared<Measured>(measured);
  const HostFacts host{.num_cores = 2, .memory = Bytes{32'000'000'000}, .memory_available = Bytes{30'000'000'000}};
  const auto comm = [&](std::int64_t ranks, Mesh mesh) {
    return make_comm_model(cpu_cluster(ranks, host), profile, mesh);
  };
  const Seconds two = comm(2, {{Axis::DpShard, 2}}).all_reduce_time(Axis::DpShard, Bytes{100'000'000});
  CHECK(two.value == doctest::Approx(100e-6 + 1e8 / 10e9));
  CHECK(comm(4, {{Axis::DpShard, 4}}).all_reduce_time(Axis::DpShard, Bytes{100'000'000}).value ==
        doctest::Approx(2 * (3 * 100e-6 + 1.5 * 1e8 / 10e9)));
  CHECK(comm(4, {{Axis::Pp, 4}}).send_time(Axis::Pp, Bytes{1000}) ==
        comm(2, {{Axis::Pp, 2}}).send_time(Axis::Pp, Bytes{1000}));
}

TEST_CASE("a hand-over is what a meeting takes beside its collective; without one measured there is none") {
  Profile profile = calibrated("h100-sxm", "nvswitch");
  const ClusterSpec cluster = parse_gpus("2xH100");
  const auto hand_over = [&] {
    return make_comm_model(cluster, profile, {{Axis::DpShard, 2}}).hand_over(Axis::DpShard).value;
  };
  CHECK(hand_over() == 0);
  Measured measured = *profile.measured;
  measured.scalars.push_back({.name = "dispatch meeting", .unit = "s", .num_ranks = 2, .value = test::exactly(50e-6)});
  profile.measured = std::make_shared<Measured>(measured);
  // 20 us + 1000 B / 1 GB/s = 21 us are the collective's
  CHECK(hand_over() == doctest::Approx(29e-6));
  measured.scalars.back().value = test::exactly(1e-6);
  profile.measured = std::make_shared<Measured>(measured);
  CHECK(hand_over() == 0);
}

TEST_CASE("curves of another fabric or another GPU are not used") {
  const ClusterSpec cluster = parse_gpus("2xH100");
  for (const Profile& other : {calibrated("h100-sxm", "pcie"), calibrated("a100-sxm-80gb", "nvswitch")})
    CHECK_FALSE(make_comm_model(cluster, other, {{Axis::DpShard, 2}}).measured);
}

TEST_CASE("products outside the measured range are counted and named") {
  std::vector<LayerGraph> graphs(1);
  graphs[0].forward = {product(1024, 1024, 1024), product(1024, 1024, 1024), product(2048, 128256, 4096)};
  StepProgram program;
  program.graphs = graphs;
  const Coverage coverage = gemm_coverage(program, model_of(KernelTimes::Measured));
  CHECK(coverage.num_shapes == 2);
  CHECK(coverage.num_extrapolated == 1);
  CHECK(describe(coverage) == "1 of 2 GEMM shapes extrapolated (forward 2048 x 128256 x 4096)");
  CHECK(describe(gemm_coverage(program, make_cost_model(find_gpu("h100-sxm", nullptr),
                                                        default_profile(std::string("h100-sxm")), {})))
            .empty());
}

}  // namespace gpuplan
