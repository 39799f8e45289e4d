// Runs of public reports whose cause is known, told to diagnose as their users would have: the flags of the run without
// the cause, and what was measured.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "cli/phase_points.h"
#include "golden/command_line.h"
#include "report/html/one_file.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

struct ReportedCase {
  const char* flags;  // of the run, as its user believed it to be
  const char* measured;
  std::vector<std::string> causes;  // that the report names; several: it leaves open which; none: nothing is otherwise
  const char* source;
};

constexpr const char* kTune =
    "--model llama-3.2-3b --full --framework torchtune --gpus A100-80GB --micro-batch 2 --seq-len 4096 --precision "
    "bf16-true --checkpointing none ";

const std::vector<ReportedCase>& reported_cases() {
  static const std::vector<ReportedCase> cases{
      {"--model qwen3.5-9b-text --full --gpus 8xB200 --strategy fsdp --micro-batch 8 --seq-len 1024 --checkpointing "
       "none",
       "--measured 1.22s",
       {"linear-attention"},
       "huggingface/transformers issue 48718: flash-linear-attention not installed, 0.70 s with it"},
      {"--model qwen3.5-27b-text --lora r=8 --gpus 8xB200 --strategy fsdp --grad-accum 4 --micro-batch 8 --seq-len "
       "2048 "
       "--checkpointing full",
       "--measured 52.8s",
       {"linear-attention"},
       "huggingface/peft issue 3718: flash-linear-attention not installed (Qwen3.8-27B; the catalogue's 3.5 has its "
       "shape)"},
      {"--model llama3-8b --lora r=8,targets=q_proj+v_proj --framework llama-factory --gpus 3xA100-80GB --strategy "
       "zero3 "
       "--seq-len 1024 --micro-batch 1 --grad-accum 2 --precision fp16-mixed",
       "--measured 60s",
       {"nvlink", "p2p"},
       "hiyouga/LlamaFactory issue 3499: 20 steps in 20 minutes with NCCL_P2P_DISABLE=1"},
      {"--model opt-1.3b --full --framework hf-deepspeed --gpus 3090 --host server --strategy zero3 --offload "
       "optimizer "
       "--micro-batch 1 --seq-len 1024 --precision fp16-mixed",
       "--measured 24.1s",
       {"host-step"},
       "deepspeedai/DeepSpeed issue 1635: CPU Adam takes 22 s of a step for 1.35B parameters"},
      {"--packing packed --tokens-per-row 210 --loss plain",
       "--tokens-per-s 2091 --peak 25.5GiB --peak-kind allocated",
       {"packing"},
       "pytorch/torchtune README @bd2a0fc7, optimisation ladder: baseline without packing"},
      {"--packing packed --loss plain --compile",
       "--tokens-per-s 7075 --peak 60.0GiB --peak-kind allocated",
       {"compile"},
       "likewise: the row before torch.compile"},
      {"--packing packed --compile",
       "--tokens-per-s 7210 --peak 24.9GiB --peak-kind allocated",
       {"checkpointing"},
       "likewise: the row with activation checkpointing"},
      {"--packing packed --loss plain --compile",
       "--tokens-per-s 8998 --peak 51.0GiB --peak-kind allocated",
       {},
       "likewise: the row with torch.compile, as planned"},
      {"--model llama-3.1-8b --full --framework torchtitan --gpus 8xH100 --strategy fsdp --micro-batch 2 --seq-len "
       "8192 "
       "--checkpointing selective",
       "--tokens-per-s 46096",
       {},
       "pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md @b5bcd7, table 1: 5,762 tokens/s per GPU"},
      {"--model gpt2 --full --framework hf-trainer --gpus 2xTITAN-RTX --strategy ddp --micro-batch 4 --seq-len 1024 "
       "--precision fp32 --attention eager",
       "--measured 0.655s",
       {"nvlink", "p2p"},
       "huggingface/transformers docs, perf_hardware: 131 s for 200 steps with NCCL_P2P_DISABLE=1, 101 s with NVLink"}};
  return cases;
}

struct NamedCauses {
  bool is_inside = false;
  std::vector<std::string> causes;
};

NamedCauses diagnosed(const ReportedCase& c) {
  const bool is_of_ladder = std::string_view(c.flags).find("--model") == std::string_view::npos;
  const test::Ran ran =
      test::run_line(fmt::format("diagnose {}{} {} --json", is_of_ladder ? kTune : "", c.flags, c.measured));
  INFO(c.source);
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  const nlohmann::json answer = nlohmann::json::parse(ran.out);
  NamedCauses out{.is_inside = answer["is_inside"], .causes = {}};
  for (const nlohmann::json& e : answer["explanations"]) out.causes.push_back(e["cause"]);
  return out;
}

}  // namespace

