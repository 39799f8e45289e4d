#include "models/trained_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "models/quantisation.h"

namespace gpuplan {
namespace {

/// "self_attn.q_proj.weight" -> "q_proj"
std::string module_name(const std::string& tensor) {
  const auto parts = split(tensor, '.');
  return parts.size() >= 2 ? parts[parts.size() - 2] : tensor;
}

bool names_all_linear(const LoraSpec& lora) {
  return std::any_of(lora.targets.begin(), lora.targets.end(),
                     [](const std::string& t) { return squash(t) == "alllinear"; });
}

bool is_target(const LoraSpec& lora, const WeightTensor& tensor) {
  if (tensor.role == WeightRole::Linear && names_all_linear(lora)) return true;
  const std::string module = module_name(tensor.name);
  return (tensor.role == WeightRole::Linear || tensor.role == WeightRole::Head) &&
         std::find(lora.targets.begin(), lora.targets.end(), module) != lora.targets.end();
}

bool is_saved_copy(const LoraSpec& lora, const WeightTensor& tensor) {
  return std::find(lora.modules_to_save.begin(), lora.modules_to_save.end(), module_name(tensor.name)) !=
         lora.modules_to_save.end();
}

/// Adds the state of one tensor: the tensor itself, and what the recipe puts beside it.
void add_state(std::vector<StateTensor>& out, const WeightTensor& tensor, const Recipe& recipe) {
  const std::int64_t rows = tensor.shape.at(0), cols = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  if (!recipe.is_adapter()) {
    out.push_back({StateKind::Trained, rows, cols});
    return;
  }
  const bool is_linear = tensor.role == WeightRole::Linear;
  const bool is_quantised = is_linear && recipe.quant.kind != BaseQuant::None;
  out.push_back({is_quantised ? StateKind::Quantised
                 : is_linear  ? StateKind::Frozen
                              : StateKind::FrozenEnd,
                 rows, cols});
  if (is_target(recipe.lora, tensor)) {
    out.push_back({StateKind::Adapter, recipe.lora.rank, tensor.in});
    out.push_back({StateKind::Adapter, tensor.out, recipe.lora.rank});
    if (recipe.lora.is_dora) out.push_back({StateKind::Adapter, tensor.out, 1});
  }
  if (is_saved_copy(recipe.lora, tensor)) out.push_back({StateKind::SavedCopy, rows, cols});
}

struct LinearName {
  const char* name;
  LinearRef TrainedModel::*ref;
  Dim in, out;
};

// Module names of the linears in the families' checkpoints, and which side of the layer they are.
// clang-format off
constexpr std::array kLinearNames{
    LinearName{"q_proj", &TrainedModel::q, Dim::Hidden, Dim::QWidth},     LinearName{"k_proj", &TrainedModel::k, Dim::Hidden, Dim::KvWidth},
    LinearName{"v_proj", &TrainedModel::v, Dim::Hidden, Dim::KvWidth},    LinearName{"qkv_proj", &TrainedModel::qkv, Dim::Hidden, Dim::QWidth},
    LinearName{"o_proj", &TrainedModel::o, Dim::QWidth, Dim::Hidden},     LinearName{"gate_proj", &TrainedModel::gate, Dim::Hidden, Dim::Ffn},
    LinearName{"up_proj", &TrainedModel::up, Dim::Hidden, Dim::Ffn},      LinearName{"gate_up_proj", &TrainedModel::gate_up, Dim::Hidden, Dim::Ffn},
    LinearName{"down_proj", &TrainedModel::down, Dim::Ffn, Dim::Hidden},  LinearName{"attn.c_attn", &TrainedModel::qkv, Dim::Hidden, Dim::QWidth},
    LinearName{"attn.c_proj", &TrainedModel::o, Dim::QWidth, Dim::Hidden}, LinearName{"mlp.c_fc", &TrainedModel::up, Dim::Hidden, Dim::Ffn},
    LinearName{"mlp.c_proj", &TrainedModel::down, Dim::Ffn, Dim::Hidden}};
// clang-format on

void bind_linear(TrainedModel& model, const WeightTensor& tensor, std::size_t index, const Recipe& recipe) {
  for (const LinearName& row : kLinearNames) {
    if (tensor.name != std::string(row.name) + ".weight" &&
        !tensor.name.ends_with("." + std::string(row.name) + ".weight"))
      continue;
    LinearRef& ref = model.*row.ref;
    ref = {row.name, std::uint8_t(index), tensor.in, tensor.out, row.in, row.out};
    ref.is_trained = !recipe.is_adapter();
    ref.is_quantised = recipe.is_adapter() && recipe.quant.kind != BaseQuant::None;
    ref.is_adapted = recipe.is_adapter() && is_target(recipe.lora, tensor);
    ref.rank = ref.is_adapted ? recipe.lora.rank : 0;
    return;
  }
  GPUPLAN_CHECK(false, "a family lists a linear that the ledger does not know");
}

/// A target that names no module of the model is a typing slip.
void check_names(const std::vector<std::string>& wanted, const ModelWeights& weights, bool linears_only,
                 const char* flag) {
  std::vector<std::string> known;
  for (const auto* list : {&weights.before, &weights.layer, &weights.after})
    for (const WeightTensor& t : *list)
      if (!linears_only || t.role == WeightRole::Linear || t.role == WeightRole::Head)
        known.push_back(module_name(t.name));
  for (const std::string& name : wanted) {
    if (linears_only && squash(name) == "alllinear") continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw InputError(flag, fmt::format("the model has no module '{}'", name),
                     did_you_mean(name, known, fmt::format("modules: {}", fmt::join(known, ", "))));
  }
}

}  // namespace

TrainedModel prepare(const ModelSpec& spec, const Recipe& recipe, const FrameworkConvention& framework) {
  TrainedModel model{.spec = spec, .weights = list_weights(spec)};
  model.parameters = model.weights.total_elements();
  model.has_tied_head = spec.tie_word_embeddings && !framework.unties_head;
  if (spec.tie_word_embeddings && framework.unties_head)
    model.weights.after.push_back(
        {"lm_head.weight", {spec.vocab_size, spec.hidden_size}, WeightRole::Head, spec.hidden_size, spec.vocab_size});
  if (recipe.is_adapter()) {
    check_names(recipe.lora.targets, model.weights, true, "--lora targets");
    check_names(recipe.lora.modules_to_save, model.weights, false, "--lora modules_to_save");
  }
  for (const WeightTensor& t : model.weights.before) add_state(model.state[std::size_t(UnitKind::Before)], t, recipe);
  for (const WeightTensor& t : model.weights.layer) add_state(model.state[std::size_t(UnitKind::Layer)], t, recipe);
  for (const WeightTensor& t : model.weights.after) add_state(model.state[std::size_t(UnitKind::After)], t, recipe);
  for (std::size_t i = 0; i < model.weights.layer.size(); ++i)
    if (model.weights.layer[i].role == WeightRole::Linear) bind_linear(model, model.weights.layer[i], i, recipe);

  const bool is_full = !recipe.is_adapter();
  model.head = {"lm_head", 0xff, spec.hidden_size, spec.vocab_size, Dim::Hidden, Dim::Vocab, is_full};
  model.trains_norms = is_full;
  model.trains_embedding = model.trains_head = is_full;
  if (!is_full) {
    for (const WeightTensor& t : model.weights.before) model.trains_embedding |= is_saved_copy(recipe.lora, t);
    for (const WeightTensor& t : model.weights.after) {
      if (t.role != WeightRole::Head) continue;
      model.trains_head |= is_saved_copy(recipe.lora, t);
      model.head.is_adapted = is_target(recipe.lora, t);
      model.head.rank = model.head.is_adapted ? recipe.lora.rank : 0;
    }
    model.head.is_trained = model.trains_head;
  }
  for (int kind = 0; kind < kNumUnitKinds; ++kind)
    for (const StateTensor& t : model.state[std::size_t(kind)])
      if (is_trained(t.kind))
        model.trainable += t.elements() * (kind == int(UnitKind::Layer) ? spec.num_hidden_layers : 1);
  return model;
}

Bytes weight_bytes(const StateTensor& tensor, std::int64_t elements, const Numerics& n, const QuantSpec& quant) {
  switch (tensor.kind) {
    case StateKind::Frozen: return bytes_of(elements, n.frozen);
    case StateKind::FrozenEnd: return bytes_of(elements, n.ends);
    case StateKind::Quantised:
      return quantised_bytes(elements, ceil_div(elements, std::max<std::int64_t>(tensor.cols, 1)), quant);
    case StateKind::Trained: return bytes_of(elements, n.weight);
    case StateKind::Adapter:
    case StateKind::SavedCopy: return bytes_of(elements, n.adapter);
  }
  return {};
}

}  // namespace gpuplan
