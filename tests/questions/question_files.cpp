#include <array>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "base/json_file.h"
#include "base/names.h"
#include "cli/program.h"
#include "questions/random_question.h"

namespace gpuplan::test {
namespace {

constexpr std::array kFiles{
    QuestionFile{"lora.json", "estimate --model llama3-8b --lora r=8 --gpus 4xA6000 --save lora.json", nullptr},
    QuestionFile{"qlora.json",
                 "estimate --model qwen2.5-7b --qlora r=16 --gpus 2x3090 --strategy fsdp --save qlora.json", nullptr},
    QuestionFile{"full.json",
                 "estimate --model smollm2-135m --full --gpus 8xA100-80GB --strategy zero3 --save full.json", nullptr},
    QuestionFile{"tight.json", "estimate --model llama-3.2-1b --full --gpus 1x4090 --loss fused --save tight.json",
                 nullptr},
    QuestionFile{"nodes.json",
                 "estimate --model llama3-8b --full --cluster dgx-h100 --num-gpus 16 --strategy hsdp --save nodes.json",
                 nullptr},
    QuestionFile{"lengths.txt", nullptr, "12 100\n512 40\n2048 3\n8000\n"},
    QuestionFile{"rows.jsonl", nullptr, "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [4, 5, 6, 7, 8, 9, 10, 11]}\n"},
    QuestionFile{"hosts.txt", nullptr, "node1\nnode2\n"}};

bool write(const std::string& name, const std::string& content) {
  return bool(std::ofstream(name, std::ios::binary) << content);
}

}  // namespace

std::span<const QuestionFile> question_files() { return kFiles; }

std::string write_question_files() {
  for (const QuestionFile& file : kFiles) {
    if (file.content && write(file.name, file.content)) continue;
    std::ostringstream out, err;
    std::istringstream in;
    const int code = file.command ? run(split(file.command, ' '), out, err, {}, in) : 3;
    if (code != 0) return fmt::format("{} was not written: {}", file.name, err.str());
  }
  const nlohmann::json examples = read_json_file(std::string(GPUPLAN_TEST_DIR) + "/ecosystem/public_examples.json");
  for (std::size_t i = 0; i < kNumExamples; ++i)
    if (!write(fmt::format("example{}.yaml", i), examples.at(i).at("keys").dump())) return "an example was not written";
  std::ifstream points(std::string(GPUPLAN_TEST_DIR) + "/golden/inputs/points.jsonl");
  std::ostringstream copied;
  copied << points.rdbuf();
  return write("points.jsonl", copied.str()) ? "" : "points.jsonl was not written";
}

}  // namespace gpuplan::test