TEST_CASE("diagnose: of ten runs of public reports the known cause is named in at least six") {
  int num_right = 0;
  std::string missed;
  for (const ReportedCase& c : reported_cases()) {
    const NamedCauses d = diagnosed(c);
    const auto is_named = [&](const std::string& cause) {
      const auto at = std::ranges::find(d.causes, cause);
      return at != d.causes.end();
    };
    const bool is_right = c.causes.empty() ? d.is_inside : std::ranges::any_of(c.causes, is_named);
    num_right += is_right;
    if (!is_right) missed += fmt::format("{}: [{}]\n", c.source, fmt::join(d.causes, " "));
  }
  MESSAGE(num_right << " of " << reported_cases().size() << "; missed:\n" << missed);
  CHECK(reported_cases().size() == 10);
  CHECK(num_right >= 6);
}

TEST_CASE("diagnose: a bar's time is read, and one as short as a micro-batch is asked about") {
  const auto said = [](const std::string& measured) {
    return test::run_line("diagnose --model llama3-8b --lora --grad-accum 16 --gpus A6000 --measured " + measured).out;
  };
  const std::string slow = said("200s");
  CHECK(said("200s/it") == slow);
  CHECK(said("0.005it/s") == slow);
  CHECK(said("0.08step/s") == said("12.5s"));
  CHECK(slow.find("was one of them timed") == std::string::npos);
  const auto passes = nlohmann::json::parse(
      test::run_line("estimate --model llama3-8b --lora --grad-accum 16 --gpus A6000 --json").out);
  const double step = passes["strategies"][0]["step_seconds"];
  CHECK(said(fmt::format("{}s", step / 16)).find("16 micro-batches of") != std::string::npos);
  CHECK(said(fmt::format("{}s", step)).find("was one of them timed") == std::string::npos);
}

TEST_CASE("diagnose: lengths that a log states are those of the prediction; else the assumed one is named") {
  const test::ScratchFolder folder;
  const std::string log =
      folder
          .write("verl.log",
                 "step:1 - response_length/mean:250.0 - prompt_length/mean:100.0 - timing_s/step:95.0\n"
                 "step:2 - response_length/mean:250.0 - prompt_length/mean:100.0 - timing_s/step:95.0\n")
          .string();
  const std::string plan = "--framework verl --model qwen3-8b --full --method grpo --gpus 8xH100 ";
  const auto predicted = [&](const std::string& flags) {
    return nlohmann::json::parse(test::run_line("diagnose " + plan + flags + " --json").out)["time"]["predicted"]
        .get<double>();
  };
  const double of_log = predicted("--completion-len 1024 --prompt-len 512 --log " + log),
               stated = predicted("--completion-len 250,1024 --prompt-len 100,512 --measured 95s");
  CHECK(of_log == doctest::Approx(stated));
  const test::Ran assumed = test::run_line("diagnose " + plan + "--measured 95s");
  CHECK((assumed.out + assumed.err).find("--completion-len MEAN,") != std::string::npos);
}

TEST_CASE("diagnose: a log among the configurations is told from them") {
  const test::ScratchFolder folder;
  const std::string log = folder.write("train.log", " 9/40 [00:18<01:02, 2.00s/it]\n").string();
  const test::Ran ran = test::run_line("diagnose " + log + " --gpus A6000");
  CHECK(ran.code == 2);
  CHECK(ran.err.find("--log " + log) != std::string::npos);
}

TEST_CASE("diagnose: steps that the data does not fill are told") {
  // 3 epochs of 20 rows are 3 steps of 20 of 64 sequences each
  const std::string plan =
      "--model llama3-8b --lora --grad-accum 64 --gpus A6000 --rows 20 --tokens-per-row 2048 --epochs 3 ";
  const auto row = nlohmann::json::parse(test::run_line("estimate " + plan + "--json").out)["strategies"][0];
  const double step = row["step_seconds"];
  const test::Ran mean = test::run_line("diagnose " + plan + fmt::format("--measured {}s", step * 20 / 64));
  CHECK(mean.out.find("The data fills a step to 31 %") != std::string::npos);
  CHECK(test::run_line("estimate " + plan + "--brief").out.find("3 steps that the data fills to 31 %") !=
        std::string::npos);
}

TEST_CASE("diagnose: the log of a run that ran out of memory names the command that answers") {
  test::ScratchFolder folder;
  const auto log =
      folder.write("oom.log",
                   "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
                   "capacity of 23.65 GiB of which 1.06 GiB is free. Of the allocated memory 21.90 GiB is "
                   "allocated by PyTorch\n");
  const std::string name = log.string();
  const test::Ran of_flags = test::run_line("diagnose --model llama3-8b --gpus 2x3090 --log " + name);
  CHECK(of_flags.code == 2);
  CHECK(of_flags.err.find("ran out of memory: 2.00 GiB were asked for with 1.06 GiB free") != std::string::npos);
  CHECK(of_flags.err.find("gpuplan estimate --from " + name) != std::string::npos);
  const std::string file = GPUPLAN_TEST_DIR "/golden/inputs/sft.yaml";
  CHECK(test::run_line("diagnose " + file + " --gpus 2x3090 --log " + name)
            .err.find("gpuplan fix " + file + " " + name) != std::string::npos);
}

