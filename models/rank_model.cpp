#include "models/rank_model.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "models/adapter_kind.h"
#include "models/ledger.h"
#include "models/recipe_names.h"
#include "models/token_dispatcher.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

using Counts = std::vector<std::pair<std::int64_t*, const char*>>;

/// A kind of layers that a trainer may or may not share, as its record calls it (FrameworkTensorParallel::layers), and
/// what of it ranks divide.
struct SharedLayerRow {
  const char *name, *title;
  bool (*is_mixed_by)(const ModelSpec&, Mixer);  // nullptr: full attention with heads of its own
  Counts (*counts)(ModelSpec&);
};

/// A head of Mamba-2 takes the B and C of its group along, so that groups are divided too.
Counts mamba2_counts(ModelSpec& m) {
  return {{&m.mamba2.num_heads, "heads of Mamba-2"}, {&m.mamba2.num_groups, "groups of B and C in Mamba-2"}};
}
Counts delta_counts(ModelSpec& m) {
  return {{&m.delta_net.num_key_heads, "key heads of the delta net"},
          {&m.delta_net.num_value_heads, "value heads of the delta net"}};
}
Counts no_counts(ModelSpec&) { return {}; }

template <Mixer kMixer>
bool is_mixer(const ModelSpec&, Mixer mixer) {
  return mixer == kMixer;
}
bool is_plain_delta(const ModelSpec& m, Mixer mixer) { return has_delta_net(mixer) && m.delta_net.gate_rank == 0; }
bool is_kimi_delta(const ModelSpec& m, Mixer mixer) { return has_delta_net(mixer) && m.delta_net.gate_rank > 0; }

// Sources: NVIDIA/Megatron-LM megatron/core/ssm/mamba_mixer.py @d98e8a64 (in_proj is a column of z, x, B, C and time
// steps, each by heads or groups; conv1d by its channels; A, D and dt_bias by heads; the norm by groups; out_proj a
// row), megatron/core/ssm/gated_delta_net/common.py @d98e8a64 (the same; the norm of a head is whole on every rank).
constexpr std::array kSharedLayers{
    SharedLayerRow{"mamba-2", "Mamba-2", is_mixer<Mixer::Mamba2>, mamba2_counts},
    SharedLayerRow{"attention-and-mamba-2", "attention beside Mamba-2", is_mixer<Mixer::AttentionAndMamba2>,
                   mamba2_counts},
    SharedLayerRow{"delta-net", "gated delta nets", is_plain_delta, delta_counts},
    SharedLayerRow{"kimi-delta", "Kimi delta attention", is_kimi_delta, no_counts},
    SharedLayerRow{"mamba-1", "the first Mamba", is_mixer<Mixer::Mamba1>, no_counts},
    SharedLayerRow{"short-convolution", "short convolutions", is_mixer<Mixer::ShortConvolution>, no_counts},
    SharedLayerRow{"global-heads", "full attention whose heads are not those of the windowed layers", nullptr,
                   no_counts}};

bool has_layer(const ModelSpec& m, const SharedLayerRow& row) {
  if (!row.is_mixed_by) return m.global.is_present();
  return std::ranges::any_of(m.mixers, [&](Mixer mixer) { return row.is_mixed_by(m, mixer); });
}

bool is_listed(const std::vector<std::string>& names, const SharedLayerRow& row) {
  return std::ranges::find(names, row.name) != names.end();
}

/// Says whether every rank has the mixer of these layers whole.
bool is_whole(const ModelSpec& m, const LayerKind& kind, const FrameworkTensorParallel& trainer) {
  return std::ranges::any_of(kSharedLayers, [&](const SharedLayerRow& row) {
    return row.is_mixed_by && is_listed(trainer.whole_layers, row) && row.is_mixed_by(m, kind.mixer);
  });
}

/// A kind of layers of which the record says nothing, or nullptr.
const SharedLayerRow* unknown_layer(const ModelSpec& m, const std::vector<std::string>& known,
                                    const std::vector<std::string>& whole = {}) {
  const auto row = std::ranges::find_if(kSharedLayers, [&](const SharedLayerRow& r) {
    return has_layer(m, r) && !is_listed(known, r) && !is_listed(whole, r);
  });
  return row == kSharedLayers.end() ? nullptr : &*row;
}

