// The 200 most downloaded text-generation models of the Hub: each is found in the catalogue, or refused with a reason
// that is true. Names and their order are those of 2026-05-17 (hf_downloads in llmfit-core/data/hf_models.json of
// AlexsJones/llmfit @a3e0eb27), without embedding and reward models, speech, pictures, and models made for tests.
#include <array>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "base/error.h"
#include "models/catalogue.h"

using namespace gpuplan;

namespace {

/// Why a model is refused; an entry of the catalogue has no spaces.
constexpr std::string_view kUnknownHere = "is neither in the catalogue nor in a local cache, and the Hub is not asked";
constexpr std::string_view kIndexer = "its sparse attention, which an indexer chooses, is not modelled";
constexpr std::string_view kDeepSeekV4 = "the architecture of DeepSeek-V4 is not modelled";
constexpr std::string_view kEncoderDecoder = "this encoder-decoder is not modelled: of them, only T5 is";

struct Download {
  std::string_view id, answer;
};

// clang-format off
constexpr std::array<Download, 200> kDownloads{
    Download{"Qwen/Qwen3-0.6B", "qwen3-0.6b"},
    Download{"openai-community/gpt2", "gpt2"},
    Download{"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
    Download{"deepseek-ai/DeepSeek-V3.2", kIndexer},
    Download{"Qwen/Qwen2.5-1.5B-Instruct", "qwen2.5-1.5b"},
    Download{"Qwen/Qwen3-8B", "qwen3-8b"},
    Download{"Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"},
    Download{"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
    Download{"google/gemma-4-31B-it", "gemma-4-31b"},
    Download{"Qwen/Qwen2.5-3B-Instruct", "qwen2.5-3b"},
    Download{"facebook/opt-125m", "opt-125m"},
    Download{"Qwen/Qwen3.5-9B", "qwen3.5-9b"},
    Download{"openai/gpt-oss-20b", "gpt-oss-20b"},
    Download{"google/gemma-4-26B-A4B-it", "gemma-4-26b-a4b"},
    Download{"meta-llama/Llama-3.2-1B-Instruct", "llama-3.2-1b"},
    Download{"Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"},
    Download{"Qwen/Qwen3.5-4B", "qwen3.5-4b"},
    Download{"google/gemma-4-E4B-it", "gemma-4-e4b"},
    Download{"dphn/dolphin-2.9.1-yi-1.5-34b", "yi-34b"},
    Download{"Qwen/Qwen2-1.5B-Instruct", "qwen2-1.5b"},
    Download{"openai/gpt-oss-120b", "gpt-oss-120b"},
    Download{"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"},
    Download{"deepseek-ai/DeepSeek-R1", "deepseek-v3"},
    Download{"Qwen/Qwen3.6-35B-A3B", "qwen3.5-35b-a3b"},
    Download{"Qwen/Qwen3-1.7B", "qwen3-1.7b"},
    Download{"Qwen/Qwen3.5-35B-A3B", "qwen3.5-35b-a3b"},
    Download{"google/gemma-4-E2B-it", "gemma-4-e2b"},
    Download{"Qwen/Qwen3.5-27B", "qwen3.5-27b"},
    Download{"meta-llama/Meta-Llama-3-8B", "llama-3-8b"},
    Download{"Qwen/Qwen3.6-35B-A3B-FP8", "qwen3.5-35b-a3b"},
    Download{"EleutherAI/pythia-160m", "pythia-160m"},
    Download{"Qwen/Qwen3.6-27B-FP8", "qwen3.5-27b"},
    Download{"Qwen/Qwen3.5-0.8B", "qwen3.5-0.8b"},
    Download{"TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b"},
    Download{"distilbert/distilgpt2", "distilgpt2"},
    Download{"mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-v0.2"},
    Download{"Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b"},
    Download{"cyankiwi/gemma-4-26B-A4B-it-AWQ-4bit", "gemma-4-26b-a4b"},
    Download{"meta-llama/Llama-3.2-3B-Instruct", "llama-3.2-3b"},
    Download{"Qwen/Qwen3-0.6B-FP8", "qwen3-0.6b"},
    Download{"Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"},
    Download{"nvidia/Gemma-4-31B-IT-NVFP4", "gemma-4-31b"},
    Download{"Qwen/Qwen2.5-0.5B", "qwen2.5-0.5b"},
    Download{"google/gemma-3-4b-it", "gemma-3-4b-multimodal"},
    Download{"Qwen/Qwen3.6-27B", "qwen3.5-27b"},
    Download{"RedHatAI/Llama-3.2-1B-Instruct-FP8-dynamic", "llama-3.2-1b"},
    Download{"openai-community/gpt2-large", "gpt2-large"},
    Download{"Qwen/Qwen2.5-14B-Instruct-AWQ", "qwen2.5-14b"},
    Download{"EleutherAI/pythia-70m-deduped", "pythia-70m"},
    Download{"Qwen/Qwen2.5-7B", "qwen2.5-7b"},
    Download{"Qwen/Qwen3.5-2B", "qwen3.5-2b"},
    Download{"Qwen/Qwen3-4B-Base", "qwen3-4b"},
    Download{"Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b"},
    Download{"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
    Download{"meta-llama/Llama-3.2-1B", "llama-3.2-1b"},
    Download{"Qwen/Qwen3-8B-AWQ", "qwen3-8b"},
    Download{"Qwen/Qwen3.5-27B-FP8", "qwen3.5-27b"},
    Download{"deepseek-ai/DeepSeek-R1-0528", "deepseek-v3"},
    Download{"Qwen/Qwen2.5-Coder-7B", "qwen2.5-7b"},
    Download{"nvidia/DeepSeek-R1-0528-NVFP4-v2", "deepseek-v3"},
    Download{"Qwen/Qwen3.5-35B-A3B-FP8", "qwen3.5-35b-a3b"},
    Download{"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
    Download{"HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m"},
    Download{"Qwen/Qwen2.5-32B-Instruct-AWQ", "qwen2.5-32b"},
    Download{"cyankiwi/gemma-4-31B-it-AWQ-4bit", "gemma-4-31b"},
    Download{"meta-llama/Llama-2-7b-hf", "llama-2-7b"},
    Download{"ibm-research/PowerMoE-3b", kUnknownHere},
    Download{"RedHatAI/Qwen2.5-1.5B-quantized.w8a8", "qwen2.5-1.5b"},
    Download{"Qwen/Qwen2.5-Coder-14B-Instruct", "qwen2.5-14b"},
    Download{"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
    Download{"Qwen/Qwen2.5-Coder-14B-Instruct-AWQ", "qwen2.5-14b"},
    Download{"Qwen/Qwen2.5-Coder-32B-Instruct-AWQ", "qwen2.5-32b"},
    Download{"Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"},
    Download{"Qwen/Qwen3.5-397B-A17B-FP8", "qwen3.5-397b-a17b"},
    Download{"deepseek-ai/DeepSeek-V4-Pro", kDeepSeekV4},
    Download{"ricdomolm/mini-coder-1.7b", kUnknownHere},
    Download{"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano-30b-a3b"},
    Download{"zai-org/GLM-5-FP8", kIndexer},
    Download{"Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2.5-32b"},
    Download{"deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct", "deepseek-v2-lite"},
    Download{"meta-llama/Llama-3.2-3B", "llama-3.2-3b"},
    Download{"Qwen/Qwen3.5-35B-A3B-GPTQ-Int4", "qwen3.5-35b-a3b"},
    Download{"google/t5gemma-s-s-prefixlm", kEncoderDecoder},
    Download{"Qwen/Qwen3-Coder-Next", "qwen3-next-80b-a3b"},
    Download{"Qwen/Qwen3-14B-AWQ", "qwen3-14b"},
    Download{"Qwen/Qwen2-0.5B-Instruct", "qwen2-0.5b"},
    Download{"deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama-3.1-8b"},
    Download{"HuggingFaceTB/SmolLM2-135M", "smollm2-135m"},
    Download{"mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"},
    Download{"RedHatAI/Llama-3.2-1B-Instruct-FP8", "llama-3.2-1b"},
    Download{"kaitchup/Phi-3-mini-4k-instruct-gptq-4bit", "phi-3-mini"},
    Download{"Qwen/Qwen2.5-1.5B-Instruct-AWQ", "qwen2.5-1.5b"},
    Download{"deepseek-ai/DeepSeek-V4-Flash", kDeepSeekV4},
    Download{"deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-v2-lite"},
    Download{"bigscience/bloomz-560m", "bloom-560m"},
    Download{"deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "qwen2.5-32b"},
    Download{"zai-org/GLM-5.1-FP8", kIndexer},
    Download{"MiniMaxAI/MiniMax-M2.5", "minimax-m2"},
    Download{"nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "nemotron-3-super-120b-a12b"},
    Download{"TheBloke/TinyLlama-1.1B-Chat-v0.3-GPTQ", kUnknownHere},
    Download{"facebook/bart-base", kEncoderDecoder},
    Download{"Qwen/Qwen2.5-1.5B", "qwen2.5-1.5b"},
    Download{"Qwen/Qwen3.5-122B-A10B", "qwen3.5-122b-a10b"},
    Download{"cyankiwi/Qwen3.6-27B-AWQ-INT4", "qwen3.5-27b"},
    Download{"cyankiwi/GLM-4.7-Flash-AWQ-4bit", "glm-4.7-flash"},
    Download{"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8", "nemotron-3-nano-30b-a3b"},
    Download{"Qwen/Qwen3-32B-AWQ", "qwen3-32b"},
    Download{"Qwen/Qwen2.5-72B-Instruct-AWQ", "qwen2.5-72b"},
    Download{"prefeitura-rio/Rio-3.0-Open-Mini", kUnknownHere},
    Download{"meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"},
    Download{"unsloth/gemma-4-E4B-it", "gemma-4-e4b"},
    Download{"moonshotai/Kimi-K2-Instruct-0905", "kimi-k2"},
    Download{"moonshotai/Kimi-K2-Instruct", "kimi-k2"},
    Download{"microsoft/Phi-3.5-mini-instruct", "phi-3.5-mini"},
    Download{"nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "nemotron-3-super-120b-a12b"},
    Download{"microsoft/phi-3-mini-4k-instruct", "phi-3-mini"},
    Download{"microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"},
    Download{"openai-community/gpt2-medium", "gpt2-medium"},
    Download{"Qwen/Qwen3-4B-Instruct-2507-FP8", "qwen3-4b"},
    Download{"meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"},
    Download{"zerofata/L3.3-GeneticLemonade-Final-v2-70B", kUnknownHere},
    Download{"microsoft/Phi-tiny-MoE-instruct", "phi-tiny-moe"},
    Download{"Qwen/Qwen2-7B-Instruct", "qwen2-7b"},
    Download{"nvidia/Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b"},
    Download{"MiniMaxAI/MiniMax-M2.7", "minimax-m2"},
    Download{"unsloth/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
    Download{"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
    Download{"google/gemma-3-270m", "gemma-3-270m"},
    Download{"ai-forever/FRIDA", kUnknownHere},
    Download{"Jackrong/Qwen3.5-27B-Claude-4.6-Opus-Reasoning-Distilled-v2", kUnknownHere},
    Download{"farbodtavakkoli/OTel-LLM-8.3B-IT", kUnknownHere},
    Download{"Qwen/Qwen3.5-397B-A17B", "qwen3.5-397b-a17b"},
    Download{"google/gemma-3-1b-it", "gemma-3-1b"},
    Download{"google/gemma-3-27b-it", "gemma-3-27b-multimodal"},
    Download{"Qwen/Qwen2.5-Math-7B", "qwen2.5-7b"},
    Download{"zai-org/GLM-4.7-Flash", "glm-4.7-flash"},
    Download{"deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"},
    Download{"KomeijiForce/bart-large-emojilm", kEncoderDecoder},
    Download{"QuantTrio/gemma-4-31B-it-AWQ", "gemma-4-31b"},
    Download{"cyankiwi/Qwen3.5-35B-A3B-AWQ-4bit", "qwen3.5-35b-a3b"},
    Download{"allenai/Olmo-3-7B-Instruct", "olmo3-7b"},
    Download{"bineric/lynx-instruct-30b", kUnknownHere},
    Download{"deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2.5-7b"},
    Download{"nm-testing/SmolLM-1.7B-Instruct-quantized.w4a16", "smollm2-1.7b"},
    Download{"QuantTrio/Qwen3-Coder-30B-A3B-Instruct-AWQ", "qwen3-30b-a3b"},
    Download{"Qwen/Qwen3-4B-AWQ", "qwen3-4b"},
    Download{"Qwen/Qwen3.5-122B-A10B-FP8", "qwen3.5-122b-a10b"},
    Download{"Qwen/Qwen2.5-Coder-1.5B", "qwen2.5-1.5b"},
    Download{"Qwen/Qwen3-1.7B-Base", "qwen3-1.7b"},
    Download{"Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8", "qwen3-30b-a3b"},
    Download{"LilaRest/gemma-4-31B-it-NVFP4-turbo", "gemma-4-31b"},
    Download{"Qwen/Qwen2.5-Coder-7B-Instruct-GPTQ-Int4", "qwen2.5-7b"},
    Download{"mlx-community/gpt-oss-20b-MXFP4-Q8", "gpt-oss-20b"},
    Download{"Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4", "qwen2.5-32b"},
    Download{"unsloth/gemma-4-31B-it-unsloth-bnb-4bit", "gemma-4-31b"},
    Download{"Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"},
    Download{"TechxGenus/DeepSeek-Coder-V2-Lite-Instruct-AWQ", "deepseek-v2-lite"},
    Download{"nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nemotron-nano-9b-v2"},
    Download{"microsoft/phi-2", "phi-2"},
    Download{"Qwen/Qwen2.5-3B-Instruct-AWQ", "qwen2.5-3b"},
    Download{"unsloth/GLM-4.7-Flash", "glm-4.7-flash"},
    Download{"RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b"},
    Download{"unsloth/Mistral-Small-3.2-24B-Instruct-2506-bnb-4bit", "mistral-small-3.1-24b-text"},
    Download{"kosbu/Llama-3.3-70B-Instruct-AWQ", "llama-3.3-70b"},
    Download{"Qwen/Qwen3-1.7B-GPTQ-Int8", "qwen3-1.7b"},
    Download{"codgician/Qwen3.5-35B-A3B-Claude-4.6-Opus-Reasoning-Distilled-GPTQ-int4", kUnknownHere},
    Download{"Qwen/Qwen2.5-Math-1.5B", "qwen2.5-1.5b"},
    Download{"farbodtavakkoli/OTel-LLM-1.2B-IT", kUnknownHere},
    Download{"Qwen/Qwen3-8B-Base", "qwen3-8b"},
    Download{"Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b"},
    Download{"QuantTrio/Qwen3.6-35B-A3B-AWQ", "qwen3.5-35b-a3b"},
    Download{"LiquidAI/LFM2.5-1.2B-Instruct", "lfm2-1.2b"},
    Download{"deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "deepseek-r1-distill-qwen-1.5b"},
    Download{"bigscience/bloom-560m", "bloom-560m"},
    Download{"Qwen/Qwen2-0.5B", "qwen2-0.5b"},
    Download{"huihui-ai/Qwen2.5-72B-Instruct-abliterated", kUnknownHere},
    Download{"Qwen/Qwen2.5-3B", "qwen2.5-3b"},
    Download{"EleutherAI/gpt-neo-125m", "gpt-neo-125m"},
    Download{"Qwen/Qwen3-4B-Thinking-2507", "qwen3-4b"},
    Download{"lmstudio-community/DeepSeek-R1-0528-Qwen3-8B-MLX-4bit", "qwen3-8b"},
    Download{"hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "llama-3.1-8b"},
    Download{"sakamakismile/Qwen3.6-27B-Text-NVFP4-MTP", "qwen3.5-27b-text"},
    Download{"deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "qwen2.5-14b"},
    Download{"deepseek-ai/DeepSeek-V2-Lite", "deepseek-v2-lite"},
    Download{"NexVeridian/Qwen3-Coder-Next-8bit", "qwen3-next-80b-a3b"},
    Download{"Lorbus/Qwen3.6-27B-int4-AutoRound", "qwen3.5-27b"},
    Download{"cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit", "qwen3.5-35b-a3b"},
    Download{"state-spaces/mamba-130m-hf", "mamba-130m"},
    Download{"google/gemma-2-9b-it", "gemma-2-9b"},
    Download{"Qwen/Qwen3.5-27B-GPTQ-Int4", "qwen3.5-27b"},
    Download{"Qwen/Qwen2.5-72B-Instruct", "qwen2.5-72b"},
    Download{"Qwen/Qwen2.5-Coder-3B-Instruct", "qwen2.5-3b"},
    Download{"unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "llama-3.1-8b"},
    Download{"google/gemma-4-31B", "gemma-4-31b"},
    Download{"lmstudio-community/DeepSeek-R1-0528-Qwen3-8B-MLX-8bit", "qwen3-8b"},
    Download{"humarin/chatgpt_paraphraser_on_T5_base", kUnknownHere},
    Download{"IlyaGusev/saiga_llama3_8b", "llama-3-8b"},
    Download{"zai-org/GLM-4.5-Air", "glm-4.5-air"},
    Download{"unsloth/mistral-7b-v0.3-bnb-4bit", "mistral-7b-v0.3"},
    Download{"farbodtavakkoli/OTel-LLM-0.6B-IT", kUnknownHere}};
// clang-format on

bool is_reason(std::string_view answer) { return answer.find(' ') != std::string_view::npos; }

HubSettings nobody() {
  HubSettings settings;
  settings.hub_cache = settings.own_cache = "/nonexistent";
  settings.is_offline = true;
  return settings;
}

}  // namespace

TEST_CASE("the most downloaded models are found, or refused with a reason that is true") {
  int num_found = 0;
  for (const Download& row : kDownloads) {
    CAPTURE(std::string(row.id));
    if (!is_reason(row.answer)) {
      CHECK(load_model(row.id, nobody()).spec.name == row.answer);
      ++num_found;
      continue;
    }
    CHECK_THROWS_WITH_AS(load_model(row.id, nobody()), doctest::Contains(std::string(row.answer).c_str()), InputError);
  }
  CHECK(num_found == 178);
}
