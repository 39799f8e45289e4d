// The end of a step: loss and norm over all ranks, then AdamW.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"
#include "base/processor.h"
#include "device/quantisation.h"
#include "models/optimizers.h"
#include "run/executor.h"

namespace gpuplan {

using namespace operand;

/// Loss and norm of the global batch, and whether anybody wants to stop: what the ranks have of them is summed.
/// Gradients are alike on replicas.
void Executor::finish_gradients(Scalars& scalars) {
  for (const auto& s : streams_)
    if (s) s->synchronise();
  std::array<double, 2> sums{};
  device_.copy(sums.data(), constants_.loss_sum, bytes_of(2, Dtype::F64), CopyKind::DeviceToHost, control());
  control().synchronise();
  if (job_.compares_answers()) sums[0] = loss_sum_;
  if (place_.layer_part > 0) sums[0] = 0;  // the same losses as the first of those that share layers
  const auto all = groups_.gather(std::array{sums[0], sums[1], scalars.stop ? 1.0 : 0.0});
  double square_sum = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto [loss, squares, stop] = all[r];
    scalars.loss += loss;
    scalars.stop |= stop > 0;
    if (place_of(std::int64_t(r), job_.strategy.mesh).copy == place_.copy) square_sum += squares;
  }
  if (!job_.compares_answers()) scalars.loss /= std::max(1.0, scalars.label_tokens);
  scalars.grad_norm = std::sqrt(square_sum);
  scalars.has_norm = true;
  if (!std::isfinite(scalars.loss) || !std::isfinite(scalars.grad_norm))
    throw EnvError(
        fmt::format("step {}: the loss is {} and the gradient's norm {}: training has diverged; a lower --lr, a "
                    "warm-up or a --clip may help",
                    scalars.number, scalars.loss, scalars.grad_norm));
  const double clip = scalars.settings.clip;  // torch.nn.utils.clip_grad_norm_
  if (clip > 0) scalars.gradient_scale = float(std::min(1.0, clip / (scalars.grad_norm + 1e-6)));
}

namespace {

AdamW adamw_of(const OptimizerSettings& s, double learning_rate, std::int64_t number) {
  return {.learning_rate = float(learning_rate),
          .beta1 = float(s.beta1),
          .beta2 = float(s.beta2),
          .epsilon = float(s.epsilon),
          .step = number};
}

/// Stretches of [begin, end) of a flat array whose tensors decay, or do not: norms and biases.
struct Stretch {
  std::int64_t begin{}, end{};
  bool decays{};
};

std::vector<Stretch> stretches(const UnitLayout& layout, const std::vector<WeightTensor>& weights, std::int64_t begin,
                               std::int64_t end) {
  std::vector<Stretch> out;
  for (const PlacedTensor& t : layout.trained) {
    const std::int64_t from = std::max(begin, t.begin), to = std::min(end, t.begin + t.elements());
    if (from >= to) continue;
    const WeightRole role = weights[t.tensor].role;
    const bool decays = role != WeightRole::Norm && role != WeightRole::Bias;
    if (!out.empty() && out.back().decays == decays)
      out.back().end = to;
    else
      out.push_back({from, to, decays});
  }
  return out;
}

}  // namespace

/// Steps a range, enqueued on one stream: of the device, or of the host while a task of the device waits for it.
struct Executor::Stepper {
  Device& device;
  Stream& stream;
  AdamW with;  // its decay is of each stretch
  float gradient_scale;
  double decay;  // of tensors that do

  void step(const StepRange& r, const std::vector<Stretch>& parts) const {
    const bool is_8bit = r.state_dtype == Dtype::U8;
    for (const Stretch& part : parts) {
      if (!is_8bit)
        step_stretch(r, part);
      else if (part.decays &&
               decay > 0) {  // blocks of 8-bit states do not end where tensors do: decay first, then one step of all
        const Numbers weight{r.weight + bytes_of(part.begin - r.begin, r.dtype).count, r.dtype};
        const auto factor = float(-double(with.learning_rate) * decay);
        device.run(kernels::AddScaled{weight, weight, factor, part.end - part.begin}, stream);
      }
    }
    if (is_8bit) step_8bit(r);
  }

