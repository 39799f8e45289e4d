#include "run/native_job.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "run/native_support.h"

namespace gpuplan {
NativeJob::NativeJob(const EstimateRequest& asked, const Strategy& wanted) : Job(asked, wanted) {
  GPUPLAN_CHECK(framework.state_arrays == StateArrays::Flat, "the executor runs plans of its own framework record");
  require_native(request.model, recipe(), strategy, numerics);
  build_step_program(program_, *this, {});
  verify(program_);
  const auto place = [&](const StateList& list) { layouts_.push_back(unit_layout(list, numerics, recipe().quant)); };
  place(model.before);
  for (const std::uint8_t kind : model.weights.order) place(model.layers[kind]);
  place(head_state());
}

/// A pipeline's last stage holds its own copy of a tied embedding, behind its own tensors.
StateList NativeJob::head_state() {
  head_weights_ = model.weights.after;
  StateList state = model.after;
  const auto own = std::find_if(head_weights_.begin(), head_weights_.end(),
                                [](const WeightTensor& t) { return t.role == WeightRole::Head; });
  if (!model.has_tied_head) head_matrix_ = {head_unit(), std::uint16_t(own - head_weights_.begin())};
  if (!model.has_tied_head || strategy.mesh.pp == 1) return state;
  for (StateTensor t : model.before) {
    t.tensor = std::uint16_t(t.tensor + head_weights_.size());
    state.push_back(t);
  }
  head_matrix_ = {head_unit(), std::uint16_t(head_weights_.size())};
  head_weights_.insert(head_weights_.end(), model.weights.before.begin(), model.weights.before.end());
  return state;
}

const std::vector<WeightTensor>& NativeJob::weights_of(std::uint16_t unit) const {
  if (unit == 0) return model.weights.before;
  if (unit == head_unit()) return head_weights_;
  return model.weights.layer(unit - 1).tensors;
}

std::string NativeJob::tensor_name(std::uint16_t unit, std::uint16_t tensor) const {
  const WeightTensor& t = weights_of(unit)[tensor];
  if (unit == 0 || unit == head_unit()) return t.name;
  const LayerKind& kind = model.weights.layer(unit - 1);
  return fmt::format(fmt::runtime(kind.prefix), unit - 1 - kind.offset) + t.name;
}

const LayerLinears* NativeJob::linears_of(std::uint16_t unit) const {
  if (unit == 0 || unit == head_unit()) return nullptr;
  return &model.linears[model.weights.order[unit - 1U]];
}

RankPlace place_of(std::int64_t rank, const Mesh& mesh) {
  const auto along = [&](Axis axis) { return rank / mesh.stride(axis) % mesh.ways(axis); };
  return {.rank = rank, .stage = along(Axis::Pp), .replicate = along(Axis::DpReplicate), .shard = along(Axis::DpShard)};
}

}  // namespace gpuplan
