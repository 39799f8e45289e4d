#include "device/cpu/gemm.h"

#include <algorithm>
#include <list>
#include <map>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"
#include "device/cpu/host.h"
#include "device/cpu/widened_gemm.h"

namespace gpuplan {
namespace {

using Key =
    std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, GemmType, GemmLayout, Dtype, bool, float>;
Key key_of(const GemmProblem& p) {
  return {p.m, p.n, p.k, p.batch, p.type, p.layout, p.output, p.accumulates, p.alpha};
}

dnnl::memory::data_type dnnl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::F32: return dnnl::memory::data_type::f32;
    case Dtype::BF16: return dnnl::memory::data_type::bf16;
    case Dtype::F16: return dnnl::memory::data_type::f16;
    default: break;
  }
  fail_check("operands are fp32, bf16 or fp16", "the CPU does not multiply this type", __FILE__, __LINE__);
}

bool a_is_transposed(const GemmProblem& p) { return p.layout == GemmLayout::WeightGradient; }
bool b_is_transposed(const GemmProblem& p) { return p.layout == GemmLayout::Forward; }

/// A dense [rows, columns] matrix per problem of the batch, stored by columns when it is the transpose that lies in
/// memory.
dnnl::memory::desc matrix(const GemmProblem& p, std::int64_t rows, std::int64_t columns, bool is_transposed,
                          Dtype dtype) {
  dnnl::memory::dims dims{rows, columns};
  dnnl::memory::dims strides = is_transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
  if (p.batch > 1) {
    dims.insert(dims.begin(), p.batch);
    strides.insert(strides.begin(), rows * columns);
  }
  return {dims, dnnl_type(dtype), strides};
}

/// alpha as a linear post-operation: output scales (oneDNN 2) and argument scales (3) do not exist in both. 2.0 takes
/// scales: for a post-operation before a sum it has its reference kernel alone.
dnnl::primitive_attr attributes(const GemmProblem& p) {
  dnnl::post_ops operations;
  dnnl::primitive_attr attr;
  if (p.alpha != 1) {
#if DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR == 0
    attr.set_output_scales(0, {p.alpha});
#elif DNNL_VERSION_MAJOR >= 3
    operations.append_eltwise(dnnl::algorithm::eltwise_linear, p.alpha, 0);
#else
    operations.append_eltwise(1, dnnl::algorithm::eltwise_linear, p.alpha, 0);
#endif
  }
  if (p.accumulates) operations.append_sum(1);
  attr.set_post_ops(operations);
  attr.set_scratchpad_mode(
      dnnl::scratchpad_mode::user);  // the library's own belongs to the thread that made the primitive
  return attr;
}

dnnl::matmul::primitive_desc describe(const GemmProblem& p, const dnnl::engine& engine) {
  const Dtype operand = operand_dtype(p.type);
  const auto a = matrix(p, p.m, p.k, a_is_transposed(p), operand), b = matrix(p, p.k, p.n, b_is_transposed(p), operand);
  const auto c = matrix(p, p.m, p.n, false, p.output);
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c, attributes(p)};
#else
  return {dnnl::matmul::desc(a, b, c), attributes(p), engine};
#endif
}

/// A primitive with its arguments; only the addresses change from call to call.
struct Prepared {
  dnnl::matmul primitive;
  std::int64_t scratch_bytes = 0;
  dnnl::memory a, b, c, scratch;

  Prepared(const GemmProblem& p, const dnnl::engine& engine) {
    const auto description = describe(p, engine);
    primitive = dnnl::matmul(description);
    scratch_bytes = std::int64_t(description.scratchpad_desc().get_size());
    a = {description.src_desc(), engine, nullptr};
    b = {description.weights_desc(), engine, nullptr};
    c = {description.dst_desc(), engine, nullptr};
    scratch = {description.scratchpad_desc(), engine, nullptr};
  }
};

