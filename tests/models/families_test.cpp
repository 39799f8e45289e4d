#include "models/families.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"
#include "base/names.h"
#include "models/catalogue.h"
#include "models/hf_config.h"

using namespace gpuplan;

namespace {

const WeightTensor* find(const std::vector<WeightTensor>& tensors, const std::string& name) {
  for (const WeightTensor& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

using Shape = std::vector<std::int64_t>;

Shape layer_shape(const std::string& model, const std::string& tensor) {
  const ModelWeights weights = list_weights(load_model(model).spec);
  const WeightTensor* found = find(weights.kinds[0].tensors, tensor);
  return found ? found->shape : Shape{};
}

}  // namespace

TEST_CASE("every entry is modelled, and the parameters computed from its tensors equal the recorded count") {
  const auto entries = list_catalogue();
  CHECK(entries.size() >= 148);
  for (const CatalogueEntry& entry : entries) {
    CAPTURE(entry.name);
    REQUIRE(entry.is_modelled);
    const ModelSpec spec = load_model(entry.name).spec;
    CHECK(spec.recorded_parameters == entry.parameters);
    CHECK(list_weights(spec).total_elements() == entry.parameters);
  }
}

TEST_CASE("golden parameter counts") {
  // Source: safetensors totals of the hub, see data/models.
  CHECK(list_weights(load_model("llama-3.1-8b").spec).total_elements() == 8'030'261'248);
  CHECK(list_weights(load_model("llama-3.1-70b").spec).total_elements() == 70'553'706'496);
  CHECK(list_weights(load_model("mistral-7b-v0.3").spec).total_elements() == 7'248'023'552);
  CHECK(list_weights(load_model("llama-2-7b").spec).total_elements() == 6'738'415'616);
}

TEST_CASE("a Llama-3.1-8B layer has 218,103,808 weights in linears and two norms") {
  // 2 * 4096 * 32 * 128 + 2 * 4096 * 8 * 128 + 3 * 4096 * 14336 = 218103808; + 2 * 4096
  const ModelWeights weights = list_weights(load_model("llama-3.1-8b").spec);
  std::int64_t linear = 0;
  for (const WeightTensor& tensor : weights.kinds[0].tensors)
    if (tensor.role == WeightRole::Linear) linear += tensor.elements();
  CHECK(linear == 218'103'808);
  CHECK(weights.kinds[0].elements() == 218'112'000);
  CHECK(weights.kinds[0].prefix == "model.layers.{}.");
}

TEST_CASE("tensors have the names and shapes of the Hugging Face checkpoints") {
  CHECK(layer_shape("llama-3-8b", "self_attn.k_proj.weight") == Shape{1024, 4096});
  CHECK(layer_shape("llama-3-8b", "mlp.down_proj.weight") == Shape{4096, 14336});
  CHECK(layer_shape("llama-3-8b", "self_attn.q_proj.bias").empty());
  CHECK(layer_shape("mistral-nemo-12b", "self_attn.q_proj.weight") == Shape{4096, 5120});
  CHECK(layer_shape("qwen2.5-7b", "self_attn.q_proj.bias") == Shape{3584});
  CHECK(layer_shape("qwen2.5-7b", "self_attn.v_proj.bias") == Shape{512});
  CHECK(layer_shape("qwen2.5-7b", "self_attn.o_proj.bias").empty());
  CHECK(layer_shape("qwen3-8b", "self_attn.q_norm.weight") == Shape{128});
  CHECK(layer_shape("gemma-2-9b", "post_feedforward_layernorm.weight") == Shape{3584});
  CHECK(layer_shape("gemma-3-1b", "self_attn.k_norm.weight") == Shape{256});
  CHECK(layer_shape("gemma-2b", "post_feedforward_layernorm.weight").empty());
  CHECK(layer_shape("phi-3-mini", "self_attn.qkv_proj.weight") == Shape{9216, 3072});
  CHECK(layer_shape("phi-4", "self_attn.qkv_proj.weight") == Shape{7680, 5120});  // 40 + 2 * 10 heads of 128
  CHECK(layer_shape("phi-3-mini", "mlp.gate_up_proj.weight") == Shape{16384, 3072});
  CHECK(layer_shape("gpt2", "attn.c_attn.weight") == Shape{768, 2304});  // Conv1D: [in, out]
  CHECK(layer_shape("gpt2", "mlp.c_proj.weight") == Shape{3072, 768});
  CHECK(layer_shape("gpt2", "ln_2.bias") == Shape{768});
}

TEST_CASE("the head is a tensor of its own exactly when it is not tied") {
  for (const CatalogueEntry& entry : list_catalogue()) {
    CAPTURE(entry.name);
    const ModelSpec spec = load_model(entry.name).spec;
    const ModelWeights weights = list_weights(spec);
    const auto head = std::ranges::find(weights.after, WeightRole::Head, &WeightTensor::role);
    if (spec.head == HeadKind::Pooler) {  // of the model itself, or of its classifier alone
      const auto own = std::ranges::find(weights.classifier, WeightRole::Head, &WeightTensor::role);
      CHECK((head == weights.after.end()) == (own != weights.classifier.end()));
      CHECK((own != weights.classifier.end() ? own : head)->shape == Shape{spec.hidden_size, spec.hidden_size});
      continue;
    }
    CHECK((head == weights.after.end()) == spec.tie_word_embeddings);
    if (head != weights.after.end()) CHECK(head->shape == Shape{spec.vocab_size, spec.embedding_width()});
  }
}

TEST_CASE("in and out of every matmul multiply to its elements, no name and no slot comes twice in a layer") {
  for (const CatalogueEntry& entry : list_catalogue()) {
    CAPTURE(entry.name);
    for (const LayerKind& kind : list_weights(load_model(entry.name).spec).kinds) {
      std::set<std::string> names;
      std::set<LinearSlot> slots;
      for (const WeightTensor& tensor : kind.tensors) {
        CAPTURE(tensor.name);
        CHECK(names.insert(tensor.name).second);
        const bool is_matmul = tensor.role == WeightRole::Linear || tensor.role == WeightRole::Stacked;
        CHECK(is_matmul == (tensor.slot != LinearSlot::None));
        if (is_matmul) CHECK(slots.insert(tensor.slot).second);
        const std::int64_t experts = tensor.shape.size() == 3 ? tensor.shape[0] : tensor.copies;
        CHECK(tensor.in * tensor.out * experts == (is_matmul ? tensor.elements() : 0));
      }
    }
  }
}

TEST_CASE("the layers of the order are those of the spec, and every kind is used") {
  for (const CatalogueEntry& entry : list_catalogue()) {
    CAPTURE(entry.name);
    const ModelSpec spec = load_model(entry.name).spec;
    const ModelWeights weights = list_weights(spec);
    CHECK(weights.num_layers() == spec.num_layers());
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < weights.kinds.size(); ++k) {
      CHECK(weights.num_of_kind(k) > 0);
      CHECK(weights.kinds[k].is_bridge == (weights.kinds[k].prefix.find("{}") == std::string::npos));
      sum += weights.num_of_kind(k);
    }
    CHECK(sum == spec.num_layers());
  }
}

TEST_CASE("active parameters per token equal the recorded ones") {
  // Source: counts of data/models with the routed experts cut to those a token meets.
  int num_moe = 0;
  for (const CatalogueEntry& entry : list_catalogue()) {
    CAPTURE(entry.name);
    const ModelSpec spec = load_model(entry.name).spec;
    CHECK(list_weights(spec).active_elements(spec.moe) == read_json_file(entry.file)["active_params_per_token"]);
    num_moe += spec.moe.is_present();
  }
  CHECK(num_moe >= 14);
}

TEST_CASE("sliding windows are counted by layer") {
  CHECK(load_model("mistral-7b-v0.1").spec.sliding_layers == 32);
  CHECK(load_model("mistral-7b-v0.3").spec.sliding_layers == 0);
  CHECK(load_model("gemma-2-9b").spec.sliding_layers == 21);  // 42 layers, alternating
  CHECK(load_model("gemma-3-1b").spec.sliding_layers == 22);  // 26 layers, layers 6, 12, 18, 24 attend fully
  CHECK(load_model("phi-3-mini").spec.sliding_window == 2047);
  CHECK(load_model("qwen2.5-7b").spec.sliding_window == 0);
}

TEST_CASE("writing a config and reading it back gives the same model, for every entry") {
  for (const CatalogueEntry& entry : list_catalogue()) {
    CAPTURE(entry.name);
    const ModelSpec spec = load_model(entry.name).spec;
    ModelSpec again = parse_hf_config(to_hf_config(spec), "plan.json");
    CHECK(again.id == spec.id);
    again.name = spec.name, again.source = spec.source, again.recorded_parameters = spec.recorded_parameters;
    CHECK(again == spec);
  }
}

TEST_CASE("every row of the family table has a model in the catalogue and a name of its own") {
  const auto entries = list_catalogue();
  std::set<std::string_view> names;
  for (const Family* family : families()) {
    CAPTURE(family->name);
    CHECK(names.insert(family->name).second);
    CHECK(find_family(family->model_type, family->architecture) == family);
    CHECK(std::count_if(entries.begin(), entries.end(),
                        [&](const auto& entry) { return entry.model_type == family->model_type; }) > 0);
  }
}

TEST_CASE("a spec of a family without a row is refused by name") {
  ModelSpec spec;
  spec.name = "zamba-mini", spec.model_type = "zamba", spec.family = "zamba";
  CHECK_THROWS_WITH_AS(list_weights(spec), doctest::Contains("model 'zamba-mini' (zamba) is not modelled yet"),
                       InputError);
  CHECK_THROWS_WITH_AS(list_weights(spec), doctest::Contains("modelled: llama, mistral"), InputError);
}
