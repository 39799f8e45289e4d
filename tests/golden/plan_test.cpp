// Questions of users beside the answers of `gpuplan plan`, for a person to review: plan/questions.txt (its form:
// advice_test.cpp), and whether the commands that it prints give the plans that it shows.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "cli/program.h"
#include "golden/command_line.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

/// The sentence, the rows with their reasons, and what would do instead; without commands, knobs and assumptions.
std::string decision_of(const std::string& output) {
  std::istringstream lines(output);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("What each change") || line.starts_with("Assumptions") || line.starts_with("How to read"))
      break;
    const bool is_command = line.starts_with("    gpuplan estimate") || line.starts_with("      --");
    if (!line.empty() && !is_command) text += line + "\n";
  }
  return text;
}

nlohmann::json json_of(const std::string& command, int& code) {
  const test::Ran ran = test::run_line(command + " --json");
  code = ran.code;
  CAPTURE(ran.err);
  REQUIRE_FALSE(ran.out.empty());
  return nlohmann::json::parse(ran.out);
}

}  // namespace

TEST_CASE("plans are what an expert would advise") {
  const test::ScratchFolder scratch;
  const test::Variable profiles("GPUPLAN_PROFILE_DIR", scratch.path().c_str());
  const test::Variable gpus("CUDA_VISIBLE_DEVICES", "");
  const fs::path file = fs::path(GPUPLAN_TEST_DIR) / "golden/plan/questions.txt";
  const std::string page = read_file(file);
  int num_questions = 0;
  const std::string today = test::with_answers_of_today(page, decision_of, num_questions);
  CHECK(num_questions >= 30);
  if (test::is_updating())
    write_file_atomically(file, today);
  else
    CHECK_MESSAGE(page == today, "plans changed: run with GPUPLAN_UPDATE_GOLDEN=1 and review the difference");
}

TEST_CASE("where nothing is possible, plan says what the nearest plan lacks, or which rule refuses") {
  const std::string question = "plan --model llama-3.1-70b --rows 100 --gpus 2x3090 ";
  const auto why = [&](const std::string& flags) {
    int code = 0;
    const nlohmann::json answer = json_of(question + flags, code);
    CHECK(code == 1);
    const std::string words = answer.at("why_none");
    CHECK(test::run_line(question + flags).out.find(words.substr(0, 40)) != std::string::npos);
    return words;
  };
  const std::string gpu = why("--full --offload none"),
                    host = why("--full --offload optimizer,params,activations --host-memory 16GiB");
  CAPTURE(gpu);
  CAPTURE(host);
  CHECK(gpu.starts_with("The nearest: full with "));
  CHECK(gpu.find(" on 2x RTX 3090 needs ") != std::string::npos);
  CHECK(gpu.find("on a GPU, which offers 22.9 GiB.") != std::string::npos);
  CHECK(host.find("of host memory; the host has 16.0 GiB.") != std::string::npos);
  const test::Ran refused = test::run_line(question + "--lora --strategy ddp --global-batch 3");
  CHECK(refused.code == 2);
  CHECK(refused.err.find("--global-batch: 3 sequences are no multiple of micro batch 1 x 2 data") != std::string::npos);
  int code = 0;
  CHECK(json_of(question + "--qlora", code).at("why_none").is_null());
}

TEST_CASE("plan --max answers in its first line what it was asked") {
  const std::string question = "plan --model smollm2-135m --lora --gpus T4 --max ";
  const auto number_before = [&](const std::string& what, const std::string& words) {
    const test::Ran ran = test::run_line(question + what);
    CAPTURE(ran.out);
    REQUIRE(ran.code == 0);
    const std::size_t at = ran.out.find(words);
    REQUIRE(at < ran.out.find('\n'));
    return ran.out.substr(0, at);
  };
  const std::string tokens = number_before("context", " tokens are the longest sequence that fits well");
  const std::string sequences = number_before("batch", " sequences per GPU and pass are the most that fit well");
  CHECK(tokens.find_first_not_of("0123456789,") == std::string::npos);
  CHECK(std::stoll(sequences) > 1);
}

