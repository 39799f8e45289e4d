// Traces as PyTorch writes them, against sums that a parser of the whole document makes.
#include "diagnose/profiler_trace.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_stream.h"
#include "diagnose/step_parts.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

fs::path trace_file(const char* name) { return fs::path(GPUPLAN_TEST_DIR) / "diagnose" / "traces" / name; }

/// Microseconds of the events of a trace, by category and name.
struct OwnSums {
  double kernels = 0, collectives = 0, copies = 0, window = 0;
  double begin = 1e300, end = 0;  // of the marked steps
  std::set<std::string> steps;
  std::int64_t num_kernels = 0;

  explicit OwnSums(const fs::path& file) {
    const auto in = open_stream(file);
    const json events = json::parse(*in)["traceEvents"];
    for (const json& e : events)
      if (const std::string name = e.value("name", "");
          name.starts_with("ProfilerStep") && e.value("ph", "") == "X" && e.value("cat", "") == "user_annotation") {
        begin = std::min(begin, double(e["ts"]));
        end = std::max(end, double(e["ts"]) + double(e["dur"]));
        steps.insert(name);
      }
    window = end - begin;
    for (const json& e : events) {
      const std::string category = e.value("cat", ""), name = e.value("name", "");
      if (e.value("ph", "") != "X" || double(e["ts"]) < begin || double(e["ts"]) >= end) continue;
      if (category == "kernel") {
        ++num_kernels;
        (name.starts_with("nccl") ? collectives : kernels) += double(e["dur"]);
      }
      if (category == "gpu_memset" || (category == "gpu_memcpy" && name.find("DtoD") != std::string::npos))
        kernels += double(e["dur"]);
      if (category == "gpu_memcpy" && name.find("DtoD") == std::string::npos) copies += double(e["dur"]);
    }
  }
};

double phases_of(const StepParts& p) {
  double sum = 0;
  for (const Seconds& phase : p.phases) sum += phase.value;
  return sum;
}

StepParts parts_of_text(const std::string& text) {
  std::istringstream in(text);
  return parts_of(read_profiler_trace(in, "trace.json"), "trace.json");
}

}  // namespace

TEST_CASE("trace: phases, collectives and copies of public GPU traces are the trace's own sums within 2 %") {
  for (const char* name : {"recommender_a100.json.gz", "toy_mi250.json.gz"}) {
    CAPTURE(name);
    const OwnSums own(trace_file(name));
    const StepParts p = parts_of(read_profiler_trace(trace_file(name)), name);
    REQUIRE(own.num_kernels > 0);
    CHECK(p.num_steps == std::int64_t(own.steps.size()));
    const double per_step = 1e-6 / double(p.num_steps);
    CHECK(p.step.value == doctest::Approx(own.window * per_step).epsilon(0.001));
    CHECK(phases_of(p) == doctest::Approx(own.kernels * per_step).epsilon(0.02));
    double collectives = 0;
    for (const NameRow<KernelClass>& row : kKernelClasses)
      if (is_collective(row.value)) collectives += p.of(row.value).value;
    CHECK(collectives == doctest::Approx(own.collectives * per_step).epsilon(0.02));
    CHECK(p.of(KernelClass::Copy).value == doctest::Approx(own.copies * per_step).epsilon(0.02));
    CHECK(p.compute.value <= phases_of(p) * 1.0001);  // kernels beside each other count once
    CHECK(p.exposed.value + p.overlap.value == doctest::Approx(p.communication.value));
    CHECK(p.compute.value + p.exposed.value + p.copies.value + p.idle.value ==
          doctest::Approx(p.step.value).epsilon(0.05));
  }
}

TEST_CASE("trace: forward, backward and optimizer of a GPU are told apart by what launched the kernels") {
  const StepParts p = parts_of(read_profiler_trace(trace_file("toy_mi250.json.gz")), "toy");
  for (const Seconds& phase : p.phases) CHECK(phase.value > 0);
}

