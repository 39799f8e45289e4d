#include "models/framework.h"

#include <algorithm>
#include <deque>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"

namespace gpuplan {

// Found by argument-dependent lookup, so they stand in the enums' namespace.
NLOHMANN_JSON_SERIALIZE_ENUM(AdapterDtype, {{AdapterDtype::Fp32, "fp32"}, {AdapterDtype::Compute, "compute"}})
NLOHMANN_JSON_SERIALIZE_ENUM(LayerKernels, {{LayerKernels::Plain, "plain"}, {LayerKernels::Fused, "fused"}})
NLOHMANN_JSON_SERIALIZE_ENUM(KeptLogits,
                             {{KeptLogits::None, "none"}, {KeptLogits::Compute, "compute"}, {KeptLogits::Fp32, "fp32"}})
NLOHMANN_JSON_SERIALIZE_ENUM(StateArrays, {{StateArrays::PerTensor, "per-tensor"}, {StateArrays::Flat, "flat"}})
NLOHMANN_JSON_SERIALIZE_ENUM(KernelTimes, {{KernelTimes::Modelled, "modelled"}, {KernelTimes::Measured, "measured"}})
NLOHMANN_JSON_SERIALIZE_ENUM(AllocatorKind, {{AllocatorKind::Caching, "caching"}, {AllocatorKind::Planned, "planned"}})
NLOHMANN_JSON_SERIALIZE_ENUM(HostStep, {{HostStep::Torch, "torch"}, {HostStep::Vectorised, "vectorised"}})
NLOHMANN_JSON_SERIALIZE_ENUM(SelectiveKind, {{SelectiveKind::Attention, "attention"}, {SelectiveKind::Ops, "ops"}})

namespace {

using nlohmann::json;

/// Reads fields by name and remembers which were asked for, so that a typing slip in a record is an error.
class RecordReader {
 public:
  RecordReader(const json& record, std::string where) : record_(record), where_(std::move(where)) {}

  template <class T>
  RecordReader& operator()(const char* key, T& field) {
    known_.emplace_back(key);
    const auto at = record_.find(key);
    if (at == record_.end()) return *this;
    try {
      field = at->get<T>();
    } catch (const json::exception& error) { throw InputError(fmt::format("{}: {}", where_, key), error.what()); }
    if (json(field) != *at)  // an enum text that is not in its table
      throw InputError(fmt::format("{}: {}", where_, key), fmt::format("{} is not a possible value", at->dump()));
    return *this;
  }

  template <class Read>
  RecordReader& nested(const char* key, Read read) {
    known_.emplace_back(key);
    if (const auto at = record_.find(key); at != record_.end())
      read(RecordReader(*at, fmt::format("{}: {}", where_, key)));
    return *this;
  }

