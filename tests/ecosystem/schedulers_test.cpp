// Jobs of schedulers: they start the trainer that the plan is of, from files that stand beside them, and name the
// packages that these need.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/yaml_file.h"
#include "ecosystem/export_targets.h"
#include "ecosystem/packages.h"
#include "exported.h"

namespace gpuplan {

using namespace test;

namespace {

EstimateRequest plan_on(const std::string& gpus, const std::string& framework) {
  EstimateRequest plan = plan_of("ddp", Method::Lora, {}, framework);
  plan.model = load_model("llama-3.1-8b").spec;
  plan.cluster = parse_gpus(gpus);
  return plan;
}

std::string text_of(const ExportAnswer& answer, std::string_view file) {
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  REQUIRE(file_of(answer, file));
  return file_of(answer, file)->content;
}

std::string installs_of(const EstimateRequest& plan) {
  return parse_yaml11(text_of(export_plan(plan, "skypilot", kMark), "task.yaml"), "task")->root["setup"];
}

}  // namespace

TEST_CASE("a scheduler's job starts the plan's own trainer, and TRL where gpuplan writes no files of it") {
  for (const auto& [framework, file] : {std::pair{"axolotl", "axolotl.yaml"},
                                        {"llama-factory", "llamafactory.yaml"},
                                        {"ms-swift", "swift.yaml"},
                                        {"trl", "sft.yaml"},
                                        {"hf-trainer", "sft.yaml"}})
    for (const auto& [target, job] :
         {std::pair{"slurm", "job.sbatch"}, {"skypilot", "task.yaml"}, {"kubeflow", "job.yaml"}}) {
      CAPTURE(framework);
      CAPTURE(target);
      const ExportAnswer answer = export_plan(plan_on("4xA6000", framework), target, kMark);
      CHECK(has_text(text_of(answer, job), "sh launch.sh"));
      CHECK(file_of(answer, "launch.sh")->is_program);
      CHECK(file_of(answer, file));
      CHECK(answer.files.front().name == job);
      CHECK((file_of(answer, "sft.yaml") != nullptr) == (std::string_view(file) == "sft.yaml"));
    }
}

TEST_CASE("on several machines a job sets every variable that launch.sh asks for") {
  int asked = 0;
  for (const char* framework : {"axolotl", "llama-factory", "ms-swift", "trl"})
    for (const auto& [target, job] :
         {std::pair{"slurm", "job.sbatch"}, {"skypilot", "task.yaml"}, {"kubeflow", "job.yaml"}}) {
      CAPTURE(framework);
      CAPTURE(target);
      const ExportAnswer answer = export_plan(plan_on("16xH100", framework), target, kMark);
      const std::string launch = text_of(answer, "launch.sh"), text = text_of(answer, job);
      for (std::size_t at = 0; (at = launch.find("${", at)) != std::string::npos; ++at) {
        const std::string name = launch.substr(at + 2, launch.find(':', at) - at - 2);
        if (name == "CUDA_VISIBLE_DEVICES") continue;
        ++asked;
        CHECK_MESSAGE(has_text(text, " " + name + "="), name);
      }
    }
  CHECK(asked >= 4 * 3 * 3);  // number, address and port
}

TEST_CASE("a plan from a trainer's file keeps its data and its settings in a scheduler's job") {
  const CarriedSettings own{
      "axolotl", "ax.yaml",
      nlohmann::json{
          {"datasets", {{{"path", "rows.jsonl"}, {"type", "alpaca"}}}}, {"learning_rate", 3e-4}, {"max_steps", 70}}};
  EstimateRequest plan = plan_on("4xA6000", "axolotl");
  plan.dataset.epochs = 3;
  for (const char* target : {"slurm", "skypilot", "kubeflow"}) {
    CAPTURE(target);
    const ExportAnswer answer =
        export_plan(plan, target, kMark, {}, {.carried = std::make_shared<const CarriedSettings>(own)});
    const auto file = parse_yaml11(text_of(answer, "axolotl.yaml"), "a");
    CHECK(file->root["datasets"][0]["path"] == "rows.jsonl");
    CHECK(file->root["learning_rate"] == 3e-4);
    CHECK(file->root["max_steps"] == 70);
    CHECK(file->root["num_epochs"] == 3);
  }
  // a launcher's files name no data: it is said, with the epochs
  const ExportAnswer answer =
      export_plan(plan, "torchrun", kMark, {}, {.carried = std::make_shared<const CarriedSettings>(own)});
  CHECK(has_text(fmt::format("{}", fmt::join(answer.notes, "\n")), "of ax.yaml it must do datasets, learning_rate"));
  CHECK(has_text(text_of(answer, "launch.sh"), "--epochs 3"));
}

TEST_CASE("a scheduler's job is refused where something else would have to be started first") {
  EstimateRequest plan = plan_on("4xA6000", "torch");
  plan.strategy = "fsdp";
  CHECK(has_text(export_plan(plan, "skypilot", kMark).refusal, "the PyTorch script trains on one GPU, with DDP"));
}

TEST_CASE("versions of tables and of users in the words of pip") {
  CHECK(pip_bounds("0.23 to 1.10") == ">=0.23,<1.11");
  CHECK(pip_bounds("4.56 to 5.x") == ">=4.56,<6");
  CHECK(pip_bounds("0.17 or later") == ">=0.17");
  CHECK(pip_bounds("1.10.1") == "==1.10.1");
}

TEST_CASE("what a task installs is what its plan needs, in the versions for which its files are written") {
  EstimateRequest plan = plan_on("4xA6000", "trl");
  const std::string bare = installs_of(plan);
  for (const auto& [package, version] : find_key_table("trl")->versions)
    CHECK_MESSAGE(has_text(bare, package + pip_bounds(version)), package);
  for (const char* package : {"liger", "flash-attn", "deepspeed", "bitsandbytes"})
    CHECK_MESSAGE(!has_text(bare, package), package);

  plan.recipe.attention = AttentionKernel::Flash;
  plan.recipe.kernels = LayerKernels::Fused;
  plan.recipe.loss = LossKernel::Fused;
  plan.recipe.optimizer = "paged-adamw-8bit";
  plan.strategy = "zero2";
  const std::string full = installs_of(plan);
  for (const char* package : {" liger-kernel", " bitsandbytes", "'deepspeed"})
    CHECK_MESSAGE(has_text(full, package), package);
  CHECK(has_text(full, "&& pip install --no-build-isolation flash-attn"));  // once PyTorch is there

  // axolotl pins these itself, and calls the rest by its extras
  plan.recipe.framework = "axolotl";
  const std::string own = installs_of(plan);
  CHECK(has_text(own, "'axolotl[deepspeed,flash-attn]>="));
  CHECK(!has_text(own, "liger"));
  CHECK(!has_text(own, "trl"));

  const ExportAnswer given = export_plan(plan_on("4xA6000", "trl"), "skypilot", kMark, parse_versions("trl=0.25.1"));
  CHECK(has_text(text_of(given, "task.yaml"), "trl==0.25.1 "));
  CHECK(has_text(text_of(given, "sft.yaml"), "trl 0.25.1,"));
}

TEST_CASE("every trainer whose files are written has a row of packages") {
  for (const Target& target : export_target_rows()) {
    if (!target.trainer) continue;
    CAPTURE(target.trainer);
    CHECK(!pip_commands({}, *find_key_table(target.trainer), {}).empty());
  }
}

}  // namespace gpuplan