/// oneDNN has two ways to multiply fp32; which one is faster depends on the layout and on which dimension is thin.
/// Operands out of cache, 2 threads, times of matmul over sgemm, median: wide forward 0.90, wide input gradients 1.07
/// (sgemm never 12 % slower, matmul up to 2.6 times), wide weight gradients 0.99 (sgemm up to 1.8 times slower); n <=
/// 64 0.7 to 0.9 in every layout; k <= 64 1.0 to 1.7; m <= 64 0.7 to 1.0 forward, 1.0 to 1.3 else. 516 shapes,
/// 2026-11-21, oneDNN 2.6.3, Sapphire Rapids. The rule is fixed rather than timed at run time: results must not depend
/// on the clock.
bool prefers_sgemm(const GemmProblem& p) {
  constexpr std::int64_t kThin = 64;
  if (p.type != GemmType::F32 || p.batch > 1) return false;
  const std::int64_t thinnest = std::min({p.m, p.n, p.k});
  if (thinnest == 1) return true;                       // vectors: 1.5 times
  if (std::max({p.m, p.n, p.k}) <= kThin) return true;  // tiny: 1.2 to 1.3 times on 2 threads (AMD EPYC, 2026-11-22)
  // few rows: matmul over sgemm 2 to 4 for 2, 1.4 to 2.7 for 3, 0.9 to 2 for 4, 0.6 to 1.4 for 8, below 0.7 from 16 on
  // (5 shapes of weights, AMD EPYC, 2026-11-22). On Sapphire Rapids matmul was not behind with 4.
  static const std::int64_t few = gemm_library().instructions == "avx512_core_amx" ? 3 : 4;
  if (p.m <= few && p.layout == GemmLayout::Forward) return true;
  const bool is_thin = thinnest <= kThin;
  if (is_thin && thinnest == p.n) return false;
  if (is_thin && thinnest == p.k) return true;
  return p.layout == GemmLayout::InputGradient || (is_thin && p.layout == GemmLayout::WeightGradient);
}

void sgemm(const GemmProblem& p, const void* a, const void* b, void* c) {
  const bool ta = a_is_transposed(p), tb = b_is_transposed(p);
  const auto status = dnnl::sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', p.m, p.n, p.k, p.alpha, static_cast<const float*>(a),
                                  ta ? p.m : p.k, static_cast<const float*>(b), tb ? p.k : p.n,
                                  p.accumulates ? 1.0F : 0.0F, static_cast<float*>(c), p.n);
  if (status != dnnl::status::success) throw EnvError("oneDNN's sgemm failed");
}

EnvError refused(const GemmProblem& p, const dnnl::error& error) {
  return EnvError(fmt::format("oneDNN cannot multiply {} {} {} x {} x {}: {}", to_string(p.type), to_string(p.layout),
                              p.m, p.n, p.k, error.what()));
}

}  // namespace

/// The least recently used of kCapacity primitives makes room for a new one; the catalogue's models need fewer at a
/// time.
struct CpuGemm::State {
  static constexpr std::size_t kCapacity = 512;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::list<std::pair<Key, Prepared>> by_use;  // latest first
  std::map<Key, std::list<std::pair<Key, Prepared>>::iterator> by_key;
  Buffer scratch;

  Prepared& prepare(const GemmProblem& problem) {
    const Key key = key_of(problem);
    if (const auto known = by_key.find(key); known != by_key.end()) {
      by_use.splice(by_use.begin(), by_use, known->second);
      return by_use.front().second;
    }
    by_use.emplace_front(key, Prepared(problem, engine));
    by_key[key] = by_use.begin();
    if (by_use.size() > kCapacity) {
      by_key.erase(by_use.back().first);
      by_use.pop_back();
    }
    return by_use.front().second;
  }
};

CpuGemm::CpuGemm() = default;
CpuGemm::~CpuGemm() = default;

void CpuGemm::run(const GemmProblem& problem, const void* a, const void* b, void* c) {
  static const std::vector<GemmType> native = gemm_library().types;
  const bool is_native = std::find(native.begin(), native.end(), problem.type) != native.end();
  GPUPLAN_CHECK(is_native || problem.type == GemmType::BF16 || problem.type == GemmType::F16,
                "the CPU device does not multiply this type");
  if (prefers_sgemm(problem)) return sgemm(problem, a, b, c);
  if (!state_) state_ = std::make_unique<State>();
  if (!is_native) return widened_gemm(problem, a, b, c, state_->scratch);
  try {
    Prepared& made = state_->prepare(problem);
    if (state_->scratch.size().count < made.scratch_bytes)
      state_->scratch = host_memory({made.scratch_bytes});  // or throws, each time
    made.a.set_data_handle(const_cast<void*>(a));
    made.b.set_data_handle(const_cast<void*>(b));
    made.c.set_data_handle(c);
    made.scratch.set_data_handle(state_->scratch.data());
    made.primitive.execute(state_->stream, {{DNNL_ARG_SRC, made.a},
                                            {DNNL_ARG_WEIGHTS, made.b},
                                            {DNNL_ARG_DST, made.c},
                                            {DNNL_ARG_SCRATCHPAD, made.scratch}});
    state_->stream.wait();
  } catch (const dnnl::error& error) { throw refused(problem, error); }
}

}  // namespace gpuplan
