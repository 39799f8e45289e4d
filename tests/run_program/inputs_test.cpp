// Inputs that are not what they should be: weights of another model or with numbers that are none, data that trains
// nothing, and names that lead to no file.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <sstream>

#include <sys/stat.h>

#include "run_program/pretend_machine.h"
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
  for (const char* name :  // every kind of models/checkpoint.cpp
       {"model.layers.1.self_attn.rotary_emb.inv_freq", "model.layers.1.rotary_pos_emb.inv_freq", "h.1.attn.bias",
        "h.1.attn.masked_bias", "h.1.attention.bias", "h.1.attention.masked_bias", "embeddings.position_ids",
        "cls.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
        "decoder.1.EncDecAttention.relative_attention_bias.weight", "vision_model.x", "vision_tower.x",
        "multi_modal_projector.x", "model.vision_tower.x", "model.visual.x", "model.audio_tower.x",
        "model.embed_audio.x", "model.multi_modal_projector.x"})
    m.weights->add(name, {3}, std::string(12, '\0'));
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

TEST_CASE("inputs: a gradient that is no number ends a run whose loss is one, with its step, and nothing is saved") {
  // Embeddings of zeros: every hidden value and logit is 0, and the loss log(101). What the head's weights of 1e38 send
  // back to the embeddings is multiplied by 1 / sqrt(1e-5), the norm's epsilon: more than fp32 holds.
  Model m;
  std::string& embedding = m.weights->tensors.at("model.embed_tokens.weight").second;
  embedding.assign(embedding.size(), '\0');
  std::string& head = m.weights->tensors.at("lm_head.weight").second;
  for (std::size_t at = 0; at < head.size(); at += sizeof(float)) {
    const float value = at / sizeof(float) % 7 == 0 ? 1e38f : -1e38f;
    std::memcpy(head.data() + at, &value, sizeof value);
  }
  for (const std::string ranks : {"", kTwoRanks}) {
    const Finished f = m.train("--full --save-every 1 --output " + m.run.at("saved") + ranks);
    CAPTURE(f.err);
    CHECK(f.code == 3);
    check_has(f.err, "step 1");
    check_has(f.err, "the loss is 4.6");
    check_has(f.err, "diverged");
    for (const char* file : {"checkpoint-1", "model.safetensors"})
      CHECK(!std::filesystem::exists(m.run.at(std::string("saved/") + file)));
  }
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

namespace {

/// Names what stands where a file should be, as messages do.
constexpr const char* kNoFiles[] = {"pipe", "folder", "device", "socket"};

void put(const std::string& no_file, const std::string& path) {
  std::filesystem::remove_all(path);
  if (no_file == "pipe") REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  if (no_file == "folder") std::filesystem::create_directory(path);
  if (no_file == "device") std::filesystem::create_symlink("/dev/zero", path);
  if (no_file == "socket") REQUIRE(mknod(path.c_str(), S_IFSOCK | 0600, 0) == 0);
}

}  // namespace

TEST_CASE("inputs: pipes, folders, devices and sockets as data, weights, tokenizer or profile end with a message") {
  const SmallRun r;
  r.scratch().write("text.jsonl", "{\"text\":\"some words\"}\n");
  const std::string text = "--full --data " + r.at("text.jsonl");
  for (const std::string no_file : kNoFiles) {
    CAPTURE(no_file);
    for (const std::string name : {"data.bin", "data.npy", "data.jsonl"}) {
      put(no_file, r.at(name));
      check_refused(r.run("--full --data " + r.at(name)), {name + ": is a " + no_file, ", not a file"});
      std::filesystem::remove_all(r.at(name));
    }
    // a folder without a regular model.safetensors has no weights, and one without a tokenizer.model no tokenizer
    put(no_file, r.at("model/model.safetensors"));
    check_refused(r.run("--full --init none"), {"safetensors"});
    std::filesystem::remove_all(r.at("model/model.safetensors"));
    for (const std::string name : {"tokenizer.model", "tokenizer_config.json"}) {
      r.scratch().write("model/tokenizer.model", "");
      put(no_file, r.at("model/" + name));
      check_refused(r.run(text), {name + ": is a " + no_file, ", not a file"});  // and not waited for
      std::filesystem::remove_all(r.at("model/" + name));
    }
    put(no_file, r.at("profile.yaml"));
    if (no_file != "pipe")  // which may be one
      check_refused(r.run("--full --profile " + r.at("profile.yaml")), {"profile.yaml"});
    std::filesystem::remove_all(r.at("profile.yaml"));
  }
}

TEST_CASE("inputs: what is no file in the place of a rank's state ends a resumed run with a message") {
  const SmallRun r;
  r.report("--full --max-steps 2 --save-every 1 --output " + r.at("out"));
  std::string state;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(r.at("out")))
    if (entry.path().filename().string().starts_with("rank-")) state = entry.path().string();
  REQUIRE(state != "");
  for (const std::string no_file : kNoFiles) {
    put(no_file, state);
    check_refused(r.run("--full --max-steps 2 --save-every 1 --resume --output " + r.at("out")),
                  {"is a " + no_file, ", not a file"});
  }
}