TEST_CASE("diagnose: what is missing or contradicts itself is said in one line") {
  const auto error = [](const std::string& flags) { return test::run_line("diagnose " + flags); };
  const std::string plan = "--model llama3-8b --lora --gpus 4xA6000 ";
  for (const auto& [flags, part] :
       std::vector<std::pair<std::string, std::string>>{{plan, "nothing was measured"},
                                                        {plan + "--measured 1s --tokens-per-s 5", "both say the time"},
                                                        {plan + "--measured 0", "--measured"},
                                                        {plan + "--measured 1", "--measured"},
                                                        {plan + "--peak-kind reserved --measured 1s", "--peak-kind"},
                                                        {plan + "--trace nowhere.json", "nowhere.json"},
                                                        {"--measured 1s", "--model"}}) {
    const test::Ran ran = error(flags);
    CAPTURE(flags);
    CAPTURE(ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.err.find(part) != std::string::npos);
    CHECK(ran.out.empty());
  }
}

TEST_CASE("diagnose: --as-point writes a line that validate reads, with the same prediction as the answer's") {
  const test::ScratchFolder folder;
  const std::string file = (folder.path() / "point.jsonl").string();
  for (const char* asked : {"--model llama3-8b --lora --gpus 4xA6000 --strategy fsdp --versions transformers=4.57",
                            GPUPLAN_TEST_DIR "/golden/inputs/axolotl.yaml --gpus 2x3090"}) {
    CAPTURE(asked);
    const test::Ran ran = test::run_line(
        fmt::format("diagnose {} --measured 2s --peak 20GiB --peak-kind reserved --json --as-point {}", asked, file));
    CAPTURE(ran.err);
    REQUIRE(ran.code == 0);
    const nlohmann::json answer = nlohmann::json::parse(ran.out);
    const auto points = judge_phase_points(file);
    REQUIRE(points);
    REQUIRE(points->size() == 1);
    const PhasePoint& point = points->front();
    CHECK(point.refused == "");
    CHECK(point.source == "own measurement");
    REQUIRE(point.figures.size() == 2);  // by name
    CHECK(point.figures[0].name == "reserved_gib");
    CHECK(point.figures[0].measured == doctest::Approx(20));
    CHECK(point.figures[0].predicted * 0x1p30 == doctest::Approx(answer["memory"]["predicted"].get<double>()));
    CHECK(point.figures[1].name == "step_seconds");
    CHECK(point.figures[1].measured == doctest::Approx(2));
    CHECK(point.figures[1].predicted == doctest::Approx(answer["time"]["predicted"].get<double>()));
    CHECK(test::run_line("validate " + file).code == 0);
  }
}

TEST_CASE("diagnose: --as-point keeps tokens a second, and refuses methods whose steps have phases") {
  const test::ScratchFolder folder;
  const std::string file = (folder.path() / "point.jsonl").string();
  const std::string plan = "diagnose --model qwen2.5-1.5b --gpus 2x3090 ";
  REQUIRE(test::run_line(plan + "--lora --tokens-per-s 4000 --as-point " + file).code == 0);
  const PhasePoint point = judge_phase_points(file).value().front();
  REQUIRE(point.figures.size() == 1);
  CHECK(point.figures[0].name == "tokens_per_second");
  CHECK(point.figures[0].measured == doctest::Approx(4000));
  const test::Ran generating = test::run_line(plan + "--method grpo --lora --measured 20s --force --as-point " + file);
  CAPTURE(generating.err);
  CHECK(generating.code == 2);
  CHECK(generating.err.find("--as-point") != std::string::npos);
}

TEST_CASE("diagnose: the page of --html holds the answer of --json and its lines, and fetches nothing") {
  const test::ScratchFolder folder;
  const std::string file = (folder.path() / "step.html").string();
  const std::string line =
      "diagnose --model llama3-8b --lora --gpus 4xA6000 --strategy fsdp --seq-len 512 --checkpointing full --measured "
      "2s ";
  REQUIRE(test::run_line(line + "--html " + file).code == 0);
  const std::string page = read_file(file), begin = R"(<script type="application/json" id="data">)";
  CHECK(page.starts_with(kPageBegins));
  CHECK(page.find("https://") == std::string::npos);
  const std::size_t at = page.find(begin) + begin.size();
  const nlohmann::json data = nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
  CHECK(data["kind"] == "diagnose");
  CHECK(data["answer"] == nlohmann::json::parse(test::run_line(line + "--json").out));
  REQUIRE(data["answer"]["explanations"].size() > 1);
  CHECK(data["predictions"].size() == data["answer"]["explanations"].size());
  CHECK(data["lines"][0].get<std::string>().starts_with("2.00 s a step measured, "));
  CHECK(data["no_explanation"] == "");
}

}  // namespace gpuplan
