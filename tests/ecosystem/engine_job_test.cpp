#include "ecosystem/engine_job.h"

#include <algorithm>
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "base/child_process.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "hostile_names.h"
#include "models/catalogue.h"
#include "sanitized.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

using Words = std::vector<std::string>;
const PlanMark kPlanMark{"plan.json", std::string(64, 'a')};

EstimateRequest engine_plan(const std::string& strategy, const std::string& gpus = "4xA6000",
                            Method method = Method::Full) {
  EstimateRequest r;
  r.model = load_model("llama-3.2-1b").spec;
  r.cluster = parse_gpus(gpus);
  r.strategy = strategy;
  r.recipe.method = method;
  return r;
}

EngineQuestion question_of(const std::string& engine, Words script = {"train.py"}) {
  return {.engine = engine, .folder = "/jobs/one", .script = std::move(script), .launcher = {engine}};
}

const ExportedFile* job_file(const EngineJob& job, std::string_view name) {
  const auto at =
      std::find_if(job.files.begin(), job.files.end(), [&](const ExportedFile& file) { return file.name == name; });
  return at == job.files.end() ? nullptr : &*at;
}

bool ends_with(const Words& words, const Words& end) {
  return words.size() >= end.size() && std::equal(end.rbegin(), end.rend(), words.rbegin());
}

std::string variable(const EngineCommand& command, std::string_view name) {
  for (const auto& [own, value] : command.variables)
    if (own == name) return value;
  return "";
}

}  // namespace

TEST_CASE("run --engine slurm: a plan of plain PyTorch is started by torchrun, and CPU ranks ask for CPUs") {
  EstimateRequest plan = engine_plan("ddp", "2xcpu");
  plan.recipe.framework = "torch";
  plan.recipe.precision = Precision::Fp32;
  plan.recipe.optimizer = "adamw-foreach";
  const EngineJob job = plan_engine(plan, question_of("slurm", {}), kPlanMark);
  REQUIRE_MESSAGE(!job.is_refused(), job.refusal);
  const std::string text = job_file(job, "job.sbatch")->content;
  CHECK(text.find("#SBATCH --cpus-per-task=2\n") != std::string::npos);
  CHECK(text.find("gpus-per-node") == std::string::npos);
  CHECK(text.find("torchrun --standalone --nproc_per_node=2") != std::string::npos);
  CHECK(text.find("accelerate") == std::string::npos);
  CHECK(job_file(job, "torch.json"));
  CHECK(job_file(job, "train_torch.py"));
  CHECK(job.script == "train_torch.py");
  REQUIRE(job.packages.size() == 1);
  CHECK(job.packages.front().first == "torch");
}

TEST_CASE("run --engine slurm: secrets stand in variables of sbatch and not in the job's file") {
  EngineQuestion question = question_of("slurm", {"train.py", "--token", "hf_123456", "plain word"});
  question.secrets = {2};
  const EngineJob job = plan_engine(engine_plan("fsdp"), question, kPlanMark);
  REQUIRE_MESSAGE(!job.is_refused(), job.refusal);
  const ExportedFile* const file = job_file(job, "job.sbatch");
  CHECK(file->is_private);
  CHECK(file->content.find("hf_123456") == std::string::npos);
  CHECK(file->content.find("\"$GPUPLAN_ARGUMENT_2\"") != std::string::npos);
  REQUIRE(job.commands.size() == 1);
  CHECK(variable(job.commands.front(), "GPUPLAN_ARGUMENT_2") == "hf_123456");
  CHECK(job.commands.front().words ==
        Words{"slurm", "--wait", "--parsable", "--chdir=/jobs/one", "/jobs/one/job.sbatch"});
}

