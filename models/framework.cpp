#include "models/framework.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
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
static NameTable<SelectiveKind> names_of(SelectiveKind) {
  static constexpr std::array kNames{NameRow<SelectiveKind>{"attention", SelectiveKind::Attention},
                                     NameRow<SelectiveKind>{"ops", SelectiveKind::Ops}};
  return {"selective checkpointing", kNames};
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
  f.optional("persistence_threshold", engine.persistence_threshold, IntRange{.least = -1});
  f.optional("keeps_root_gathered", engine.keeps_root_gathered);
  f.optional("syncs_last_only", engine.syncs_last_only);
  f.optional("copies_out", engine.copies_out);
  f.optional("reduces_in_fp32", engine.reduces_in_fp32);
  f.optional("sub_group_size", engine.sub_group_size, IntRange{.least = -1});
  f.optional("hook_kernels", engine.hook_kernels);
  f.optional("gathers_parameters", engine.gathers_parameters);
  f.optional("leaf_experts", engine.leaf_experts);
  f.optional("wraps_adapters", engine.wraps_adapters);
  f.optional("waits_for_prefetch", engine.waits_for_prefetch);
  f.optional("copies_in_line", engine.copies_in_line);
  f.optional("gathers_fp8", engine.gathers_fp8);
  f.optional("copies_fp8", engine.copies_fp8);
  f.optional("shards_rows", engine.shards_rows);
  f.optional("host_step", engine.host_step);
  f.optional("host_gradients_in_fp32", engine.host_gradients_in_fp32);
  f.optional("all_reduces_buckets", engine.all_reduces_buckets);
  f.optional("has_offload_buffer", engine.has_offload_buffer);
}

void read_defaults(Fields& f, FrameworkDefaults& defaults) {
  f.optional("checkpointing", defaults.checkpointing);
  f.optional("quantised_checkpointing", defaults.quantised_checkpointing);
  f.optional("precision", defaults.precision);
  f.optional("attention", defaults.attention);
  f.optional("loss", defaults.loss);
  f.optional("packing", defaults.packing);
  f.optional("train_vision", defaults.train_vision);
  f.optional("micro_batch", defaults.micro_batch, IntRange{.least = 1});
  f("source", defaults.source);
}

void read_convention(Fields& f, FrameworkConvention& c) {
  f("name", c.name);
  f.optional("title", c.title);
  f.optional("source", c.source);
  f.optional("aliases", c.aliases);
  f.optional("mixed_loads_fp32", c.dtypes.mixed_loads_fp32);
  f.optional("caches_autocast_weights", c.dtypes.caches_autocast_weights);
  f.optional("autocasts_inputs", c.dtypes.autocasts_inputs);
  f.optional("adapter", c.dtypes.adapter);
  f.optional("upcasts_quantised_ends", c.dtypes.upcasts_quantised_ends);
  f.optional("checkpoints_reentrantly", c.layers.checkpoints_reentrantly);
  f.optional("has_own_models", c.layers.has_own_models);
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
  f.optional("overwrites_logits", c.loss.overwrites_logits);
  f.optional("kernels", c.layers.kernels);
  f.optional("fuses_mlp", c.layers.fuses_mlp);
  f.optional("repeats_kv", c.layers.repeats_kv);
  f.optional("copies_attention_output", c.layers.copies_attention_output);
  f.optional("keeps_fused_qkv", c.layers.keeps_fused_qkv);
  f.optional("unties_head", c.layers.unties_head);
  f.optional("low_rank_keeps_input", c.layers.low_rank_keeps_input);
  f.optional("quantised_keeps_input", c.layers.quantised_keeps_input);
  f.optional("mp_is_one_process", c.distributed.mp_is_one_process);
  f.optional("main_gradients_fp32", c.dtypes.main_gradients_fp32);
  f.optional("converts_outputs", c.loss.converts_outputs);
  f.optional("keeps_last_graph", c.layers.keeps_last_graph);
  f.optional("scales_norm_in_fp32", c.layers.scales_norm_in_fp32);
  f.optional("selective", c.layers.selective);
  f.optional("upcasts_logits", c.loss.upcasts_logits);
  f.optional("shifts_logits", c.loss.shifts_logits);
  f.optional("kept_logits", c.loss.kept_logits);
  f.optional("kept_logits_mixed", c.loss.kept_logits_mixed);
  f.optional("chunked_loss_recomputes", c.loss.chunked_loss_recomputes);
  f.optional("chunked_softmax", c.loss.chunked_softmax);
  f.optional("ddp_bucket_bytes", c.distributed.ddp_bucket_bytes);
  f.optional("ddp_copies_gradients", c.distributed.ddp_copies_gradients);
  f.optional("zero_has_master", c.dtypes.zero_has_master);
  f.optional("fsdp2_shards_quantised", c.distributed.fsdp2_shards_quantised);
  f.optional("default_optimizer", c.default_optimizer);
  f.object("defaults", [&](Fields& defaults) { read_defaults(defaults, c.defaults); });
  f.optional("computes_in_fp16", c.dtypes.computes_in_fp16);
  f.optional("is_handwritten", c.layers.is_handwritten);
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

std::vector<FrameworkConvention> list_frameworks() {
  std::vector<FrameworkConvention> out;
  for (const auto& file : files_in(data_dir() / "frameworks", ".json"))
    out.push_back(read_framework(read_json_file(file), file.string()));
  return out;
}

namespace {

const std::vector<FrameworkConvention>& all_frameworks() { return read_once<list_frameworks>(); }

}  // namespace

const FrameworkConvention* known_framework(std::string_view name) {
  for (const FrameworkConvention& c : all_frameworks())  // a search asks for each of its plans, by a name it found
    if (c.name == name) return &c;
  const std::string wanted = squash(name);
  const auto means = [&](const std::string& spelling) { return squash(spelling) == wanted; };
  for (const FrameworkConvention& c : all_frameworks())
    if (means(c.name) || std::any_of(c.aliases.begin(), c.aliases.end(), means)) return &c;
  return nullptr;
}

const FrameworkConvention& find_framework(std::string_view name) {
  if (const FrameworkConvention* known = known_framework(name)) return *known;
  std::vector<std::string> names;
  for (const FrameworkConvention& c : all_frameworks()) names.push_back(c.name);
  throw InputError("--framework", fmt::format("unknown framework '{}'", name),
                   did_you_mean(name, names, fmt::format("known: {}", fmt::join(names, ", "))));
}

const FrameworkConvention& row_named(std::string_view name, std::type_identity<FrameworkConvention>) {
  return find_framework(name.empty() ? kUsualFramework : name);
}

}  // namespace gpuplan