  void finish() const {
    for (const auto& [key, value] : record_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        throw InputError(where_, fmt::format("unknown key '{}'", key), did_you_mean(key, known_));
  }

 private:
  const json& record_;
  std::string where_;
  std::vector<std::string> known_;
};

void read_engine(RecordReader read, EngineConvention& engine) {
  read("prefetch_units", engine.prefetch_units)("reduce_bucket", engine.reduce_bucket)(
      "num_reduce_buffers", engine.num_reduce_buffers)("max_live", engine.max_live)(
      "max_reuse_distance", engine.max_reuse_distance)("persistence_threshold", engine.persistence_threshold)(
      "keeps_root_gathered", engine.keeps_root_gathered)("syncs_last_only", engine.syncs_last_only)(
      "copies_out", engine.copies_out)("reduces_in_fp32", engine.reduces_in_fp32)(
      "messages_per_unit", engine.messages_per_unit)("hook_kernels", engine.hook_kernels)(
      "shards_rows", engine.shards_rows)("host_step", engine.host_step)
      .finish();
}

FrameworkConvention read_convention(const json& record, const std::string& where) {
  FrameworkConvention c;
  std::string chunked = std::string(to_string(c.chunked_softmax));
  RecordReader read(record, where);
  read("name", c.name)("title", c.title)("source", c.source)("aliases", c.aliases)(
      "mixed_loads_fp32", c.mixed_loads_fp32)("caches_autocast_weights", c.caches_autocast_weights)(
      "autocasts_inputs", c.autocasts_inputs)("adapter", c.adapter)("upcasts_quantised_ends", c.upcasts_quantised_ends)(
      "fused_fsdp_residual_fp32", c.fused_fsdp_residual_fp32)("has_own_models", c.has_own_models)(
      "casts_adapters", c.casts_adapters)("qlora_computes_in_fp32", c.qlora_computes_in_fp32)(
      "state_arrays", c.state_arrays)("allocator", c.allocator)("casts_whole_units", c.casts_whole_units)(
      "has_step_constants", c.has_step_constants)("batch_bytes_per_token", c.batch_bytes_per_token)(
      "measures_gradient_norm", c.measures_gradient_norm)("host_steps_copy", c.host_steps_copy)(
      "offloads_complete_gradients", c.offloads_complete_gradients)("kernel_times", c.kernel_times)(
      "learns_from_runs", c.learns_from_runs)("has_fixed_kernels", c.has_fixed_kernels)(
      "accumulates_in_place", c.accumulates_in_place)("overwrites_logits", c.overwrites_logits)("kernels", c.kernels)(
      "fuses_mlp", c.fuses_mlp)("repeats_kv", c.repeats_kv)("copies_attention_output", c.copies_attention_output)(
      "keeps_fused_qkv", c.keeps_fused_qkv)("unties_head", c.unties_head)(
      "low_rank_keeps_input", c.low_rank_keeps_input)("quantised_keeps_input", c.quantised_keeps_input)(
      "main_gradients_fp32", c.main_gradients_fp32)("converts_outputs", c.converts_outputs)(
      "keeps_last_graph", c.keeps_last_graph)("scales_norm_in_fp32", c.scales_norm_in_fp32)("selective", c.selective)(
      "upcasts_logits", c.upcasts_logits)("shifts_logits", c.shifts_logits)("kept_logits", c.kept_logits)(
      "kept_logits_mixed", c.kept_logits_mixed)("chunked_loss_recomputes", c.chunked_loss_recomputes)(
      "chunked_softmax", chunked)("ddp_bucket_bytes", c.ddp_bucket_bytes)(
      "ddp_copies_gradients", c.ddp_copies_gradients)("zero_has_master", c.zero_has_master)(
      "fsdp2_shards_quantised", c.fsdp2_shards_quantised)("default_optimizer", c.default_optimizer)("is_handwritten",
                                                                                                    c.is_handwritten)
      .nested("fsdp1", [&](RecordReader r) { read_engine(std::move(r), c.fsdp1); })
      .nested("fsdp2", [&](RecordReader r) { read_engine(std::move(r), c.fsdp2); })
      .nested("zero", [&](RecordReader r) { read_engine(std::move(r), c.zero); })
      .finish();
  c.chunked_softmax = parse_dtype(chunked, where + ": chunked_softmax");
  return c;
}

FrameworkConvention load(const std::filesystem::path& file) {
  try {
    return read_convention(json::parse(read_file(file)), file.string());
  } catch (const json::parse_error& error) { throw InputError(file.string(), error.what()); }
}

}  // namespace

const EngineConvention& engine_of(const FrameworkConvention& framework, ShardingEngine engine) {
  static const EngineConvention kLocal{.prefetch_units = 0};
  switch (engine) {
    case ShardingEngine::Fsdp1: return framework.fsdp1;
    case ShardingEngine::Fsdp2: return framework.fsdp2;
    case ShardingEngine::Zero: return framework.zero;
    case ShardingEngine::Local: break;
  }
  return kLocal;
}

std::vector<FrameworkConvention> list_frameworks() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data_dir() / "frameworks"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<FrameworkConvention> out;
  for (const auto& file : files) out.push_back(load(file));
  return out;
}

const FrameworkConvention& find_framework(const std::string& name) {
  static const std::vector<FrameworkConvention> all = list_frameworks();
  const std::string wanted = squash(name);
  std::vector<std::string> names;
  for (const FrameworkConvention& c : all) {
    names.push_back(c.name);
    if (squash(c.name) == wanted) return c;
    for (const std::string& alias : c.aliases)
      if (squash(alias) == wanted) return c;
  }
  throw InputError("--framework", fmt::format("unknown framework '{}'", name),
                   did_you_mean(name, names, fmt::format("known: {}", fmt::join(names, ", "))));
}

}  // namespace gpuplan
