// Training on answers, as a user runs it.
#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

std::string list_of(int begin, int step, int count) {
  std::string text = "[";
  for (int k = 0; k < count; ++k) text += (k == 0 ? "" : ",") + std::to_string((begin + k * step) % 101);
  return text + "]";
}

/// Writes rows that serve every method; the first `skipped` are left out.
std::string answers(const SmallRun& r, int skipped = 0) {
  std::string lines;
  for (int line = skipped; line < 24; ++line)
    lines += R"({"prompt":)" + list_of(line, 7, 3) + R"(,"chosen":)" + list_of(line, 1, 2 + line % 7) +
             R"(,"rejected":)" + list_of(line, 98, 2 + line % 5) + R"(,"completion":)" +
             list_of(line, 1, 2 + line % 7) + R"(,"advantage":)" + std::to_string(line % 3 - 1) + "}\n";
  r.scratch().write("answers.jsonl", lines);
  return " --data " + r.at("answers.jsonl") + " --no-shuffle --schedule constant --seq-len 16 --micro-batch 2";
}

}  // namespace

TEST_CASE(
    "answers: a reward model is saved with its score, whole or beside adapters, and the next run goes on from it") {
  const SmallRun r;
  for (const std::string method : {"--full", "--lora r=4,base=fp32"}) {
    const bool is_full = method == "--full";
    const std::string flags = method + " --method reward" + answers(r);
    r.report(flags + " --max-steps 6");
    const auto losses = r.losses();
    const std::string out = is_full ? "full" : "adapter";
    r.report(flags + " --max-steps 4 --output " + r.at(out));
    const std::string weights = r.content(out + (is_full ? "/model.safetensors" : "/adapter_model.safetensors"));
    check_has(weights, is_full ? "\"score.weight\"" : "\"base_model.model.score.weight\"");
    CHECK(weights.find("lm_head") == std::string::npos);
    if (!is_full) {
      check_has(r.content("adapter/adapter_config.json"), "SEQ_CLS");
      check_has(r.content("adapter/adapter_config.json"), "\"score\"");
    }
    const std::string on = is_full ? "--full --init none --model " : "--lora base=fp32 --adapter ";
    r.report(on + r.at(out) + " --method reward --max-steps 1" + answers(r, 8));
    CHECK(r.losses().front() == doctest::Approx(losses[4]).epsilon(1e-5));
  }
}

TEST_CASE("answers: a stopped run's settings are its own, and a loss that is not there is refused by its name") {
  const SmallRun r;
  const std::string flags = "--lora r=4 --method dpo" + answers(r);
  r.report(flags + " --max-steps 4 --save-every 2 --output " + r.at("out"));
  const Finished other = r.run(flags + " --max-steps 4 --beta 0.5 --resume --output " + r.at("out"));
  CHECK(other.code == 2);
  check_has(other.err, "another beta");
  for (const auto& [method, says] : {std::pair{"ipo", "the loss ipo"}, std::pair{"dr-grpo", "the loss dr-grpo"},
                                     std::pair{"orpo", "nothing is known of orpo"}}) {
    const Finished refused = r.run(std::string("--lora r=4 --method ") + method + answers(r) + " --max-steps 1");
    CHECK(refused.code == 2);
    check_has(refused.err, says);
  }
}

TEST_CASE("answers: ranks of their own processes lose what one rank loses, and memory is the predicted one") {
  const SmallRun r;
  for (const std::string flags : {"--full --method dpo", "--lora r=4 --method grpo"}) {
    r.report(flags + answers(r) + " --max-steps 3 --micro-batch 4 --gpus 1xcpu --strategy single");
    const auto one = r.losses();
    const nlohmann::json report =
        r.report(flags + answers(r) + " --max-steps 3 --micro-batch 2 --gpus 2xcpu --strategy fsdp");
    CHECK(worst_relative(r.losses(), one) < 1e-4);
    CHECK(report.at("measured").at("persistent_bytes") == report.at("predicted").at("persistent_bytes"));
    CHECK(report.at("measured").at("tensors_bytes").get<double>() <=
          1.05 * report.at("predicted").at("tensors_bytes").get<double>());
  }
}
