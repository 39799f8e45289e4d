// The whole program on one file: its first line names the file, and so the question; the rest is its content. Asked
// through `answer`, as the page, `serve` and the tests do, with nothing else in the world. An answer has one of the
// exit codes of people's questions, sends a terminal nothing that it obeys, and is JSON where JSON was asked for.
#include <array>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/utf8.h"
#include "cli/program.h"
#include "fuzz/fuzz_input.h"

namespace {

using namespace gpuplan;

struct Asked {
  std::string_view file;
  const char* words;
};
constexpr const char* kTiny = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2,
  "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 3, "vocab_size": 4})";
constexpr std::array kAsked{
    Asked{"plan.json", "estimate plan.json --json"},
    Asked{"config.json", "models --show config.json --json"},
    Asked{"m/model.safetensors", "models --show m --json"},
    Asked{"m/model.safetensors.index.json", "models --show m --json"},
    Asked{"points.jsonl", "validate points.jsonl --json"},
    Asked{"lengths.txt", "estimate --model smollm2-135m --gpus 2xA6000 --lengths lengths.txt --json"},
    Asked{"machine.yaml", "topology --cluster machine.yaml --json"},
    Asked{"machine.txt", "topology --cluster machine.txt --gpu A6000 --json"},
    Asked{"profile.yaml", "estimate --model smollm2-135m --gpus 2xA6000 --profile profile.yaml --json"},
    Asked{"prices.yaml", "plan --model smollm2-135m --lora --prices prices.yaml --json"},
    Asked{"trainer.yaml", "estimate --from trainer.yaml --model smollm2-135m --gpus 2xA6000 --json"},
    Asked{"train.sh", "estimate --from train.sh --model smollm2-135m --gpus 2xA6000 --json"},
    Asked{"train.py", "estimate --from train.py --model smollm2-135m --gpus 2xA6000 --json"},
    Asked{"train.log", "diagnose --model smollm2-135m --gpus 2xA6000 --log train.log --json"},
    Asked{"trace.json", "diagnose --model smollm2-135m --gpus 2xA6000 --trace trace.json --json"},
    Asked{"fix.yaml", "fix fix.yaml --model smollm2-135m --gpus 2xA6000"}};

void check_shown(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::string character = text.substr(at, character_length(std::string_view(text).substr(at)));
    GPUPLAN_CHECK(character == "\r" || shown_character(character) == character,
                  "a terminal gets nothing that it obeys");
    at += character.size();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t end = input.find('\n');
  if (end == input.npos) return 0;
  for (const Asked& asked : kAsked) {
    if (asked.file != input.substr(0, end)) continue;
    Surroundings given{.files = {{"m/config.json", kTiny}}, .num_cores = 1};
    given.files[std::string(asked.file)] = input.substr(end + 1);
    const Answer answered = answer(split(asked.words, ' '), given);
    GPUPLAN_CHECK(answered.code >= 0 && answered.code <= kWorldFailed,
                  "an answer has an exit code of people's questions");
    GPUPLAN_CHECK(answered.written.empty(), "nothing is written that was not asked for");
    check_shown(answered.out);
    check_shown(answered.err);
    if (answered.code < 2 && std::string_view(asked.words).ends_with("--json"))
      GPUPLAN_CHECK(nlohmann::json::accept(answered.out), "an answer in JSON is JSON");
  }
  return 0;
}
