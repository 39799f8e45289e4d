#include "models/trained_model.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/narrow.h"
#include "models/adapter_kind.h"
#include "models/adapter_names.h"
#include "models/expert_layout.h"
#include "models/layer_marks.h"
#include "models/quantisation.h"
#include "models/trained_names.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

/// Says whether the recipe may train anything of this part of the model.
bool is_open(const Recipe& recipe, ModelPart part) {
  return part == ModelPart::Language || (part == ModelPart::Tower && trains_tower(recipe.images.train)) ||
         (part == ModelPart::Projector && recipe.images.train != TrainVision::No);
}

/// Says whether it is trained in other steps than this one.
bool rests(const Recipe& recipe, const WeightTensor& tensor) {
  return recipe.trained_in_turn && recipe.pass == Pass::Train && tensor.is_frozen && is_open(recipe, tensor.part);
}

bool is_open(const Recipe& recipe, const WeightTensor& tensor) {
  return recipe.pass != Pass::Frozen && is_open(recipe, tensor.part) && !tensor.is_frozen;
}

/// Says whether its weight is trained itself, beside adapters of others.
bool is_whole(const Recipe& recipe, const WeightTensor& tensor) {
  const bool is_vision = tensor.part == ModelPart::Tower || tensor.part == ModelPart::Projector;
  return is_vision && recipe.is_adapter() && recipe.images.train == TrainVision::Whole && is_open(recipe, tensor);
}

/// A recipe and a framework decide together what becomes of each tensor.
struct Choice {
  const Recipe& recipe;
  const FrameworkConvention& framework;
  AdapterRanks ranks;

  /// A linear as its adapter sees it; rank 0: it has none.
  AdaptedLinear adapted(const WeightTensor& tensor) const {
    const LoraSpec& lora = recipe.lora;
    return {.in = tensor.in,
            .out = tensor.out,
            .rank = rank_of(tensor),
            .block = block_of(lora, tensor.in),
            .factor = lora.factor > 0 ? lora.factor : lora.kind->factor,
            .scales_input = lora.kind->path == AdapterPath::Scale && tensor.slot == LinearSlot::Down,
            .divides_input = cut_of(tensor) == Cut::Row};
  }

  std::int64_t rank_of(const WeightTensor& tensor) const {
    if (!recipe.lora.kind->is_lora() && is_stacked_experts(tensor)) return 0;  // other kinds adapt modules alone
    if (recipe.lora.kind->is_prompt() || !recipe.is_adapter() || !is_open(recipe, tensor)) return 0;
    if (is_whole(recipe, tensor)) return 0;
    if (recipe.lora.kind->is_on_output())
      return tensor.slot == LinearSlot::Down && tensor.part == ModelPart::Language ? recipe.lora.rank : 0;
    return ranks.rank_of(tensor);
  }
  bool quantises(const WeightTensor& tensor) const {
    if (recipe.quant.kind == BaseQuant::None) return false;
    if (tensor.keeps_dtype || is_whole(recipe, tensor)) return false;
    if (!format_of(recipe.quant.kind).is_bitsandbytes)  // the checkpoint's own, which no library decides
      return tensor.role == WeightRole::Linear || !tensor.made_of.empty();
    const FrameworkQuantisation& reach = framework.quantisation;
    if ((tensor.is_subclass && !reach.subclasses) || !reach.linears) return false;
    if (std::ranges::find(reach.skips, module_name(tensor.name)) != reach.skips.end()) return false;
    return tensor.role == WeightRole::Linear ||
           ((reach.stacked_experts || recipe.quant.quantises_experts) && is_stacked_experts(tensor));
  }
};

/// Marks what a quantised checkpoint leaves in 16 bit.
bool mark_unquantised(ModelWeights& weights, const CheckpointQuant& checkpoint) {
  return mark_layers(weights, [&](LayerKind& kind, std::int64_t position) {
    for (WeightTensor& t : kind.tensors) {
      const std::string name = parameter_name(kind, position, t);
      t.keeps_dtype = keeps_dtype(checkpoint, std::string_view(name).substr(0, name.rfind('.')));
    }
  });
}

bool has_score_head(const Recipe& recipe) { return head_of(recipe) == MethodHead::Score; }

std::int64_t num_labels(const Recipe& recipe) {
  return recipe.objective.labels > 0 ? recipe.objective.labels : recipe.objective.method->labels;
}

bool saves_head(const LoraSpec& lora) {
  return std::ranges::any_of(lora.modules_to_save,
                             [](const std::string& name) { return names_module(name, "lm_head.weight"); });
}

