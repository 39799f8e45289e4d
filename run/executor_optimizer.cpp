// The end of a step: loss and norm over all ranks, then AdamW.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "device/dynamic_map.h"
#include "models/optimizers.h"
#include "run/executor_parts.h"

namespace gpuplan {

using namespace operand;

/// Loss and norm of the global batch, and whether anybody wants to stop: what the ranks have of them is summed. Gradients are alike on replicas.
void Executor::finish_gradients(Scalars& scalars) {
  for (const auto& s : streams_)
    if (s) s->synchronise();
  std::array<double, 2> sums{};
  device_.copy(sums.data(), constants_.loss_sum, bytes_of(2, Dtype::F64), CopyKind::DeviceToHost, control());
  control().synchronise();
  const auto all = groups_.gather(std::array{sums[0], sums[1], scalars.stop ? 1.0 : 0.0});
  double square_sum = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto [loss, squares, stop] = all[r];
    scalars.loss += loss;
    scalars.stop |= stop > 0;
    if (place_of(std::int64_t(r), job_.strategy.mesh).replicate == place_.replicate) square_sum += squares;
  }
  scalars.loss /= std::max(1.0, scalars.label_tokens);
  scalars.grad_norm = std::sqrt(square_sum);
  scalars.has_norm = true;
  if (!std::isfinite(scalars.loss) || !std::isfinite(scalars.grad_norm))
    throw EnvError(fmt::format("step {}: the loss is {} and the gradient's norm {}: training has diverged; a lower --lr, a warm-up or a --clip may help",
                               scalars.number, scalars.loss, scalars.grad_norm));
  const double clip = scalars.settings.clip;  // torch.nn.utils.clip_grad_norm_
  if (clip > 0) scalars.gradient_scale = float(std::min(1.0, clip / (scalars.grad_norm + 1e-6)));
}

namespace {

AdamW adamw_of(const OptimizerSettings& s, double learning_rate, std::int64_t number, double decay) {
  return {.learning_rate = float(learning_rate), .beta1 = float(s.beta1), .beta2 = float(s.beta2), .epsilon = float(s.epsilon),
          .weight_decay = float(decay), .step = number};
}

/// Stretches of [begin, end) of a flat array whose tensors decay, or do not: norms and biases.
struct Stretch {
  std::int64_t begin{}, end{};
  bool decays{};
};

std::vector<Stretch> stretches(const UnitLayout& layout, const std::vector<WeightTensor>& weights, std::int64_t begin, std::int64_t end) {
  std::vector<Stretch> out;
  for (const PlacedTensor& t : layout.trained) {
    const std::int64_t from = std::max(begin, t.begin), to = std::min(end, t.begin + t.elements());
    if (from >= to) continue;
    const WeightRole role = weights[t.tensor].role;
    const bool decays = role != WeightRole::Norm && role != WeightRole::Bias;
    if (!out.empty() && out.back().decays == decays) out.back().end = to;
    else out.push_back({from, to, decays});
  }
  return out;
}

}  // namespace

/// Operands: weights (whole, or this rank's part), gradient, states.
void Executor::optimizer_step(const Bound& task, const Scalars& scalars) {
  const Instruction& i = *task.instruction;
  const TrainedDtypes dtypes = job_.dtypes_of(i.unit);
  const UnitLayout& layout = job_.layout_of(i.unit);
  const bool is_slice = (job_.program().operands_of(memory_.program(), i)[0] & kOwnSlice) != 0;
  StepRange range{.count = memory_.size(task.task->operands[1]).count / size_of(dtypes.stored), .dtype = dtypes.stored,
                  .weight = task.operands[0], .gradient = task.operands[1], .state = task.operands[2]};
  range.begin = job_.rules.layout.shards_optimizer && job_.rules.ways > 1 ? place_.shard * range.count : 0;
  if (is_slice) range.weight += bytes_of(range.begin, dtypes.stored).count;
  const auto parts = stretches(layout, job_.weights_of(i.unit), range.begin, std::min(range.begin + range.count, layout.trained_elements));
  range.state_dtype = optimizer_state_dtype(find_optimizer(job_.recipe().optimizer), range.count, dtypes.stored);
  const bool is_8bit = range.state_dtype == Dtype::U8;
  for (const Stretch& part : parts) {
    const double decay = part.decays ? scalars.settings.weight_decay : 0;
    if (!is_8bit) step_stretch(range, part.begin - range.begin, part.end - part.begin, adamw_of(scalars.settings, scalars.learning_rate, scalars.number, decay), scalars.gradient_scale);
    else if (decay > 0) {  // blocks of 8-bit states do not end where tensors do: decay first, then one step of all
      const Numbers weight{range.weight + bytes_of(part.begin - range.begin, range.dtype).count, range.dtype};
      kernels_.add_scaled(weight, weight, float(-scalars.learning_rate * decay), part.end - part.begin, control());
    }
  }
  if (is_8bit) step_8bit(range, adamw_of(scalars.settings, scalars.learning_rate, scalars.number, 0), scalars.gradient_scale);
}

/// m, then v, of the whole range.
void Executor::step_stretch(const StepRange& r, std::int64_t begin, std::int64_t count, const AdamW& with, float gradient_scale) {
  const Dtype state = r.state_dtype;
  const auto at = [&](std::byte* base, Dtype dtype, std::int64_t element) { return base + bytes_of(element, dtype).count; };
  kernels_.adamw_step({.weight = {at(r.weight, r.dtype, begin), r.dtype}, .gradient = {at(r.gradient, r.dtype, begin), r.dtype},
                       .m = {at(r.state, state, begin), state}, .v = {at(r.state, state, r.count + begin), state}, .count = count},
                      with, gradient_scale, control());
}

/// absmax of m, absmax of v, then their codes.
void Executor::step_8bit(const StepRange& r, const AdamW& with, float gradient_scale) {
  static_assert(k8bitStateBlock == kDynamicBlock, "the ledger and the kernels cut states alike");
  const std::int64_t blocks = ceil_div(r.count, k8bitStateBlock);
  auto* const absmax = reinterpret_cast<float*>(r.state);
  auto* const codes = reinterpret_cast<std::uint8_t*>(absmax + 2 * blocks);
  kernels_.adamw8_step({.weight = {r.weight, r.dtype}, .gradient = {r.gradient, r.dtype}, .m = codes, .v = codes + r.count,
                        .m_absmax = absmax, .v_absmax = absmax + blocks, .count = r.count},
                       with, gradient_scale, control());
}

}  // namespace gpuplan