TEST_CASE("inputs: files of a run that are read as a whole have a largest size, and data has none") {
  const SmallRun r;
  r.scratch().write("text.jsonl", "{\"text\":\"some words\"}\n");
  std::filesystem::create_directory(r.at("adapter"));
  const std::string flags = "--full --max-steps 2 --save-every 1 --resume --output " + r.at("out");
  r.scratch().write("model/tokenizer.model", "");
  REQUIRE(r.run(flags).code == 0);
  struct Row {
    std::string file, flags;
  };
  for (const Row& row :
       {Row{"adapter/adapter_config.json", "--lora --adapter " + r.at("adapter")}, Row{"model/config.json", "--full"},
        Row{"model/tokenizer.model", "--full --data " + r.at("text.jsonl")},
        Row{"model/tokenizer_config.json", "--full --data " + r.at("text.jsonl")}, Row{"metrics.jsonl", flags},
        Row{"out/checkpoint-1/trainer_state.json", flags}}) {
    CAPTURE(row.file);
    const bool is_there = std::filesystem::exists(r.at(row.file));
    const std::string before = r.content(row.file);
    r.scratch().write(row.file, "");
    std::filesystem::resize_file(r.at(row.file), (std::uintmax_t(256) << 20) + 1);
    check_refused(r.run(row.flags), {row.file, "is larger than "});
    std::filesystem::remove(r.at(row.file));
    if (is_there) r.scratch().write(row.file, before);
  }
  r.scratch().write("large.bin", r.content("tokens.bin"));
  std::filesystem::resize_file(r.at("large.bin"), std::uintmax_t(1) << 30);
  CHECK(r.run("--full --max-steps 1 --data " + r.at("large.bin")).code == 0);
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

namespace {

/// Every place that the loader tries for a library, and every library that it starts, of a program in `folder`.
std::vector<std::string> library_places(const SmallRun& r, const std::string& folder, const std::string& flags,
                                        std::optional<int> code) {
  std::vector<std::string> words{"env", "-u", "LD_LIBRARY_PATH", "-C", folder, "LD_DEBUG=libs"}, places;
  for (const std::string& word : r.command(flags)) words.push_back(word);
  const Finished f = Process(words, r.path()).wait();
  if (code) CHECK(f.code == *code);
  std::istringstream lines(f.err);
  for (std::string line; std::getline(lines, line);)
    for (const std::string said : {"trying file=", "calling init: "})
      if (const std::size_t at = line.find(said); at != std::string::npos)
        places.push_back(line.substr(at + said.size()));
  return places;
}

bool has_place(const std::vector<std::string>& places, const std::string& name) {
  return std::ranges::any_of(places, [&](const std::string& p) { return p.ends_with("/" + name); });
}

}  // namespace

TEST_CASE("inputs: libraries are looked for in no place of the current folder") {
  const SmallRun r;
  const std::string here = r.at("model");  // which has libraries by all the names that are looked for
  for (const char* name : {"libgpuplan_cuda.so", "libgpuplan_nccl.so", "libgpuplan_cpu.so", "libgpuplan_mpi.so"})
    std::filesystem::copy_file(std::filesystem::path(GPUPLAN_PRETEND_DIR) / "libgpuplan_cuda.so", here + "/" + name);
  for (const char* name : {"libnvidia-ml.so.1", "libnvidia-ml.so", "libcuda.so.1", "libnccl.so.2", "libcurl.so.4"})
    std::filesystem::copy_file(GPUPLAN_FAKE_NVML, here + "/" + name);
  std::filesystem::create_directories(here + "/lib/gpuplan");
  std::filesystem::copy_file(here + "/libgpuplan_cuda.so", here + "/lib/gpuplan/libgpuplan_cuda.so");
  const auto check = [&](const std::vector<std::string>& places, const std::vector<std::string>& names) {
    for (const std::string& place : places) {
      CHECK_MESSAGE(place.starts_with('/'), place);
      CHECK_MESSAGE(!place.starts_with(r.path().string()), place);
    }
    for (const std::string& name : names) CHECK_MESSAGE(has_place(places, name), name);
  };
  check(library_places(r, here, "--full --max-steps 1", 0), {"libgpuplan_cpu.so"});
  {
    const PretendMachine machine(r);
    check(library_places(r, here, "--full --max-steps 1 --gpus 2xA6000 --strategy ddp", 0),
          {"libgpuplan_cuda.so", "libgpuplan_nccl.so", std::filesystem::path(GPUPLAN_FAKE_NVML).filename()});
  }
  // NVML by its own name, of a driver that is here or not
  check(library_places(r, here, "--full --max-steps 1 --gpus local --strategy none", {}), {"libnvidia-ml.so.1"});
}

TEST_CASE("inputs: what scripts/tokenise.py makes of text and of messages is trained on") {
  const SmallRun r;
  if (Process({"python3", "-c", ""}, r.path()).wait().code != 0) {
    MESSAGE("skipped: no python3");
    return;
  }
  r.scratch().write("modules/transformers.py",  // a stand-in for the one class that the script asks for
                    "class AutoTokenizer:\n"
                    "    eos_token_id = 2\n"
                    "    @classmethod\n"
                    "    def from_pretrained(cls, folder):\n"
                    "        open(folder + '/config.json').close()\n"
                    "        return cls()\n"
                    "    def __call__(self, text):\n"
                    "        return {'input_ids': [ord(c) % 100 for c in text]}\n"
                    "    def apply_chat_template(self, messages, tokenize, return_dict):\n"
                    "        return {'input_ids': [len(m['content']) for m in messages]}\n");
  r.scratch().write(
      "text.jsonl",
      "{\"text\":\"abc\"}\n\n{\"text\":\"\\u0002\"}\n{\"text\":\"\"}\n"
      "{\"messages\":[{\"role\":\"user\",\"content\":\"four\"},{\"role\":\"assistant\",\"content\":\"five!\"}]}\n");
  const std::string script = std::filesystem::path(GPUPLAN_TEST_DIR).parent_path() / "scripts" / "tokenise.py";
  const Finished made = Process({"env", "PYTHONPATH=" + r.at("modules"), "python3", script, r.at("model"),
                                 r.at("text.jsonl"), r.at("tokens.jsonl")},
                                r.path())
                            .wait();
  REQUIRE_MESSAGE(made.code == 0, made.err);
  CHECK(r.content("tokens.jsonl") ==
        "{\"input_ids\": [97, 98, 99, 2]}\n{\"input_ids\": [2]}\n{\"input_ids\": []}\n{\"input_ids\": [4, 5]}\n");
  const Finished f = r.run("--full --max-steps 2 --packing padded --seq-len 4 --data " + r.at("tokens.jsonl"));
  CHECK_MESSAGE(f.code == 0, f.err);
}