bool is_saved_copy(const Recipe& recipe, const WeightTensor& tensor) {
  if (recipe.pass == Pass::Frozen) return false;
  const bool is_score = tensor.name == "score.weight" && has_score_head(recipe);  // PEFT saves it: task_type SEQ_CLS
  const LoraSpec& lora = recipe.lora;
  return is_score || std::ranges::any_of(lora.modules_to_save,
                                         [&](const std::string& name) { return names_module(name, tensor.name); });
}

/// The head as the method has it: numbers per row in the place of the vocabulary, or none. A trainer may keep that of
/// the vocabulary, which then gets no gradient. An encoder's scores stand behind its pooler, or a linear of that size,
/// and have biases. Source: huggingface/transformers src/transformers/models/bert, roberta/modeling_*.py @v4.57.6
/// (BertForSequenceClassification, RobertaClassificationHead).
void replace_head(ModelWeights& weights, const ModelSpec& spec, const Recipe& recipe,
                  const FrameworkConvention& framework) {
  const MethodHead head = recipe.objective.method->head;
  const bool has_pooler = spec.head == HeadKind::Pooler;
  if (framework.preference.keeps_vocabulary_head)
    for (WeightTensor& t : weights.after) t.is_frozen |= t.role == WeightRole::Head;
  else if (!has_pooler || head != MethodHead::Score)
    std::erase_if(weights.after, [&](const WeightTensor& t) {
      return t.role == WeightRole::Head || (has_pooler && t.role == WeightRole::Bias);
    });
  if (head != MethodHead::Score) return;
  weights.after.insert(weights.after.end(), weights.classifier.begin(), weights.classifier.end());
  const std::int64_t labels = num_labels(recipe);
  weights.after.push_back({.name = "score.weight",
                           .shape = {labels, spec.embedding_width()},
                           .role = WeightRole::Head,
                           .in = spec.embedding_width(),
                           .out = labels});
  if (has_pooler) weights.after.push_back({.name = "score.bias", .shape = {labels}, .role = WeightRole::Bias});
}

/// Adds the state of one tensor: the tensor itself, and what the recipe puts beside it.
void add_state(StateList& out, const WeightTensor& tensor, std::uint16_t index, const Choice& choice) {
  const Recipe& recipe = choice.recipe;
  // of matrices: optimizers and shards see as many copies; a convolution's kernel is one tensor
  const bool is_stack = tensor.shape.size() == 3 && tensor.role != WeightRole::Recurrence;
  const std::int64_t copies = is_stack ? tensor.shape[0] : tensor.copies,
                     rows = tensor.shape.empty() ? 1 : tensor.shape[is_stack ? 1 : 0];
  const std::int64_t cols = tensor.elements() / (rows * copies);
  const bool is_of_experts = tensor.slot >= LinearSlot::Router && tensor.slot < LinearSlot::Count;
  const bool is_block = tensor.role == WeightRole::Linear || tensor.role == WeightRole::Stacked;
  const auto add_whole = [&](StateKind kind) {
    out.push_back({kind, rows, cols, copies, index, WeightUse::Tensor, is_stack, is_of_experts, is_block});
  };
  const auto add_adapter = [&](std::int64_t out_features, std::int64_t in_features, WeightUse use) {
    out.push_back(
        {StateKind::Adapter, out_features, in_features, copies, index, use, is_stack, is_of_experts, is_block});
  };
  if (tensor.is_tied) return add_whole(StateKind::SavedCopy);  // what it is a copy of is the embedding
  if (!recipe.is_adapter() && (is_open(recipe, tensor) || rests(recipe, tensor))) {
    add_whole(StateKind::Trained);
    out.back().is_linear = tensor.role == WeightRole::Linear;
    out.back().rests = rests(recipe, tensor);
    return;
  }
  if (is_whole(recipe, tensor)) return add_whole(StateKind::SavedCopy);  // in the dtype of the base, of which it is
  add_whole(choice.quantises(tensor) ? StateKind::Quantised : is_block ? StateKind::Frozen : StateKind::FrozenEnd);
  if (const AdaptedLinear adapted = choice.adapted(tensor); adapted.rank > 0) {
    constexpr std::array kUses{WeightUse::LowRankA, WeightUse::LowRankB};
    const auto& kind = *recipe.lora.kind;
    for (std::size_t i = 0; i < kind.trained.size(); ++i)
      add_adapter(side_length(kind.trained[i][0], adapted), side_length(kind.trained[i][1], adapted),
                  i < kUses.size() ? kUses[i] : WeightUse::Tensor);
    if (recipe.lora.is_dora) add_adapter(tensor.out, 1, WeightUse::Tensor);
    for (const AdapterShape& buffer : kind.buffers) {
      add_adapter(side_length(buffer[0], adapted), side_length(buffer[1], adapted), WeightUse::None);
      out.back().kind = StateKind::AdapterBuffer;
    }
  }
  if (recipe.is_adapter() && is_saved_copy(recipe, tensor)) add_whole(StateKind::SavedCopy);
}

