#include "models/checkpoint.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/hf_config.h"
#include "models/safetensors_fake.h"
#include "models/weights.h"
#include "scratch_folder.h"

using namespace gpuplan;
using nlohmann::json;
using test::fake_tensors;
using test::FakeTensor;
using test::write_safetensors;
using Tensors = std::vector<FakeTensor>;

namespace {

const json kTiny{{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"hidden_size", 64},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"intermediate_size", 128},
                 {"vocab_size", 1000}};

/// A model folder with `config`, ready for safetensors files.
struct ModelFolder {
  explicit ModelFolder(json content = kTiny)
      : config(std::move(content)),
        tensors(fake_tensors(list_weights(parse_hf_config(config, "test")))) {
    scratch.write("config.json", config.dump());
  }
  LoadedModel load() const { return load_model(scratch.path().string()); }
  LoadedModel load_single() const {
    write_safetensors(scratch.path() / "model.safetensors", tensors);
    return load();
  }
  /// Two shards and their index; `tensors` split in the middle.
  void write_shards() const {
    json map = json::object();
    for (std::size_t i = 0; i < tensors.size(); ++i) map[tensors[i].name] = i < half() ? kShards[0] : kShards[1];
    scratch.write("model.safetensors.index.json",
                  json{{"metadata", {{"total_size", total_bytes()}}}, {"weight_map", map}}.dump());
    write_safetensors(scratch.path() / kShards[0], Tensors(tensors.begin(), tensors.begin() + std::ptrdiff_t(half())));
    write_safetensors(scratch.path() / kShards[1], Tensors(tensors.begin() + std::ptrdiff_t(half()), tensors.end()));
  }
  void remove_shard(int which) const { std::filesystem::remove(scratch.path() / kShards[which]); }
  FakeTensor& at(const std::string& name) { return *std::ranges::find(tensors, name, &FakeTensor::name); }
  std::size_t half() const { return tensors.size() / 2; }
  std::int64_t total_bytes() const { return 2 * list_weights(parse_hf_config(config, "test")).total_elements(); }

