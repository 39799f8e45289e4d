// Keys and programs that mean another way of training are refused by the way's name.
#include "ecosystem/methods.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/config_texts.h"
#include "ecosystem/key_table.h"
#include "models/training_method.h"

namespace gpuplan {

using namespace test;

namespace {

/// A file of a format with nothing but a key that tells which it is.
nlohmann::json least_file(const std::string& format) {
  if (format == "trl") return {{"max_length", 512}};
  if (format == "transformers") return {{"block_size", 512}};
  if (format == "axolotl") return {{"base_model", "a"}};
  if (format == "llama-factory") return {{"cutoff_len", 64}};
  if (format == "peft") return {{"peft_type", "LORA"}};
  if (format == "ms-swift") return {{"tuner_type", "lora"}};
  if (format == "open-instruct") return {{"use_slow_tokenizer", false}};
  if (format == "llama-factory-v1") return {{"model_class", "llm"}};
  return {{"model", {{"_component_", "torchtune.models.llama3_1.llama3_1_8b"}}}};
}

/// The file with a value at "a.b"; "a.*" is {"a": {"any": value}}.
std::string with_key(nlohmann::json file, std::string key, const nlohmann::json& value) {
  if (key.ends_with(".*")) key.replace(key.size() - 1, 1, "any");
  std::replace(key.begin(), key.end(), '.', '/');
  file[nlohmann::json::json_pointer("/" + key)] = value;
  return file.dump();
}

}  // namespace

TEST_CASE("every key that names a method is refused with the method, and its empty values are not") {
  for (const ForeignJob& job : foreign_jobs()) {
    CAPTURE(job.name);
    CHECK_FALSE(job.source.empty());
    CHECK_FALSE(job.keys.empty());
    if (!job.objective.empty()) continue;  // planned: the next case
    for (const std::string& format : job.formats)
      for (const std::string& key : job.keys) {
        CAPTURE(format);
        CAPTURE(key);
        const KeyTable* table = find_key_table(format);
        REQUIRE(table);
        const bool is_planned_elsewhere = std::ranges::any_of(
            foreign_jobs(), [&](const ForeignJob& other) { return !other.objective.empty() && other.has_key(key); });
        const bool is_at_top = key.ends_with(".*") || key.find('.') == std::string::npos;
        if (is_at_top && !is_planned_elsewhere) CHECK(table->find(key) == nullptr);
        const std::string error = error_of({with_key(least_file(format), key, "yes")});
        CHECK(contains(error, "file1: " + key.substr(0, key.find(".*"))));
        CHECK((contains(error, "is not modelled") || contains(error, "nothing says which")));
        CHECK_FALSE(job.why.empty());
        for (const nlohmann::json& nothing : {nlohmann::json(), nlohmann::json(false)})
          CHECK_FALSE(contains(error_of({with_key(least_file(format), key, nothing)}), "is not modelled"));
        for (const nlohmann::json& harmless : job.harmless)
          CHECK(error_of({with_key(least_file(format), key, harmless)}).empty());
      }
  }
}

TEST_CASE("keys of one method that is planned alone say so, keys of several are refused where nothing says which") {
  for (const ForeignJob& job : foreign_jobs()) {
    if (job.objective.empty()) continue;
    CAPTURE(job.name);
    CHECK(find_training_method(job.objective).name == job.objective);
    int num_telling = 0;
    for (const std::string& key : job.keys) {
      CAPTURE(key);
      const std::string& format = job.formats.front();
      const std::string file = with_key(least_file(format), key, "yes");
      const auto sign = find_foreign_method(format, nlohmann::json::parse(file));
      REQUIRE(sign);
      if (sign->objective != job.objective) {
        const bool is_other = std::ranges::find(sign->others, job.name) != sign->others.end();
        CHECK((is_other || contains(error_of({file}), "is not modelled") ||
               contains(error_of({file}), "nothing says which")));
        continue;
      }
      ++num_telling;
      const nlohmann::json said = nlohmann::json::parse(with_key(nlohmann::json::parse(file), "method", job.objective));
      CHECK(find_foreign_method(format, said, job.objective)->objective == job.objective);
    }
    CHECK((num_telling > 0 || job.name == "ORPO"));
  }
}

TEST_CASE("files of preference tuning are planned as what they say") {
  const auto recipe = [](const std::string& text) { return reading_of({text}).request.recipe; };
  const Recipe swift =
      recipe("model: Qwen/Qwen2.5-7B\nrlhf_type: dpo\ntuner_type: lora\nmax_length: 2048\nbeta: 0.1\n");
  CHECK(swift.objective.method->name == "dpo");
  CHECK(reference_of(swift) == Reference::Adapter);
  CHECK(swift.rows() == 2 * swift.micro_batch);
  CHECK(recipe("model: a\ntuner_type: lora\ntask_type: seq_cls\nnum_labels: 5\n").objective.labels == 5);
  const Recipe factory = recipe("model_name_or_path: a\nstage: dpo\npref_loss: orpo\npref_beta: 0.1\ncutoff_len: 64\n");
  CHECK(factory.objective.method->name == "orpo");
  CHECK(recipe("model_name_or_path: a\nstage: rm\ncutoff_len: 64\n").objective.method->name == "reward");
  CHECK(recipe("model_name_or_path: a\nstage: sft\npref_beta: 0.1\ncutoff_len: 64\n").objective.method.is_usual());
  const Recipe axolotl = recipe("base_model: a\nrl: ipo\nrl_beta: 0.1\nprecompute_ref_log_probs: true\n");
  CHECK(axolotl.objective.method->name == "ipo");
  CHECK(axolotl.objective.method->like == "dpo");
  CHECK(reference_of(axolotl) == Reference::Precomputed);
  CHECK(recipe("base_model: a\nreward_model: true\n").objective.method->name == "reward");
  const Recipe trl = recipe(std::string(kTrl) + "precompute_ref_log_probs: true\nmodel_adapter_name: a\n");
  CHECK(trl.objective.method->name == "dpo");
  CHECK(reference_of(trl) == Reference::Precomputed);
}

TEST_CASE("files of GRPO are read with their engine, their answers and their reference") {
  const auto request = [](const std::string& text) { return reading_of({text}).request; };
  const EstimateRequest trl =
      request(std::string(kTrl) +
              "num_generations: 4\nepsilon: 0.2\nmax_completion_length: 256\nmax_prompt_length: 128\nuse_vllm: "
              "true\nvllm_mode: "
              "colocate\nvllm_gpu_memory_utilization: 0.4\nvllm_tensor_parallel_size: 2\nvllm_enable_sleep_mode: true\n"
              "reward_funcs: [a]\nnum_iterations: 2\nbeta: 0.04\n");
  CHECK(trl.recipe.objective.method->name == "grpo");
  CHECK(reference_of(trl.recipe) != Reference::None);
  CHECK(trl.rollout.generations == 4);
  CHECK(trl.rollout.max_completion == 256);
  CHECK(trl.rollout.prompt_len == 128);
  CHECK(trl.rollout.iterations == 2);
  CHECK(to_text(trl.rollout.engine) == "vllm:colocate,util=0.4,tp=2,sleep=yes");
  // beta is 0 where nobody says it, and then there is no reference
  CHECK(reference_of(request(std::string(kTrl) + "num_generations: 4\nepsilon: 0.2\nscale_rewards: true\n").recipe) ==
        Reference::None);
  const EstimateRequest swift = request(
      "model: Qwen/Qwen2.5-7B\nrlhf_type: grpo\ntuner_type: lora\nnum_generations: 8\nuse_vllm: true\n"
      "vllm_mode: colocate\nsleep_level: 1\noffload_model: true\nmax_completion_length: 1024\nreward_funcs: "
      "[accuracy]\n");
  CHECK(swift.recipe.objective.method->name == "grpo");
  CHECK(reference_of(swift.recipe) == Reference::Adapter);
  CHECK(to_text(swift.rollout.engine) == "vllm:colocate,sleep=yes,offload=weights");
  CHECK(swift.rollout.max_completion == 1024);
}

TEST_CASE("a TRL file with the keys of GRPO and RLOO is one of GRPO; a flag that names the method keeps what it says") {
  const std::string text =
      "model_name_or_path: m\nper_device_train_batch_size: 16\nnum_generations: 16\nmax_completion_length: 3072\n"
      "use_vllm: true\nvllm_mode: server\nreward_funcs: [accuracy_reward]\n";
  for (const char* method : {"", "grpo", "rloo", "gspo"}) {
    CAPTURE(method);
    const ConfigReading reading = read_configs({{"n.yaml", text}}, {}, {}, method);
    const EstimateRequest& r = reading.request;
    CHECK(r.recipe.objective.method->name == (*method ? method : "grpo"));
    CHECK(r.rollout.generations == 16);
    CHECK(r.rollout.max_completion == 3072);
    CHECK(to_text(r.rollout.engine).starts_with("vllm"));
    const bool is_told = std::ranges::any_of(
        reading.notes, [](const std::string& note) { return contains(note, "is of GRPO and of RLOO: read as GRPO"); });
    CHECK(is_told == !*method);
  }
}

TEST_CASE("distillation is read with its teacher, and with the student's answers where they are trained on") {
  const std::string base =
      "swift rlhf --rlhf_type gkd --model Qwen/Qwen2.5-7B --teacher_model Qwen/Qwen2.5-14B-Instruct "
      "--tuner_type full --max_length 2048 ";
  const auto read = [](const std::string& command) { return read_configs({{"gkd.sh", command}}, {}); };
  const ConfigReading off = read(base + "--lmbda 0");
  CHECK(off.request.recipe.objective.method->name == "distill");
  CHECK(off.setup.teacher == "Qwen/Qwen2.5-14B-Instruct");
  const ConfigReading on = read(base + "--use_vllm true --vllm_mode colocate --max_completion_length 512");
  CHECK(on.request.recipe.objective.method->name == "on-policy-distill");  // lmbda is 0.5 where nothing says it
  CHECK(on.request.rollout.share == 0.5);
  CHECK(read(base + "--lmbda 0.25").request.rollout.share == 0.25);
  CHECK(read(base + "--lmbda 1").request.rollout.share == 1);
  CHECK(on.request.rollout.max_completion == 512);
  CHECK(on.request.rollout.prompt_len == 2048 - 512);              // rows of the data may have 2048
  CHECK_FALSE(on.request.recipe.objective.reference.has_value());  // beta weighs two divergences here
  const auto error = [&](const std::string& command) -> std::string {
    try {
      read(command);
    } catch (const InputError& problem) { return problem.what(); }
    return "";
  };
  CHECK(contains(error("swift rlhf --rlhf_type dpo --model a --teacher_model b"), "a teacher beside dpo"));
  CHECK(contains(error("swift rlhf --rlhf_type gkd --lmbda 0 --model a --teacher_model_server http://localhost:8000"),
                 "another program serves"));
  const ConfigReading rewarded = read("swift rlhf --rlhf_type grpo --model a --teacher_model b");
  CHECK(rewarded.request.recipe.objective.method->name == "teacher-reward");
  CHECK(rewarded.setup.teacher == "b");
  CHECK(read("swift rlhf --rlhf_type gkd --model a --teacher_model_server http://localhost:8000")
            .request.recipe.objective.method->name == "served-distill");
}

TEST_CASE("rerankers score two texts of a row, by a head or by two tokens of the vocabulary's") {
  const auto read = [](const std::string& task) {
    return read_configs({{"a.sh", "swift sft --model a --tuner_type lora --task_type " + task}}, {});
  };
  CHECK(read("reranker").request.recipe.objective.method->name == "rerank");
  CHECK(read("reranker").request.recipe.objective.method->answers == 2);
  ConfigReading by_tokens = read("generative_reranker");
  CHECK(by_tokens.setup.scores_by_vocabulary == true);
  by_tokens.request.model.tie_word_embeddings = true;
  CHECK_NOTHROW(settle_head(by_tokens, by_tokens.request));
  by_tokens.request.model.tie_word_embeddings = false;
  CHECK_THROWS_AS(settle_head(by_tokens, by_tokens.request), InputError);
  CHECK_NOTHROW(settle_head(read("reranker"), by_tokens.request));
}

TEST_CASE("files of programs that are not read are refused by the program's name, whatever else they hold") {
  int num_programs = 0;
  for (const ForeignJob& job : foreign_jobs()) {
    if (!job.is_program()) continue;
    ++num_programs;
    CAPTURE(job.name);
    for (const std::string& key : job.keys) {
      CAPTURE(key);
      for (const KeyTable& table : key_tables()) CHECK(table.find(key) == nullptr);
      for (const char* format : {"trl", "transformers", "axolotl", "llama-factory", "torchtune"})
        CHECK(contains(error_of({with_key(least_file(format), key, 8)}), "is a file of " + job.name));
    }
  }
  CHECK(num_programs >= 4);
}

TEST_CASE("foreign methods are named: what people gave and got the figures of SFT for") {
  const auto refused = [](const std::string& keys) { return error_of({std::string(kTrl) + keys}); };
  const ConfigReading pairs =
      reading_of({"model_name_or_path: a\nuse_slow_tokenizer: true\nuse_lora: false\nbeta: 5\n"});
  CHECK(pairs.request.recipe.objective.method->name == "dpo");
  CHECK(pairs.request.recipe.objective.reference == Reference::Precomputed);
  CHECK(contains(refused("teacher_model_name_or_path: a\n"),
                 "file1:5: teacher_model_name_or_path: belongs to distillation"));
  CHECK(contains(refused("max_new_tokens: 64\n"), "belongs to"));
  CHECK(contains(refused("max_staleness: 3\n"), "belongs to asynchronous GRPO"));
  CHECK(contains(refused("num_labels: 2\n"), "belongs to classification"));
  CHECK(contains(refused("lora_task_type: SEQ_CLS\n"), "another head"));
  CHECK(refused("lora_task_type: CAUSAL_LM\n").empty());
  CHECK(contains(refused("task_type: SEQ_CLS\n"), "another head"));
  for (const char* key : {"student_model", "assistant_model", "pref_beta"})
    CHECK(contains(refused(std::string(key) + ": a\n"), "is not known to gpuplan, and"));
  CHECK(contains(refused("mixture_coef: 0.5\n"), "belongs to Nash-MD"));
  // a key of many methods names several, and says that there are more
  CHECK(contains(refused("beta: 0.1\n"), "belongs to DPO, KTO or another method"));
  CHECK(contains(refused("beta: 0.1\n"), "--method NAME says which one it is"));
  CHECK(contains(error_of({"stage: ppo\ncutoff_len: 64\n"}), "ppo is not modelled"));
  CHECK(error_of({"stage: sft\ncutoff_len: 64\n"}).empty());
  CHECK(error_of({"stage: pt\ncutoff_len: 64\nref_model: null\n"}).empty());
  const std::string swift = "rlhf_type: dpo\nmodel: m\ntuner_type: lora\n";
  CHECK(contains(error_of({swift + "ref_adapters: [sft]\n"}), "a second set on the policy's weights"));
  CHECK(error_of({swift + "ref_adapters: []\n"}).empty());
  CHECK(error_of({"base_model: a\nrl: grpo\ntrl: {num_generations: 4}\n"}).empty());
  CHECK(error_of({"base_model: a\nrl: null\nrl_beta:\n"}).empty());
}

TEST_CASE("a key that no table knows is refused when a word in it names another method, else noted") {
  const auto refused = [](const std::string& keys) { return error_of({std::string(kTrl) + keys}); };
  CHECK(contains(refused("grpo_new_thing: 3\n"), "\"grpo\" in it"));
  CHECK(contains(refused("my.teacher.path: a\n"), "\"teacher\" in it"));
  CHECK(contains(refused("trainer: {critic_model: a}\n"), "trainer.critic_model"));
  CHECK(contains(error_of({"base_model: a\nvllm_thing: 1\n"}), "\"vllm\" in it"));
  const std::string axolotl = "base_model: a\n";
  CHECK(contains(error_of({axolotl + "kl_coef: 0.1\n"}), "\"kl_coef\" in it"));
  CHECK(contains(error_of({axolotl + "num_generation: 4\n"}), "\"num_generation\" in it"));
  CHECK(error_of({axolotl + "teacher: null\nuse_reward: false\nrollouts: {}\n"}).empty());
  CHECK(error_of({axolotl + "rewarding: 1\ncriticality: 2\n"}).empty());  // other words
  CHECK(foreign_word("actor.Ref_Model") == "ref_model");
  CHECK(foreign_word("preference").empty());
}

}  // namespace gpuplan