StateList state_of(const std::vector<WeightTensor>& tensors, const Choice& choice) {
  StateList out;
  for (std::size_t i = 0; i < tensors.size(); ++i) add_state(out, tensors[i], narrow<std::uint16_t>(i), choice);
  return out;
}

/// What adapters of this kind have once, as large as the widest of the adapted linears needs.
void add_shared(StateList& out, const ModelWeights& weights, const Choice& choice) {
  const AdapterKind& kind = *choice.recipe.lora.kind;
  AdaptedLinear largest;
  std::set<std::tuple<std::string, std::int64_t, std::int64_t>> modules;
  const auto add = [&](StateKind state, const AdapterShape& shape, const AdaptedLinear& linear, WeightUse use) {
    out.push_back(
        {.kind = state, .rows = side_length(shape[0], linear), .cols = side_length(shape[1], linear), .use = use});
  };
  each_list(weights, [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& t : list) {
      const AdaptedLinear own = choice.adapted(t);
      if (own.rank == 0) continue;
      if (modules.emplace(module_name(t.name), own.in, own.out).second)
        for (const AdapterShape& shape : kind.trained_by_module) add(StateKind::Adapter, shape, own, WeightUse::Tensor);
      const std::int64_t in = std::max(own.in, largest.in), out_features = std::max(own.out, largest.out);
      largest = own;
      largest.in = in, largest.out = out_features;
    }
  });
  if (largest.rank == 0) return;
  for (const AdapterShape& shape : kind.shared) add(StateKind::AdapterBuffer, shape, largest, WeightUse::None);
  for (const AdapterShape& shape : kind.trained_once) add(StateKind::Adapter, shape, largest, WeightUse::Tensor);
}

/// Virtual tokens, and the encoder that makes them: in front of the embedding's output, of its width.
void add_prompt(StateList& out, const ModelSpec& spec, const LoraSpec& lora) {
  if (!lora.kind->is_prompt()) return;
  const AdaptedLinear own{.in = spec.hidden_size,
                          .out = spec.hidden_size,
                          .rank = lora.rank,
                          .factor = lora.factor > 0 ? lora.factor : lora.kind->factor};
  const auto add = [&](const std::vector<AdapterShape>& shapes, StateKind kind, WeightUse use) {
    for (const AdapterShape& shape : shapes)
      out.push_back({.kind = kind, .rows = side_length(shape[0], own), .cols = side_length(shape[1], own), .use = use});
  };
  add(lora.kind->trained, StateKind::Adapter, WeightUse::LowRankA);
  add(lora.kind->buffers, StateKind::AdapterBuffer, WeightUse::None);
}

/// Adapters on the output of an MLP need one that ends in a linear, which a mixture of experts does not.
std::optional<InputError> refused_output(const AdapterKind& kind, const ModelWeights& weights, const Choice& choice) {
  for (const LayerKind& layer : weights.kinds) {
    if (layer.part != ModelPart::Language || layer.is_bridge || !layer.has_mlp) continue;
    if (std::ranges::none_of(layer.tensors, [&](const WeightTensor& t) { return choice.rank_of(t) > 0; }))
      return InputError(
          "--lora kind",
          fmt::format("{} are planned behind MLPs of one last linear, and a {} has none", kind.title, layer.name),
          "take --lora, or a model without experts");
  }
  return {};
}

/// Blocks must divide both the ranks and the side that they are of.
std::optional<InputError> refused_factor(const ModelWeights& weights, const Choice& choice) {
  std::string uneven;
  each_list(weights, [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& t : list) {
      const AdaptedLinear l = choice.adapted(t);
      const std::int64_t side = l.divides_input ? l.in : l.out;
      if (l.rank > 0 && (l.rank % l.factor != 0 || side % l.factor != 0))
        uneven = fmt::format("{} ranks and the {} {} of {}", l.rank, side, l.divides_input ? "inputs" : "outputs",
                             module_name(t.name));
    }
  });
  if (uneven.empty()) return {};
  return InputError("--lora factor", fmt::format("{} blocks do not divide {}", choice.adapted({}).factor, uneven),
                    "take a divisor of the ranks and of the widths");
}