  static constexpr const char* kShards[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  test::ScratchFolder scratch;
  json config;
  Tensors tensors;
};

bool has_note(const LoadedModel& model, const std::string& part) {
  return std::ranges::any_of(model.notes,
                             [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("a checkpoint with exactly the computed tensors is confirmed") {
  // 2 * 1000 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64 = 210240 parameters in 2 * 9 + 3 tensors
  const LoadedModel model = ModelFolder().load_single();
  CHECK(model.notes == std::vector<std::string>{"checkpoint: 21 tensors with 210,240 parameters, as computed"});
}

TEST_CASE("shards are read together") {
  const ModelFolder folder;
  folder.write_shards();
  CHECK(has_note(folder.load(), "21 tensors with 210,240 parameters, as computed"));
}

TEST_CASE("files without an index are read too, but not adapters or a second copy") {
  const ModelFolder folder;
  write_safetensors(folder.scratch.path() / "weights.safetensors", folder.tensors);
  write_safetensors(folder.scratch.path() / "adapter_model.safetensors", {{"lora", {8, 8}}});
  write_safetensors(folder.scratch.path() / "consolidated.safetensors", folder.tensors);
  CHECK(has_note(folder.load(), "as computed"));
  write_safetensors(folder.scratch.path() / "weights2.safetensors", folder.tensors);
  CHECK_THROWS_WITH_AS(folder.load(), doctest::Contains("is in two safetensors files"), InputError);
}

TEST_CASE("a shard that is missing while others are there is named") {
  const ModelFolder folder;
  folder.write_shards();
  folder.remove_shard(1);
  CHECK_THROWS_WITH_AS(folder.load(), doctest::Contains("1 of 2 shards are missing: model-00002-of-00002.safetensors"),
                       InputError);
}

TEST_CASE("with the index alone, names are compared and the size is checked") {
  const ModelFolder folder;
  folder.write_shards();
  folder.remove_shard(0), folder.remove_shard(1);
  const LoadedModel model = folder.load();
  CHECK(has_note(model, "21 names of the index were compared; its shards are not all here, so no shapes were"));
  CHECK(has_note(model, "total_size of the index is 2.000 bytes per computed parameter"));

  ModelFolder other;
  other.write_shards();
  other.remove_shard(0), other.remove_shard(1);
  other.config["vocab_size"] = 1100;
  other.scratch.write("config.json", other.config.dump());
  CHECK_THROWS_WITH_AS(other.load(), doctest::Contains("neither 2 nor 4"), InputError);
}

TEST_CASE("a tensor that the index promises must be in its shard") {
  const ModelFolder folder;
  folder.write_shards();
  write_safetensors(folder.scratch.path() / ModelFolder::kShards[1], {{"other", {2}}});
  CHECK_THROWS_WITH_AS(folder.load(), doctest::Contains("lacks the tensor"), InputError);
}

TEST_CASE("a shard with a name that no file can have is one that is missing") {
  const test::ScratchFolder scratch;
  scratch.write("model.safetensors.index.json", json{{"weight_map", {{"a", std::string(300, 'x')}}}}.dump());
  const auto checkpoint = read_checkpoint(scratch.path());
  REQUIRE(checkpoint);
  CHECK_FALSE(checkpoint->has_shapes);
}

TEST_CASE("an index without a weight map is refused") {
  const ModelFolder folder;
  for (const char* index :
       {"{}", "[]", R"({"weight_map": {}})", R"({"weight_map": {"a": 3}})", R"({"weight_map": {"a": "../b"}})",
        R"({"weight_map": {"a": "/etc/hosts"}})", R"({"weight_map": {"a": ""}})", R"({"weight_map": {"a": ".."}})",
        R"({"weight_map": {"a": "x/../../b"}})", R"({"weight_map": {"a": "./../b"}})"}) {
    folder.scratch.write("model.safetensors.index.json", index);
    CHECK_THROWS_WITH_AS(folder.load(), doctest::Contains("weight_map"), InputError);
  }
}

TEST_CASE("a difference of 0.05 % is summed up, one of 0.5 % is listed, one of 5 % is refused") {
  ModelFolder folder;  // 210240 parameters
  folder.tensors.push_back({"model.extra", {105}});
  CHECK(has_note(folder.load_single(), "105 elements (0.05 %) differ"));
  CHECK_FALSE(has_note(folder.load_single(), "model.extra"));

  folder.tensors.back().shape = {1051};
  CHECK(has_note(folder.load_single(), "1,051 elements (0.50 %) differ"));
  CHECK(has_note(folder.load_single(), "model.extra [1051] is in the checkpoint only"));

  folder.tensors.back().shape = {10512};
  CHECK_THROWS_WITH_AS(folder.load_single(),
                       doctest::Contains("differs from config.json by 5.0 % of the parameters:\n  model.extra [10512]"),
                       InputError);
}

TEST_CASE("other shapes and missing tensors are differences, even if they cancel out in the sum") {
  ModelFolder folder;
  folder.at("model.layers.0.input_layernorm.weight").shape = {164};  // 100 more
  folder.at("model.layers.1.input_layernorm.weight").shape = {264};  // 200 more
  const LoadedModel model = folder.load_single();
  CHECK(has_note(model, "300 elements (0.14 %) differ"));
  CHECK(has_note(model, "model.layers.1.input_layernorm.weight is [264] in the checkpoint, [64] computed"));

  ModelFolder swapped;
  swapped.at("lm_head.weight").name = "other.weight";
  CHECK_THROWS_WITH_AS(swapped.load_single(), doctest::Contains("lm_head.weight [1000, 64] is not in the checkpoint"),
                       InputError);
}

TEST_CASE("a transposed weight is noted although it has as many elements") {
  ModelFolder folder;
  folder.at("model.layers.0.mlp.up_proj.weight").shape = {64, 128};
  CHECK(has_note(folder.load_single(), "0 elements (0.00 %) differ"));
}

TEST_CASE("layers after the last one are known only of families that have such for further tokens") {
  ModelFolder folder;
  for (const FakeTensor& tensor : Tensors(folder.tensors))
    if (const std::size_t at = tensor.name.find("layers.1."); at != std::string::npos) {
      folder.tensors.push_back(tensor);
      folder.tensors.back().name.replace(at, 9, "layers.2.");
    }
  CHECK_THROWS_WITH_AS(folder.load_single(), doctest::Contains("model.layers.2."), InputError);
  for (const char* family : {"deepseek_v3", "glm4_moe"}) {
    ModelSpec model = parse_hf_config(kTiny, "test");
    CHECK(extra_meaning("model.layers.2.eh_proj.weight", model) == "");
    model.family = family;
    CHECK(extra_meaning("model.layers.2.eh_proj.weight", model) == "layers that predict further tokens");
    CHECK(extra_meaning("model.layers.1.eh_proj.weight", model) == "");
    CHECK(extra_meaning("mtp.fc.weight", model) == "");
  }
}

TEST_CASE("rotary buffers are known extras") {
  ModelFolder folder;
  folder.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2000}, "F32", 4});
  const LoadedModel model = folder.load_single();
  CHECK(has_note(model, "as computed"));
  CHECK(has_note(model, "also stores rotary buffers (2,000 elements), which are not counted"));
}

TEST_CASE("gpt2 is stored without its prefix, with masks and a copy of its head") {
  ModelFolder folder({{"architectures", {"GPT2LMHeadModel"}},
                      {"model_type", "gpt2"},
                      {"n_embd", 64},
                      {"n_layer", 2},
                      {"n_head", 4},
                      {"n_positions", 32},
                      {"vocab_size", 1000}});
  for (FakeTensor& tensor : folder.tensors) tensor.name = tensor.name.substr(std::string("transformer.").size());
  folder.tensors.push_back({"h.0.attn.bias", {1, 1, 32, 32}, "U8", 1});
  folder.tensors.push_back({"lm_head.weight", {1000, 64}});
  const LoadedModel model = folder.load_single();
  CHECK(has_note(model, "as computed"));
  CHECK(has_note(model, "causal-mask buffers (1,024 elements)"));
  CHECK(has_note(model, "a copy of the tied head (64,000 elements)"));
}

TEST_CASE("a tied embedding may go by the name of the head") {
  json config = kTiny;
  config["tie_word_embeddings"] = true;
  ModelFolder folder(config);
  folder.at("model.embed_tokens.weight").name = "lm_head.weight";
  const LoadedModel model = folder.load_single();
  CHECK(has_note(model, "as computed"));
  CHECK_FALSE(has_note(model, "copy"));
}

TEST_CASE("the text part of a multimodal checkpoint is compared, its vision part is an extra") {
  const json text{
      {"model_type", "gemma3_text"}, {"hidden_size", 64},        {"num_hidden_layers", 2}, {"intermediate_size", 128},
      {"num_attention_heads", 4},    {"num_key_value_heads", 2}, {"head_dim", 16},         {"vocab_size", 1000}};
  for (const std::string prefix : {"language_model.model.", "model.language_model."}) {
    ModelFolder folder(
        {{"architectures", {"Gemma3ForConditionalGeneration"}}, {"model_type", "gemma3"}, {"text_config", text}});
    for (FakeTensor& tensor : folder.tensors) tensor.name = prefix + tensor.name.substr(std::string("model.").size());
    folder.tensors.push_back({"vision_tower.vision_model.embeddings.patch_embedding.weight", {1152, 3, 14, 14}});
    const LoadedModel model = folder.load_single();
    CHECK(has_note(model, "only its text model is planned"));
    CHECK(has_note(model, "as computed"));
    CHECK(has_note(model, "also stores vision parts"));
  }
}

TEST_CASE("experts are looked for one by one, stacked ones as one tensor") {
  ModelFolder mixtral({{"model_type", "mixtral"},
                       {"hidden_size", 64},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 2},
                       {"intermediate_size", 32},
                       {"vocab_size", 100},
                       {"num_local_experts", 3}});
  CHECK(mixtral.at("model.layers.1.block_sparse_moe.experts.2.w2.weight").shape == std::vector<std::int64_t>{64, 32});
  CHECK(has_note(mixtral.load_single(), "as computed"));
  std::erase_if(mixtral.tensors, [](const FakeTensor& tensor) {
    return tensor.name.find("layers.1.block_sparse_moe.experts.2") != std::string::npos;
  });
  CHECK_THROWS_WITH_AS(
      mixtral.load_single(),
      doctest::Contains("model.layers.1.block_sparse_moe.experts.2.w1.weight [32, 64] is not in the checkpoint"),
      InputError);
}