std::string no_layer(std::string_view axis, const SharedLayerRow& row, const ModelSpec& m,
                     const FrameworkConvention& framework) {
  return fmt::format("{} has no {} of {} ({}) that is planned", framework.name, axis, row.title, m.name);
}

/// The architecture of one rank's part. Rows of the embedding are padded so that every rank has as many.
ModelSpec part_of(const ModelSpec& whole, std::int64_t ways, const FrameworkTensorParallel& trainer) {
  ModelSpec part = whole;
  part.num_attention_heads /= ways;
  for (std::int64_t* kv : {&part.num_key_value_heads, &part.global.num_key_value_heads})
    *kv = std::max<std::int64_t>(std::min<std::int64_t>(*kv, 1), *kv / ways);
  for (const SharedLayerRow& row : kSharedLayers)
    if (has_layer(whole, row) && !is_listed(trainer.whole_layers, row))
      for (const auto& [count, title] : row.counts(part)) *count /= ways;
  part.intermediate_size /= ways;
  part.moe.shared_intermediate_size /= ways;
  part.vocab_size = ceil_div(ceil_div(whole.vocab_size, ways), trainer.vocab_multiple) * trainer.vocab_multiple;
  return part;
}

bool is_of_mixer(const WeightTensor& t) { return t.slot >= LinearSlot::MixIn && t.slot <= LinearSlot::MixOut; }

/// The same with the width of each routed expert divided, where several ranks share it.
ModelSpec with_cut_experts(ModelSpec spec, std::int64_t cut) {
  spec.moe.intermediate_size /= cut;
  return spec;
}

/// Routed weights that such a width does not divide, as a bias behind the last product is not: a family whose experts
/// are not listed by it.
std::string wrong_expert(const ModelSpec& spec, std::int64_t cut) {
  const ModelWeights whole = list_weights(spec), part = list_weights(with_cut_experts(spec, cut));
  for (std::size_t k = 0; k < whole.kinds.size(); ++k)
    for (std::size_t i = 0; i < whole.kinds[k].tensors.size(); ++i) {
      const WeightTensor &all = whole.kinds[k].tensors[i], &own = part.kinds[k].tensors[i];
      const bool is_cut = all.is_routed && all.role != WeightRole::Bias;
      const bool may_be_cut = all.is_routed && all.role == WeightRole::Bias;
      const bool is_right =
          own.elements() * cut == all.elements() ? all.is_routed : !is_cut && own.elements() == all.elements();
      if (!is_right && !may_be_cut) return all.name;
    }
  return {};
}

/// Linears whose shape in `part` is not what their slot says: a family whose weights are not counted by heads.
std::string wrong_cut(const ModelSpec& m, const ModelWeights& whole, const ModelWeights& part, std::int64_t ways,
                      const FrameworkTensorParallel& trainer) {
  for (std::size_t k = 0; k < whole.kinds.size(); ++k)
    for (std::size_t i = 0; i < whole.kinds[k].tensors.size(); ++i) {
      const WeightTensor &all = whole.kinds[k].tensors[i], &own = part.kinds[k].tensors[i];
      if (all.role != WeightRole::Linear) continue;
      const Cut cut = is_of_mixer(all) && is_whole(m, whole.kinds[k], trainer) ? Cut::None : cut_of(all);
      const bool is_cut_in = own.in * ways == all.in;
      const bool is_one_head =
          own.out == all.out &&
          (all.out == m.head_dim || all.out == m.global.head_dim);  // of keys or values, which all have
      const bool is_cut_out = (own.out < all.out || is_one_head) && own.out * ways >= all.out;
      const bool is_right = cut == Cut::Column ? is_cut_out && own.in == all.in
                            : cut == Cut::Row  ? is_cut_in && own.out == all.out
                                               : own.in == all.in && own.out == all.out;
      if (!is_right) return all.name;
    }
  return {};
}

