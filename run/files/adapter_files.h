// PEFT adapters: adapter_config.json and adapter_model.safetensors, as `peft` writes and loads them.
// Source: peft (Hugging Face) LoraConfig, save_and_load.py: keys base_model.model.<module>.lora_A.weight.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gpuplan {

/// The part of adapter_config.json that training needs.
struct AdapterConfig {
  std::string base_model;  // base_model_name_or_path
  std::int64_t rank = 8;
  double alpha = 16, dropout = 0;
  std::vector<std::string> target_modules;  // "q_proj", …
  std::vector<std::string> modules_to_save;
  std::string task_type = "CAUSAL_LM";  // as it is written
};

/// Throws InputError naming file and every key for what is missing, or what the native executor cannot train (DoRA,
/// rank patterns, bias, rslora, …), saying which engine can. Defaults are peft's.
AdapterConfig read_adapter_config(const std::filesystem::path& folder);
/// The keys that every peft since 0.9 knows: one that it does not know is an error in old ones, one that is not there a
/// default. Requires: the folder. Throws EnvError.
void write_adapter_config(const std::filesystem::path& folder, const AdapterConfig& config);

/// "model.layers.3.self_attn.q_proj" of tensor "model.layers.3.self_attn.q_proj.weight".
std::string module_of(const std::string& tensor);
/// "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight" for that tensor.
std::string lora_key(const std::string& tensor, bool is_a);
/// "base_model.model.score.weight": a tensor that is trained whole beside adapters.
std::string saved_key(const std::string& tensor);

}  // namespace gpuplan
