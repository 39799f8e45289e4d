// Lines of points for tests: whole ones, to be changed by a JSON merge patch.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "validate/read_points.h"

namespace gpuplan::test {

/// Llama-2 7B with LoRA on one A100: 20 GiB allocated.
inline nlohmann::json memory_point(const nlohmann::json& patch = nlohmann::json::object()) {
  nlohmann::json point = nlohmann::json::parse(R"({
    "id": "m1", "source_key": "s", "group": "g", "model": "llama2-7b", "method": "lora",
    "lora": {"r": 8, "alpha": 16, "target_modules": ["q_proj", "v_proj"]}, "quant": null, "optimizer": "adamw",
    "micro_batch_size": 1, "seq_len": 1024, "grad_accum": 1, "attention": "sdpa", "framework": "transformers+peft",
    "strategy": "single", "num_gpus": 1, "gpu": "A100-80GB", "gpu_mem_gib": 79.2, "peak_memory_gib": 20.0,
    "memory_metric": "max_allocated", "outcome": "ok", "fully_specified": true, "in_scope": true, "use_for_scoring": true,
    "norm": {"loss": "plain_fp32", "precision": "bf16-true", "checkpointing": "full", "length": "packed",
             "framework": "hf-trainer"}})");
  point.merge_patch(patch);
  return point;
}

/// TinyLlama on 8 A100 under FSDP: 20,000 tokens/s per GPU.
inline nlohmann::json speed_point(const nlohmann::json& patch = nlohmann::json::object()) {
  nlohmann::json point = nlohmann::json::parse(R"({
    "id": "v1", "source": "s", "spec_level": "full", "trust": "high", "target": {"metric": "tokens_per_s_per_gpu", "value": 20000},
    "model": "tinyllama-1.1b", "params_b": 1.1, "arch": null, "method": "full", "lora": null, "quant": null, "optimizer": "adamw",
    "micro_batch_size": 4, "seq_len": 2048, "grad_accum": 2, "global_batch_seqs": 64, "gradient_checkpointing": "none",
    "parallel": {"fsdp": 8}, "num_gpus": 8, "gpus_per_node": 8, "gpu": "A100-SXM-80GB", "inter_node_link": null, "metrics": {},
    "derived": {"tokens_per_step": 131072, "step_time_s": 0.8192},
    "norm": {"precision": "bf16-mixed", "offload": [], "checkpointing": "none", "attention": "flash2", "software": "eager",
             "link": {"kind": "nvswitch", "generation": 3, "p2p": null}, "family": "fsdp", "degrees": {}}})");
  point.merge_patch(patch);
  return point;
}

inline Point read_one(const nlohmann::json& point) { return parse_points(point.dump(), "test").front(); }

}  // namespace gpuplan::test