TEST_CASE("run --engine: each launcher is called with the plan's processes and the script behind them") {
  EngineJob job = plan_engine(engine_plan("fsdp"), question_of("accelerate", {"train.py", "--lr", "2e-4"}), kPlanMark);
  REQUIRE_MESSAGE(!job.is_refused(), job.refusal);
  CHECK(job.commands.front().words ==
        Words{"accelerate", "launch", "--config_file", "/jobs/one/accelerate.yaml", "train.py", "--lr", "2e-4"});
  CHECK(job_file(job, "accelerate.yaml"));
  CHECK_FALSE(job_file(job, "launch.sh"));

  job = plan_engine(engine_plan("fsdp"), question_of("torchrun"), kPlanMark);
  CHECK(job.commands.front().words == Words{"torchrun", "--standalone", "--nproc_per_node=4", "train.py"});
  CHECK(variable(job.commands.front(), "ACCELERATE_USE_FSDP") == "true");
  CHECK(variable(job.commands.front(), "FSDP_VERSION") == "2");

  job = plan_engine(engine_plan("zero3"), question_of("deepspeed"), kPlanMark);
  CHECK(job.commands.front().words == Words{"deepspeed", "--num_gpus=4", "--master_port=29500", "train.py"});
  CHECK(variable(job.commands.front(), "ACCELERATE_DEEPSPEED_CONFIG_FILE") == "/jobs/one/deepspeed.json");
  CHECK(plan_engine(engine_plan("fsdp"), question_of("deepspeed"), kPlanMark).is_refused());

  job = plan_engine(engine_plan("zero2"), question_of("accelerate"), kPlanMark);
  CHECK(
      parse_yaml11(job_file(job, "accelerate.yaml")->content, "a")->root["deepspeed_config"]["deepspeed_config_file"] ==
      "/jobs/one/deepspeed.json");

  job = plan_engine(engine_plan("single", "1xA6000"), question_of("torchrun"), kPlanMark);
  CHECK(job.commands.front().words == Words{"python3", "train.py"});
}

TEST_CASE("run --engine without a script: the shipped one, or plain PyTorch where transformers is missing") {
  EngineQuestion question = question_of("torchrun", {});
  question.options = {"--data=rows.jsonl"};
  EngineJob job = plan_engine(engine_plan("ddp"), question, kPlanMark);
  REQUIRE_MESSAGE(!job.is_refused(), job.refusal);
  CHECK(job.script == "train_torch.py");
  CHECK(
      ends_with(job.commands.front().words, {"/jobs/one/train_torch.py", "/jobs/one/torch.json", "--data=rows.jsonl"}));
  question.has_transformers = true;
  job = plan_engine(engine_plan("ddp", "4xA6000", Method::Lora), question, kPlanMark);
  REQUIRE_MESSAGE(!job.is_refused(), job.refusal);
  CHECK(ends_with(job.commands.front().words, {"/jobs/one/train_sft.py", "/jobs/one/sft.yaml", "--data=rows.jsonl"}));
  CHECK(job_file(job, "gpuplan_metrics.py"));
  CHECK(parse_yaml11(job_file(job, "sft.yaml")->content, "s")->root["lora_r"] == 8);
  for (const char* engine : {"accelerate", "deepspeed", "slurm"}) {
    CAPTURE(engine);
    question.engine = engine, question.launcher = {engine};
    job = plan_engine(engine_plan("zero2"), question, kPlanMark);
    REQUIRE_MESSAGE(!job.is_refused(), job.refusal);
    CHECK(job.script == "train_sft.py");
    const ExportedFile* const batch = job_file(job, "job.sbatch");  // which holds the command of Slurm's job
    if (batch)
      CHECK(batch->content.find("train_sft.py") != std::string::npos);
    else
      CHECK(
          ends_with(job.commands.front().words, {"/jobs/one/train_sft.py", "/jobs/one/sft.yaml", "--data=rows.jsonl"}));
  }
}

TEST_CASE("run --engine on several machines: a command per host, and --hosts is needed") {
  EngineQuestion question = question_of("torchrun");
  CHECK_THROWS_AS(plan_engine(engine_plan("fsdp", "16xH100"), question, kPlanMark), InputError);
  question.hosts = {"node1", "node2"};
  question.port = 4567;
  const EngineJob job = plan_engine(engine_plan("fsdp", "16xH100"), question, kPlanMark);
  REQUIRE(job.commands.size() == 2);
  CHECK(job.commands[1].host == "node2");
  CHECK(job.commands[1].words == Words{"torchrun", "--nnodes=2", "--node_rank=1", "--master_addr=node1",
                                       "--master_port=4567", "--nproc_per_node=8", "train.py"});
  question.hosts = {"node1"};
  CHECK_THROWS_AS(plan_engine(engine_plan("fsdp", "16xH100"), question, kPlanMark), InputError);
}