TEST_CASE("trace: operations are the work where no device works") {
  const ProfilerTrace trace = read_profiler_trace(trace_file("cpu_ddp.json.gz"));
  CHECK(trace.is_of_cpu());
  CHECK(trace.num_events == 2467);
  const StepParts p = parts_of(trace, "cpu");
  CHECK(p.is_of_cpu);
  CHECK(p.num_steps == 1);
  CHECK(p.of(KernelClass::Gemm).value > 0);
  // aten operations of FusedAdam's step, none inside another
  double optimizer = 0, end = 0;
  std::vector<json> events = json::parse(*open_stream(trace_file("cpu_ddp.json.gz")))["traceEvents"];
  const auto step = std::ranges::find_if(
      events, [](const json& e) { return e.value("name", "") == "Optimizer.step#FusedAdam.step"; });
  REQUIRE(step != events.end());
  const double begin = (*step)["ts"], over = begin + double((*step)["dur"]);
  std::ranges::stable_sort(events, {}, [](const json& e) { return e.value("ts", 0.0); });
  for (const json& e : events) {
    if (!e.value("name", "").starts_with("aten::") || double(e["ts"]) < std::max(begin, end) || double(e["ts"]) > over)
      continue;
    optimizer += double(e["dur"]);
    end = double(e["ts"]) + double(e["dur"]);
  }
  CHECK(p.phases[std::size_t(StepPhase::Optimizer)].value == doctest::Approx(optimizer * 1e-6).epsilon(0.02));
  CHECK(p.phases[std::size_t(StepPhase::Forward)].value > 0);
  CHECK(phases_of(p) <= p.step.value);
}

TEST_CASE("trace: phases of PyTorch without Kineto, as Debian has it, are the trace's own sums within 2 %") {
  const char* const name = "cpu_debian.json.gz";
  const ProfilerTrace trace = read_profiler_trace(trace_file(name));
  CHECK(trace.is_of_cpu());
  const StepParts p = parts_of(trace, name);
  CHECK(p.num_steps == 2);
  std::vector<json> events = json::parse(*open_stream(trace_file(name)));
  CHECK(trace.num_events == std::ssize(events));
  std::ranges::stable_sort(events, {}, [](const json& e) { return double(e["ts"]); });
  const auto end_of = [](const json& e) { return double(e["ts"]) + double(e["dur"]); };
  double begin = -1, end = 0, in_optimizer = 0, in_backward = 0, in_op = 0;  // until when
  std::array<double, std::size_t(StepPhase::Count)> own{};
  for (const json& e : events) {
    const std::string text = e["name"];
    if (text.starts_with("ProfilerStep")) {
      if (begin < 0) begin = e["ts"];
      end = end_of(e);
    }
    if (text.starts_with("Optimizer.step")) in_optimizer = end_of(e);
    if (text.starts_with("autograd::engine::evaluate_function")) in_backward = end_of(e);
    if (begin < 0 || !text.starts_with("aten::") || double(e["ts"]) < in_op) continue;
    in_op = end_of(e);
    const StepPhase phase = double(e["ts"]) < in_optimizer  ? StepPhase::Optimizer
                            : double(e["ts"]) < in_backward ? StepPhase::Backward
                                                            : StepPhase::Forward;
    own[std::size_t(phase)] += double(e["dur"]);
  }
  CHECK(p.step.value == doctest::Approx((end - begin) * 1e-6 / 2).epsilon(0.001));
  for (const StepPhase phase : {StepPhase::Forward, StepPhase::Backward, StepPhase::Optimizer}) {
    CAPTURE(int(phase));
    CHECK(own[std::size_t(phase)] > 0);
    CHECK(p.phases[std::size_t(phase)].value == doctest::Approx(own[std::size_t(phase)] * 1e-6 / 2).epsilon(0.02));
  }
}

