// Requests and answers written by hand, for tests of what is stored and shown rather than of what is computed.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "models/hf_config.h"
#include "planner/estimate.h"
#include "planner/plan/plan_file.h"

namespace gpuplan::plan_fixture {

inline ModelSpec tiny_model(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config{{"architectures", {"LlamaForCausalLM"}},
                        {"model_type", "llama"},
                        {"hidden_size", 64},
                        {"num_hidden_layers", 2},
                        {"num_attention_heads", 4},
                        {"intermediate_size", 128},
                        {"vocab_size", 100},
                        {"max_position_embeddings", 512}};
  config.merge_patch(changes);
  ModelSpec model = parse_hf_config(config, "config.json");
  model.name = "tiny";
  model.id = "org/Tiny-Model";
  return model;
}

/// A GPU whose every field differs from its default and from its neighbours.
inline GpuSpec gpu(const std::string& id) {
  return {.id = id,
          .name = "NVIDIA " + id,
          .vendor = "nvidia",
          .architecture = "ampere",
          .compute_capability = "8.6",
          .form_factor = "pcie",
          .device_memory = {51'527'024'640},
          .framework_memory = {51'033'931'776},
          .memory_bandwidth = {768e9},
          .memory_share = 0.9,
          .fp32 = {38.7e12},
          .tf32 = {77.4e12},
          .fp16 = {154.8e12},
          .bf16 = {154.9e12},
          .fp8 = {1.0 / 3},
          .gemm_fp32 = {19.1e12},
          .gemm_fp16 = {121.5e12},
          .gemm_bf16 = {122.5e12},
          .sm_count = 84,
          .nvlink_per_direction = {56.25e9},
          .nvlink_kind = "2-way bridge",
          .pcie_generation = 4,
          .pcie_lanes = 16,
          .has_p2p_over_pcie = true,
          .is_plan_only = true,
          .is_cpu = true,
          .source = "\"datasheet\", μ-benchmarks"};
}

inline ClusterSpec cluster(std::vector<GpuSpec> gpus, std::int64_t gpus_per_node) {
  ClusterSpec c{.name = "test cluster",
                .gpus = std::move(gpus),
                .gpus_per_node = gpus_per_node,
                .fabric = FabricKind::PcieHostStaged,
                .fabric_text = "PCIe 4.0 x16",
                .intra = {{12e-6}, {24.1e9}, {24.2e9}, "measured"},
                .inter = {{21.3e-6}, {12.5e9}, {12.6e9}, "nccl"},
                .host_link = {25e9},
                .host_memory = {std::int64_t(512) << 30},
                .price_per_gpu_hour = 0.49,
                .price_source = "runpod, 2026-03-10",
                .assumptions = {"A6000 means rtx-a6000", "one socket"},
                .file = "my.yaml"};
  for (std::size_t i = 0; i < c.gpus.size(); ++i) c.memory_in_use.push_back({std::int64_t(i) << 20});
  return c;
}

inline EstimateRequest request(Recipe recipe, ClusterSpec machine, StrategyOptions options = {}) {
  return {.model = tiny_model(), .recipe = std::move(recipe), .cluster = std::move(machine), .options = options};
}

/// What `estimate` could have found for one strategy.
inline StrategyEstimate estimate_of(const EstimateRequest& r, const std::string& strategy) {
  StrategyEstimate e{.strategy = make_strategy(strategy, r.cluster, r.options), .fit = Fit::Yes};
  e.tiers = {.tensors = {1000}, .reserved = {1200}, .process = {1978}};
  e.peak_instant = "logits and loss";
  for (int c = 0; c < kNumCategories; ++c) e.memory[std::size_t(c)] = {std::int64_t(1) << c};
  e.host = {.load = {900}, .load_efficient = {700}, .step = {500}};
  e.communication = {123};
  e.time.step = {0.1};
  e.tokens_per_second = 81920.0 / 7;
  e.max_micro_batch = 12;
  e.epoch = Seconds{3600.5};
  return e;
}

inline EstimateResult result_of(const StrategyEstimate& e) {
  EstimateResult result;
  result.profile.id = "ampere-pcie";
  result.profile.sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  result.strategies.push_back(e);
  return result;
}

inline nlohmann::json plan_of(const EstimateRequest& r, const std::string& strategy) {
  const StrategyEstimate e = estimate_of(r, strategy);
  return make_plan(r, result_of(e), e);
}

}  // namespace gpuplan::plan_fixture