TEST_CASE("run --engine: the versions found here decide the FSDP version, in files and variables alike") {
  EngineQuestion question = question_of("torchrun");
  question.versions = {{"torch", "2.5.1"}};
  const EngineJob job = plan_engine(engine_plan("fsdp"), question, kPlanMark);
  REQUIRE_MESSAGE(!job.is_refused(), job.refusal);
  CHECK(variable(job.commands.front(), "FSDP_VERSION") == "1");
  CHECK(variable(job.commands.front(), "FSDP_SHARDING_STRATEGY") == "FULL_SHARD");
  CHECK(job.notes.front().find("[V02]") != std::string::npos);
}

TEST_CASE("hosts files: names, slots, comments; what is no host is refused with its line") {
  CHECK(parse_hosts("# two\nnode1 slots=8\n\n10.0.0.2\n", "hosts") == Words{"node1", "10.0.0.2"});
  for (const char* text : {"", "-oProxyCommand=id", "a b", "node1\nnode1", "$(id)", "a;b", "@"})
    CHECK_THROWS_AS(parse_hosts(text, "hosts"), InputError);
}

TEST_CASE("1,000 hostile arguments and folders stay one word each, and break no file") {
  std::vector<std::string> names = test::hostile_names();
  if (test::kIsSanitized) names.resize(150);  // those that were thought up, and some random ones
  const EstimateRequest plan = engine_plan("zero2");
  for (const std::string& name : names) {
    CAPTURE(name);
    const Words script{"train " + name + ".py", name, "--x=" + name};
    for (const char* engine : {"accelerate", "torchrun"}) {
      EngineQuestion question = question_of(engine, script);
      question.folder = "/jobs/" + name;
      const EngineJob job = plan_engine(plan, question, {name, kPlanMark.sha256});
      REQUIRE_MESSAGE(!job.is_refused(), job.refusal);
      CHECK(ends_with(job.commands.front().words, script));
      CHECK(parse_json(job_file(job, "deepspeed.json")->content, "ds")["zero_optimization"]["stage"] == 2);
      if (std::string_view(engine) == "accelerate")
        CHECK(job.commands.front().words[3] == (question.folder / "accelerate.yaml").string());
    }
  }
}

TEST_CASE("1,000 hostile arguments reach a program behind ssh, and a job of Slurm, as they are") {
  const test::ScratchFolder scratch;
  const std::string record = (scratch.path() / "record").string(), seen = (scratch.path() / "seen").string();
  write_file_atomically(record, "#!/bin/sh\nprintf '%s\\000' \"$@\" > \"$SEEN\"\n");
  std::filesystem::permissions(record, std::filesystem::perms::owner_all);
  const auto run_in_shell = [&](const Words& shell) {
    const pid_t child = start_child({.name = "sh", .command = shell, .variables = {{"SEEN", seen}}});
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    return read_file(seen);
  };
  const std::vector<std::string> names = test::hostile_names();
  for (std::size_t first = 0; first < names.size(); first += 100) {
    Words words{record};
    std::string expected;
    for (std::size_t i = first; i < first + 100; ++i) {
      words.push_back(names[i]);
      expected += names[i] + std::string(1, '\0');
    }
    const Words ssh = over_ssh({.host = "node1", .words = words, .variables = {{"A", names[first]}}}, scratch.path());
    CHECK(ssh[ssh.size() - 2] == "node1");
    CHECK(run_in_shell({"sh", "-c", ssh.back()}) == expected);

    // job.sbatch with its commands played: srun starts bash, accelerate is the recorder
    EngineQuestion question = question_of("slurm", Words(words.begin() + 1, words.end()));
    const EngineJob job = plan_engine(engine_plan("fsdp"), question, kPlanMark);
    REQUIRE_MESSAGE(!job.is_refused(), job.refusal);
    const std::string script =
        "set -e\nscontrol() { echo node1; }\nsrun() { shift; \"$@\"; }\n"
        "export SLURM_JOB_NODELIST=node1 SLURM_JOB_ID=7 SLURM_NODEID=0\n" +
        job_file(job, "job.sbatch")->content;
    const std::string file = (scratch.path() / "job.sh").string();
    write_file_atomically(file, script);
    const std::string bin = (scratch.path() / "bin").string();
    std::filesystem::create_directories(bin);
    std::error_code there;
    std::filesystem::copy_file(record, bin + "/accelerate", std::filesystem::copy_options::overwrite_existing, there);
    const std::string got = run_in_shell({"env", "PATH=" + bin + ":/usr/bin:/bin", "bash", file});
    const std::string head = std::string("launch") + '\0' + "--config_file" + '\0' + "accelerate.yaml" + '\0';
    CHECK(got == head + expected);
  }
}

}  // namespace gpuplan