TEST_CASE("plan says what one of its hours costs, when that was asked, and how much of the time is set-up") {
  const std::string out = test::run_line("plan --model llama3-8b --lora --rows 50000").out;
  CHECK(out.find(" per GPU hour, 2026-") != std::string::npos);
  CHECK(out.find(" with 15 min of set-up (--overhead)") != std::string::npos);
  CHECK(test::run_line("estimate --model llama3-8b --lora --gpus 4xA6000 --overhead 15min")
            .out.find(" with 15 min of set-up (--overhead)") != std::string::npos);
  CHECK(test::run_line("estimate --model llama3-8b --lora --gpus 4xA6000").out.find("set-up") == std::string::npos);
  const std::string many =
      test::run_line(
          "plan --model llama-3.1-70b --lora r=16 --rows 50000 --tokens-per-row 800 --epochs 3 --under 90min")
          .out;
  CHECK(many.find("32x H100 SXM5 80GB (4 machines)") != std::string::npos);
}

TEST_CASE("plan rents for the rows that a trainer's file names, and for as many steps as it says") {
  const test::ScratchFolder folder;
  const std::string file =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nfinetuning_type: lora\ncutoff_len: 4096\nstage: sft\n"
      "dataset: identity\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nnum_train_epochs: 2\n";
  const std::string rows = folder.write("rows.yaml", file).string(),
                    steps = folder.write("steps.yaml", file + "max_steps: 50\npacking: true\n").string();
  // 91 rows of 39 tokens, twice; 50 steps of 2 x 4 sequences of 4,096 tokens
  CHECK(test::run_line("plan --vendor runpod --from " + rows).out.find(" 7098 tokens in ") != std::string::npos);
  CHECK(test::run_line("plan --vendor runpod --from " + steps).out.find(" 1.64 M tokens") != std::string::npos);
}

TEST_CASE("plan tries every strategy for a file that states none, and keeps the attention that it states") {
  const test::ScratchFolder folder;
  const std::string file =
      "base_model: Qwen/Qwen2.5-32B\nadapter: qlora\nload_in_4bit: true\nlora_r: 32\nlora_alpha: "
      "16\nlora_target_linear: "
      "true\n"
      "sequence_len: 4096\nsample_packing: true\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n"
      "optimizer: paged_adamw_8bit\ngradient_checkpointing: true\nflash_attention: true\n";
  int code = 0;
  const std::string name = folder.write("axolotl.yaml", file).string();
  const nlohmann::json answer = json_of("plan --gpus 2x4090 --from " + name, code), &best = answer.at("recommended");
  CHECK(code == 0);
  CHECK(best.at("fits") == "yes");  // ddp does not
  CHECK(best.at("strategy") != "ddp");
  CHECK(best.at("command").get<std::string>().find("--attention") == std::string::npos);
}

TEST_CASE("an engine beside training holds a share of its own card, whatever card was tried before") {
  int code = 0;
  const nlohmann::json answer = json_of(
      "plan --model qwen2.5-7b --method grpo --framework trl --rollout-engine vllm --completion-len 400,1024 --rows "
      "2000 --budget 60 --vendor aws",
      code);
  CHECK(code == 0);
  const auto fits = [](const nlohmann::json& row) { return row.at("fits") == "yes"; };
  CHECK(std::ranges::any_of(answer.at("frontier"), fits));
  CHECK(fits(answer.at("recommended")));  // one that fits tightly is no recommendation beside it
}