/// Some kinds train more beside a bias than their rows say: gives the refusal of a linear with one.
std::optional<InputError> refused_biases(const AdapterKind& kind, const ModelWeights& weights, const Choice& choice) {
  std::string biased;
  each_list(weights, [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& t : list)
      if (choice.rank_of(t) > 0 && std::ranges::any_of(list, [&](const WeightTensor& other) {
            return other.name.ends_with(".bias") && t.name == other.name.substr(0, other.name.size() - 4) + "weight";
          }))
        biased = module_name(t.name);
  });
  if (biased.empty()) return {};
  return InputError("--lora kind",
                    fmt::format("{} is not modelled on linears with a bias, as {} is", kind.title, biased),
                    "name targets without one");
}

/// Gives what the kind of adapters does not go with: a quantised base, DoRA, a width that its blocks do not divide.
std::optional<InputError> refused_kind(const Recipe& recipe, const ModelWeights& weights, const Choice& choice) {
  const AdapterKind& kind = *recipe.lora.kind;
  if (!kind.is_lora() && recipe.lora.is_dora)
    return InputError("--lora dora", fmt::format("{} has no magnitudes of DoRA", kind.title), "leave one of them out");
  if (!kind.takes_quantised && recipe.quant.kind != BaseQuant::None)
    return InputError("--lora kind", fmt::format("{} takes no quantised base", kind.title), "leave the base in 16 bit");
  if (!kind.takes_dropout && recipe.lora.dropout > 0)
    return InputError("--lora dropout", fmt::format("{} drop nothing", kind.title), "leave it out");
  if (kind.is_on_output())
    if (auto wrong = refused_output(kind, weights, choice)) return wrong;
  if (kind.path == AdapterPath::BlockDiagonal)
    if (auto wrong = refused_factor(weights, choice)) return wrong;
  if (!kind.takes_biases)
    if (auto wrong = refused_biases(kind, weights, choice)) return wrong;
  if (kind.block == 0) return {};
  std::string uneven;
  each_list(weights, [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& t : list) {
      if (choice.rank_of(t) == 0) continue;
      const std::int64_t block = choice.adapted(t).block;
      if (block == 0)
        uneven = fmt::format("the {} inputs of {}", t.in, module_name(t.name));
      else if (kind.divides_outputs() && t.out % block != 0)
        uneven = fmt::format("the {} outputs of {}", t.out, module_name(t.name));
    }
  });
  if (uneven.empty()) return {};
  const std::int64_t block = recipe.lora.rotation_block > 0 ? recipe.lora.rotation_block : kind.block;
  return InputError("--lora rotation",
                    fmt::format("blocks of {} do not divide {}, and {} stops there", block, uneven, kind.title),
                    "take a divisor of all of them, or name other targets");
}

/// The output projection of a Mamba-2 mixer where it is no part of the kernel: a linear as others.
void make_outputs_linear(ModelWeights& weights) {
  for (LayerKind& kind : weights.kinds)
    for (WeightTensor& t : kind.tensors)
      if (has_mamba2(kind.mixer) && t.slot == LinearSlot::MixOut) t.role = WeightRole::Linear;
}

struct SlotRow {
  LinearSlot slot;
  const char* name;  // in reports
  Dim in, out;
  Cut cut = Cut::None;
};