/// Parts of a model whose split is not modelled, or not possible.
std::string why_not_cut(const ModelSpec& m, const FrameworkConvention& framework, std::int64_t ways) {
  const FrameworkTensorParallel& trainer = framework.tensor_parallel;
  const auto no = [&](std::string_view what) { return fmt::format("tp of {} is not planned yet", what); };
  if (const SharedLayerRow* row = unknown_layer(m, trainer.layers, trainer.whole_layers))
    return no_layer("tp", *row, m, framework);
  if (m.latent.is_present() && !trainer.latent) return no("latent attention");
  if (m.vision.is_present() && !trainer.towers) return no("vision towers");
  if (m.vision.is_attended) return no("layers that attend to images");
  if (m.num_encoder_layers > 0) return no("encoders with decoders");
  if (m.altup.is_present() || m.layer_embedding.width > 0) return no("layers with embeddings of their own");
  if (m.head != HeadKind::LanguageModel) return no("models without a head");
  if (m.qk_norm == QkNorm::Full) return no("norms over all heads at once");
  if (m.num_attention_heads % ways != 0)
    return fmt::format("tp {} does not divide {} attention heads", ways, m.num_attention_heads);
  if (m.intermediate_size % ways != 0)
    return fmt::format("tp {} does not divide the MLP's width of {}", ways, m.intermediate_size);
  if (m.moe.shared_intermediate_size % ways != 0)
    return fmt::format("tp {} does not divide the shared expert's width of {}", ways, m.moe.shared_intermediate_size);
  ModelSpec counted = m;
  for (const SharedLayerRow& row : kSharedLayers)
    if (has_layer(m, row) && !is_listed(trainer.whole_layers, row))
      for (const auto& [count, title] : row.counts(counted))
        if (*count % ways != 0) return fmt::format("tp {} does not divide {} {}", ways, *count, title);
  for (const std::int64_t kv : {m.num_key_value_heads, m.global.num_key_value_heads}) {
    if (kv % ways == 0 || m.latent.is_present()) continue;
    if (ways % kv != 0) return fmt::format("tp {} and {} KV heads do not divide each other", ways, kv);
    if (!trainer.replicates_kv_heads)
      return fmt::format("{} does not share KV heads: tp {} is more than the {} there are", framework.name, ways, kv);
  }
  return {};
}

/// Gives what a rank holds whole and sums with the others: norms where each has a part of the tokens, norms of queries
/// and keys, of which each has its heads, biases behind a sum, and adapters' factors on the side that is not cut.
bool is_partial(const StateTensor& state, const WeightTensor& tensor, const WeightTensor& whole,
                const LayerSplit& split, const FrameworkTensorParallel& trainer) {
  if (!is_trained(state.kind) || tensor.is_routed) return false;
  if (tensor.part != ModelPart::Language) return false;  // each has all of the images
  const Cut cut = cut_of(tensor);
  // a router sees a rank's own tokens, and so does a product that makes latents
  const bool is_product = tensor.role == WeightRole::Linear || tensor.role == WeightRole::Stacked;
  if (is_product && cut == Cut::None && split.splits_sequence) return true;
  if (state.kind == StateKind::Adapter) {
    const bool is_whole = cut == Cut::Column ? state.use == WeightUse::LowRankA
                          : cut == Cut::Row  ? state.use == WeightUse::LowRankB
                                             : true;
    return is_whole && trainer.adapters == AdapterSplit::Replicated;
  }
  if (tensor.elements() != whole.elements()) return false;  // each has its heads' part
  const bool is_of_heads = tensor.name.starts_with("self_attn.") || tensor.name.starts_with("linear_attn.");
  if (tensor.role == WeightRole::Norm) return split.splits_sequence || is_of_heads;
  const bool is_added_to_sum = tensor.role == WeightRole::Bias || tensor.role == WeightRole::Position;
  return is_added_to_sum && split.splits_sequence;
}

void mark_partial(StateList& states, const std::vector<WeightTensor>& tensors, const std::vector<WeightTensor>& whole,
                  const LayerSplit& split, const FrameworkTensorParallel& trainer) {
  for (StateTensor& state : states)
    state.is_partial = is_partial(state, tensors[state.tensor], whole[state.tensor], split, trainer);
}

/// Leaves a rank one in `ways` of the routed experts.
void cut_experts(TrainedModel& part, std::int64_t ways) {
  for (std::size_t k = 0; k < part.layers.size(); ++k) {
    std::vector<WeightTensor>& tensors = part.weights.kinds[k].tensors;
    for (WeightTensor& t : tensors)
      if (t.is_routed) (t.copies > 1 ? t.copies : t.shape[0]) /= ways;
    for (StateTensor& state : part.layers[k]) {
      state.is_routed = tensors[state.tensor].is_routed;
      if (state.is_routed) (state.copies > 1 ? state.copies : state.rows) /= ways;
    }
    for (LinearRef& l : part.linears[k].by_slot)
      if (l.exists() && l.weight < tensors.size() && tensors[l.weight].is_routed) l.copies /= ways;
  }
}