TEST_CASE("the commands that plan prints give the plans that it shows") {
  const test::ScratchFolder scratch;
  const test::Variable profiles("GPUPLAN_PROFILE_DIR", scratch.path().c_str());
  const test::Variable gpus("CUDA_VISIBLE_DEVICES", "");
  const fs::path lengths = scratch.path() / "lengths.txt";
  write_file_atomically(lengths, "300 4000\n700 3000\n1900 500\n");
  int num_commands = 0;
  for (const std::string& question :
       {std::string("plan --model llama-3.1-8b --method any --gpus 2x4090 --top 10"),
        std::string("plan --model llama-3.2-1b --method any --vendor aws --spot --top 10"),
        std::string(
            "plan --model mistral-7b-v0.1 --lora r=16,targets=q_proj+v_proj --vendor lambda --global-batch 24 --top 5"),
        std::string("plan --model llama-3.2-3b --qlora --gpus 1xt4 --lengths ") + lengths.string(),
        std::string("plan --model qwen2.5-7b --lora --framework trl --gpus 1x3090"),
        std::string("plan --model qwen2.5-7b --method dpo --framework trl --gpus 4xA100"),
        std::string("plan --model qwen2.5-7b --method grpo --framework trl --rollout-engine vllm --completion-len "
                    "400,1024 --rows 2000 --gpus 4xA100"),
        std::string("plan --model llama-3.1-8b --full --vendor lambda --under 12h --top 5"),
        std::string("plan --model llama-3.1-8b --qlora --gpus 1x4090 --max context")}) {
    CAPTURE(question);
    int code = 0;
    const nlohmann::json answer = json_of(question, code);
    CHECK(code == 0);
    REQUIRE_FALSE(answer.at("frontier").empty());
    CHECK(answer.at("recommended") == answer.at("frontier").front());
    for (const nlohmann::json& row : answer.at("frontier")) {
      const std::string command = row.at("command");
      CAPTURE(command);
      REQUIRE(command.starts_with("gpuplan "));
      const nlohmann::json estimate = json_of(command.substr(8), code);
      CHECK(code == 0);
      const nlohmann::json& plan = estimate.at("strategies").front();
      CHECK(plan.at("name") == row.at("strategy"));
      CHECK(plan.at("fits") == row.at("fits"));
      CHECK(plan.at("process_bytes") == row.at("process_bytes"));
      CHECK(plan.at("step_seconds").get<double>() ==
            doctest::Approx(row.at("forward_pass_step_seconds").get<double>()).epsilon(1e-9));
      // the simulator and the forward pass agree within 15 % on plans whose links are not shared in odd ways
      CHECK(row.at("step_seconds").get<double>() ==
            doctest::Approx(plan.at("step_seconds").get<double>()).epsilon(0.15));
      // with the 15 minutes of a rented machine, for which these short trainings are paid most
      if (row.at("overhead_seconds").get<double>() > 0 && !row.at("spot").get<bool>()) {
        const double seconds = plan.at("total_seconds"), dollars = plan.at("cost_usd");
        CHECK(seconds == doctest::Approx(row.at("training_seconds").get<double>()).epsilon(0.15));
        CHECK(dollars == doctest::Approx(row.at("cost_usd").get<double>()).epsilon(0.15));
        CHECK(seconds > row.at("overhead_seconds").get<double>());
      }
      ++num_commands;
    }
  }
  CHECK(num_commands >= 10);
}

TEST_CASE("what plan prints as JSON has the keys of its contract") {
  int code = 0;
  const nlohmann::json answer = json_of("plan --model llama-3.2-1b --lora --gpus 2x4090", code);
  for (const char* key : {"recommended", "frontier", "knobs", "rejected", "searched"}) CHECK(answer.contains(key));
  for (const char* key : {"strategy", "method", "gpus", "settings", "step_seconds", "epoch_seconds", "training_seconds",
                          "cost_usd", "process_bytes", "fits", "command", "vendor", "reason"})
    CHECK(answer.at("recommended").contains(key));
  for (const char* key : {"plans", "seconds"}) CHECK(answer.at("searched").contains(key));
}

TEST_CASE("at 80 columns plan keeps its table, and the reason and the command of row 1") {
  for (const char* wish : {"--budget 50", "--prefer cost"}) {
    CAPTURE(wish);
    std::istringstream in;
    std::ostringstream out, err;
    const std::string question = fmt::format("plan --model llama-3-70b --lora {}", wish);
    CHECK(run(test::words_of(question), out, err, {.width = 80}, in) == 0);
    const std::string text = out.str();
    CHECK(text.find("strategy") != std::string::npos);
    CHECK(text.find("\n    gpuplan estimate --model llama-3-70b") != std::string::npos);
    CHECK(std::ranges::count(text, '\n') <= 24);
  }
}