// Which side of the layer each matmul is, for named dims.
// clang-format off
constexpr std::array kSlotRows{
    SlotRow{LinearSlot::Q, "q_proj", Dim::Hidden, Dim::QWidth, Cut::Column},            SlotRow{LinearSlot::K, "k_proj", Dim::Hidden, Dim::KvWidth, Cut::Column},
    SlotRow{LinearSlot::V, "v_proj", Dim::Hidden, Dim::KvWidth, Cut::Column},           SlotRow{LinearSlot::Qkv, "qkv_proj", Dim::Hidden, Dim::QWidth, Cut::Column},
    SlotRow{LinearSlot::O, "o_proj", Dim::QWidth, Dim::Hidden, Cut::Row},            SlotRow{LinearSlot::QDown, "q_a_proj", Dim::Hidden, Dim::Latent},
    SlotRow{LinearSlot::QUp, "q_b_proj", Dim::Latent, Dim::QWidth, Cut::Column},        SlotRow{LinearSlot::KvDown, "kv_a_proj", Dim::Hidden, Dim::Latent},
    SlotRow{LinearSlot::KvUp, "kv_b_proj", Dim::Latent, Dim::KvWidth, Cut::Column},     SlotRow{LinearSlot::PositionQ, "pos_query_proj", Dim::Hidden, Dim::QWidth},
    SlotRow{LinearSlot::PositionK, "pos_key_proj", Dim::Hidden, Dim::KvWidth}, SlotRow{LinearSlot::CrossQ, "cross q_proj", Dim::Hidden, Dim::QWidth},
    SlotRow{LinearSlot::CrossK, "cross k_proj", Dim::Hidden, Dim::KvWidth}, SlotRow{LinearSlot::CrossV, "cross v_proj", Dim::Hidden, Dim::KvWidth},
    SlotRow{LinearSlot::CrossO, "cross o_proj", Dim::QWidth, Dim::Hidden},
    SlotRow{LinearSlot::MixIn, "mixer in_proj", Dim::Hidden, Dim::QWidth, Cut::Column}, SlotRow{LinearSlot::MixGate, "mixer in_proj_z", Dim::Hidden, Dim::QWidth, Cut::Column},
    SlotRow{LinearSlot::MixBeta, "mixer in_proj_b", Dim::Hidden, Dim::QHeads, Cut::Column}, SlotRow{LinearSlot::MixDecay, "mixer in_proj_a", Dim::Hidden, Dim::QHeads, Cut::Column},
    SlotRow{LinearSlot::MixGateDown, "mixer g_a_proj", Dim::Hidden, Dim::Latent}, SlotRow{LinearSlot::MixDecayDown, "mixer f_a_proj", Dim::Hidden, Dim::Latent},
    SlotRow{LinearSlot::MixOut, "mixer out_proj", Dim::QWidth, Dim::Hidden, Cut::Row},
    SlotRow{LinearSlot::MergeUp, "projector in", Dim::Hidden, Dim::Ffn},   SlotRow{LinearSlot::MergeDown, "projector out", Dim::Ffn, Dim::Hidden},
    SlotRow{LinearSlot::LayerGate, "per_layer_input_gate", Dim::Hidden, Dim::Latent}, SlotRow{LinearSlot::LayerOut, "per_layer_projection", Dim::Latent, Dim::Hidden},
    SlotRow{LinearSlot::StreamRouter, "modality_router", Dim::Hidden, Dim::Latent}, SlotRow{LinearSlot::StreamPredict, "prediction_coefs", Dim::Latent, Dim::Latent},
    SlotRow{LinearSlot::StreamCorrect, "correction_coefs", Dim::Latent, Dim::Latent},
    SlotRow{LinearSlot::BranchDown, "linear_left", Dim::Hidden, Dim::Latent}, SlotRow{LinearSlot::BranchUp, "linear_right", Dim::Latent, Dim::Hidden},
    SlotRow{LinearSlot::Gate, "gate_proj", Dim::Hidden, Dim::Ffn, Cut::Column},
    SlotRow{LinearSlot::Up, "up_proj", Dim::Hidden, Dim::Ffn, Cut::Column},             SlotRow{LinearSlot::GateUp, "gate_up_proj", Dim::Hidden, Dim::Ffn, Cut::Column},
    SlotRow{LinearSlot::Down, "down_proj", Dim::Ffn, Dim::Hidden, Cut::Row},         SlotRow{LinearSlot::Router, "router", Dim::Hidden, Dim::Experts},
    SlotRow{LinearSlot::ExpertGate, "expert gate_proj", Dim::Hidden, Dim::Ffn}, SlotRow{LinearSlot::ExpertUp, "expert up_proj", Dim::Hidden, Dim::Ffn},
    SlotRow{LinearSlot::ExpertGateUp, "expert gate_up_proj", Dim::Hidden, Dim::Ffn}, SlotRow{LinearSlot::ExpertDown, "expert down_proj", Dim::Ffn, Dim::Hidden},
    SlotRow{LinearSlot::SharedGate, "shared gate_proj", Dim::Hidden, Dim::Ffn, Cut::Column}, SlotRow{LinearSlot::SharedUp, "shared up_proj", Dim::Hidden, Dim::Ffn, Cut::Column},
    SlotRow{LinearSlot::SharedGateUp, "shared gate_up_proj", Dim::Hidden, Dim::Ffn, Cut::Column},
    SlotRow{LinearSlot::SharedDown, "shared down_proj", Dim::Ffn, Dim::Hidden, Cut::Row}, SlotRow{LinearSlot::SharedSwitch, "shared switch", Dim::Hidden, Dim::Experts},
    SlotRow{LinearSlot::LatentIn, "fc1_latent_proj", Dim::Hidden, Dim::Latent}, SlotRow{LinearSlot::LatentOut, "fc2_latent_proj", Dim::Latent, Dim::Hidden}};
// clang-format on

const SlotRow& row_of(LinearSlot slot) {
  const auto row = std::ranges::find(kSlotRows, slot, &SlotRow::slot);
  GPUPLAN_CHECK(row != kSlotRows.end(), "a linear slot without a row");
  return *row;
}