/// The shared expert sees all tokens where the routed ones do, and is summed with them.
void join_shared_expert(TrainedModel& part) {
  for (LayerLinears& linears : part.linears)
    for (const LinearSlot slot :
         {LinearSlot::SharedGate, LinearSlot::SharedUp, LinearSlot::SharedGateUp, LinearSlot::SharedDown})
      linears[slot].cut = Cut::None;
}

/// A mixer that every rank has whole sees all tokens on each, so that nothing of it is exchanged.
void keep_mixer_whole(StateList& states, const std::vector<WeightTensor>& tensors, LayerLinears& linears) {
  const auto module = [](const WeightTensor& t) { return std::string_view(t.name).substr(0, t.name.find('.')); };
  const LinearRef& first = linears[LinearSlot::MixIn];
  for (StateTensor& state : states)
    if (module(tensors[state.tensor]) == module(tensors[first.weight])) state.is_partial = false;
  for (const WeightTensor& t : tensors)
    if (is_of_mixer(t)) linears[t.slot].cut = Cut::None;
}

/// Both factors of a gathered adapter are cut: A of a column along the rank, B of a row along the outputs.
void cut_adapters(StateList& states, const std::vector<WeightTensor>& tensors, std::int64_t ways,
                  bool has_whole_mixer) {
  for (StateTensor& state : states) {
    if (state.kind != StateKind::Adapter) continue;
    if (has_whole_mixer && is_of_mixer(tensors[state.tensor])) continue;
    const Cut cut = cut_of(tensors[state.tensor]);
    if ((cut == Cut::Column && state.use == WeightUse::LowRankA) ||
        (cut == Cut::Row && state.use == WeightUse::LowRankB))
      state.rows = ceil_div(state.rows, ways);
  }
}

}  // namespace

/// Ranks that share layers have a part of each expert, and work on the tokens of all.
static bool gathers_for_experts(const FrameworkConvention& framework, const Mesh& mesh) {
  return framework.expert_parallel.gathers_tokens && mesh.ways(Axis::Tp) > 1 && mesh.ways(Axis::Ep) == 1 &&
         mesh.ways(Axis::Etp) == mesh.ways(Axis::Tp);
}

bool is_shared_layer(std::string_view name) {
  return std::ranges::any_of(kSharedLayers, [&](const SharedLayerRow& row) { return row.name == name; });
}

std::string why_not_shared(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework,
                           std::string_view strategy, const Mesh& mesh) {
  const FrameworkTensorParallel& trainer = framework.tensor_parallel;
  const std::int64_t ways = mesh.ways(Axis::Tp);
  if (ways == 1) return {};
  if (trainer.strategies.empty()) return fmt::format("{} has no tensor parallelism that is planned", framework.name);
  if (std::ranges::find(trainer.strategies, strategy) == trainer.strategies.end())
    return fmt::format("{} has tp with {}", framework.name, fmt::join(trainer.strategies, ", "));
  if (mesh.splits_sequence() && trainer.sequence == SequenceSplit::No)
    return fmt::format("{} has no --sp that is planned", framework.name);
  if (!mesh.splits_sequence() && trainer.sequence == SequenceSplit::Always)
    return fmt::format("{} divides the sequence wherever it has tp: add --sp", framework.name);
  if (mesh.splits_sequence() && recipe.seq_len % ways != 0)
    return fmt::format("--sp: tp {} does not divide the sequence of {}", ways, recipe.seq_len);
  if (recipe.is_adapter() && trainer.adapters == AdapterSplit::None)
    return fmt::format("{} has no adapters of split linears", framework.name);
  if (recipe.is_adapter() && (recipe.lora.is_dora || !recipe.lora.modules_to_save.empty()))
    return "tp with DoRA or modules_to_save is not planned yet";
  if (recipe.is_adapter() && !recipe.lora.kind->is_lora())
    return fmt::format("tp with {} is not planned yet", recipe.lora.kind->title);
  if (recipe.quant.kind != BaseQuant::None && !trainer.quantised)
    return fmt::format("{} cannot split a quantised base", framework.name);
  if (recipe.qat != Qat::None) return "tp with fake quantisers is not planned yet";
  if (model.moe.is_present()) {
    const bool gathers = gathers_for_experts(framework, mesh);
    if (!framework.expert_parallel.beside_tensor && !gathers)
      return fmt::format("{} has no tp {} that is planned", framework.name,
                         mesh.ways(Axis::Ep) > 1 ? "beside ep" : "of mixtures of experts");
    if (!mesh.shares_experts())
      return fmt::format(
          "{} has every expert whole on each of the ranks that share layers, which is not planned: "
          "add --ep or --etp",
          framework.name);
    if (!mesh.splits_sequence() && !gathers)
      return "tp of a mixture of experts needs --sp: ranks send each other their own tokens";
  }
  if (std::string why = why_not_cut(model, framework, ways); !why.empty()) return why;
  const std::string wrong =
      wrong_cut(model, list_weights(model), list_weights(part_of(model, ways, trainer)), ways, trainer);
  return wrong.empty() ? "" : fmt::format("tp: {} of {} is not listed by heads", wrong, model.model_type);
}