TEST_CASE("a saved plan has the price and the time of the row, set-up included") {
  const test::ScratchFolder folder;
  const std::string file = (folder.path() / "p.json").string();
  const auto planned =
      nlohmann::json::parse(test::run_line("plan --model llama-3.1-8b --lora --budget 50 --json --save " + file).out);
  const auto again = nlohmann::json::parse(test::run_line("estimate " + file + " --json").out);
  const std::string simulated = test::run_line("simulate " + file).out;
  CHECK(again["strategies"][0]["cost_usd"].get<double>() ==
        doctest::Approx(planned["recommended"]["cost_usd"].get<double>()).epsilon(0.05));  // plan's is simulated
  CHECK(simulated.find("with 15 min of set-up") != std::string::npos);
}

TEST_CASE("a saved plan is the recommended one, and estimate reads it") {
  const test::ScratchFolder scratch;
  const std::string file = (scratch.path() / "plan.json").string();
  const test::Ran ran = test::run_line("plan --model llama-3.2-1b --lora --gpus 2x4090 --json --save " + file);
  REQUIRE(ran.code == 0);
  int code = 0;
  const nlohmann::json estimate = json_of("estimate " + file, code),
                       row = nlohmann::json::parse(ran.out).at("recommended");
  CHECK(estimate.at("strategies").front().at("name") == row.at("strategy"));
  CHECK(estimate.at("strategies").front().at("process_bytes") == row.at("process_bytes"));
}

TEST_CASE("the command of a plan has the length that rows of a file call for, once") {
  const test::ScratchFolder scratch;
  const test::Variable profiles("GPUPLAN_PROFILE_DIR", scratch.path().c_str());
  const auto data = scratch.path() / "pairs.jsonl";
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += R"({"prompt": "Why?", "chosen": "Because it is so.", "rejected": "No."})"
            "\n";
  write_file_atomically(data, rows);
  const test::Ran ran = test::run_line(fmt::format(
      "plan --model llama-3.2-1b --method dpo --lora --gpus 2xA100 --seq-len 1400 --data {}", data.string()));
  CHECK(ran.code == 0);
  const std::size_t at = ran.out.find("gpuplan estimate ");
  REQUIRE(at != std::string::npos);
  const std::string command = ran.out.substr(at, ran.out.find("\n\n", at) - at);
  const std::size_t first = command.find("--seq-len ");
  REQUIRE(first != std::string::npos);
  CHECK(command.find("--seq-len ", first + 1) == std::string::npos);
}

TEST_CASE("plan as CSV is one table of numbers that a spreadsheet can check, as Markdown it says what is trained") {
  const test::ScratchFolder scratch;
  const test::Variable profiles("GPUPLAN_PROFILE_DIR", scratch.path().c_str());
  const std::string question = "plan --model llama-3.2-1b --lora --rows 20000 --tokens-per-row 500 --vendor runpod ";
  std::istringstream lines(test::run_line(question + "--format csv").out);
  std::string titles;
  std::getline(lines, titles);
  CHECK(titles.starts_with(
      "row,gpus,num_gpus,vendor,method,strategy,hours,hours_low,hours_high,usd,usd_low,usd_high,usd_per_gpu_hour,"
      "price_date,"));
  int num_rows = 0;
  for (std::string line; std::getline(lines, line); ++num_rows) {
    CAPTURE(line);
    std::istringstream cells(line);
    std::vector<std::string> row;
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
    REQUIRE(row.size() > 13);
    const auto number = [&](std::size_t i) { return std::stod(row[i]); };
    // GPUs x hours x price; hours have three decimals, dollars two
    CHECK(number(2) * number(6) * number(12) == doctest::Approx(number(9)).epsilon(0.02));
    CHECK(number(7) < number(6));
    CHECK(number(6) < number(8));
    CHECK(number(10) < number(9));
    CHECK(number(9) < number(11));
  }
  CHECK(num_rows > 2);
  const std::string page = test::run_line(question + "--format md").out;
  CHECK(page.starts_with("llama-3.2-1b, LoRA: 20,000 rows of 500 tokens, 1 epoch, 10.0 M tokens; prices of 20"));
}

}  // namespace gpuplan
