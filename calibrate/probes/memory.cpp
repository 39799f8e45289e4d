// Memory-bound kernels, with operands as a step finds them: activations just written, optimizer states and codes from
// memory. Checked by rows from start, middle and end against the formulas in double on the host.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/narrow.h"
#include "calibrate/probes/values.h"
#include "calibrate/probes/workload.h"
#include "device/quantisation.h"

namespace gpuplan {
namespace {

/// State that every kernel's part here needs.
struct Job {
  Probe probe;
  Device& device;
  Stream& stream;
  OperandPools& pools;

  std::int64_t rows() const { return probe.rows; }
  std::int64_t width() const { return probe.width; }
  std::int64_t count() const { return probe.rows * probe.width; }
  Bytes tensor() const { return bytes_of(count(), probe.dtype); }
  HostView view() const { return {device, stream}; }
  void run(const KernelCall& kernel) const { device.run(kernel, stream); }
  std::array<std::int64_t, 3> sampled_rows() const { return {0, probe.rows * 5 / 9, probe.rows - 1}; }

  Rotation random(Dtype dtype, Bytes size, float low = -1, float high = 1) const {
    return filled_rotation(device, dtype, size, low, high, stream);
  }
  Rotation random() const { return random(probe.dtype, tensor()); }
  /// Memory of all probes: operands that an op before has just written, and the next window for results.
  void* operand(std::int64_t num_tensors = 1) const { return pools.fresh(probe.dtype, num_tensors * tensor(), stream); }
  void* result() const { return pools.results(tensor(), stream).next(tensor()); }
  void* fresh_result() const { return pools.fresh_results(tensor(), stream); }
  /// Makes the shared pools large enough before anything is timed.
  void prepare(std::int64_t num_tensors = 1) const { operand(num_tensors), result(); }
  std::function<void()> hand_over(std::int64_t num_tensors = 1) const {
    return pools.hand_over(operand(num_tensors), num_tensors * tensor(), stream);
  }
  /// [width] numbers of a row.
  std::vector<double> row(const void* of, std::int64_t i, Dtype dtype) const {
    return view().numbers(of, dtype, i * width(), width());
  }
  std::vector<double> row(const void* of, std::int64_t i) const { return row(of, i, probe.dtype); }
};
using Jobs = std::shared_ptr<Job>;

/// Rounding of the result, of bf16 operands already exact, plus a few fp32 operations on the way.
double tolerance(Dtype dtype, double wanted, double scale = 1) {
  return rounding_error(dtype) * std::abs(wanted) + 1e-5 * scale;
}

Workload copy_kernel(const Jobs& job) {
  struct State {
    const void* x{};
    void* y{};
  };
  const auto state = std::make_shared<State>();
  job->prepare();
  const auto call = [job, state] {
    state->x = job->operand();
    state->y = job->result();
    job->device.copy(state->y, state->x, job->tensor(), CopyKind::DeviceToDevice, job->stream);
  };
  const auto check = [job, state] {
    for (const std::int64_t i : job->sampled_rows())
      if (job->row(state->x, i) != job->row(state->y, i)) throw WrongResult{"copy differs in row " + std::to_string(i)};
  };
  return {call, check, job->hand_over()};
}

Workload rms_norm_kernel(const Jobs& job) {
  constexpr float kEpsilon = 1e-5F;
  struct State {
    Buffer weights;
    const void *x{}, *w{};
    void* y{};
  };
  const auto state = std::make_shared<State>(State{job->device.allocate(bytes_of(job->width(), job->probe.dtype))});
  job->run(kernels::FillUniform{{state->weights.data(), job->probe.dtype}, job->width(), -1, 1, 5});
  job->prepare();
  state->w = state->weights.data();
  const auto call = [job, state] {
    state->x = job->operand();
    state->y = job->result();
    const Dtype dtype = job->probe.dtype;
    job->run(
        kernels::RmsNorm{{state->y, dtype}, {state->x, dtype}, {state->w, dtype}, job->rows(), job->width(), kEpsilon});
  };
  const auto check = [job, state] {
    const auto w = job->row(state->w, 0);
    for (const std::int64_t i : job->sampled_rows()) {
      const auto x = job->row(state->x, i), y = job->row(state->y, i);
      double squares = 0;
      for (const double value : x) squares += value * value;
      const double scale = 1 / std::sqrt(squares / double(x.size()) + double(kEpsilon));
      for (std::size_t j = 0; j < x.size(); ++j) {
        const double wanted = x[j] * scale * w[j];  // may be rounded before the weight, as PyTorch does
        expect_near(y[j], wanted, 2 * tolerance(job->probe.dtype, wanted), "rms-norm",
                    i * job->width() + std::int64_t(j));
      }
    }
  };
  return {call, check, job->hand_over()};
}

Workload swiglu_kernel(const Jobs& job) {
  struct State {
    const void *gate{}, *up{};
    void* out{};
  };
  const auto state = std::make_shared<State>();
  job->prepare(2);
  const auto call = [job, state] {
    state->gate = job->operand(2);
    state->up = static_cast<const std::byte*>(state->gate) + job->tensor().count;
    state->out = job->result();
    const Dtype dtype = job->probe.dtype;
    job->run(kernels::SwiGlu{{state->out, dtype}, {state->gate, dtype}, {state->up, dtype}, job->count()});
  };
  const auto check = [job, state] {
    for (const std::int64_t i : job->sampled_rows()) {
      const auto gate = job->row(state->gate, i), up = job->row(state->up, i), out = job->row(state->out, i);
      for (std::size_t j = 0; j < gate.size(); ++j) {
        const double wanted = gate[j] / (1 + std::exp(-gate[j])) * up[j];
        expect_near(out[j], wanted, 2 * tolerance(job->probe.dtype, wanted), "swiglu",
                    i * job->width() + std::int64_t(j));
      }
    }
  };
  return {call, check, job->hand_over(2)};
}

/// Rows are tokens, `width` is the vocabulary. The logits become gradients: what a window held is kept before the call.
Workload cross_entropy_kernel(const Jobs& job) {
  const float one = 1;
  struct State {
    Rotation logits;
    Buffer labels, losses, scale;
    std::vector<std::int32_t> label_values;
    std::vector<std::vector<double>> before;
    void* x{};
  };
  const auto state = std::make_shared<State>();
  state->logits = job->random();
  const Bytes per_row = bytes_of(job->rows(), Dtype::F32);
  state->labels = job->device.allocate(per_row);
  state->losses = job->device.allocate(per_row);
  state->scale = job->device.allocate(Bytes{sizeof one});
  job->view().write(state->scale.data(), &one, state->scale.size());
  for (std::int64_t i = 0; i < job->rows(); ++i)
    state->label_values.push_back(narrow<std::int32_t>(random_bits(1, std::uint64_t(i)) % std::uint64_t(job->width())));
  job->view().write(state->labels.data(), state->label_values.data(), per_row);
  for (const std::int64_t i : job->sampled_rows()) state->before.push_back(job->row(state->logits.data(), i));
  const auto call = [job, state] {
    state->x = job->pools.keeps_fresh(job->tensor())
                   ? state->logits.data()
                   : state->logits.next(job->tensor());  // the head has just written them
    job->run(kernels::CrossEntropy{.logits = {state->x, job->probe.dtype},
                                   .labels = state->labels.as<std::int32_t>(),
                                   .losses = state->losses.as<float>(),
                                   .rows = job->rows(),
                                   .vocab = job->width(),
                                   .scale = state->scale.as<float>()});
  };
  const auto check = [job, state] {
    for (std::size_t row = 0; row < state->before.size(); ++row) {
      const std::int64_t i = job->sampled_rows()[row];
      const auto& logits = state->before[row];
      const auto label = std::size_t(state->label_values[std::size_t(i)]);
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit);
      const double loss = std::log(sum) - logits[label];
      expect_near(job->view().numbers(state->losses.data(), Dtype::F32, i, 1)[0], loss, 1e-4 * std::abs(loss) + 1e-5,
                  "loss", i);
      const auto gradient = job->row(state->x, i);
      for (std::size_t j = 0; j < logits.size(); ++j) {
        const double share = std::exp(logits[j]) / sum, wanted = share - (j == label ? 1 : 0);
        const double allowed = rounding_error(job->probe.dtype) * std::abs(wanted) + 1e-4 * share + 1e-7;
        expect_near(gradient[j], wanted, allowed, "gradient", i * job->width() + std::int64_t(j));
      }
    }
  };
  return {call, check};
}

Workload adamw_kernel(const Jobs& job) {
  struct State {
    Rotation weights, m, v, gradients;
    std::vector<std::array<std::vector<double>, 4>> before;  // of each sampled row: w, m, v, g
    float *w_now{}, *m_now{}, *v_now{};
  };
  const Bytes states = bytes_of(job->count(), Dtype::F32);
  const auto state = std::make_shared<State>(State{job->random(Dtype::F32, states), job->random(Dtype::F32, states),
                                                   job->random(Dtype::F32, states, 0, 1), job->random()});
  for (const std::int64_t i : job->sampled_rows())
    state->before.push_back({job->row(state->weights.data(), i, Dtype::F32), job->row(state->m.data(), i, Dtype::F32),
                             job->row(state->v.data(), i, Dtype::F32), job->row(state->gradients.data(), i)});
  const AdamW with{.weight_decay = 0.01F, .step = 10};
  const auto call = [job, state, states, with] {
    state->w_now = state->weights.next_as<float>(states);
    state->m_now = state->m.next_as<float>(states);
    state->v_now = state->v.next_as<float>(states);
    job->run(kernels::AdamWUpdate{.weight = {state->w_now, Dtype::F32},
                                  .gradient = {state->gradients.next(job->tensor()), job->probe.dtype},
                                  .m = {state->m_now, Dtype::F32},
                                  .v = {state->v_now, Dtype::F32},
                                  .count = job->count(),
                                  .step = adamw_step(with)});
  };
  const auto check = [job, state, with] {
    const double beta1 = with.beta1, beta2 = with.beta2, rate = with.learning_rate, step = double(with.step);
    for (std::size_t row = 0; row < state->before.size(); ++row) {
      const std::int64_t i = job->sampled_rows()[row];
      const auto& [w, m, v, g] = state->before[row];
      const auto new_w = job->row(state->w_now, i, Dtype::F32), new_m = job->row(state->m_now, i, Dtype::F32);
      for (std::size_t j = 0; j < w.size(); ++j) {
        const std::int64_t place = i * job->width() + std::int64_t(j);
        const double m_after = beta1 * m[j] + (1 - beta1) * g[j], v_after = beta2 * v[j] + (1 - beta2) * g[j] * g[j];
        const double update = m_after / (1 - std::pow(beta1, step)) /
                              (std::sqrt(v_after / (1 - std::pow(beta2, step))) + double(with.epsilon));
        const double w_after = w[j] - rate * double(with.weight_decay) * w[j] - rate * update;
        expect_near(new_m[j], m_after, 1e-6, "adamw m", place);
        expect_near(new_w[j], w_after, 1e-6 + 1e-3 * rate * std::abs(update), "adamw weight", place);
      }
    }
  };
  return {call, check};
}

Workload nf4_kernel(const Jobs& job) {
  struct State {
    Rotation codes, absmax;
    const std::uint8_t* c{};
    const float* s{};
    void* out{};
  };
  const Bytes code_size{job->count() / 2}, scale_size = bytes_of(job->count() / kNf4Block, Dtype::F32);
  const auto state =
      std::make_shared<State>(State{job->random(Dtype::F32, code_size), job->random(Dtype::F32, scale_size, 0, 1)});
  job->fresh_result();
  std::vector<std::uint64_t> codes(std::size_t(state->codes.capacity().count / 8), 0);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = random_bits(2, i);
  job->view().write(state->codes.data(), codes.data(), {std::int64_t(codes.size()) * 8});
  const auto call = [job, state, code_size, scale_size] {
    state->c = state->codes.next_as<std::uint8_t>(code_size);
    state->s = state->absmax.next_as<float>(scale_size);
    state->out = job->fresh_result();  // the same workspace for every weight
    job->run(kernels::Nf4Dequantise{
        .out = {state->out, job->probe.dtype}, .codes = state->c, .absmax_scales = state->s, .count = job->count()});
  };
  const auto check = [job, state] {
    const HostView view = job->view();
    for (const std::int64_t row : job->sampled_rows()) {
      const std::int64_t block = row * job->width() / kNf4Block, first = block * kNf4Block;
      const auto out = view.numbers(state->out, job->probe.dtype, first, kNf4Block);
      const auto raw = view.bytes(state->c + first / 2, {kNf4Block / 2});
      const double scale = view.numbers(state->s, Dtype::F32, block, 1)[0];
      for (std::int64_t i = 0; i < kNf4Block; ++i) {
        const auto pair = std::to_integer<unsigned>(raw[std::size_t(i / 2)]);
        const double wanted = double(kNf4Levels[i % 2 == 0 ? pair >> 4 : pair & 15]) * scale;
        expect_near(out[std::size_t(i)], wanted, rounding_error(job->probe.dtype) * std::abs(wanted) + 1e-7, "nf4",
                    first + i);
      }
    }
  };
  return {call, check, job->pools.hand_over(job->fresh_result(), job->tensor(), job->stream)};
}

// In the order of MemoryKernel.
constexpr std::array<Workload (*)(const Jobs&), 6> kWorkloads{copy_kernel,          rms_norm_kernel, swiglu_kernel,
                                                              cross_entropy_kernel, adamw_kernel,    nf4_kernel};

}  // namespace

Workload memory_workload(const Probe& probe, ProbeBench& bench, Stream& stream) {
  const bool is_nf4 = probe.kernel == MemoryKernel::Nf4Dequantise;
  if (probe.rows < 1 || probe.width < 1 || (is_nf4 && probe.rows * probe.width % kNf4Block != 0))
    throw InputError(probe.key(), "rows and width must be 1 or more, and whole blocks of 64 for nf4");
  return kWorkloads[std::size_t(probe.kernel)](
      std::make_shared<Job>(Job{probe, bench.device, stream, pools_of(bench)}));
}

}  // namespace gpuplan