/// A recurrence reads its tokens in order: ranks that share a sequence have all of it, and a part of the heads that
/// tensor parallelism leaves. B and C of a group are copied where there are fewer groups than ranks.
static std::string why_not_in_order(const ModelSpec& model, const FrameworkConvention& framework, const Mesh& mesh) {
  if (!model.is_hybrid()) return {};
  const std::vector<std::string>& known = framework.context_parallel.layers;
  if (const SharedLayerRow* row = unknown_layer(model, known)) return no_layer("cp", *row, model, framework);
  const std::int64_t ways = mesh.ways(Axis::Cp);
  ModelSpec own = model;
  for (const SharedLayerRow& row : kSharedLayers) {
    if (!has_layer(model, row)) continue;
    for (const auto& [count, title] : row.counts(own)) {
      const std::int64_t left = *count / mesh.ways(Axis::Tp);
      const bool is_copied = count == &own.mamba2.num_groups && left > 0 && ways % left == 0;
      if (left % ways != 0 && !is_copied)
        return fmt::format("cp {} does not divide the {} {} of a rank", ways, left, title);
    }
  }
  return {};
}

std::string why_not_in_context(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework,
                               std::string_view strategy, const Mesh& mesh) {
  const FrameworkContextParallel& trainer = framework.context_parallel;
  const std::int64_t ways = mesh.ways(Axis::Cp);
  const auto no = [](std::string_view what) { return fmt::format("cp of {} is not planned yet", what); };
  const std::string exchange(names_of(ContextExchange{}).name_of(mesh.context_exchange()));
  if (ways == 1) return {};
  if (trainer.strategies.empty()) return fmt::format("{} has no context parallelism that is planned", framework.name);
  if (std::ranges::find(trainer.strategies, strategy) == trainer.strategies.end())
    return fmt::format("{} has cp with {}", framework.name, fmt::join(trainer.strategies, ", "));
  if (std::ranges::find(trainer.exchanges, exchange) == trainer.exchanges.end())
    return fmt::format("{} exchanges keys and values by {}", framework.name, fmt::join(trainer.exchanges, " or "));
  if (!trainer.shards_apart && mesh.shard_ways() > 1 && mesh.shard_ways() % ways != 0)
    return fmt::format("cp {} does not divide the shard groups of {} ranks, over which states are sharded too", ways,
                       mesh.shard_ways());
  if (mesh.shard_ways() * mesh.copies() % ways != 0)
    return fmt::format("{} has no data parallel ranks that could share sequences", strategy);
  if (recipe.is_adapter() && !trainer.adapters) return fmt::format("{} has no adapters beside cp", framework.name);
  if (recipe.quant.kind != BaseQuant::None && !trainer.quantised)
    return fmt::format("{} has no quantised base beside cp", framework.name);
  const std::string kernel(names_of(AttentionKernel{}).name_of(attention_kernel_used(model, recipe, framework)));
  if (std::ranges::find(trainer.attention, kernel) == trainer.attention.end())
    return fmt::format("cp needs --attention {}: parts of {} attention are not merged",
                       fmt::join(trainer.attention, " or "), kernel);
  if (has_own_head(recipe)) return no("heads of a few numbers");
  if (model.head != HeadKind::LanguageModel) return no("models without a head");
  if (std::string why = why_not_in_order(model, framework, mesh); !why.empty()) return why;
  if (model.vision.is_present()) return no("vision towers");
  if (model.num_encoder_layers > 0) return no("encoders with decoders");
  if (model.altup.is_present()) return no("several streams");
  if (recipe.attention_groups > 1) return no("attention within groups");
  if (mesh.context_exchange() == ContextExchange::Heads) {
    const std::int64_t heads = model.num_attention_heads / mesh.ways(Axis::Tp);
    if (model.latent.is_present()) return no("latent attention by heads");
    if (heads % ways != 0) return fmt::format("cp {} does not divide {} attention heads", ways, heads);
    const std::int64_t kv = std::max<std::int64_t>(1, model.num_key_value_heads / mesh.ways(Axis::Tp));
    if (kv % ways != 0 && ways % kv != 0)
      return fmt::format("cp {} and {} KV heads do not divide each other", ways, kv);
    return recipe.seq_len % ways == 0 ? ""
                                      : fmt::format("cp {} does not divide the sequence of {}", ways, recipe.seq_len);
  }
  // two stretches of each rank, of the front and of the back, so that all have as many keys to see
  if (recipe.seq_len % (2 * ways) != 0)
    return fmt::format("cp {}: {} does not divide the sequence of {}", ways, 2 * ways, recipe.seq_len);
  return {};
}