std::uint8_t index_of(const std::vector<WeightTensor>& tensors, std::string_view name) {
  const auto at = std::find_if(tensors.begin(), tensors.end(), [&](const WeightTensor& t) { return t.name == name; });
  return at == tensors.end() ? std::uint8_t(0xff) : narrow<std::uint8_t>(at - tensors.begin());
}

void bind_norms(LayerLinears& out, const std::vector<WeightTensor>& tensors) {
  const auto put = [&](NormSlot slot, std::string_view name) {
    out.norms[std::size_t(slot)] = index_of(tensors, name);
  };
  put(NormSlot::Attention, "input_layernorm.weight");
  put(NormSlot::Mlp, "post_attention_layernorm.weight");
  put(NormSlot::Q, "self_attn.q_norm.weight");
  put(NormSlot::K, "self_attn.k_norm.weight");
}

/// "self_attn.q_proj.weight" -> "self_attn.q_proj.bias"
std::string bias_name(const std::string& weight) { return weight.substr(0, weight.rfind('.') + 1) + "bias"; }

LayerLinears bind_linears(const std::vector<WeightTensor>& tensors, const Choice& choice) {
  const Recipe& recipe = choice.recipe;
  LayerLinears out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const WeightTensor& t = tensors[i];
    if (t.slot == LinearSlot::None) continue;
    const SlotRow& row = row_of(t.slot);
    LinearRef& ref = out[t.slot];
    ref = {row.name, narrow<std::uint8_t>(i), index_of(tensors, bias_name(t.name)), t.in, t.out, row.in, row.out};
    ref.copies = t.role == WeightRole::Stacked && t.shape.size() == 3 ? t.shape[0] : t.copies;
    ref.is_trained = (!recipe.is_adapter() || is_whole(recipe, t)) && is_open(recipe, t);
    ref.is_quantised = recipe.is_adapter() && choice.quantises(t);
    ref.rank = choice.rank_of(t);
    ref.cut = cut_of(t);
    ref.is_adapted = ref.rank > 0;
    const AdaptedLinear adapted = choice.adapted(t);
    ref.block = adapted.block;
    ref.scales_input = adapted.scales_input;
    ref.merges_adapter = ref.is_adapted && (is_stacked_experts(t) || recipe.lora.kind->path == AdapterPath::OwnWeight);
    ref.product =
        recipe.is_adapter() && recipe.lora.linear_experts ? ExpertProduct::LoopAll : choice.framework.experts.product;
  }
  bind_norms(out, tensors);
  out.trains_norms = std::ranges::any_of(tensors, [&](const WeightTensor& t) {
    return (t.role == WeightRole::Norm || t.role == WeightRole::Recurrence) && is_open(recipe, t) &&
           (!recipe.is_adapter() || is_whole(recipe, t));
  });
  return out;
}

bool has_trained(const StateList& list) {
  return std::any_of(list.begin(), list.end(), [](const StateTensor& t) { return is_trained(t.kind) && !t.rests; });
}

/// The first unit that has a trained parameter, where only some parameters are trained.
std::int64_t find_first_trained(const TrainedModel& model) {
  const auto& order = model.weights.order;
  const auto is_projector = [&](std::uint8_t kind) { return model.weights.kinds[kind].part == ModelPart::Projector; };
  const bool begins_with_tower = std::ranges::any_of(order, is_projector);
  if (begins_with_tower ? model.trains_patches : model.trains_embedding) return 0;
  const auto first = std::ranges::find_if(order, [&](std::uint8_t kind) {
    return has_trained(model.layers[kind]) || (is_projector(kind) && model.trains_embedding);
  });
  return (first - order.begin()) + 1;
}

/// A frozen tower runs forward only, and so does a projector where neither it nor the embedding behind it is trained.
/// PEFT's preparation for checkpointing makes the embedding's output need a gradient, so all layers run backward.
std::int64_t find_first_backward(const TrainedModel& model, const Recipe& recipe) {
  if (recipe.pass != Pass::Train) return std::int64_t(model.weights.order.size()) + 2;  // none does
  const bool starts_at_embedding = recipe.is_adapter() && recipe.checkpointing != Checkpointing::None;
  if (!recipe.trained.empty() && !starts_at_embedding) return find_first_trained(model);
  if (!model.spec.vision.is_present() || trains_tower(recipe.images.train)) return 0;
  const auto bridge = std::find_if(model.weights.order.begin(), model.weights.order.end(), [&](std::uint8_t kind) {
    return model.weights.kinds[kind].part == ModelPart::Projector;
  });
  const bool is_trained = model.trains_embedding || has_trained(model.layers[*bridge]);
  return (bridge - model.weights.order.begin()) + (is_trained ? 1 : 2);
}