TEST_CASE("bert is stored under its prefix with its pre-training heads, t5 with copies of its embedding") {
  ModelFolder bert({{"model_type", "bert"},
                    {"architectures", {"BertModel"}},
                    {"hidden_size", 64},
                    {"num_hidden_layers", 2},
                    {"num_attention_heads", 4},
                    {"intermediate_size", 128},
                    {"vocab_size", 1000}});
  for (FakeTensor& tensor : bert.tensors) tensor.name = "bert." + tensor.name;
  bert.tensors.push_back({"cls.predictions.bias", {1000}});
  bert.tensors.push_back({"bert.embeddings.position_ids", {1, 512}, "I64", 8});
  CHECK(has_note(bert.load_single(), "as computed"));
  CHECK(has_note(bert.load_single(), "pre-training heads (1,000 elements)"));

  ModelFolder t5({{"model_type", "t5"},
                  {"d_model", 64},
                  {"num_layers", 2},
                  {"d_ff", 128},
                  {"num_heads", 4},
                  {"d_kv", 16},
                  {"vocab_size", 1000}});
  CHECK(t5.at("decoder.block.1.layer.1.EncDecAttention.q.weight").shape == std::vector<std::int64_t>{64, 64});
  t5.tensors.push_back({"encoder.embed_tokens.weight", {1000, 64}});
  t5.tensors.push_back({"decoder.embed_tokens.weight", {1000, 64}});
  CHECK(has_note(t5.load_single(), "as computed"));
  CHECK(has_note(t5.load_single(), "copies of the shared embedding (128,000 elements)"));
}

TEST_CASE("a quantised checkpoint is refused") {
  ModelFolder folder;
  FakeTensor& packed = folder.at("model.layers.0.mlp.up_proj.weight");
  packed.dtype = "U8", packed.bytes_each = 1;
  CHECK_THROWS_WITH_AS(
      folder.load_single(),
      doctest::Contains("the checkpoint is quantised: 'model.layers.0.mlp.up_proj.weight' is stored as U8"),
      InputError);
  ModelFolder scaled;
  scaled.tensors.push_back({"model.layers.0.mlp.up_proj.weight.absmax", {128}, "F32", 4});
  CHECK_THROWS_WITH_AS(scaled.load_single(), doctest::Contains("give the original 16-bit model"), InputError);
}

TEST_CASE("a broken checkpoint is refused with its file and byte") {
  const ModelFolder folder;
  folder.scratch.write("model.safetensors", "\x08");
  CHECK_THROWS_WITH_AS(folder.load(), doctest::Contains("model.safetensors: byte 1: the file ends inside"), InputError);
  folder.scratch.write("model.safetensors", test::safetensors_text("{}"));
  CHECK_THROWS_WITH_AS(folder.load(), doctest::Contains("its safetensors files hold no tensors"), InputError);
}