namespace {

/// Says why tokens cannot go to experts so.
std::string why_not_routed(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework,
                           std::int64_t ways) {
  const Routing& routing = recipe.routing;
  const TokenDispatcher& dispatcher = *routing.dispatcher;
  if (routing.capacity && !framework.experts.has_capacity)
    return fmt::format("{} drops no tokens: experts have no capacity", framework.name);
  if (&dispatcher != &token_dispatchers().front()) {
    if (!std::ranges::count(framework.expert_parallel.dispatchers, dispatcher.name))
      return fmt::format("{} has no {}", framework.name, dispatcher.title);
    if (ways == 1) return fmt::format("{} is for ranks that share the experts: add --ep", dispatcher.title);
    if (routing.pads_to_capacity) return fmt::format("{} does not pad the input of experts", dispatcher.title);
  }
  if (!model.moe.is_present() || model.moe.num_experts % ways != 0) return {};  // why_not_by_experts says so
  if (ways == 1 && routing.imbalance > 1) return "--expert-imbalance is of ranks that share the experts: add --ep";
  // a token goes to an expert once, so that a rank gets it as often as it has experts at most
  const double most = double(ways) * double(std::min(model.moe.experts_per_token, model.moe.num_experts / ways)) /
                      double(model.moe.experts_per_token);
  if (routing.imbalance > most)
    return fmt::format("--expert-imbalance {:g}: of {} ranks none can get more than {:g} times the mean",
                       routing.imbalance, ways, most);
  return {};
}

/// Adapters reach linears of routed experts.
bool adapts_experts(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework) {
  const TrainedModel whole = prepare(model, recipe, framework);
  for (std::size_t k = 0; k < whole.linears.size(); ++k)
    for (const LinearRef& l : whole.linears[k].by_slot) {
      const std::vector<WeightTensor>& tensors = whole.weights.kinds[k].tensors;
      if (l.exists() && l.is_adapted && l.weight < tensors.size() && tensors[l.weight].is_routed) return true;
    }
  return false;
}

/// Says why ranks cannot share each expert.
std::string why_not_cut_experts(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework,
                                const Mesh& mesh) {
  const std::int64_t cut = mesh.ways(Axis::Etp);
  if (!framework.expert_parallel.cuts_experts && !gathers_for_experts(framework, mesh))
    return fmt::format("{} has no etp that is planned", framework.name);
  if (model.moe.intermediate_size % cut != 0)
    return fmt::format("etp {} does not divide the experts' width of {}", cut, model.moe.intermediate_size);
  if (recipe.is_adapter() && adapts_experts(model, recipe, framework))
    return "etp with adapters of experts is not planned yet";
  if (recipe.routing.dispatcher->sends_once)
    return fmt::format("etp with {} is not planned yet", recipe.routing.dispatcher->title);
  const std::string wrong = wrong_expert(model, cut);
  return wrong.empty() ? "" : fmt::format("etp: {} of {} is not listed by width", wrong, model.model_type);
}

}  // namespace

