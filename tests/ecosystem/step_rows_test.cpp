// A batch of all ranks that a trainer's file states stays the same on any number of GPUs, and a file's own division of
// GPUs between those that train and an engine's is read.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "config_texts.h"
#include "ecosystem/exported.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"
#include "planner/job.h"
#include "planner/job_metrics.h"
#include "planner/rollout_phases.h"

namespace gpuplan {

using namespace test;

namespace {

ConfigReading script_of(const std::string& text) { return read_configs({{"train.sh", text}}, {}); }

/// The whole question, on so many H100 that train.
EstimateRequest asked_on(ConfigReading reading, std::int64_t num_gpus, std::vector<std::string>* told = nullptr) {
  reading.request.model = load_model("qwen2.5-7b").spec;
  reading.request.cluster = parse_gpus(fmt::format("{}xH100", num_gpus));
  std::vector<std::string> notes;
  settle_strategy(reading, reading.request, notes);
  settle_passes(reading, reading.request, notes);
  if (told) *told = notes;
  return reading.request;
}

std::int64_t sequences_of(const EstimateRequest& r) {
  return r.recipe.micro_batch * r.recipe.grad_accum * batch_replicas(r);
}

std::string why_not_on(const ConfigReading& reading, std::int64_t num_gpus) {
  try {
    asked_on(reading, num_gpus);
  } catch (const InputError& error) { return fmt::format("{} | {}", error.what(), error.hint()); }
  return "";
}

// examples/grpo_trainer/run_qwen2-7b_math.sh of volcengine/verl @b178a3cd, what counts of it
constexpr const char* kVerl =
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1024 "
    "data.max_prompt_length=1024 data.max_response_length=1024 actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct "
    "actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.use_kl_loss=True "
    "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=2 "
    "actor_rollout_ref.rollout.n=5 trainer.n_gpus_per_node=8 trainer.nnodes=1 ";

}  // namespace

TEST_CASE("verl's ppo_mini_batch_size is a batch of all ranks, with all answers, on any number of GPUs") {
  // verl/workers/fsdp_workers.py @b178a3cd: ppo_mini_batch_size *= rollout.n, //= ranks; 256 x 5 = 1,280 answers.
  // 8 GPUs: 160 each, 10 passes of 16. 16: 80, 5. 32: 40 are no passes of 16 (its assertion "should be divisible by")
  const ConfigReading r = script_of(std::string(kVerl) + "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16");
  for (const auto& [num_gpus, passes] : {std::pair(4, 20), std::pair(8, 10), std::pair(16, 5)}) {
    CAPTURE(num_gpus);
    const EstimateRequest on = asked_on(r, num_gpus);
    CHECK(on.recipe.grad_accum == passes);
    CHECK(sequences_of(on) == 1280);
    CHECK(on.rollout.sequences == 5120);  // 1,024 prompts, for four steps
    CHECK(on.rollout.updates == 4);
  }
  CHECK(
      has_text(why_not_on(r, 32), "a global batch of 1,280 is no multiple of micro batch 16 x 32 data parallel ranks"));
  CHECK(has_text(why_not_on(r, 32), "--micro-batch 10"));
  CHECK(has_text(why_not_on(r, 24), "20 GPUs that train divide it"));  // 1,280 / (16 x 20) = 4
}

TEST_CASE("ranks of Ulysses share sequences, so that fewer of them share the batch") {
  // device_mesh.size() // ulysses_sequence_parallel_size there: 1,280 / (8 / 2) = 320 answers, 20 passes of 16
  const EstimateRequest r =
      asked_on(script_of(std::string(kVerl) + "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 "
                                              "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"),
               8);
  CHECK(r.recipe.grad_accum == 20);
  CHECK(sequences_of(r) == 1280);
}

TEST_CASE("micro batches that are filled with tokens keep the batch too") {
  // 16,384 tokens hold 8 rows of 2,048, which divide 160 and 80; 14,336 hold 7, and the nearest divisor of 160 is 8
  const std::string filled = std::string(kVerl) + "actor_rollout_ref.actor.use_dynamic_bsz=True ";
  for (const std::int64_t num_gpus : {8, 16, 32}) {
    const EstimateRequest on = asked_on(script_of(filled), num_gpus);
    CHECK(on.recipe.micro_batch == 8);
    CHECK(sequences_of(on) == 1280);
  }
  std::vector<std::string> told;
  const EstimateRequest seven =
      asked_on(script_of(filled + "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=14336"), 8, &told);
  CHECK(seven.recipe.micro_batch == 8);
  CHECK(seven.recipe.grad_accum == 20);
  REQUIRE(!told.empty());
  CHECK(has_text(told.back(), "1280 sequences is counted as 1280 in micro batches of 8"));
  // 1,280 // 24 = 53 of each rank, a prime number: 7 micro batches of 8 are nearest
  const EstimateRequest odd = asked_on(script_of(filled), 24);
  CHECK(odd.recipe.micro_batch == 8);
  CHECK(odd.recipe.grad_accum == 7);
}

TEST_CASE("micro batches that are filled with tokens hold as many rows of the mean length as fit") {
  // examples/grpo_trainer/run_qwen3_4b_fsdp.sh of verl-project/verl @1dda039b: 3,000 tokens are one row of 2,048, and
  // seven of 412; 160 rows of a rank are 23 passes
  const std::string script = std::string(kVerl) +
                             "actor_rollout_ref.actor.use_dynamic_bsz=True "
                             "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=3000 ";
  EstimateRequest r = asked_on(script_of(script), 8);
  CHECK(r.rollout.step_tokens == 3000);
  CHECK(r.recipe.micro_batch == 1);
  CHECK(r.recipe.grad_accum == 160);
  r.strategy = "fsdp";
  r.rollout.prompt_len = r.rollout.max_completion = 1024;
  r.rollout.mean_prompt = 104, r.rollout.mean_completion = 308;
  settle_rows(r, {});
  const Strategy strategy = make_strategy(r.strategy, r.cluster, options_for(r));
  const Job average = average_job(Job(r, strategy));
  CHECK(average.recipe().micro_batch == 7);
  CHECK(average.recipe().grad_accum == 23);
  CHECK(average.recipe().seq_len == 412);
  REQUIRE(fullest_job(Job(r, strategy)));
  CHECK(fullest_job(Job(r, strategy))->recipe().tokens() == 3000);
  EstimateRequest by_rows = r;  // a micro batch that is asked for in rows
  by_rows.recipe.micro_batch = 8, by_rows.recipe.grad_accum = 20;
  CHECK(average_job(Job(by_rows, strategy)).recipe().micro_batch == 8);
  // without lengths all rows are as long as the longest
  EstimateRequest longest = r;
  longest.rollout.mean_prompt = longest.rollout.mean_completion = 0;
  settle_rows(longest, {});
  CHECK(average_job(Job(longest, strategy)).recipe().grad_accum == 160);
  CHECK_FALSE(fullest_job(Job(longest, strategy)));
}

TEST_CASE("a verl script that fills micro batches with tokens is written with them") {
  const std::string script = std::string(kVerl) +
                             "actor_rollout_ref.actor.use_dynamic_bsz=True "
                             "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=3000 ";
  const ConfigReading read = script_of(script);
  EstimateRequest plan = asked_on(read, 8);
  plan.strategy = "fsdp";
  plan.recipe.loss = LossKernel::InPlace;
  plan.rollout.prompt_len = plan.rollout.max_completion = 1024;
  settle_rows(plan, {});
  const ExportPlaces places{.program = {}, .variables = {}, .data = {}, .carried = read.carried};
  const ExportAnswer answer = export_plan(plan, "verl", kMark, {}, places);
  REQUIRE(answer.refusal == "");
  const std::string launch = file_of(answer, "launch.sh")->content;
  CHECK(has_text(launch, "actor_rollout_ref.actor.use_dynamic_bsz=true"));
  CHECK(has_text(launch, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=3000"));
}

TEST_CASE("OpenRLHF's train.batch_size and NeMo RL's train_global_batch_size are batches of all ranks") {
  // openrlhf/utils/deepspeed/deepspeed.py @3c3be623: accumulated_gradient = 128 // 4 // ranks
  const ConfigReading openrlhf = script_of(
      "python3 -m openrlhf.cli.train_ppo_ray --pretrain m --prompt_max_len 1024 --generate_max_len 1024 "
      "--micro_train_batch_size 4 --train_batch_size 128 --rollout_batch_size 128 --n_samples_per_prompt 4 "
      "--colocate_all_models --actor_num_gpus_per_node 8 --zero_stage 3");
  CHECK(asked_on(openrlhf, 8).recipe.grad_accum == 4);
  CHECK(asked_on(openrlhf, 16).recipe.grad_accum == 2);
  // nemo_rl/models/policy/workers/dtensor_policy_worker_v2.py @7ea279abf: local_gbs = gbs // dp_size
  const ConfigReading nemo = read_configs(
      {{"grpo.yaml",
        "policy: {model_name: m, train_global_batch_size: 512, train_micro_batch_size: 4, max_total_sequence_length: "
        "512}\ngrpo: {num_prompts_per_step: 32, num_generations_per_prompt: 16}\ncluster: {gpus_per_node: 8, "
        "num_nodes: "
        "1}\n"}},
      {});
  CHECK(asked_on(nemo, 8).recipe.grad_accum == 16);
  CHECK(asked_on(nemo, 16).recipe.grad_accum == 8);
  CHECK(sequences_of(asked_on(nemo, 16)) == 512);
}

TEST_CASE("a plan exported to verl has the plan's batch on 8 and on 16 GPUs") {
  for (const std::int64_t num_gpus : {8, 16}) {
    CAPTURE(num_gpus);
    EstimateRequest plan = plan_of("fsdp", Method::Full, {}, "verl");
    plan.cluster = parse_gpus(fmt::format("{}xH100", num_gpus));
    plan.recipe.objective.method = "grpo";
    plan.recipe.packing = Packing::Dynamic;
    plan.recipe.optimizer = plan.recipe.framework->default_optimizer;
    plan.recipe.attention = AttentionKernel::Flash;
    plan.recipe.micro_batch = 16, plan.recipe.grad_accum = 80 / num_gpus;
    plan.rollout.engine = parse_engine("vllm:util=0.4,tp=2,sleep=yes");
    plan.rollout.generations = 5, plan.rollout.prompt_len = plan.rollout.max_completion = 1024;
    plan.rollout.updates = 4;
    settle_rows(plan, {});
    const ExportAnswer answer = export_plan(plan, "verl", kMark);
    REQUIRE(answer.refusal == "");
    const std::string launch = file_of(answer, "launch.sh")->content;
    CHECK(has_text(launch, "actor_rollout_ref.actor.ppo_mini_batch_size=256"));  // 16 x 80 answers are of 256 prompts
    CHECK(has_text(launch, "data.train_batch_size=1024"));
    const EstimateRequest again = asked_on(read_configs({{"launch.sh", launch}}, {}), num_gpus);
    CHECK(again.recipe.grad_accum == plan.recipe.grad_accum);
    CHECK(sequences_of(again) == 1280);
  }
}

TEST_CASE("a verl script that is read and exported keeps its data, log-prob batches, worker and loss") {
  const std::string script =
      "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=rloo_vectorized "
      "data.train_files=$HOME/rows/train.parquet data.val_files=/rows/val.parquet data.train_batch_size=64 "
      "data.max_prompt_length=512 data.max_response_length=512 "
      "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.actor.optim.lr=3e-6 "
      "actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
      "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=4 "
      "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32 trainer.n_gpus_per_node=8 trainer.nnodes=1 "
      "trainer.project_name=mine";
  for (const char* worker : {"", "fsdp", "fsdp2"}) {
    CAPTURE(worker);
    const std::string names =
        *worker ? std::string(" actor_rollout_ref.actor.strategy=") + worker + "\n" : std::string("\n");
    const ConfigReading read = read_configs({{"verl.sh", script + names}}, {});
    EstimateRequest plan = asked_on(read, 8);
    plan.strategy = "fsdp";
    plan.recipe.loss = LossKernel::InPlace;
    plan.rollout.prompt_len = plan.rollout.max_completion = 512;
    settle_rows(plan, {});
    const ExportPlaces places{.program = {}, .variables = {}, .data = {}, .carried = read.carried};
    const ExportAnswer answer = export_plan(plan, "verl", kMark, {}, places);
    REQUIRE(answer.refusal == "");
    CHECK_FALSE(file_of(answer, "make_data.py"));
    const std::string launch = file_of(answer, "launch.sh")->content;
    CHECK(has_text(launch, "\"data.train_files=$HOME/rows/train.parquet\""));
    CHECK(has_text(launch, "data.val_files=/rows/val.parquet"));
    CHECK(has_text(launch, "rollout.log_prob_micro_batch_size_per_gpu=32"));
    CHECK(has_text(launch, std::string("actor.strategy=") + (*worker ? worker : "fsdp") + " "));
    CHECK(has_text(launch, "algorithm.adv_estimator=rloo_vectorized"));
    CHECK(has_text(launch, "trainer.project_name=mine"));
  }
}

TEST_CASE("verl's GPUs divide the answers of a generation, and a step takes no more of them than there are") {
  // verl/utils/config.py @b178a3cd: real_train_batch_size % n_gpus; verl/workers/config/actor.py: train_batch_size >=
  // ppo_mini_batch_size. 100 prompts x 2 answers on 8 GPUs: 200 / 8 = 25. On 16: 12.5
  const auto verl = [](int prompts, int step) {
    return script_of(
        fmt::format("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size={} "
                    "actor_rollout_ref.model.path=m actor_rollout_ref.actor.ppo_mini_batch_size={} "
                    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 actor_rollout_ref.rollout.name=vllm "
                    "actor_rollout_ref.rollout.n=2 trainer.n_gpus_per_node=8 trainer.nnodes=1 ",
                    prompts, step));
  };
  CHECK(why_not_on(verl(100, 16), 8) == "");
  const std::string why = why_not_on(verl(100, 16), 16);
  CHECK(has_text(why, "a generation of 200 answers (100 prompts x 2) is not divided by 16 GPUs, and verl stops"));
  CHECK(has_text(why, "104 prompts a generation"));
  CHECK(has_text(why_not_on(verl(8, 16), 8), "an optimizer step takes 32 answers of a generation of 16"));
}

TEST_CASE("a batch that the ranks do not divide is answered by one of whole prompts, on whole groups of an engine") {
  // 16 x 3 ranks and 5 answers to a prompt: multiples of 240, the first above 1,280 is 1,440; groups of two GPUs
  const ConfigReading read = read_configs(
      {{"verl.sh",
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1024 "
        "data.max_prompt_length=512 data.max_response_length=1024 actor_rollout_ref.model.path=m "
        "actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 "
        "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=2 "
        "actor_rollout_ref.rollout.n=5 trainer.n_gpus_per_node=8 trainer.nnodes=1\n"}},
      {});
  try {
    asked_on(read, 3);
    FAIL("3 ranks divide no 1,280 rows of 16");
  } catch (const InputError& error) {
    CHECK(error.hint() == "2 GPUs that train divide it, or --global-batch 1440 and --rollout-engine with tp=1");
  }
}

TEST_CASE("NeMo RL counts an engine's machines among the cluster's, and GPUs of a single one") {
  // nemo_rl/algorithms/grpo.py @7ea279abf, setup: train_nodes -= inference_nodes, or of one machine
  // train_gpus_per_node -= inference_gpus_per_node
  const auto read = [](const std::string& cluster, const std::string& resources) {
    return read_configs(
        {{"grpo.yaml",
          "policy: {model_name: m, train_global_batch_size: 512, generation: {backend: vllm, colocated: "
          "{enabled: false, resources: " +
              resources + "}}}\ncluster: " + cluster + "\n"}},
        {});
  };
  const ConfigReading machines = read("{gpus_per_node: 8, num_nodes: 3}", "{gpus_per_node: 8, num_nodes: 1}");
  CHECK(machines.setup.num_processes == 16);
  CHECK(machines.request.rollout.engine.gpus == 8);
  CHECK(has_engine_apart(machines.request));
  const ConfigReading one = read("{gpus_per_node: 8, num_nodes: 1}", "{gpus_per_node: 2, num_nodes: null}");
  CHECK(one.setup.num_processes == 6);
  CHECK(one.request.rollout.engine.gpus == 2);
  CHECK_THROWS_WITH_AS(read("{gpus_per_node: 8, num_nodes: 1}", "{gpus_per_node: 8, num_nodes: 1}"),
                       doctest::Contains("the engine has 8 of 8 GPUs"), InputError);
}

TEST_CASE("prime-rl trains and answers on GPUs, or on whole machines, of their own") {
  // packages/prime-rl-configs/src/prime_rl/configs/rl.py @559b44772
  const auto read = [](const std::string& deployment) {
    return read_configs({{"rl.toml",
                          "seq_len = 2048\n[model]\nname = \"m\"\n[orchestrator]\nbatch_size = 128\ngroup_size "
                          "= 16\n[deployment]\n" +
                              deployment}},
                        {});
  };
  const ConfigReading one = read("num_train_gpus = 2\nnum_infer_gpus = 6\n");
  CHECK(one.setup.num_processes == 2);
  CHECK(one.request.rollout.engine.gpus == 6);
  const ConfigReading usual = read("gpus_per_node = 8\n");
  CHECK(usual.setup.num_processes == 1);
  CHECK(usual.request.rollout.engine.gpus == 1);
  const ConfigReading many =
      read("type = \"multi_node\"\nnum_train_nodes = 2\nnum_infer_nodes = 1\nnum_infer_replicas = 4\n");
  CHECK(many.setup.num_processes == 16);
  CHECK(many.request.rollout.engine.gpus == 32);
  // a step has all of batch_size; packs that ranks do not share evenly are padded (trainer/batch.py)
  CHECK(asked_on(one, 2).recipe.grad_accum == 64);
  std::vector<std::string> told;
  CHECK(asked_on(one, 6, &told).recipe.grad_accum == 22);  // 132 of them
  REQUIRE(!told.empty());
  CHECK(has_text(told.back(), "128 sequences is counted as one of 132"));
}

TEST_CASE("GPUs in all are divided between those that train and an engine's") {
  EstimateRequest r = plan_of("fsdp", Method::Full, {}, "verl");
  r.recipe.objective.method = "grpo";
  const auto divided = [&](const char* engine, const char* gpus) {
    r.rollout.engine = parse_engine(engine);
    r.cluster = parse_gpus(gpus);
    divide_gpus(r, r.cluster.num_gpus());
    return std::pair(r.cluster.num_gpus(), engine_gpus(r, r.cluster.num_gpus()));
  };
  CHECK(divided("vllm", "8xH100") == std::pair<std::int64_t, std::int64_t>(8, 0));
  CHECK(divided("vllm:server", "8xH100") == std::pair<std::int64_t, std::int64_t>(4, 4));
  CHECK(divided("vllm:server,gpus=2", "8xH100") == std::pair<std::int64_t, std::int64_t>(6, 2));
  CHECK(divided("vllm:server,tp=4", "6xH100") == std::pair<std::int64_t, std::int64_t>(2, 4));
  CHECK(divided("vllm:server", "3xH100") == std::pair<std::int64_t, std::int64_t>(2, 1));
  CHECK_THROWS_WITH_AS(divided("vllm:server,gpus=8", "8xH100"), doctest::Contains("leave none that trains"),
                       InputError);
  CHECK_THROWS_WITH_AS(divided("vllm:server", "1xH100"), doctest::Contains("leaves none that trains"), InputError);
  r.recipe.framework = std::string("prime-rl");  // places: [server]
  r.rollout.engine = {};
  CHECK(has_engine_apart(r));
}

TEST_CASE("flags of answers beside a file change the batches that it says in prompts") {
  const std::string text = std::string(kVerl) + "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16";
  const auto with = [&](std::vector<FlagFact> flags, const std::string& file = {}) {
    return read_configs({{"train.sh", file.empty() ? text : file}}, {}, {}, {}, flags);
  };
  // 256 prompts of 10 answers are 2,560, of a generation of 1,024 x 10
  const EstimateRequest more = asked_on(with({{"generations", 10, "--generations"}}), 8);
  CHECK(more.recipe.grad_accum == 20);
  CHECK(more.rollout.sequences == 10240);
  // 5,120 answers in 2 optimizer steps are 2,560 each; 3 do not divide them
  const EstimateRequest two = asked_on(with({{"mini_batches", 2, "--updates"}}), 8);
  CHECK(sequences_of(two) == 2560);
  CHECK(two.rollout.updates == 2);
  CHECK_THROWS_WITH_AS(with({{"mini_batches", 3, "--updates"}}),
                       doctest::Contains("--updates: 3 optimizer steps do not divide the 5120 answers"), InputError);
  // 16,384 tokens hold 16 rows of 1,024
  const EstimateRequest shorter =
      asked_on(with({{"prompt_len", 512, "--prompt-len"}, {"completion_len", 512, "--completion-len"}},
                    std::string(kVerl) + "actor_rollout_ref.actor.use_dynamic_bsz=True"),
               8);
  CHECK(shorter.recipe.micro_batch == 16);
  CHECK_THROWS_WITH_AS(with({{"generations", 1, "--generations"}},
                            "python3 -m openrlhf.cli.train_ppo_ray --pretrain m --train_batch_size 128 "
                            "--rollout_batch_size 64 --n_samples_per_prompt 4 --micro_train_batch_size 4"),
                       doctest::Contains("an optimizer step of the files takes 128"), InputError);
}

TEST_CASE("a generation is whole prompts, however many micro batches its steps are counted in") {
  // 1,280 // 24 = 53 answers of each rank in 7 micro batches of 8: 1,344, of which four steps are 5,376; 5,120 are
  // generated
  EstimateRequest r = asked_on(script_of(std::string(kVerl) + "actor_rollout_ref.actor.use_dynamic_bsz=True"), 24);
  CHECK(sequences_of(r) == 1344);
  CHECK(r.rollout.updates == 4);
  r.options.shard_size.reset();
  const Job job(r, make_strategy("fsdp", r.cluster, r.options));
  CHECK(job_rollout(job).batch.sequences == 5120);
  CHECK(job_rollout(job).steps == 4);
}

}  // namespace gpuplan
