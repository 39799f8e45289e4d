// The files that make a folder a model beside its weights.
#pragma once

#include <array>

namespace gpuplan {

/// A model's configuration and its tokenizer's files, as transformers names them.
inline constexpr std::array kModelFiles{"config.json",
                                        "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "chat_template.jinja"};

}  // namespace gpuplan
