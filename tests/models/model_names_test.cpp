#include "models/model_names.h"

#include <array>
#include <set>
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
                                  Resolution{"Mistral-7B-Instruct-v0.2", "mistral-7b-v0.2"},
                                  Resolution{"TheBloke/Mistral-7B-Instruct-v0.2-GPTQ", "mistral-7b-v0.2"},
                                  Resolution{"mixtral-8x7b", "mixtral-8x7b"},
                                  Resolution{"Mixtral-8x7B-v0.1", "mixtral-8x7b"},
                                  Resolution{"mixtral-8x22b", "mixtral-8x22b"},
                                  Resolution{"mixtral-8x22b-instruct", "mixtral-8x22b-instruct"},
                                  Resolution{"Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"},
                                  Resolution{"tinyllama-1.1b-chat", "tinyllama-1.1b"},
                                  Resolution{"gemma-3-1b-it", "gemma-3-1b"},
                                  Resolution{"google/gemma-3-4b-it", "gemma-3-4b-multimodal"},
                                  Resolution{"google/gemma-3-4b-pt", "gemma-3-4b-text"},
                                  Resolution{"phi-1_5", "phi-1.5"},
                                  Resolution{"gpt-2", "gpt2"},
                                  Resolution{"openai-community/gpt2", "gpt2"},
                                  Resolution{"bloom", "bloom-176b"},
                                  Resolution{"t5-base", "t5-base"},
                                  Resolution{"Yi-34B-Chat", "yi-34b"},
                                  Resolution{"qwen2.5-coder-7b", "qwen2.5-7b"},
                                  Resolution{"Qwen/Qwen2.5-Coder-7B-Instruct-AWQ", "qwen2.5-7b"},
                                  Resolution{"Qwen/Qwen3-4B-Instruct-2507-FP8", "qwen3-4b"},
                                  Resolution{"Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b"},
                                  Resolution{"unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "llama-3.1-8b"},
                                  Resolution{"unsloth/llama-3-8b", "llama-3-8b"},
                                  Resolution{"unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit", "qwen2.5-7b"},
                                  Resolution{"NousResearch/Meta-Llama-3-8B", "llama-3-8b"},
                                  Resolution{"TheBloke/Llama-2-7B-Chat-GGUF", "llama-2-7b"},
                                  Resolution{"ISTA-DASLab/gemma-3-27b-it-GPTQ-4b-128g", "gemma-3-27b-multimodal"},
                                  Resolution{"RedHatAI/Qwen2.5-1.5B-quantized.w8a8", "qwen2.5-1.5b"},
                                  Resolution{"bartowski/Llama-3.2-3B-Instruct-Q4_K_M-GGUF", "llama-3.2-3b"},
                                  Resolution{"mlx-community/gemma-3-1b-it-qat-4bit", "gemma-3-1b"},
                                  Resolution{"deepseek-ai/DeepSeek-R1-0528", "deepseek-v3"},
                                  Resolution{"Qwen/Qwen3-Embedding-4B", "qwen3-embedding-4b"},
                                  Resolution{"Qwen/Qwen3-Reranker-0.6B", "qwen3-embedding-0.6b"},
                                  Resolution{"BAAI/bge-reranker-v2-m3", "bge-m3"},
                                  Resolution{"microsoft/deberta-v3-base", "deberta-v3-base"},
                                  Resolution{"answerdotai/ModernBERT-large", "modernbert-large"},
                                  Resolution{"deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "qwen2.5-32b"},
                                  Resolution{"unsloth/DeepSeek-R1-Distill-Llama-8B-bnb-4bit", "llama-3.1-8b"}};

constexpr std::array kUnknown{"llama",
                              "",
                              "/",
                              "gpt5",
                              "t5",
                              "bert",
                              "microsoft/deberta-base",
                              "deberta-large",
                              "microsoft/deberta-v2-xlarge",
                              "qwen2-57b",
                              "llama-3-80b",
                              "llama-33-70b-x",
                              "someone/llama-2-7b",
                              "mistral-7b-v0.4",
                              "phi-3-mini-64k-instruct",
                              "tinyllama-1.1b-chat-v0.3",
                              "instruct",
                              "llama-3.8b",
                              "opt-27b",
                              "pythia-28b",
                              "llama-2-7bb",
                              "someone/Qwen2.5-7B-Instruct",
                              "someone/llama-2-7b-tuned-AWQ",
                              "unsloth/phi-4",
                              "unsloth/Phi-3-mini-4k-instruct-bnb-4bit",
                              "deepseek-ai/DeepSeek-V3.2",
                              "AWQ",
                              "4bit",
                              "TheBloke/TinyLlama-1.1B-Chat-v0.3-GPTQ"};

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

TEST_CASE("a name is explained: another spelling, the same shape, or a copy in another number format") {
  const auto note = [](const char* text) { return load_model(text).notes.at(0); };
  CHECK(note("Llama-3.1-8B-Instruct") == "Llama-3.1-8B-Instruct is meta-llama/Llama-3.1-8B");
  CHECK(note("Qwen/Qwen2.5-Coder-7B-Instruct") == "Qwen/Qwen2.5-Coder-7B-Instruct has the shape of Qwen/Qwen2.5-7B");
  CHECK(note("unsloth/Qwen3-8B-bnb-4bit") ==
        "unsloth/Qwen3-8B-bnb-4bit is taken for a copy in another number format of Qwen/Qwen3-8B");
  CHECK(note("Qwen/QwQ-32B-AWQ") ==
        "Qwen/QwQ-32B-AWQ is taken for a copy in another number format of a model with the shape of Qwen/Qwen2.5-32B");
  CHECK(load_model("Qwen/Qwen3-8B").notes.empty());
}

TEST_CASE("a name of the Hub stays the model's id, with the shape of the entry") {
  const auto id = [](const char* text) { return load_model(text).spec.id; };
  CHECK(id("meta-llama/Llama-3.1-8B-Instruct") == "meta-llama/Llama-3.1-8B-Instruct");
  CHECK(id("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B") == "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B");
  CHECK(id("unsloth/Qwen3-8B-bnb-4bit") == "unsloth/Qwen3-8B-bnb-4bit");
  CHECK(id("qwen/qwen3-8b") == "Qwen/Qwen3-8B");
  CHECK(id("Llama-3.1-8B-Instruct") == "meta-llama/Llama-3.1-8B");
}

TEST_CASE("models of the same shape are listed once, and none is an entry of its own") {
  const auto entries = list_catalogue();
  std::set<std::string> ids;
  for (const CatalogueEntry& entry : entries) CHECK(ids.insert(entry.id).second);
  for (const CatalogueEntry& entry : entries)
    for (const std::string& id : entry.same_shape) {
      CAPTURE(id);
      CHECK(id.find('/') != std::string::npos);
      CHECK(ids.insert(id).second);
      const auto found = match_model_name(id, entries);
      REQUIRE(found.size() == 1);
      CHECK(found[0]->name == entry.name);
    }
}

TEST_CASE("an ambiguous name lists what it may mean") {
  CHECK_THROWS_WITH_AS(load_model("mistral-7b"), doctest::Contains("mistral-7b-v0.1, mistral-7b-v0.2, mistral-7b-v0.3"),
                       InputError);
  CHECK_THROWS_WITH_AS(load_model("Mistral 7B Instruct"), doctest::Contains("'Mistral 7B Instruct' may mean 3 models"),
                       InputError);
}