TEST_CASE("trace: two streams, a hidden and a bare collective, a gap") {
  // step of 100 us: compute 0-40 and 60-80, all-gather 20-70, copy 85-90: 30 beside compute, 20 bare, 15 idle
  const StepParts p = parts_of_text(R"json({"deviceProperties": [{"id": 0, "name": "NVIDIA A100"}], "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 9, "tid": 9, "ts": 0, "dur": 100},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel",
     "pid": 9, "tid": 9, "ts": 1, "dur": 1, "args": {"correlation": 1}},
    {"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward0",
     "pid": 9, "tid": 10, "ts": 50, "dur": 20},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel",
     "pid": 9, "tid": 10, "ts": 55, "dur": 1, "args": {"correlation": 2}},
    {"ph": "X", "cat": "kernel", "name": "ampere_bf16_s16816gemm",
     "pid": 0, "tid": 7, "ts": 0, "dur": 40, "args": {"device": 0, "correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "ampere_bf16_s16816gemm",
     "pid": 0, "tid": 7, "ts": 60, "dur": 20, "args": {"device": 0, "correlation": 2}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL",
     "pid": 0, "tid": 20, "ts": 20, "dur": 50, "args": {"device": 0}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)",
     "pid": 0, "tid": 7, "ts": 85, "dur": 5, "args": {"device": 0}}
  ]})json");
  const auto us = [](Seconds s) { return s.value * 1e6; };
  CHECK(us(p.step) == doctest::Approx(100));
  CHECK(us(p.phases[0]) == doctest::Approx(40));
  CHECK(us(p.phases[1]) == doctest::Approx(20));
  CHECK(us(p.of(KernelClass::Gemm)) == doctest::Approx(60));
  CHECK(us(p.of(KernelClass::AllGather)) == doctest::Approx(50));
  CHECK(us(p.overlap) == doctest::Approx(30));
  CHECK(us(p.exposed) == doctest::Approx(20));
  CHECK(us(p.copies) == doctest::Approx(5));
  CHECK(us(p.idle) == doctest::Approx(15));
}

TEST_CASE("trace: names of kernels mean their class") {
  CHECK(class_of_kernel("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16>") == KernelClass::Gemm);
  CHECK(class_of_kernel("nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT") == KernelClass::Gemm);
  CHECK(class_of_kernel("void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>") == KernelClass::Attention);
  CHECK(class_of_kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL") == KernelClass::ReduceScatter);
  CHECK(class_of_kernel("ncclKernel_Broadcast_RING_LL_Sum_int8_t") == KernelClass::AllGather);
  CHECK(class_of_kernel("chunk_gated_delta_rule_fwd_kernel_h_blockdim64") == KernelClass::Scan);
  CHECK(class_of_kernel("void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>") == KernelClass::Dequantise);
  CHECK(class_of_kernel("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>") == KernelClass::Optimizer);
  CHECK(class_of_kernel("void at::native::vectorized_elementwise_kernel<4>") == KernelClass::Memory);
  CHECK(class_of_op("aten::addmm") == KernelClass::Gemm);
  CHECK(class_of_op("ProfilerStep#1") == KernelClass::Count);
}

TEST_CASE("trace: 100,000 kernels are read in memory that has little to do with the size of the text") {
  const test::ScratchFolder folder;
  std::string text = R"({"traceEvents": [)";
  for (int i = 0; i < 100'000; ++i)
    text += fmt::format(
        R"({}{{"ph": "X", "cat": "kernel", "name": "sm80_xmma_gemm_f16_{}", "pid": 0, "tid": 7,)"
        R"( "ts": {}, "dur": 2.5, "args": {{"device": 0, "stream": 7, "correlation": {}, "grid": [{}, 1, 1]}}}})",
        i == 0 ? "" : ",", i % 7, 4 * i, i + 1, i);
  const ProfilerTrace trace = read_profiler_trace(folder.write("t.json", text + "]}"));
  CHECK(trace.work.size() == 100'000);
  CHECK(sizeof(DeviceWork) <= 24);
  const StepParts p = parts_of(trace, "t.json");
  CHECK_FALSE(p.has_steps);
  CHECK(p.of(KernelClass::Gemm).value == doctest::Approx(0.25));  // 100,000 x 2.5 us
}

TEST_CASE("trace: what is none is refused with the reason") {
  const auto refused = [](const std::string& text) {
    try {
      parts_of_text(text);
      return std::string();
    } catch (const InputError& error) { return error.problem(); }
  };
  CHECK(refused("").find("is no JSON") != std::string::npos);
  CHECK(refused(R"({"traceEvents": [{"ph": "X")").find("is no JSON at byte") != std::string::npos);
  CHECK(refused(R"({"nodes": []})") == "has no traceEvents");
  CHECK(refused("[[1], {\"name\": \"a\"}]") == "has no traceEvents");
  CHECK(refused(R"({"traceEvents": []})") == "holds neither kernels nor operations");
  CHECK(refused(R"({"traceEvents": [{"ph": "X", "cat": "kernel", "ts": -1e300, "dur": 1e300}]})") ==
        "holds neither kernels nor operations");
}

}  // namespace gpuplan
