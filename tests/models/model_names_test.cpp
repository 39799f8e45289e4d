#include "models/model_names.h"

#include <array>
#include <string>

#include <doctest/doctest.h>

#include "base/error.h"
#include "models/catalogue.h"

using namespace gpuplan;

namespace {

struct Resolution {
  const char *typed, *name;
};

constexpr std::array kResolutions{Resolution{"llama-3-8b", "llama-3-8b"},
                                  Resolution{"llama3-8b", "llama-3-8b"},
                                  Resolution{"Llama 3 8B", "llama-3-8b"},
                                  Resolution{"LLAMA_3_8B", "llama-3-8b"},
                                  Resolution{"llama38b", "llama-3-8b"},
                                  Resolution{"Meta-Llama-3-8B", "llama-3-8b"},
                                  Resolution{"meta-llama/Meta-Llama-3-8B", "llama-3-8b"},
                                  Resolution{"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
                                  Resolution{"meta-llama/Llama-3-8B", "llama-3-8b"},
                                  Resolution{" llama-3-8b ", "llama-3-8b"},
                                  Resolution{"llama2-7b", "llama-2-7b"},
                                  Resolution{"Llama-2-7b-hf", "llama-2-7b"},
                                  Resolution{"Llama-2-7b-chat-hf", "llama-2-7b"},
                                  Resolution{"llama3.1-8b", "llama-3.1-8b"},
                                  Resolution{"llama31-8b", "llama-3.1-8b"},
                                  Resolution{"Llama-3.1-8B-Instruct", "llama-3.1-8b"},
                                  Resolution{"meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"},
                                  Resolution{"llama-7b", "llama-7b"},
                                  Resolution{"Llama-3.3-70B", "llama-3.3-70b"},
                                  Resolution{"CodeLlama-34b-Instruct-hf", "codellama-34b"},
                                  Resolution{"qwen2.5 7b instruct", "qwen2.5-7b"},
                                  Resolution{"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
                                  Resolution{"qwen25-7b", "qwen2.5-7b"},
                                  Resolution{"Qwen1.5-0.5B-Chat", "qwen1.5-0.5b"},
                                  Resolution{"qwen2-57b-a14b", "qwen2-57b-a14b"},
                                  Resolution{"Mistral-7B-v0.1", "mistral-7b-v0.1"},
                                  Resolution{"Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"},
                                  Resolution{"mixtral-8x7b", "mixtral-8x7b"},
                                  Resolution{"Mixtral-8x7B-v0.1", "mixtral-8x7b"},
                                  Resolution{"mixtral-8x22b", "mixtral-8x22b"},
                                  Resolution{"mixtral-8x22b-instruct", "mixtral-8x22b-instruct"},
                                  Resolution{"Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"},
                                  Resolution{"tinyllama-1.1b-chat", "tinyllama-1.1b"},
                                  Resolution{"gemma-3-1b-it", "gemma-3-1b"},
                                  Resolution{"google/gemma-3-4b-it", "gemma-3-4b-text"},
                                  Resolution{"gemma-3-4b", "gemma-3-4b-text"},
                                  Resolution{"phi-1_5", "phi-1.5"},
                                  Resolution{"gpt-2", "gpt2"},
                                  Resolution{"openai-community/gpt2", "gpt2"},
                                  Resolution{"bloom", "bloom-176b"},
                                  Resolution{"t5-base", "t5-base"},
                                  Resolution{"Yi-34B-Chat", "yi-34b"}};

constexpr std::array kUnknown{"llama",
                              "",
                              "/",
                              "gpt5",
                              "t5",
                              "bert",
                              "qwen2-57b",
                              "llama-3-80b",
                              "llama-33-70b-x",
                              "someone/llama-2-7b",
                              "mistral-7b-v0.2",
                              "phi-3-mini-128k-instruct",
                              "tinyllama-1.1b-chat-v0.3",
                              "instruct",
                              "llama-3.8b",
                              "opt-27b",
                              "pythia-28b",
                              "llama-2-7bb",
                              "qwen2.5-coder-7b"};

}  // namespace

TEST_CASE("names as people type them find their model") {
  const auto entries = list_catalogue();
  for (const Resolution& row : kResolutions) {
    CAPTURE(std::string(row.typed));
    const auto found = match_model_name(row.typed, entries);
    REQUIRE(found.size() == 1);
    CHECK(found[0]->name == row.name);
  }
}

TEST_CASE("every entry is found by its name, by its hub id, and by no other name") {
  const auto entries = list_catalogue();
  for (const CatalogueEntry& entry : entries)
    for (const std::string& typed : {entry.name, entry.id}) {
      CAPTURE(typed);
      const auto found = match_model_name(typed, entries);
      REQUIRE(found.size() == 1);
      CHECK(found[0]->name == entry.name);
    }
}

TEST_CASE("names that would have to be guessed are unknown") {
  const auto entries = list_catalogue();
  for (const char* typed : kUnknown) {
    CAPTURE(std::string(typed));
    CHECK(match_model_name(typed, entries).empty());
  }
}

TEST_CASE("an ambiguous name lists what it may mean") {
  CHECK_THROWS_WITH_AS(load_model("mistral-7b"), doctest::Contains("mistral-7b-v0.1, mistral-7b-v0.3"), InputError);
  CHECK_THROWS_WITH_AS(load_model("Mistral 7B Instruct"), doctest::Contains("'Mistral 7B Instruct' may mean 2 models"),
                       InputError);
}
