#include "planner/step_temporaries.h"

#include <algorithm>
#include <utility>

#include "models/optimizers.h"
#include "planner/state_sizes.h"

namespace gpuplan {

Bytes StepTemporaries::unplaced(Bytes activations, Bytes own) const {
  const double share = std::min(1.0, double(own.count) / double(std::max<std::int64_t>(1, total.count)));
  double most = 0, all = 0;
  for (const auto& [size, bytes] : of_size) {
    all += share * double(bytes.count);
    const double grown =
        std::max(0.0, 1 - double(size.count) / double(std::max<std::int64_t>(1, largest_activation.count)));
    most = std::max(most, all - double(activations.count) * grown);
  }
  return Bytes{std::int64_t(most)};
}

std::optional<StepTemporaries> step_temporaries(const Job& job, const StepProgram& program) {
  const SizeRules& rules = job.rules;
  if (!traits_of(rules.engine).steps_per_tensor) return std::nullopt;
  StepTemporaries out;
  if (job.recipe().optimizer->temporary != StepTemporary::Parameters) return out;
  for (const Block& block : program.blocks) out.largest_activation = std::max(out.largest_activation, block.largest);
  job.model.each_state([&](const StateList& list, std::int64_t times) {
    for (StateTensor t : list) {
      if (!is_trained(t.kind)) continue;
      const std::int64_t copies = t.is_stack ? 1 : std::exchange(t.copies, 1);  // a stack is one tensor
      const Bytes temporary = state_sizes({t}, job.numerics, job.recipe(), rules).step_temporary;
      out.of_size[temporary] += times * copies * temporary;
      out.total += times * copies * temporary;
    }
  });
  return out;
}

}  // namespace gpuplan
