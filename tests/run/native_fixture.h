// Plans for our own executor, made without the command line: a model whose sizes divide by nothing, on CPU ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "models/framework.h"
#include "planner/plan_builder.h"
#include "run/native_job.h"

namespace gpuplan::test {

/// h = 36, 6 heads of 6, 2 key/value heads, f = 50, V = 101: most of a unit's arrays do not divide by 2 or 4.
inline ModelSpec odd_llama(std::int64_t layers = 3) {
  ModelSpec m = tiny_llama(layers);
  m.hidden_size = 36, m.num_attention_heads = 6, m.num_key_value_heads = 2, m.head_dim = 6;
  m.intermediate_size = 50, m.vocab_size = 101;
  return m;
}

/// One that ranks can share: 8 heads of 6 behind products of their own width, 4 key/value heads, f = 52, V = 104.
inline ModelSpec even_llama(std::int64_t layers) {
  ModelSpec m = odd_llama(layers);
  m.num_attention_heads = 8, m.num_key_value_heads = 4;
  m.intermediate_size = 52, m.vocab_size = 104;
  return m;
}

/// What a test varies; the rest is the same for all.
struct NativeCase {
  std::string strategy = "single";
  Method method = Method::Full;
  std::int64_t ranks = 1;
  std::int64_t micro_batch = 1, grad_accum = 1, seq_len = 16;
  Checkpointing checkpointing = Checkpointing::None;
  Precision precision = Precision::Fp32;
  std::string optimizer = "adamw-fused";
  std::int64_t lora_rank = 3;  // like the widths, divides by nothing
  ModelSpec model = odd_llama();
  Offload offload{};
  bool double_quant = true;  // of NF4
  std::int64_t pp = 1, virtual_stages = 1, tp = 1;
  bool splits_sequence = false;
  std::optional<Schedule> schedule{};
  std::string trained_for = "sft";  // a row of data/methods.yaml

  std::string name() const {
    constexpr std::array kMethods{"full", "lora", "qlora"};
    return trained_for + ", " + strategy + " of " + std::to_string(ranks) + ", " + kMethods[std::size_t(method)] +
           ", accumulation " + std::to_string(grad_accum) + ", checkpointing " + std::to_string(int(checkpointing)) +
           ", precision " + std::to_string(int(precision)) + ", " + optimizer +
           (tp > 1 ? ", tp " + std::to_string(tp) + (splits_sequence ? " along the sequence" : "") : "") +
           (pp > 1 ? ", pp " + std::to_string(pp) + " of " + std::to_string(virtual_stages) + " chunks" : "") +
           (offload.params != OffloadTarget::None ? ", offloads all"
            : offload.any()                       ? ", offloads"
                                                  : "");
  }
};

inline Recipe recipe_of(const NativeCase& c) {
  Recipe r;
  r.method = c.method;
  r.lora.rank = c.lora_rank;
  r.lora.alpha = 2 * double(c.lora_rank);
  if (c.precision == Precision::Fp32) r.lora.base_dtype = Dtype::F32;
  if (c.method == Method::Qlora) r.quant.kind = BaseQuant::Nf4;
  r.quant.double_quant = c.double_quant;
  r.precision = c.precision;
  r.optimizer = c.optimizer;
  r.micro_batch = c.micro_batch, r.grad_accum = c.grad_accum, r.seq_len = c.seq_len;
  r.checkpointing = c.checkpointing;
  r.offload = c.offload;
  r.framework = "native";
  if (c.trained_for != "sft") r.objective.method = c.trained_for;
  return r;
}

inline EstimateRequest request_of(const NativeCase& c) {
  EstimateRequest request{
      .model = c.model, .recipe = recipe_of(c), .dataset = {}, .cluster = plain_cluster(c.ranks), .options = {}};
  request.cluster.gpus.change_each([](GpuSpec& gpu) { gpu.is_cpu = true; });
  if (c.strategy == "hsdp") request.options.shard_size = c.ranks / 2;
  request.options = options_for(request);
  request.options.tp = c.tp, request.options.splits_sequence = c.splits_sequence;
  request.options.pp = c.pp, request.options.virtual_stages = c.virtual_stages, request.options.schedule = c.schedule;
  request.profile = std::make_shared<const Profile>();  // the catalogue has none of this GPU; the executor needs none
  return request;
}

inline Strategy strategy_of(const NativeCase& c) {
  const EstimateRequest request = request_of(c);
  return make_strategy(c.strategy, request.cluster, request.options);
}

inline constexpr std::array kMethods{Method::Full, Method::Lora, Method::Qlora};

/// Every strategy that divides work among `ranks`.
inline std::vector<std::string> strategies_of(std::int64_t ranks) {
  std::vector<std::string> out;
  for (const std::string_view name : strategy_names())
    if ((name == "single") == (ranks == 1) && (name != "hsdp" || ranks >= 4)) out.emplace_back(name);
  return out;
}

/// Every strategy and method on 1, 2 and 4 ranks.
inline std::vector<NativeCase> every_case(const std::vector<std::int64_t>& numbers_of_ranks = {1, 2, 4}) {
  std::vector<NativeCase> out;
  for (const std::int64_t ranks : numbers_of_ranks)
    for (const std::string& strategy : strategies_of(ranks))
      for (const Method method : kMethods) out.push_back({.strategy = strategy, .method = method, .ranks = ranks});
  return out;
}

}  // namespace gpuplan::test
