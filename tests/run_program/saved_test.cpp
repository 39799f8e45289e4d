// What a run leaves, and going on from it.
#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

/// The blocks of 16 tokens behind the first `count`, as a file of their own.
std::string without_blocks(const SmallRun& r, std::size_t count) {
  return r.scratch().write("rest.bin", r.content("tokens.bin").substr(count * 16 * 2)).string();
}

}  // namespace

TEST_CASE(
    "saved: an adapter's files, and a run that goes on from them or from a checkpoint's begins with the loss where the "
    "other would have gone on") {
  const SmallRun r;
  for (const std::string ranks : {"", " --gpus 2xcpu --strategy fsdp"}) {
    // constant rate, no moments at the seam: the first loss comes before the optimizer does anything
    const std::string flags = "--lora=r=3,base=fp32 --schedule constant --no-shuffle --lr 1e-2" + ranks;
    const std::size_t batch = ranks.empty() ? 1 : 2;
    r.report(flags + " --max-steps 6");
    const auto losses = r.losses();
    r.report(flags + " --max-steps 5 --save-every 2 --output " + r.at("out"));
    CHECK(std::filesystem::exists(r.at("out/adapter_config.json")));
    CHECK(std::filesystem::exists(r.at("out/adapter_model.safetensors")));
    // the next step's blocks are the first ones of a file that begins there
    for (const auto& [adapter, step] : {std::pair{"out", 5}, std::pair{"out/checkpoint-2", 2}}) {
      CAPTURE(adapter);
      r.report(flags + " --max-steps 1 --adapter " + r.at(adapter) + " --data " +
               without_blocks(r, std::size_t(step) * batch));
      CHECK(r.losses().front() == doctest::Approx(losses[std::size_t(step)]).epsilon(1e-6));
    }
    // the same adapter with the configuration that PEFT writes: the fields of LoraConfig in huggingface/peft at
    // v0.17.0, src/peft/tuners/lora/config.py
    auto config = nlohmann::json::parse(r.content("out/adapter_config.json"));
    for (const char* none : {"auto_mapping", "corda_config", "eva_config", "exclude_modules", "layer_replication",
                             "layers_pattern", "layers_to_transform", "megatron_config", "modules_to_save", "revision",
                             "target_parameters", "trainable_token_indices"})
      config[none] = nullptr;
    config["loftq_config"] = config["alpha_pattern"] = config["rank_pattern"] = nlohmann::json::object();
    config["lora_bias"] = config["use_qalora"] = config["use_dora"] = config["use_rslora"] = false;
    config["megatron_core"] = "megatron.core", config["qalora_group_size"] = 16;
    r.scratch().write("peft/adapter_config.json", config.dump());
    std::filesystem::copy_file(r.at("out/adapter_model.safetensors"), r.at("peft/adapter_model.safetensors"));
    r.report(flags + " --max-steps 1 --adapter " + r.at("peft") + " --data " + without_blocks(r, 5 * batch));
    CHECK(r.losses().front() == doctest::Approx(losses[5]).epsilon(1e-6));
    for (const char* folder : {"out", "peft"}) std::filesystem::remove_all(r.at(folder));
  }
}

TEST_CASE("saved: a fully trained model is a model folder that the next run reads, and so is a checkpoint") {
  const SmallRun r;
  const std::string flags = "--full --schedule constant --no-shuffle";
  r.report(flags + " --max-steps 6");
  const auto losses = r.losses();
  // all that a tokenizer may consist of, byte by byte
  std::map<std::string, std::string> companions{{"config.json", r.content("model/config.json")}};
  for (const std::string name :
       {"generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja"}) {
    companions[name] = "the bytes of " + name + std::string("\r\n\0\xff", 4);
    r.scratch().write("model/" + name, companions[name]);
  }
  r.report(flags + " --max-steps 5 --save-every 2 --gpus 2xcpu --strategy mp --output " + r.at("out"));
  for (const auto& [model, step] : {std::pair{"out", 5}, std::pair{"out/checkpoint-2", 2}}) {
    CAPTURE(model);
    CHECK(std::filesystem::exists(r.at(std::string(model) + "/model.safetensors")));
    for (const auto& [name, content] : companions) CHECK(r.content(model + ("/" + name)) == content);
    r.report(flags + " --max-steps 1 --init none --model " + r.at(model) + " --data " +
             without_blocks(r, std::size_t(step)));
    CHECK(r.losses().front() == doctest::Approx(losses[std::size_t(step)]).epsilon(1e-6));
  }
}

TEST_CASE(
    "order: --no-shuffle takes blocks as they stand, so the same blocks in another file give the same losses; "
    "shuffling does not") {
  const SmallRun r;
  r.report("--full --no-shuffle --max-steps 4");
  const auto in_order = r.losses();
  std::ifstream tokens(r.at("tokens.bin"), std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(tokens), {}};
  r.scratch().write("first.bin", all.substr(0, 4 * 16 * 2));
  r.report("--full --no-shuffle --max-steps none --epochs 1 --data " + r.at("first.bin"));
  CHECK(r.losses() == in_order);
  r.report("--full --max-steps 4");
  CHECK(r.losses() != in_order);
}

TEST_CASE("saved: a plan file is run, a name of the catalogue with --init random, and random tokens for 10 steps") {
  const SmallRun r;
  const auto ask = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{GPUPLAN_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    return Process(all, r.path()).wait();
  };
  const Finished saved = ask({"estimate", "--model", r.at("model"), "--full", "--gpus", "2xcpu", "--strategy", "fsdp",
                              "--seq-len", "16", "--precision", "fp32", "--save", r.at("plan.json")});
  REQUIRE_MESSAGE(std::filesystem::exists(r.at("plan.json")), saved.err);
  const Finished f = ask(
      {"run", r.at("plan.json"), "--init", "random", "--max-steps", "3", "--metrics", r.at("metrics.jsonl"), "--json"});
  REQUIRE_MESSAGE(f.code == 0, f.err);
  CHECK(r.losses().size() == 3);
  r.report("--full --data none --max-steps none");
  CHECK(r.losses().size() == 10);
  const Finished named = ask({"run", "--model", "smollm2-135m", "--full", "--gpus", "1xcpu", "--max-steps", "1",
                              "--metrics", r.at("none.jsonl")});
  CHECK(named.code == 2);
  check_has(named.err, "--init random");
  CHECK(!std::filesystem::exists(r.at("none.jsonl")));
}
