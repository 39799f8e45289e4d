// Inputs that are not what they should be: weights of another model or with numbers that are none, data that trains
// nothing, and names that lead to no file.
#include <cstring>
#include <limits>
#include <sstream>

#include <sys/stat.h>

#include "run_program/small_run.h"

using namespace gpuplan::test;
using nlohmann::json;

namespace {

/// The tensors of a model.safetensors, to be changed and written again.
struct Weights {
  explicit Weights(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(in), {}};
    std::uint64_t length = 0;
    std::memcpy(&length, all.data(), sizeof length);
    const json header = json::parse(all.substr(8, length));
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__")
        add(name, entry.at("shape"),
            all.substr(
                8 + length + entry.at("data_offsets")[0].get<std::size_t>(),
                entry.at("data_offsets")[1].get<std::size_t>() - entry.at("data_offsets")[0].get<std::size_t>()));
  }
  void add(const std::string& name, const std::vector<int>& shape, const std::string& bytes) {
    tensors[name] = {shape, bytes};
  }
  void write(const std::string& file) const {
    json header = json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {{"dtype", "F32"},
                      {"shape", tensor.first},
                      {"data_offsets", {data.size(), data.size() + tensor.second.size()}}};
      data += tensor.second;
    }
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::string all(8, '\0');
    std::memcpy(all.data(), &length, sizeof length);
    std::ofstream(file, std::ios::binary) << all + text + data;
  }
  std::map<std::string, std::pair<std::vector<int>, std::string>> tensors;  // shape and bytes of fp32
};

/// A run with a model folder that has weights: what a run of one step left.
struct Model {
  explicit Model(const Shape& shape = {}) : run(shape) {
    run.report("--full --max-steps 1 --output " + run.at("out"));
    config = json::parse(run.content("out/config.json"));
    weights.emplace(run.at("out/model.safetensors"));
  }
  Finished train(const std::string& flags = "--full") {
    run.scratch().write("out/config.json", config.dump());
    weights->write(run.at("out/model.safetensors"));
    return run.run(flags + " --max-steps 1 --init none --model " + run.at("out"));
  }
  SmallRun run;
  json config;
  std::optional<Weights> weights;
};

void check_refused(const Finished& f, const std::vector<std::string>& parts) {
  CAPTURE(f.err);
  CHECK(f.code == 2);
  CHECK(f.out == "");
  for (const std::string& part : parts) check_has(f.err, part);
}

}  // namespace

TEST_CASE("inputs: weights of more layers than the config has, or of fewer, are refused by name") {
  Model more;
  const auto before = more.weights->tensors;
  for (const auto& [name, tensor] : before)
    if (const std::size_t at = name.find("layers.2."); at != std::string::npos)
      more.weights->tensors[std::string(name).replace(at, 9, "layers.3.")] = tensor;
  check_refused(more.train(), {"model.layers.3."});

  Model fewer;
  std::erase_if(fewer.weights->tensors,
                [](const auto& row) { return row.first.find("layers.2.") != std::string::npos; });
  check_refused(fewer.train(), {"model.layers.2."});
}

TEST_CASE("inputs: a bias in the weights that the model has not, however small, is refused by name; buffers are not") {
  Model m;
  m.weights->add("model.layers.1.self_attn.rotary_emb.inv_freq", {3}, std::string(12, '\0'));
  CHECK(m.train().code == 0);
  m.weights->add("model.layers.1.self_attn.q_proj.bias", {36}, std::string(36 * 4, '\0'));
  for (const char* flags : {"--full", "--lora=r=3,base=fp32"})
    check_refused(m.train(flags), {"model.layers.1.self_attn.q_proj.bias", "config.json"});
}

TEST_CASE("inputs: a model with biases needs them") {
  Model m({.family = "qwen2"});
  CHECK(m.train().code == 0);
  CHECK(m.weights->tensors.erase("model.layers.1.self_attn.q_proj.bias") == 1);
  check_refused(m.train(), {"model.layers.1.self_attn.q_proj.bias"});
}

TEST_CASE("inputs: tied and untied embeddings agree with the weights, or are refused") {
  Model m;
  m.weights->tensors["lm_head.weight"] = m.weights->tensors["model.embed_tokens.weight"];
  m.config["tie_word_embeddings"] = true;
  CHECK(m.train().code == 0);  // a stored copy
  m.weights->tensors["lm_head.weight"].second[5] ^= 1;
  check_refused(m.train(), {"'lm_head.weight' and 'model.embed_tokens.weight' differ", "tie_word_embeddings"});
  CHECK(m.weights->tensors.erase("lm_head.weight") == 1);
  CHECK(m.train().code == 0);
  m.config["tie_word_embeddings"] = false;
  check_refused(m.train(), {"lm_head.weight"});
}

TEST_CASE("inputs: a weight that is no number is named with its place while it is loaded, whatever is trained") {
  Model m;
  const std::string name = "model.layers.1.mlp.up_proj.weight";  // [50, 36]
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::memcpy(m.weights->tensors.at(name).second.data() + (7 * 36 + 11) * 4, &value, sizeof value);
    for (const char* flags : {"--full", "--lora=r=3,base=fp32", "--qlora=r=3"})
      check_refused(m.train(flags), {"model.safetensors", "tensor '" + name + "' holds ", " at [7, 11]"});
  }
  check_refused(m.train(std::string("--full") + kTwoRanks), {name});
}

