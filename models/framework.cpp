#include "models/framework.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/packed_fields.h"
#include "base/surroundings.h"
#include "models/recipe_names.h"

namespace gpuplan {

// Found by argument-dependent lookup, so they stand in the enums' namespace.
static NameTable<AdapterDtype> names_of(AdapterDtype) {
  static constexpr std::array kNames{NameRow<AdapterDtype>{"fp32", AdapterDtype::Fp32},
                                     NameRow<AdapterDtype>{"compute", AdapterDtype::Compute}};
  return {"adapter dtype", kNames};
}
static NameTable<KeptLogits> names_of(KeptLogits) {
  static constexpr std::array kNames{NameRow<KeptLogits>{"none", KeptLogits::None},
                                     NameRow<KeptLogits>{"compute", KeptLogits::Compute},
                                     NameRow<KeptLogits>{"fp32", KeptLogits::Fp32}};
  return {"copy of the logits", kNames};
}
static NameTable<StateArrays> names_of(StateArrays) {
  static constexpr std::array kNames{NameRow<StateArrays>{"per-tensor", StateArrays::PerTensor},
                                     NameRow<StateArrays>{"flat", StateArrays::Flat}};
  return {"layout of the state", kNames};
}
static NameTable<KernelTimes> names_of(KernelTimes) {
  static constexpr std::array kNames{NameRow<KernelTimes>{"modelled", KernelTimes::Modelled},
                                     NameRow<KernelTimes>{"measured", KernelTimes::Measured}};
  return {"source of kernel times", kNames};
}
static NameTable<AllocatorKind> names_of(AllocatorKind) {
  static constexpr std::array kNames{NameRow<AllocatorKind>{"caching", AllocatorKind::Caching},
                                     NameRow<AllocatorKind>{"planned", AllocatorKind::Planned}};
  return {"allocator", kNames};
}
static NameTable<HostStep> names_of(HostStep) {
  static constexpr std::array kNames{NameRow<HostStep>{"torch", HostStep::Torch},
                                     NameRow<HostStep>{"vectorised", HostStep::Vectorised}};
  return {"optimizer on the host", kNames};
}
static NameTable<ShardedLoading> names_of(ShardedLoading) {
  static constexpr std::array kNames{NameRow<ShardedLoading>{"parts", ShardedLoading::Parts},
                                     NameRow<ShardedLoading>{"units", ShardedLoading::Units},
                                     NameRow<ShardedLoading>{"whole-first", ShardedLoading::WholeFirst},
                                     NameRow<ShardedLoading>{"whole-beside", ShardedLoading::WholeBeside}};
  return {"loading of sharded weights", kNames};
}
static NameTable<DoraBase> names_of(DoraBase) {
  static constexpr std::array kNames{NameRow<DoraBase>{"own", DoraBase::Own},
                                     NameRow<DoraBase>{"own-with-dropout", DoraBase::OwnWithDropout},
                                     NameRow<DoraBase>{"shared", DoraBase::Shared}};
  return {"base output of DoRA", kNames};
}
static NameTable<NewtonSchulz> names_of(NewtonSchulz) {
  static constexpr std::array kNames{NameRow<NewtonSchulz>{"standard", NewtonSchulz::Standard},
                                     NameRow<NewtonSchulz>{"gram", NewtonSchulz::Gram}};
  return {"Newton-Schulz iteration", kNames};
}
static NameTable<SelectiveKind> names_of(SelectiveKind) {
  static constexpr std::array kNames{NameRow<SelectiveKind>{"attention", SelectiveKind::Attention},
                                     NameRow<SelectiveKind>{"ops", SelectiveKind::Ops}};
  return {"selective checkpointing", kNames};
}
static NameTable<RecomputedOps> names_of(RecomputedOps) {
  static constexpr std::array kNames{NameRow<RecomputedOps>{"read", RecomputedOps::Read},
                                     NameRow<RecomputedOps>{"until-last-saved", RecomputedOps::UntilLastSaved},
                                     NameRow<RecomputedOps>{"all", RecomputedOps::All}};
  return {"ops that a checkpointed layer runs again", kNames};
}

static NameTable<ExpertLayout> names_of(ExpertLayout) {
  static constexpr std::array kNames{NameRow<ExpertLayout>{"stored", ExpertLayout::Stored},
                                     NameRow<ExpertLayout>{"modules", ExpertLayout::Modules},
                                     NameRow<ExpertLayout>{"stacked", ExpertLayout::Stacked}};
  return {"layout of the experts", kNames};
}
static NameTable<ExpertProduct> names_of(ExpertProduct) {
  static constexpr std::array kNames{NameRow<ExpertProduct>{"loop", ExpertProduct::Loop},
                                     NameRow<ExpertProduct>{"loop-all", ExpertProduct::LoopAll},
                                     NameRow<ExpertProduct>{"grouped", ExpertProduct::Grouped},
                                     NameRow<ExpertProduct>{"batched", ExpertProduct::Batched}};
  return {"product of the experts", kNames};
}
static NameTable<RouterWeight> names_of(RouterWeight) {
  static constexpr std::array kNames{NameRow<RouterWeight>{"stored", RouterWeight::Stored},
                                     NameRow<RouterWeight>{"linear", RouterWeight::Linear},
                                     NameRow<RouterWeight>{"parameter", RouterWeight::Parameter},
                                     NameRow<RouterWeight>{"linear-subclass", RouterWeight::LinearSubclass}};
  return {"weight of the router", kNames};
}
static NameTable<LogProbs> names_of(LogProbs) {
  static constexpr std::array kNames{NameRow<LogProbs>{"rows", LogProbs::Rows},
                                     NameRow<LogProbs>{"full", LogProbs::Full},
                                     NameRow<LogProbs>{"kernel", LogProbs::Kernel}};
  return {"path of log-probs", kNames};
}
static NameTable<ExpertReach> names_of(ExpertReach) {
  static constexpr std::array kNames{NameRow<ExpertReach>{"linear", ExpertReach::Linear},
                                     NameRow<ExpertReach>{"target-parameters", ExpertReach::TargetParameters},
                                     NameRow<ExpertReach>{"error", ExpertReach::Error}};
  return {"reach of adapters", kNames};
}
static NameTable<SequenceSplit> names_of(SequenceSplit) {
  static constexpr std::array kNames{NameRow<SequenceSplit>{"no", SequenceSplit::No},
                                     NameRow<SequenceSplit>{"optional", SequenceSplit::Optional},
                                     NameRow<SequenceSplit>{"always", SequenceSplit::Always}};
  return {"split of the sequence", kNames};
}
static NameTable<AdapterSplit> names_of(AdapterSplit) {
  static constexpr std::array kNames{NameRow<AdapterSplit>{"none", AdapterSplit::None},
                                     NameRow<AdapterSplit>{"replicated", AdapterSplit::Replicated},
                                     NameRow<AdapterSplit>{"gathered", AdapterSplit::Gathered}};
  return {"split of adapters", kNames};
}

namespace {

void read_engine(Fields& f, EngineConvention& engine) {
  f.optional("prefetch_units", engine.prefetch_units);
  f.optional("reduce_bucket", engine.buckets.size, IntRange{.least = -1});
  f.optional("reduce_bucket_stage3", engine.buckets_stage3.size, IntRange{.least = -1});
  f.optional("overlap_comm", engine.buckets.overlap_comm);
  f.optional("overlap_comm_stage3", engine.buckets_stage3.overlap_comm);
  f.optional("max_live", engine.max_live);
  f.optional("max_reuse_distance", engine.max_reuse_distance);
  f.optional("prefetch_bucket", engine.prefetch_bucket, IntRange{.least = -1});
  f.optional("persistence_threshold", engine.persistence_threshold, IntRange{.least = -1});
  f.optional("keeps_root_gathered", engine.keeps_root_gathered);
  f.optional("syncs_last_only", engine.syncs_last_only);
  f.optional("copies_out", engine.copies_out);
  f.optional("reduces_in_fp32", engine.reduces_in_fp32);
  f.optional("sub_group_size", engine.sub_group_size, IntRange{.least = -1});
  f.optional("hook_kernels", engine.hook_kernels);
  f.optional("leaf_gather_kernels", engine.leaf_gather_kernels);
  f.optional("leaf_reduce_kernels", engine.leaf_reduce_kernels);
  f.optional("leaf_slice_kernels", engine.leaf_slice_kernels);
  f.optional("bucket_kernels", engine.bucket_kernels);
  f.optional("gathers_parameters", engine.gathers_parameters);
  f.optional("leaf_experts", engine.leaf_experts);
  f.optional("wraps_adapters", engine.wraps_adapters);
  f.optional("waits_for_prefetch", engine.waits_for_prefetch);
  f.optional("copies_in_line", engine.copies_in_line);
  f.optional("gathers_fp8", engine.gathers_fp8);
  f.optional("copies_fp8", engine.copies_fp8);
  f.optional("newton_schulz", engine.newton_schulz);
  f.optional("loading", engine.loading);
  f.optional("shards_rows", engine.shards_rows);
  f.optional("host_step", engine.host_step);
  f.optional("host_gradients_in_fp32", engine.host_gradients_in_fp32);
  f.optional("host_gradient_temporary", engine.host_gradient_temporary, IntRange{.least = 1, .most = 64});
  f.optional("all_reduces_buckets", engine.all_reduces_buckets);
  f.optional("reduces_in_place", engine.reduces_in_place);
  f.optional("gathers_at_use", engine.gathers_at_use);
  f.optional("broadcasts_parts", engine.broadcasts_parts);
  f.optional("has_offload_buffer", engine.has_offload_buffer);
}

void read_defaults(Fields& f, FrameworkDefaults& defaults) {
  f.optional("checkpointing", defaults.checkpointing);
  f.optional("quantised_checkpointing", defaults.quantised_checkpointing);
  f.optional("precision", defaults.precision);
  f.optional("attention", defaults.attention);
  f.optional("hopper_attention", defaults.hopper_attention);
  f.optional("loss", defaults.loss);
  f.optional("packing", defaults.packing);
  f.optional("train_vision", defaults.train_vision);
  f.optional("micro_batch", defaults.micro_batch, IntRange{.least = 1});
  f.optional("offload_activations", defaults.offload_activations);
  f("source", defaults.source);
}

void read_preference(Fields& f, FrameworkPreference& preference) {
  f.optional("log_probs", preference.log_probs);
  f.optional("upcasts_logits", preference.upcasts_logits);
  f.optional("copies_logits", preference.copies_logits);
  f.optional("keeps_output", preference.keeps_output);
  f.optional("keeps_completions", preference.keeps_completions);
  f.optional("keeps_vocabulary_head", preference.keeps_vocabulary_head);
  f.optional("reference_needs_gradient", preference.reference_needs_gradient);
  f.optional("reference_before_training", preference.reference_before_training);
  f.optional("reference_in_16bit", preference.reference_in_16bit);
  f.optional("policy_pass_in_graph", preference.policy_pass_in_graph);
  f.optional("precomputes_reference", preference.precomputes_reference);
  f.optional("copies_by_label", preference.copies_by_label);
  f.optional("reference_copies_by_label", preference.reference_copies_by_label);
  f.optional("fused_methods", preference.fused_methods);
  f.optional("packs_answers", preference.packs_answers);
  f.optional("compares_topk", preference.compares_topk);
  f.optional("divergence_rows", preference.divergence_rows);
  f.optional("unpairs", preference.unpairs);
  f.optional("loads_fp32", preference.loads_fp32);
  f.optional("methods", preference.methods);
}

void read_choices(Fields& f, FrameworkChoices& choices) {
  f.optional("loss", choices.loss);
  f.optional("fused_loss_brings_kernels", choices.fused_loss_brings_kernels);
  f.optional("optimizers", choices.optimizers);
  f.optional("shards_8bit_optimizers", choices.shards_8bit_optimizers);
  f.optional("optimizer_in_backward", choices.optimizer_in_backward);
  f.optional("offload_activations", choices.offload_activations);
  f.optional("attention", choices.attention);
  f("source", choices.source);
}

void read_experts(Fields& f, FrameworkExperts& experts) {
  f.optional("layout", experts.layout);
  f.optional("product", experts.product);
  f.optional("router", experts.router);
  f.optional("weighs_inside", experts.weighs_inside);
  f.optional("weighs_bias", experts.weighs_bias);
  f.optional("has_capacity", experts.has_capacity);
}

void read_quantisation(Fields& f, FrameworkQuantisation& quantisation) {
  f.optional("stacked_experts", quantisation.stacked_experts);
  f.optional("offers_experts", quantisation.offers_experts);
  f.optional("subclasses", quantisation.subclasses);
  f.optional("linears", quantisation.linears);
  f.optional("skips", quantisation.skips);
}

void read_adapters(Fields& f, FrameworkAdapters& adapters) {
  f.optional("all_linear", adapters.all_linear);
  f.optional("named", adapters.named);
  f.optional("all_linear_is_names", adapters.all_linear_is_names);
  f.optional("gate_up_rank", adapters.gate_up_rank, IntRange{.least = 1});
  f.optional("drops_linears", adapters.drops_linears);
  f.optional("parameters_are_plain", adapters.parameters_are_plain);
  f.optional_object("dora", [&](Fields& own) {
    own.optional("multiplies_identity", adapters.dora.multiplies_identity);
    own.optional("converts_weight", adapters.dora.converts_weight);
    own.optional("casts_product", adapters.dora.casts_product);
    own.optional("base", adapters.dora.base);
  });
  f.optional("refuses", adapters.refuses);
}

void read_tensor_parallel(Fields& f, FrameworkTensorParallel& split) {
  f.optional("strategies", split.strategies);
  f.optional("sequence", split.sequence);
  f.optional("replicates_kv_heads", split.replicates_kv_heads);
  f.optional("gathers_again", split.gathers_again);
  f.optional("vocab_multiple", split.vocab_multiple, IntRange{.least = 1});
  f.optional("adapters", split.adapters);
  f.optional("quantised", split.quantised);
  f.optional("latent", split.latent);
  f.optional("towers", split.towers);
  f.optional("layers", split.layers);
  f.optional("whole_layers", split.whole_layers);
  f.optional("overlaps", split.overlaps);
  f.optional("overlaps_columns", split.overlaps_columns);
  f.optional("offers_overlap", split.offers_overlap);
  f.optional("overlap_needs_compile", split.overlap_needs_compile);
  f.optional("sums_each_column", split.sums_each_column);
}

void read_context_parallel(Fields& f, FrameworkContextParallel& split) {
  f.optional("strategies", split.strategies);
  f.optional("exchanges", split.exchanges);
  f.optional("attention", split.attention);
  f.optional("layers", split.layers);
  f.optional("adapters", split.adapters);
  f.optional("quantised", split.quantised);
  f.optional("accumulates_fp32", split.accumulates_fp32);
  f.optional("shards_apart", split.shards_apart);
  f.optional("keeps_parts", split.keeps_parts);
  f.optional("rings_gradients", split.rings_gradients);
  f.optional("merge_kernels", split.merge_kernels, IntRange{.least = 1});
}

void read_expert_parallel(Fields& f, FrameworkExpertParallel& split) {
  f("strategies", split.strategies);
  f.optional("adapters", split.adapters);
  f.optional("quantised", split.quantised);
  f.optional("beside_tensor", split.beside_tensor);
  f.optional("cuts_experts", split.cuts_experts);
  f.optional("gathers_tokens", split.gathers_tokens);
  f.optional("cuts_beside_tensor", split.cuts_beside_tensor);
  f.optional("dispatchers", split.dispatchers);
}

void read_convention(Fields& f, FrameworkConvention& c) {
  f("name", c.name);
  f.optional("title", c.title);
  f.optional("source", c.source);
  f.optional("aliases", c.aliases);
  f.optional("mixed_loads_fp32", c.dtypes.mixed_loads_fp32);
  f.optional("frozen_in_16bit", c.dtypes.frozen_in_16bit);
  f.optional("caches_autocast_weights", c.dtypes.caches_autocast_weights);
  f.optional("autocasts_inputs", c.dtypes.autocasts_inputs);
  f.optional("adapter", c.dtypes.adapter);
  f.optional("adapter_of_quantised_base", c.dtypes.adapter_of_quantised_base);
  f.optional_object("quantised_upcast", [&](Fields& own) {
    own.optional("norms", c.dtypes.quantised_upcast.norms);
    own.optional("embeddings", c.dtypes.quantised_upcast.embeddings);
    own.optional("blocks", c.dtypes.quantised_upcast.blocks);
    own.optional("takes_back", c.dtypes.quantised_upcast.takes_back);
    own.optional("beside_packed_experts", c.dtypes.quantised_upcast.beside_packed_experts);
  });
  f.optional("checkpoints_reentrantly", c.layers.checkpoints_reentrantly);
  f.optional("recomputes", c.layers.recomputes);
  f.optional("has_own_models", c.layers.has_own_models);
  f.optional("mamba_output_apart", c.layers.mamba_output_apart);
  f.optional("casts_adapters", c.dtypes.casts_adapters);
  f.optional("qlora_computes_in_fp32", c.dtypes.qlora_computes_in_fp32);
  f.optional("state_arrays", c.state.arrays);
  f.optional("allocator", c.state.allocator);
  f.optional("casts_whole_units", c.state.casts_whole_units);
  f.optional("has_step_constants", c.state.has_step_constants);
  f.optional("batch_bytes_per_token", c.state.batch_bytes_per_token);
  f.optional("measures_gradient_norm", c.state.measures_gradient_norm);
  f.optional("host_steps_copy", c.state.host_steps_copy);
  f.optional("offloads_complete_gradients", c.state.offloads_complete_gradients);
  f.optional("kernel_times", c.layers.kernel_times);
  f.optional("has_fixed_kernels", c.layers.has_fixed_kernels);
  f.optional("accumulates_in_place", c.layers.accumulates_in_place);
  f.optional("accumulates_in_product", c.layers.accumulates_in_product);
  f.optional("overwrites_logits", c.loss.overwrites_logits);
  f.optional("kernels", c.layers.kernels);
  f.optional("fuses_mlp", c.layers.fuses_mlp);
  f.optional("repeats_kv", c.layers.repeats_kv);
  f.optional("copies_attention_output", c.layers.copies_attention_output);
  f.optional("copies_flash_output", c.layers.copies_flash_output);
  f.optional("fused_softmax_keys", c.layers.fused_softmax_keys, IntRange{.least = 0});
  f.optional("keeps_fused_qkv", c.layers.keeps_fused_qkv);
  f.optional("unties_head", c.layers.unties_head);
  f.optional("low_rank_keeps_input", c.layers.low_rank_keeps_input);
  f.optional("quantised_keeps_input", c.layers.quantised_keeps_input);
  f.optional("mp_is_one_process", c.distributed.mp_is_one_process);
  f.optional("one_host_thread", c.distributed.one_host_thread);
  f.optional("visits_with_message", c.distributed.visits_with_message);
  f.optional("strategies", c.distributed.strategies);
  f.optional("main_gradients_fp32", c.dtypes.main_gradients_fp32);
  f.optional("converts_outputs", c.loss.converts_outputs);
  f.optional("keeps_last_graph", c.layers.keeps_last_graph);
  f.optional("scales_norm_in_fp32", c.layers.scales_norm_in_fp32);
  f.optional("fuses_dropout", c.layers.fuses_dropout);
  f.optional("casts_norm_inputs", c.layers.casts_norm_inputs);
  f.optional("recomputes_norms", c.layers.recomputes_norms);
  f.optional("selective", c.layers.selective);
  f.optional("upcasts_logits", c.loss.upcasts_logits);
  f.optional("shifts_logits", c.loss.shifts_logits);
  f.optional("fused_loss_evaluates", c.loss.fused_evaluates);
  f.optional("kept_logits", c.loss.kept_logits);
  f.optional("kept_logits_mixed", c.loss.kept_logits_mixed);
  f.optional("adds_exponentials", c.loss.adds_exponentials);
  f.optional("chunked_loss_recomputes", c.loss.chunked_loss_recomputes);
  f.optional("chunked_softmax", c.loss.chunked_softmax);
  f.optional("ddp_bucket_bytes", c.distributed.ddp_bucket_bytes);
  f.optional("reduces_at_end", c.distributed.reduces_at_end);
  if (c.distributed.reduces_at_end) c.distributed.ddp_bucket_bytes = std::int64_t(1) << 60;  // larger than any model
  f.optional("ddp_copies_gradients", c.distributed.ddp_copies_gradients);
  f.optional("zero_has_master", c.dtypes.zero_has_master);
  f.optional("own_quantised_shards", c.distributed.own_quantised_shards);
  f.optional("fsdp2_shards_4bit", c.distributed.fsdp2_shards_4bit);
  f.optional("fsdp2_shards_8bit", c.distributed.fsdp2_shards_8bit);
  f.optional("own_fsdp_version", c.distributed.own_fsdp_version);
  f.optional("own_fsdp_wraps", c.distributed.own_fsdp_wraps);
  f.optional("default_optimizer", c.default_optimizer);
  f.object("defaults", [&](Fields& defaults) { read_defaults(defaults, c.defaults); });
  f.optional_object("choices", [&](Fields& choices) { read_choices(choices, c.choices); });
  f.optional("computes_in_fp16", c.dtypes.computes_in_fp16);
  f.optional("is_handwritten", c.layers.is_handwritten);
  f.optional_object("preference", [&](Fields& own) { read_preference(own, c.preference); });
  f.optional_object("experts", [&](Fields& own) { read_experts(own, c.experts); });
  f.optional_object("quantise", [&](Fields& own) { read_quantisation(own, c.quantisation); });
  f.optional_object("tensor_parallel", [&](Fields& own) { read_tensor_parallel(own, c.tensor_parallel); });
  f.optional_object("context_parallel", [&](Fields& own) { read_context_parallel(own, c.context_parallel); });
  f.optional_object("expert_parallel", [&](Fields& own) { read_expert_parallel(own, c.expert_parallel); });
  f.optional_object("pipeline", [&](Fields& own) {
    own.optional("strategies", c.pipeline.strategies);
    own.optional("schedules", c.pipeline.schedules);
    own.optional("counts_ends", c.pipeline.counts_ends);
    own.optional("keeps_gathered", c.pipeline.keeps_gathered);
    own.optional("holds_received", c.pipeline.holds_received);
    own.optional("holds_outputs", c.pipeline.holds_outputs);
    own.optional("holds_input_gradients", c.pipeline.holds_input_gradients);
    own.optional("sends_parts", c.pipeline.sends_parts);
    own.optional("merges_outputs", c.pipeline.merges_outputs);
  });
  f.optional_object("adapters", [&](Fields& own) { read_adapters(own, c.adapters); });
  for (const EngineTraits& traits : kEngines)
    if (!traits.key.empty())
      f.optional_object(traits.key, [&](Fields& engine) { read_engine(engine, c.*traits.convention); });
}

}  // namespace

FrameworkConvention read_framework(const nlohmann::json& record, const std::string& where) {
  Fields fields(record, where);
  FrameworkConvention convention;
  read_convention(fields, convention);
  fields.refuse_unknown();
  fields.finish();
  return convention;
}

namespace {

struct Record {
  std::string where, name;  // the rest is read when it is asked for
  std::vector<std::string> spellings;
};

/// The records, and what was made of them so far.
struct Records {
  std::vector<Record> all;
  mutable std::mutex mutex;
  mutable std::map<std::array<std::string, 3>, const FrameworkConvention*> asked;  // by record, question and family
  mutable std::map<std::array<std::string, 3>, std::unique_ptr<const FrameworkConvention>> resolved;  // by versions
};

std::unique_ptr<Records> read_records() {
  auto records = std::make_unique<Records>();
  for (const auto& file : files_in(data_dir() / "frameworks", ".json")) {
    records->all.push_back(read_shipped(file, [&](auto& fields) {
      Record record{.where = file.string()};
      fields("name", record.name);
      fields.optional("aliases", record.spellings);
      record.spellings.push_back(record.name);
      return record;
    }));
  }
  return records;
}

const Records& all_records() { return *read_once<read_records>(); }

const Record* find_record(std::string_view name) {
  for (const Record& r : all_records().all)  // a search asks for each of its plans, by a name it found
    if (r.name == name) return &r;
  const std::string wanted = squash(name);
  for (const Record& r : all_records().all)
    if (std::ranges::any_of(r.spellings, [&](const std::string& spelling) { return squash(spelling) == wanted; }))
      return &r;
  return nullptr;
}

FrameworkConvention with_facts(const Record& record, const StackVersions& versions, std::string_view family) {
  nlohmann::json content = read_json_file(record.where);
  const std::vector<const StackFact*> facts = facts_for(versions, record.name);
  content.merge_patch(record_facts(facts, family));
  FrameworkConvention out = read_framework(content, record.where);
  out.layers.has_delta_kernels = !fact(facts, "kernels.delta_net", family);
  out.versions = versions;
  out.family = family;
  return out;
}

const FrameworkConvention& resolved(const Record& record, const StackQuestion& stack, std::string_view family) {
  const Records& records = all_records();
  const std::lock_guard lock(records.mutex);
  const FrameworkConvention*& asked =
      records.asked[{record.name, versions_text(stack.given) + '@' + stack.date, std::string(family)}];
  if (asked) return *asked;
  const StackVersions versions = stack_versions(stack.given, record.name, stack.date);
  auto& found = records.resolved[{record.name, versions_text(versions), std::string(family)}];
  if (!found) found = std::make_unique<const FrameworkConvention>(with_facts(record, versions, family));
  asked = found.get();
  return *asked;
}

[[noreturn]] void refuse_unknown(std::string_view name) {
  std::vector<std::string> names;
  for (const Record& r : all_records().all) names.push_back(r.name);
  throw InputError("--framework", fmt::format("unknown framework '{}'", name),
                   did_you_mean(name, names, fmt::format("known: {}", fmt::join(names, ", "))));
}

}  // namespace

std::vector<FrameworkConvention> list_frameworks() {
  std::vector<FrameworkConvention> out;
  for (const Record& record : all_records().all) out.push_back(resolved(record, {}, {}));
  return out;
}

const FrameworkConvention* known_framework(std::string_view name) {
  const Record* const record = find_record(name);
  return record ? &resolved(*record, {}, {}) : nullptr;
}

const FrameworkConvention& resolve_framework(std::string_view name, const StackQuestion& stack,
                                             std::string_view family) {
  const Record* const record = find_record(name);
  if (!record) refuse_unknown(name);
  return resolved(*record, stack, family);
}

const FrameworkConvention& find_framework(std::string_view name) { return resolve_framework(name, {}); }

const FrameworkConvention& row_named(std::string_view name, std::type_identity<FrameworkConvention>) {
  return find_framework(name.empty() ? kUsualFramework : name);
}

}  // namespace gpuplan