 private:
  /// m, then v, of the whole range.
  void step_stretch(const StepRange& r, const Stretch& part) const {
    const std::int64_t begin = part.begin - r.begin;
    const auto at = [&](std::byte* base, Dtype dtype, std::int64_t element) {
      return base + bytes_of(element, dtype).count;
    };
    AdamW own = with;
    own.weight_decay = float(part.decays ? decay : 0);
    device.run(kernels::AdamWUpdate{.weight = {at(r.weight, r.dtype, begin), r.dtype},
                                    .gradient = {at(r.gradient, r.dtype, begin), r.dtype},
                                    .m = {at(r.state, r.state_dtype, begin), r.state_dtype},
                                    .v = {at(r.state, r.state_dtype, r.count + begin), r.state_dtype},
                                    .count = part.end - part.begin,
                                    .step = adamw_step(own),
                                    .gradient_scale = gradient_scale},
               stream);
  }

  /// absmax of m, absmax of v, then their codes.
  void step_8bit(const StepRange& r) const {
    static_assert(k8bitStateBlock == kDynamicBlock, "the ledger and the kernels cut states alike");
    const std::int64_t blocks = ceil_div(r.count, k8bitStateBlock);
    auto* const absmax = reinterpret_cast<float*>(r.state);
    auto* const codes = reinterpret_cast<std::uint8_t*>(absmax + 2 * blocks);
    device.run(kernels::AdamW8Update{.weight = {r.weight, r.dtype},
                                     .gradient = {r.gradient, r.dtype},
                                     .m = codes,
                                     .v = codes + r.count,
                                     .m_absmax = absmax,
                                     .v_absmax = absmax + blocks,
                                     .count = r.count,
                                     .step = adamw_step(with),
                                     .gradient_scale = gradient_scale},
               stream);
  }
};

/// Operands on the device: weights (whole, or this rank's part), gradient, states. On the host: gradient, states,
/// weights (its own copy of this rank's part, or the only one); in the gradient's place what goes back to the device,
/// where that is of another dtype.
void Executor::optimizer_step(const Bound& task, const Scalars& scalars) {
  const Instruction& i = *task.instruction;
  const bool is_host = i.stream == StreamId::Host;
  const RankProgram& p = memory_.program();
  const auto operands = p.operands_of(i);
  const std::size_t master = p.find_operand(i, kMaster),
                    weight = master < operands.size() ? master : p.find_operand(i, kWeight);
  const std::size_t gradient = p.find_operand(i, kGradient), state = p.find_operand(i, kState);
  const TrainedDtypes dtypes = job_.dtypes_of(i.unit);
  const UnitLayout& layout = job_.layout_of(i.unit);
  StepRange range{.count = memory_.size(task.task->operands[gradient]).count / size_of(dtypes.stored),
                  .dtype = dtypes.stored,
                  .weight = task.operands[weight],
                  .gradient = task.operands[gradient],
                  .state = task.operands[state]};
  range.begin = i.is_of_own_shard ? place_.shard * range.count : 0;
  if ((operands[weight] & kOwnSlice) != 0) range.weight += bytes_of(range.begin, dtypes.stored).count;
  range.state_dtype = optimizer_state_dtype(*job_.recipe().optimizer, range.count, dtypes.stored);
  const auto parts = stretches(layout, job_.weights_of(i.unit), range.begin,
                               std::min(range.begin + range.count, layout.trained_elements));
  const AdamW with = adamw_of(scalars.settings, scalars.learning_rate, scalars.number);
  if (!is_host)
    return Stepper{device_, stream(i.stream), with, scalars.gradient_scale, scalars.settings.weight_decay}.step(range,
                                                                                                                parts);
  const Stepper stepper{*host_, *host_stream_, with, scalars.gradient_scale, scalars.settings.weight_decay};
  const bool is_cast = (operands[gradient] & kWrite) != 0;
  stream(i.stream).run_on_host([this, stepper, range, parts, dtypes, is_cast] {
    stepper.step(range, parts);
    if (is_cast)
      host_->run(kernels::Cast{{range.gradient, dtypes.kept}, {range.weight, dtypes.stored}, range.count},
                 *host_stream_);
    host_stream_->synchronise();
  });
}

/// The CPU that steps what is offloaded, with this rank's share of the cores.
void Executor::open_host() {
  host_ = &device_;
  if (device_.facts().kind != DeviceKind::Cpu) {
    const std::int64_t ranks = job_.request.cluster.ranks_per_node(job_.strategy.mesh.world());
    own_host_ = device_backend(DeviceKind::Cpu)
                    .open({.num_threads = narrow<int>(std::max<std::int64_t>(1, num_usable_cores() / ranks))});
    host_ = own_host_.get();
  }
  host_stream_ = host_->create_stream();
}

}  // namespace gpuplan