TEST_CASE("inputs: rows without a label are counted, and data that has none at all is refused") {
  const SmallRun r;
  r.scratch().write(
      "some.jsonl",
      "{\"input_ids\":[1,2,3],\"labels\":[-100,-100,-100]}\n{\"input_ids\":[4,5,6],\"labels\":[-100,5,6]}\n");
  r.scratch().write("none.jsonl", "{\"input_ids\":[1,2,3],\"labels\":[-100,-100,-100]}\n{\"input_ids\":[7]}\n");
  const Finished some = r.run("--full --max-steps 1 --packing padded --data " + r.at("some.jsonl"));
  CHECK(some.code == 0);
  check_has(some.out + some.err, "1 of 2 rows have no label");
  check_refused(r.run("--full --max-steps 1 --packing padded --data " + r.at("none.jsonl")),
                {"none.jsonl", "none of its 2 rows has a label"});
  // the only labels stand behind the last whole block, or first in one
  r.scratch().write("tail.jsonl",
                    "{\"input_ids\":[1,2,3,4,5,6,7,8,9,10],\"labels\":[1,-100,-100,-100,-100,-100,-100,-100,9,10]}\n");
  check_refused(r.run("--full --max-steps 1 --packing packed --seq-len 8 --data " + r.at("tail.jsonl")),
                {"tail.jsonl", "none of its 1 blocks of 8 tokens has a label"});
}

TEST_CASE("inputs: pipes, folders and devices as data, weights, tokenizer or profile end with a message") {
  const SmallRun r;
  REQUIRE(mkfifo(r.at("fifo.bin").c_str(), 0600) == 0);
  REQUIRE(mkfifo(r.at("fifo.jsonl").c_str(), 0600) == 0);
  std::filesystem::create_directory(r.at("folder.bin"));
  std::filesystem::create_symlink("/dev/zero", r.at("zero.bin"));
  check_refused(r.run("--full --data " + r.at("fifo.bin")), {"fifo.bin: is a pipe, not a file"});
  check_refused(r.run("--full --data " + r.at("fifo.jsonl")), {"fifo.jsonl: is a pipe, not a file"});
  check_refused(r.run("--full --data " + r.at("folder.bin")), {"folder.bin: is a folder, not a file"});
  check_refused(r.run("--full --data " + r.at("zero.bin")), {"zero.bin: is a device, not a file"});

  REQUIRE(mkfifo(r.at("model/model.safetensors").c_str(), 0600) == 0);
  check_refused(r.run("--full --init none"), {"model.safetensors: is a pipe, not a file"});
  std::filesystem::remove(r.at("model/model.safetensors"));

  REQUIRE(mkfifo(r.at("model/tokenizer.model").c_str(), 0600) == 0);
  r.scratch().write("text.jsonl", "{\"text\":\"some words\"}\n");
  check_refused(r.run("--full --data " + r.at("text.jsonl")), {"tokenizer.model: is a pipe"});

  check_refused(r.run("--full --profile " + r.at("fifo.bin")), {"fifo.bin"});
  check_refused(r.run("--full --profile " + r.at("folder.bin")), {"folder.bin"});
}

TEST_CASE("inputs: a pipe in the place of a rank's state ends a resumed run with a message") {
  const SmallRun r;
  r.report("--full --max-steps 2 --save-every 1 --output " + r.at("out"));
  std::string state;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(r.at("out")))
    if (entry.path().filename().string().starts_with("rank-")) state = entry.path().string();
  REQUIRE(state != "");
  std::filesystem::remove(state);
  REQUIRE(mkfifo(state.c_str(), 0600) == 0);
  check_refused(r.run("--full --max-steps 2 --save-every 1 --resume --output " + r.at("out")),
                {"is a pipe, not a file"});
}

TEST_CASE("inputs: code and pickles of a model's folder are not run") {
  const SmallRun r;
  json config = json::parse(r.content("model/config.json"));
  config["auto_map"] = {{"AutoConfig", "configuration_other.Other"}, {"AutoModelForCausalLM", "modeling_other.Other"}};
  r.scratch().write("model/config.json", config.dump());
  const std::string mark = r.at("was_run");
  for (const char* file : {"model/configuration_other.py", "model/modeling_other.py"})
    r.scratch().write(file, "open('" + mark + "', 'w')\nclass Other: pass\n");
  r.scratch().write("model/pytorch_model.bin", "cos\nsystem\n(S'touch " + mark + "'\ntR.");
  check_refused(r.run("--full --init none"), {"safetensors"});
  CHECK(r.run("--full --max-steps 1").code == 0);
  CHECK(!std::filesystem::exists(mark));
}

TEST_CASE("inputs: libraries are looked for in no place of the current folder") {
  const SmallRun r;
  const Finished trained = [&] {
    std::vector<std::string> words{"env", "-u", "LD_LIBRARY_PATH", "-C", r.at("model"), "LD_DEBUG=libs"};
    for (const std::string& word : r.command("--full --max-steps 1")) words.push_back(word);
    return Process(words, r.path()).wait();
  }();
  CHECK(trained.code == 0);
  int num_places = 0;
  std::istringstream lines(trained.err);
  for (std::string line; std::getline(lines, line);)
    for (const std::string said : {"trying file=", "calling init: "})
      if (const std::size_t at = line.find(said); at != std::string::npos) {
        const std::string place = line.substr(at + said.size());
        CHECK_MESSAGE(place.starts_with('/'), place);
        CHECK_MESSAGE(!place.starts_with(r.path().string()), place);
        num_places += place.find("libgpuplan_cpu.so") != std::string::npos;
      }
  CHECK(num_places > 0);  // the device's library is among them
}
