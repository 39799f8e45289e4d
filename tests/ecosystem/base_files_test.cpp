// Files that name another one, whose values count where they say nothing, and programs with several engines, each of
// which has a table of its own.
#include <doctest/doctest.h>

#include "base/error.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/config_texts.h"
#include "ecosystem/key_table.h"
#include "models/training_method.h"

namespace gpuplan {

using namespace test;

namespace {

constexpr const char* kRecipe = "defaults: base.yaml\npolicy: {model_name: m, train_micro_batch_size: 2}\n";
constexpr const char* kBase =
    "policy: {train_micro_batch_size: 8, max_total_sequence_length: 2048, "
    "megatron_cfg: {enabled: true, tensor_model_parallel_size: 2, sequence_parallel: true}}\n"
    "cluster: {gpus_per_node: 8}\n";

}  // namespace

TEST_CASE("NeMo RL: the file that defaults names counts where the recipe says nothing") {
  const ConfigReading r = read_configs({{"recipe.yaml", kRecipe}, {"base.yaml", kBase}}, {});
  CHECK(r.request.recipe.framework->name == "nemo-rl-megatron");
  CHECK(r.request.recipe.objective.method->name == "grpo");
  CHECK(r.request.recipe.micro_batch == 2);
  CHECK(r.request.recipe.seq_len == 2048);
  CHECK(r.request.options.tp == 2);
  CHECK(r.request.recipe.grad_accum == 64);  // 512 answers on 4 replicas in passes of 2
  CHECK_THROWS_WITH_AS(read_configs({{"recipe.yaml", kRecipe}}, {}), doctest::Contains("names base.yaml"), InputError);
  // that one's values are those of the table
  const ConfigReading own =
      read_configs({{"recipe.yaml", "defaults: grpo_math_1B.yaml\npolicy: {model_name: m}\n"}}, {});
  CHECK(own.request.recipe.framework->name == "nemo-rl");
  CHECK(own.request.recipe.micro_batch == 4);
  // the file itself counts where it is there, changed as it may be; nemo_rl/utils/config.py @7ea279ab
  // (load_config_with_inheritance): of several the later one wins, and each is beside the file that names it
  const ConfigFile base{"grpo_math_1B.yaml", "policy: {train_micro_batch_size: 2, max_total_sequence_length: 1024}\n"};
  const ConfigFile other{"other.yaml", "policy: {max_total_sequence_length: 4096}\n"};
  CHECK(read_configs({{"recipe.yaml", "defaults: grpo_math_1B.yaml\npolicy: {model_name: m}\n"}, base}, {})
            .request.recipe.micro_batch == 2);
  const ConfigReading both = read_configs(
      {{"recipe.yaml", "defaults: [grpo_math_1B.yaml, other.yaml]\npolicy: {model_name: m}\n"}, base, other}, {});
  CHECK(both.request.recipe.micro_batch == 2);
  CHECK(both.request.recipe.seq_len == 4096);
}

TEST_CASE("a file whose few keys are of no program is read as the file that it names as its base") {
  const ConfigFile few{"recipe.yaml", "defaults: ./base.yaml\ncluster: {gpus_per_node: 4}\n"}, base{"base.yaml", kBase};
  const ConfigReading r = read_configs({few, base}, {});
  CHECK(r.request.recipe.framework->name == "nemo-rl-megatron");
  CHECK(r.request.recipe.micro_batch == 8);
  const FindConfig beside = [&](const std::string& named, const std::string&) -> std::optional<ConfigFile> {
    return named == "./base.yaml" ? std::optional(base) : std::nullopt;
  };
  CHECK(read_configs({few}, beside).request.recipe.micro_batch == 8);
  CHECK_THROWS_WITH_AS(read_configs({few}, {}), doctest::Contains("names ./base.yaml, which is not there"), InputError);
}

TEST_CASE("NeMo RL's DPO: a table of its own, batches of pairs, a reference from the host and no engine") {
  // 128 pairs on 8 GPUs in passes of 2: nemo_rl/algorithms/dpo.py @7ea279abf doubles both
  const ConfigReading r = read_configs(
      {{"dpo.yaml",
        "dpo: {max_num_steps: 150, sft_loss_weight: 0.01}\npolicy: {model_name: m, train_global_batch_size: 128, "
        "train_micro_batch_size: 2, max_total_sequence_length: 1024, dtensor_cfg: {enabled: true, "
        "tensor_parallel_size: "
        "1}}\ncluster: {gpus_per_node: 8}\n"}},
      {});
  CHECK(r.request.recipe.objective.method->name == "dpo");
  CHECK(r.request.recipe.framework->name == "nemo-rl");
  CHECK(r.request.recipe.micro_batch == 2);
  CHECK(r.request.recipe.grad_accum == 8);
  CHECK_FALSE(r.setup.engine);
  const ConfigReading megatron = read_configs(
      {{"recipe.yaml",
        "defaults: dpo.yaml\ndpo: {max_num_steps: 20}\npolicy: {model_name: m, megatron_cfg: {enabled: true, "
        "tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}}\n"},
       {"dpo.yaml", "dpo: {max_num_steps: 150}\npolicy: {max_total_sequence_length: 1024}\n"}},
      {});
  CHECK(megatron.request.recipe.framework->name == "nemo-rl-megatron");
  CHECK(megatron.request.recipe.objective.method->name == "dpo");
  CHECK(megatron.request.options.tp == 2);
  CHECK(megatron.request.recipe.seq_len == 1024);
  const auto refused = [](const char* text) {
    CHECK_THROWS_WITH_AS(read_configs({{"rm.yaml", text}}, {}), doctest::Contains("is not read"), InputError);
  };
  refused("sft: {max_num_steps: 60}\npolicy: {model_name: m, dtensor_cfg: {enabled: true}}\n");
}

TEST_CASE("a program's other engine has a table in the place of the first, by keys of the file") {
  const KeyTable& fsdp = *find_key_table("verl");
  using nlohmann::json;
  CHECK(table_for(fsdp, json::object()).name == "verl");
  CHECK(table_for(fsdp, {{"config_name", "ppo_megatron_trainer"}}).name == "verl-megatron");
  CHECK(table_for(fsdp, {{"defaults", {"ppo_megatron_trainer", "_self_"}}}).name == "verl-megatron");
  CHECK(table_for(fsdp, json::parse(R"({"actor_rollout_ref": {"actor": {"strategy": "fsdp2"}}})")).name == "verl");
  const KeyTable& nemo = *find_key_table("nemo-rl");
  CHECK(table_for(nemo, json::parse(R"({"policy": {"megatron_cfg": {"enabled": "True"}}})")).name ==
        "nemo-rl-megatron");
  CHECK(table_for(nemo, json::parse(R"({"policy": {"megatron_cfg": {"enabled": false}}})")).name == "nemo-rl");
}

}  // namespace gpuplan