std::string why_not_by_experts(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework,
                               std::string_view strategy, const Mesh& mesh) {
  const FrameworkExpertParallel& trainer = framework.expert_parallel;
  const std::int64_t ways = mesh.ways(Axis::Ep), cut = mesh.ways(Axis::Etp), experts = model.moe.num_experts;
  if (std::string why = why_not_routed(model, recipe, framework, ways); !why.empty()) return why;
  if (!mesh.shares_experts()) return {};
  if (trainer.strategies.empty()) return fmt::format("{} has no expert parallelism that is planned", framework.name);
  if (std::ranges::find(trainer.strategies, strategy) == trainer.strategies.end())
    return fmt::format("{} has ep with {}", framework.name, fmt::join(trainer.strategies, ", "));
  if (!model.moe.is_present()) return fmt::format("ep: {} has no experts", model.name);
  if (mesh.ranks_of_experts() % (ways * cut) != 0)
    return fmt::format("ep {}{} does not divide the {} ranks that could share experts", ways,
                       cut > 1 ? fmt::format(" x etp {}", cut) : "", mesh.ranks_of_experts());
  if (experts % ways != 0) return fmt::format("ep {} does not divide the {} experts", ways, experts);
  if (recipe.is_adapter() && !trainer.adapters) return fmt::format("{} has no adapters beside ep", framework.name);
  if (recipe.is_adapter() && (recipe.lora.is_dora || !recipe.lora.kind->is_lora()))
    return "ep with adapters but LoRA is not planned yet";
  if (recipe.quant.kind != BaseQuant::None && !trainer.quantised)
    return fmt::format("{} has no quantised base beside ep", framework.name);
  if (model.moe.computes_all) return "ep of experts that run on every token is not planned yet";
  return cut > 1 ? why_not_cut_experts(model, recipe, framework, mesh) : "";
}

TrainedModel rank_model(const TrainedModel& whole, const Recipe& recipe, const FrameworkConvention& framework,
                        const Mesh& mesh) {
  const FrameworkTensorParallel& trainer = framework.tensor_parallel;
  const std::int64_t ways = mesh.ways(Axis::Tp);
  const std::int64_t cut = mesh.ways(Axis::Etp);
  const ModelSpec spec = with_cut_experts(ways == 1 ? whole.spec : part_of(whole.spec, ways, trainer), cut);
  TrainedModel part = ways * cut == 1 ? whole : prepare(spec, recipe, framework);
  part.parameters = whole.parameters;
  part.trainable = whole.trainable;
  part.split = {.ways = ways,
                .splits_sequence = mesh.splits_sequence(),
                .context_ways = mesh.ways(Axis::Cp),
                .context_exchange = mesh.context_exchange(),
                .expert_ways = mesh.ways(Axis::Ep),
                .expert_cut = cut,
                .expert_machines = mesh.expert_machines(),
                .experts_see_all = gathers_for_experts(framework, mesh)};
  if (mesh.shares_experts()) cut_experts(part, part.split.expert_ways);
  if (part.split.experts_see_all) join_shared_expert(part);
  if (ways == 1) return part;
  const auto finish = [&](StateList& states, const std::vector<WeightTensor>& tensors,
                          const std::vector<WeightTensor>& all, bool has_whole_mixer = false) {
    mark_partial(states, tensors, all, part.split, trainer);
    if (trainer.adapters == AdapterSplit::Gathered) cut_adapters(states, tensors, ways, has_whole_mixer);
  };
  finish(part.before, part.weights.before, whole.weights.before);
  for (std::size_t k = 0; k < part.layers.size(); ++k) {
    const LayerKind& kind = part.weights.kinds[k];
    const bool has_whole_mixer = is_whole(whole.spec, kind, trainer);
    finish(part.layers[k], kind.tensors, whole.weights.kinds[k].tensors, has_whole_mixer);
    if (has_whole_mixer) keep_mixer_whole(part.layers[k], kind.tensors, part.linears[k]);
  }
  finish(part.after, part.weights.after, whole.weights.after);
  return part;
}

}  // namespace gpuplan