/// Names the trainers that quantise experts which are one parameter of this model, always or by an option.
std::string trainers_with_experts(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const FrameworkConvention& record : list_frameworks()) {
    const FrameworkQuantisation& q = resolve_framework(record.name, {}, spec.model_type).quantisation;
    if (q.offers_experts || q.stacked_experts) names.push_back(record.name);
  }
  return names.empty()
             ? "leave it out"
             : fmt::format("leave it out, or take a trainer that has one: --framework {}", fmt::join(names, ", "));
}

}  // namespace

Cut cut_of(const WeightTensor& tensor) {
  const bool is_whole = tensor.slot == LinearSlot::None || tensor.part != ModelPart::Language;
  return is_whole ? Cut::None : row_of(tensor.slot).cut;
}

std::variant<TrainedModel, InputError> try_prepare(const ModelSpec& spec, const Recipe& recipe,
                                                   const FrameworkConvention& framework) {
  TrainedModel model{
      .spec = spec, .global = global_of(spec), .tower = tower_of(spec.vision), .weights = list_weights(spec)};
  model.image = image_grid(spec.vision, recipe.images.width, recipe.images.height);
  if (framework.layers.mamba_output_apart) make_outputs_linear(model.weights);
  if (has_own_head(recipe)) replace_head(model.weights, spec, recipe, framework);
  model.parameters = model.weights.total_elements();
  const bool is_tied = spec.tie_word_embeddings && spec.head == HeadKind::LanguageModel && !has_own_head(recipe);
  // PEFT copies the module of a tied head too, where modules_to_save names it
  const bool saves_tied_head = is_tied && recipe.is_adapter() && saves_head(recipe.lora);
  model.has_tied_head = is_tied && !framework.layers.unties_head && !saves_tied_head;
  if (is_tied && !model.has_tied_head)
    model.weights.after.push_back({.name = "lm_head.weight",
                                   .shape = {spec.vocab_size, spec.embedding_width()},
                                   .role = WeightRole::Head,
                                   .in = spec.embedding_width(),
                                   .out = spec.vocab_size,
                                   .is_tied = saves_tied_head && !framework.layers.unties_head});
  if (fails_on_targets(recipe, framework.adapters))
    return InputError("--lora targets",
                      fmt::format("all-linear of models of type {} fails with {}", spec.model_type,
                                  deciding_versions(framework.versions, framework.name)),
                      fmt::format("name modules ({}), or take other versions (--versions)",
                                  fmt::join(linear_modules(model.weights), "+")));
  if (recipe.is_adapter()) {
    if (!framework.adapters.refuses.empty())
      if (auto wrong = refused_target(recipe, spec, model.weights, framework)) return *std::move(wrong);
    if (auto wrong = wrong_target(recipe, model.weights, framework.experts)) return *std::move(wrong);
    if (auto wrong = wrong_name(recipe.lora.modules_to_save, model.weights, false, "--lora modules_to_save"))
      return *std::move(wrong);
  }
  const bool has_linear_experts = recipe.is_adapter() && recipe.lora.linear_experts;
  if (has_linear_experts && !make_experts_linear(model.weights))
    return InputError("--lora linear-experts", fmt::format("{} has no stacked experts", spec.name), "leave it out");
  const bool has_own_experts = recipe.quant.quantises_experts && !framework.quantisation.offers_experts;
  if (has_own_experts && framework.experts.layout == ExpertLayout::Stacked)
    return InputError("--qlora experts",
                      fmt::format("{} has no option that quantises stacked experts", framework.title),
                      trainers_with_experts(spec));
  if (!spec.checkpoint.skips.empty() && !mark_unquantised(model.weights, spec.checkpoint))
    return InputError("--model", "more than 255 kinds of layers are quantised differently");
  if (!recipe.trained.empty())
    if (auto wrong = mark_frozen(model.weights, recipe.trained)) return *std::move(wrong);
  FrameworkExperts experts = framework.experts;
  if (has_linear_experts) experts.layout = ExpertLayout::Modules;
  lay_out_experts(model.weights, experts);
  const Choice choice{recipe, framework, AdapterRanks(recipe, framework.adapters, model.weights)};
  if (recipe.is_adapter() && choice.ranks.refuses_variant())
    return InputError(recipe.lora.is_dora ? "--lora dora" : "--lora dropout",
                      fmt::format("adapters of stacked experts (target_parameters) take none with {}",
                                  deciding_versions(framework.versions, framework.name)),
                      "leave it out, or name attention's modules as targets");
  if (recipe.is_adapter())
    if (auto wrong = refused_kind(recipe, model.weights, choice)) return *std::move(wrong);
  model.before = state_of(model.weights.before, choice);
  if (recipe.is_adapter()) {
    add_shared(model.before, model.weights, choice);
    add_prompt(model.before, spec, recipe.lora);
  }
  model.after = state_of(model.weights.after, choice);
  for (const LayerKind& kind : model.weights.kinds) {
    model.layers.push_back(state_of(kind.tensors, choice));
    model.linears.push_back(bind_linears(kind.tensors, choice));
  }

  const bool is_full = !recipe.is_adapter() && recipe.pass != Pass::Frozen;
  model.head = {"lm_head", 0xff, 0xff, spec.embedding_width(), spec.vocab_size, Dim::Hidden, Dim::Vocab, is_full};
  model.head.cut = Cut::Column;
  if (has_score_head(recipe))
    model.head.name = "score", model.head.out = num_labels(recipe);
  else if (has_own_head(recipe))
    model.head = {};
  if (spec.embedding_size > 0)
    model.head_input = {"project_out",       0xff,        0xff,        spec.hidden_size,
                        spec.embedding_size, Dim::Hidden, Dim::Latent, is_full};
  const auto trains = [&](const std::vector<WeightTensor>& list, WeightRole role) {
    return is_full && (recipe.trained.empty() || std::ranges::any_of(list, [&](const WeightTensor& t) {
                         return t.role == role && t.part == ModelPart::Language && !t.is_frozen;
                       }));
  };
  model.trains_norms = trains(model.weights.after, WeightRole::Norm);
  model.trains_embedding = trains(model.weights.before, WeightRole::Embedding);
  model.trains_head = model.has_tied_head ? model.trains_embedding : trains(model.weights.after, WeightRole::Head);
  model.head.is_trained = model.trains_head;
  if (recipe.is_adapter()) {
    for (const WeightTensor& t : model.weights.before)
      model.trains_embedding |= t.part == ModelPart::Language && is_saved_copy(recipe, t);
    for (const WeightTensor& t : model.weights.after) {
      if (t.role != WeightRole::Head) continue;
      model.trains_head |= is_saved_copy(recipe, t);
      model.head.rank = choice.rank_of(t);
      model.head.is_adapted = model.head.rank > 0;
      model.head.block = choice.adapted(t).block;
    }
    model.head.is_trained = model.trains_head;
  }
  model.trains_patches = std::ranges::any_of(model.weights.before, [&](const WeightTensor& t) {
    return t.part == ModelPart::Tower && is_open(recipe, t) && (is_full || is_whole(recipe, t));
  });
  model.first_backward = find_first_backward(model, recipe);
  model.trains_memory = spec.vision.is_attended ? recipe.images.train != TrainVision::No : model.first_backward == 0;
  model.each_state([&](const StateList& list, std::int64_t times) {
    for (const StateTensor& t : list)
      if (is_trained(t.kind) && !t.rests && recipe.pass == Pass::Train) model.trainable += t.elements() * times;
  });
  if (model.trainable == 0 && !recipe.trained.empty() && recipe.pass == Pass::Train)
    return InputError("--train-only",
                      fmt::format("{} leaves nothing to train{}", fmt::join(recipe.trained, "+"),
                                  is_full ? "" : ": no adapter is there"),
                      is_full ? "name layers or modules of the language model, or add --train-vision all"
                              : "name layers or modules that adapters are put on");
  return model;
}

TrainedModel prepare(const ModelSpec& spec, const Recipe& recipe, const FrameworkConvention& framework) {
  auto prepared = try_prepare(spec, recipe, framework);
  if (const auto* wrong = std::get_if<InputError>(&prepared)) throw *wrong;
  return std::get<TrainedModel>(std::move(prepared));
}

Bytes weight_bytes(const StateTensor& tensor, std::int64_t elements, const DtypePolicy& n, const QuantSpec& quant) {
  switch (tensor.kind) {
    case StateKind::Frozen: return bytes_of(elements, n.frozen);
    case StateKind::FrozenEnd: return bytes_of(elements, n.ends);
    case StateKind::Quantised:
      return quantised_bytes(elements, ceil_div(elements, std::max<std::int64_t>(tensor.cols, 1)), quant);
    case StateKind::Trained: return bytes_of(elements, n.weight);
    case StateKind::AdapterBuffer:
    case StateKind::Adapter: return bytes_of(elements, n.adapter);
    case StateKind::SavedCopy: return bytes_of(elements, n.saved);
  }
  return {};
}

}  // namespace gpuplan
