// Plans of preference tuning and reinforcement learning as trainers' files, and the same plans read from them.
#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/exported.h"
#include "ecosystem/method_files.h"
#include "ecosystem/own_facts.h"
#include "models/rollout.h"
#include "models/training_method.h"
#include "planner/rollout_phases.h"
#include "planner/strategy_estimate.h"

namespace gpuplan {

using namespace test;

namespace {

struct Trained {
  const char *program, *strategy;
};

/// A plan of `method` as `program` trains it.
EstimateRequest plan_with(const std::string& program, const std::string& method, const std::string& strategy) {
  EstimateRequest r = plan_of(strategy, Method::Full, {}, program);
  r.recipe.objective.method = method;
  r.recipe.packing = Packing::Dynamic;
  r.recipe.micro_batch = 2;
  r.recipe.seq_len = 1024;
  r.recipe.optimizer = r.recipe.framework->default_optimizer;
  if (program == "verl") r.recipe.attention = AttentionKernel::Flash;
  if (!generates(r.recipe)) return r;
  r.recipe.grad_accum = 4;
  r.rollout.engine = parse_engine("vllm:util=0.4,tp=2,sleep=yes");
  r.rollout.generations = 8;
  r.rollout.prompt_len = 256, r.rollout.max_completion = 768, r.rollout.mean_completion = 300;
  r.rollout.updates = 2, r.rollout.iterations = 2;
  settle_rows(r, {});
  return r;
}

/// Reads launch.sh as estimate --from does, the other files beside it.
EstimateRequest read_launch(const ExportAnswer& answer, const EstimateRequest& plan) {
  const auto find = [&](const std::string& name, const std::string&) -> std::optional<ConfigFile> {
    const ExportedFile* const file = file_of(answer, name);
    if (!file) return {};
    return ConfigFile{name, file->content};
  };
  ConfigReading reading = read_configs({{"launch.sh", file_of(answer, "launch.sh")->content}}, find);
  reading.request.model = plan.model;
  reading.request.cluster = plan.cluster;
  std::vector<std::string> notes;
  settle_stack(reading.request);
  settle_strategy(reading, reading.request, notes);
  if (generates(reading.request.recipe)) settle_rows(reading.request, {});
  return reading.request;
}

StrategyEstimate figures_of(const EstimateRequest& request) {
  StepProgram program;
  return estimate_strategy(Job(request, make_strategy(request.strategy, request.cluster, options_for(request))),
                           program);
}

}  // namespace

TEST_CASE("every method that a trainer's files can say is the same plan when launch.sh is read") {
  constexpr std::array kTrained{Trained{"trl", "zero3"}, Trained{"axolotl", "zero3"}, Trained{"llama-factory", "zero2"},
                                Trained{"ms-swift", "zero3"}, Trained{"verl", "fsdp"}};
  int num_plans = 0;
  for (const auto& [program, strategy] : kTrained)
    for (const TrainingMethod& method : training_methods()) {
      if (method.name == "sft" || !find_method_files(program, method.name)) continue;
      CAPTURE(program);
      CAPTURE(method.name);
      const EstimateRequest plan = plan_with(program, method.name, strategy);
      const ExportAnswer answer = export_plan(plan, program, kMark);
      CHECK(answer.refusal == "");
      if (answer.is_refused()) continue;
      const EstimateRequest read = read_launch(answer, plan);
      CHECK(read.recipe.objective.method->name == method.name);
      const StrategyEstimate a = figures_of(plan), b = figures_of(read);
      CHECK(a.tiers.process == b.tiers.process);
      CHECK(a.time.step.value == doctest::Approx(b.time.step.value));
      ++num_plans;
    }
  CHECK(num_plans >= 24);
}

TEST_CASE("files of a method name a public data set of its rows, or the one that is given") {
  const EstimateRequest plan = plan_with("trl", "grpo", "zero3");
  const std::string grpo = file_of(export_plan(plan, "trl", kMark), "grpo.yaml")->content;
  CHECK(has_text(grpo, "dataset_name: trl-lib/DeepMath-103K"));
  CHECK(has_text(grpo, "reward_funcs: [accuracy_reward]"));
  CHECK(has_text(grpo, "vllm_max_model_length: 1024"));
  const ExportPlaces own{.program = {}, .variables = {}, .data = {.name = "someone/prompts"}};
  CHECK(has_text(file_of(export_plan(plan, "trl", kMark, {}, own), "grpo.yaml")->content,
                 "dataset_name: someone/prompts"));
}

TEST_CASE("a method that a trainer has no files for is refused with the trainers that have them") {
  const ExportAnswer answer = export_plan(plan_with("trl", "orpo", "zero3"), "trl", kMark);
  CHECK(has_text(answer.refusal, "gpuplan writes no files of trl for orpo"));
  CHECK(answer.nearest == "--for axolotl, llama-factory or ms-swift");
}

TEST_CASE("what a trainer does not have is no comment of its file") {
  EstimateRequest plan = plan_with("trl", "grpo", "zero3");
  plan.rollout.engine.offloads = TrainerOffload::Yes;
  CHECK(has_text(export_plan(plan, "trl", kMark).refusal, "cannot say rollout.offload yes"));
  CHECK_FALSE(is_fact_of_no_key("engine_offloads"));
  CHECK_THROWS_AS(read_own_facts("# Read by gpuplan alone: {\"engine_offloads\":true}\n", "a.yaml"), InputError);
}

TEST_CASE("a server of answers has a command of its own, behind the GPUs that train") {
  EstimateRequest plan = plan_with("trl", "grpo", "zero3");
  plan.cluster = parse_gpus("4xA6000");
  plan.rollout.engine = parse_engine("vllm:server,tp=2,gpus=4");
  const ExportAnswer answer = export_plan(plan, "trl", kMark);
  REQUIRE(file_of(answer, "serve.sh"));
  CHECK(has_text(file_of(answer, "serve.sh")->content,
                 "trl vllm-serve --model meta-llama/Llama-3.2-1B --tensor-parallel-size 2 --data-parallel-size 2"));
}

TEST_CASE("a file of TRL that is read and written keeps the loss that it names, and names none where it did not") {
  const std::string file =
      "model_name_or_path: meta-llama/Llama-3.2-1B\ndataset_name: a/b\nper_device_train_batch_size: 8\n"
      "num_generations: 8\nmax_completion_length: 512\nlearning_rate: 1.0e-06\nreward_funcs: [accuracy_reward]\n";
  for (const auto& [line, method] : {std::pair<std::string, const char*>("", "grpo"),
                                     {"loss_type: dr_grpo\n", "dr-grpo"},
                                     {"loss_type: luspo\n", "grpo"}}) {
    CAPTURE(line);
    const ConfigReading read = read_configs({{"grpo.yaml", file + line}}, {}, {}, "grpo");
    EstimateRequest plan = plan_with("trl", method, "zero3");
    const ExportPlaces places{.program = {}, .variables = {}, .data = {}, .carried = read.carried};
    const ExportAnswer answer = export_plan(plan, "trl", kMark, {}, places);
    REQUIRE(answer.refusal == "");
    const std::string written = file_of(answer, "grpo.yaml")->content;
    if (line.empty())
      CHECK_FALSE(has_text(written, "loss_type"));
    else
      CHECK(has_text(written, line));
  }
}

namespace {

/// Gives what `target` writes of a file of pairs that is read as `name`.
std::string exported_pairs(const ConfigFile& file, const std::string& target, const std::string& strategy = "ddp",
                           Method method = Method::Lora) {
  const ConfigReading read = read_configs({file}, {}, {}, "dpo");
  EstimateRequest plan = plan_of(strategy, method, {}, target);
  plan.recipe.objective.method = std::string("dpo");
  plan.recipe.packing = Packing::Dynamic;
  plan.recipe.loss = LossKernel::Plain;
  const ExportPlaces places{.program = {}, .variables = {}, .data = {}, .carried = read.carried};
  const ExportAnswer answer = export_plan(plan, target, kMark, {}, places);
  CAPTURE(target);
  REQUIRE(answer.refusal == "");
  for (const std::string& note : answer.notes) CHECK_FALSE(has_text(note, "do not go with this plan"));
  return answer.files.front().content;
}

}  // namespace

TEST_CASE("TRL's file of pairs that no key names keeps rate, data, beta and output when it is written again") {
  const std::string text =
      "model_name_or_path: meta-llama/Llama-3.2-1B\ndataset_name: mine/pairs\nlearning_rate: 5.0e-7\n"
      "per_device_train_batch_size: 1\nmax_length: 2048\nuse_peft: true\nbeta: 0.3\nlogging_steps: 25\n"
      "output_dir: mine\n";
  const std::string written = exported_pairs({"dpo.yaml", text}, "trl");
  for (const char* line : {"dataset_name: mine/pairs", "learning_rate: 5.0e-07", "beta: 0.3", "logging_steps: 25",
                           "output_dir: mine", "f_divergence_type: reverse_kl"}) {
    CAPTURE(line);
    CHECK_MESSAGE(has_text(written, line), written);
  }
  CHECK(read_configs({{"dpo.yaml", written}}, {}).request.recipe.objective.method->name == "dpo");
}

TEST_CASE("the weight of a loss and the learning rate travel by each trainer's own key") {
  const ConfigFile factory{"lf.yaml",
                           "model_name_or_path: meta-llama/Llama-3.2-1B\nstage: dpo\nfinetuning_type: lora\n"
                           "pref_beta: 0.3\ndpo_label_smoothing: 0.05\npref_loss: sigmoid\ndataset: pairs\n"
                           "template: llama3\ncutoff_len: 2048\nlearning_rate: 3.0e-6\nwarmup_ratio: 0.1\n"
                           "lr_scheduler_type: linear\noutput_dir: mine\n"};
  const std::string trl = exported_pairs(factory, "trl"), swift = exported_pairs(factory, "ms-swift"),
                    axolotl = exported_pairs(factory, "axolotl");
  for (const std::string* file : {&trl, &swift}) {
    CHECK(has_text(*file, "\nbeta: 0.3\n"));
    CHECK(has_text(*file, "\nlabel_smoothing: 0.05\n"));
  }
  for (const char* line : {"\nrl_beta: 0.3\n", "\ndpo_label_smoothing: 0.05\n", "\nlearning_rate: 3.0e-06\n",
                           "\nlr_scheduler: linear\n", "\nwarmup_ratio: 0.1\n", "\noutput_dir: mine\n"}) {
    CAPTURE(line);
    CHECK_MESSAGE(has_text(axolotl, line), axolotl);
  }
  CHECK_FALSE(has_text(axolotl, "warmup_steps"));
  const ConfigFile nemo{"dpo.yaml",
                        "policy:\n  model_name: meta-llama/Llama-3.2-1B\n  train_global_batch_size: 32\n"
                        "  train_micro_batch_size: 1\n  max_total_sequence_length: 2048\n  optimizer:\n"
                        "    name: torch.optim.AdamW\n    kwargs: {lr: 5.0e-6, weight_decay: 0.2}\n"
                        "dpo: {reference_policy_kl_penalty: 0.05}\ncluster: {gpus_per_node: 4, num_nodes: 1}\n"};
  const std::string from_nemo = exported_pairs(nemo, "trl", "fsdp", Method::Full);
  for (const char* line :
       {"\nbeta: 0.05\n", "\nlearning_rate: 5.0e-06\n", "\nweight_decay: 0.2\n", "\nlogging_steps: 5\n"}) {
    CAPTURE(line);
    CHECK_MESSAGE(has_text(from_nemo, line), from_nemo);
  }
}

TEST_CASE("a weight that is of log-probs of a token does not travel as one of the answer's") {
  const std::string text =
      "policy: {model_name: meta-llama/Llama-3.2-1B, train_global_batch_size: 32, train_micro_batch_size: 1, "
      "max_total_sequence_length: 2048}\ndpo: {reference_policy_kl_penalty: 5, preference_average_log_probs: true}\n"
      "cluster: {gpus_per_node: 4, num_nodes: 1}\n";
  CHECK_FALSE(has_text(exported_pairs({"dpo.yaml", text}, "trl", "fsdp", Method::Full), "\nbeta:"));
}

TEST_CASE("the user's weight of the distance to the reference stays in a file of answers") {
  const std::string text =
      "model_name_or_path: meta-llama/Llama-3.2-1B\ndataset_name: a/b\nper_device_train_batch_size: 8\n"
      "num_generations: 8\nmax_completion_length: 512\nreward_funcs: [accuracy_reward]\nbeta: 0.001\n";
  const ConfigReading read = read_configs({{"grpo.yaml", text}}, {}, {}, "grpo");
  EstimateRequest plan = plan_with("trl", "grpo", "zero3");
  plan.recipe.objective.reference = Reference::Copy;
  const ExportPlaces places{.program = {}, .variables = {}, .data = {}, .carried = read.carried};
  const ExportAnswer answer = export_plan(plan, "trl", kMark, {}, places);
  REQUIRE(answer.refusal == "");
  CHECK(has_text(file_of(answer, "grpo.yaml")->content, "beta: 0.001"));
}

TEST_CASE("axolotl's padding of packed sequences stays as the file has it") {
  EstimateRequest plan = plan_of("ddp", Method::Lora, {}, "axolotl");
  plan.recipe.packing = Packing::Packed;
  const auto written = [&](const std::string& line) {
    const ConfigReading read = read_configs({{"a.yaml",
                                              "base_model: meta-llama/Llama-3.2-1B\nadapter: lora\nlora_r: "
                                              "8\nlora_alpha: 16\nsequence_len: 1024\nsample_packing: true\n"
                                              "micro_batch_size: 1\nlearning_rate: 0.0002\n" +
                                                  line}},
                                            {});
    const ExportPlaces places{.program = {}, .variables = {}, .data = {}, .carried = read.carried};
    const ExportAnswer answer = export_plan(plan, "axolotl", kMark, {}, places);
    REQUIRE(answer.refusal == "");
    return answer.files.front().content;
  };
  CHECK(has_text(written("pad_to_sequence_len: true\n"), "pad_to_sequence_len: true"));
  CHECK(has_text(written("pad_to_sequence_len: false\n"), "pad_to_sequence_len: false"));
  CHECK_FALSE(has_text(written(""), "pad_to_sequence_len"));  // axolotl sets it
}

TEST_CASE("axolotl's file of pairs has TRL's switch of Liger's loss") {
  EstimateRequest plan = plan_of("ddp", Method::Lora, {}, "axolotl");
  plan.recipe.objective.method = std::string("dpo");
  plan.recipe.packing = Packing::Dynamic;
  plan.recipe.loss = LossKernel::Fused;
  const ExportAnswer answer = export_plan(plan, "axolotl", kMark);
  CAPTURE(answer.refusal);
  REQUIRE_FALSE(answer.is_refused());
  const std::string& file = answer.files.front().content;
  CHECK(file.find("dpo_use_liger_kernel: true") != std::string::npos);
  CHECK(file.find("liger_fused_linear_cross_entropy") == std::string::npos);
  CHECK(read_configs({{"axolotl.yaml", file}}, {}).request.recipe.loss == LossKernel::Fused);
}

}  // namespace gpuplan
