// Files of trainers as texts, and what the reader says of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ecosystem/config_reader.h"

namespace gpuplan::test {

inline ConfigReading reading_of(const std::vector<std::string>& texts) {
  std::vector<ConfigFile> files;
  for (const std::string& text : texts) files.push_back({"file" + std::to_string(files.size() + 1), text});
  return read_configs(files, {});
}

inline std::string error_of(const std::vector<std::string>& texts) {
  try {
    reading_of(texts);
  } catch (const InputError& error) { return error.what(); }
  return "";
}

inline bool has_note(const ConfigReading& reading, std::string_view text) {
  for (const std::string& note : reading.notes)
    if (note.find(text) != std::string::npos) return true;
  return false;
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

inline constexpr const char* kTrl =
    "model_name_or_path: Qwen/Qwen2.5-7B\ndtype: bfloat16\nmax_length: 2048\npacking: true\n";
inline constexpr const char* kTrlLora =
    "dtype: bfloat16\nmax_length: 512\nuse_peft: true\nlora_r: 4\nlora_alpha: 8\nlora_dropout: 0.0\n";
inline constexpr const char* kTrlQlora =
    "dtype: bfloat16\nuse_peft: true\nload_in_4bit: true\nbnb_4bit_quant_storage: bfloat16\nlora_dropout: 0.0\n";

inline std::string fsdp(const std::string& keys, const std::string& version = "2") {
  return "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 4\n"
         "fsdp_config:\n  fsdp_version: " +
         version + "\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n" + keys;
}

inline std::string zero(const std::string& keys) {
  return "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 4\n"
         "deepspeed_config:\n" +
         keys;
}

}  // namespace gpuplan::test
