// Configs of families, read and written back.
#pragma once

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/hf_config.h"

namespace gpuplan::test {

using nlohmann::json;

inline ModelSpec parse_config(const json& config) { return parse_hf_config(config, "config.json"); }

inline void check_config_error(const json& config, const std::string& part) {
  std::string error;
  try {
    parse_config(config);
  } catch (const InputError& found) { error = found.what(); }
  CAPTURE(error);
  CHECK(error.starts_with("config.json"));
  CHECK_MESSAGE(error.find(part) != std::string::npos, part);
}

/// Through the config that plan.json stores and back.
inline void check_round_trip(const ModelSpec& spec) {
  ModelSpec again = parse_config(to_hf_config(spec));
  again.name = spec.name, again.id = spec.id;
  CHECK(again == spec);
}

inline json with(json config, const json& changes) {
  config.merge_patch(changes);  // a null removes the field
  return config;
}

/// Sizes that every family with Llama's keys needs.
inline json sized(const char* model_type, const json& changes = json::object()) {
  return with({{"model_type", model_type},
               {"hidden_size", 64},
               {"num_hidden_layers", 4},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"intermediate_size", 128},
               {"vocab_size", 100}},
              changes);
}

}  // namespace gpuplan::test
