// Counts of real transformers and PEFT on torch's meta device (meta_counts.json, made by tests/clients/clients.py):
// what 4 bit stores, what LoRA on all-linear trains, by version.
#include <map>
#include <string>
#include <variant>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/trained_model.h"

namespace gpuplan {
namespace {

using nlohmann::json;

struct Counted {
  std::int64_t four_bit = 0, trainable = 0;
};

/// How much more the real programs have, by model and the beginning of the version of transformers; others are equal.
using Differences = std::map<std::pair<std::string, std::string>, Counted>;
const Differences& differences() {
  static const Differences all{
      // out_proj of Mamba layers: quantised and adapted there, though the fused kernel multiplies the bare weight
      {{"bamba-9b", ""}, {973'078'528, 5'701'632}},
      {{"granite-4.0-h-350m", ""}, {33'030'144, 1'032'192}},
      {{"granite-4.0-h-1b", ""}, {169'869'312, 2'654'208}},
      {{"granite-4.0-h-micro", ""}, {301'989'888, 3'538'944}},
      {{"granite-4.0-h-tiny", ""}, {169'869'312, 2'654'208}},
      {{"granite-4.0-h-small", ""}, {1'207'959'552, 7'077'888}},
      {{"nemotron-3-nano-30b-a3b", ""}, {253'231'104, 2'496'512}},
      {{"nemotron-h-8b", ""}, {805'306'368, 4'718'592}},
      {{"nemotron-nano-9b-v2", ""}, {1'238'630'400, 6'359'040}},
      {{"nemotron-nano-12b-v2", ""}, {1'468'006'400, 6'881'280}},
      // BERT's pooler, which get_keys_to_not_convert of transformers 4 takes for a head
      {{"bert-base", "4."}, {0, 24'576}},
      {{"bert-base", "5."}, {589'824, 24'576}},
      {{"bert-large", "4."}, {0, 32'768}},
      {{"bert-large", "5."}, {1'048'576, 32'768}},
      // projections between the embedding and narrower layers
      {{"opt-350m", ""}, {1'048'576, 49'152}},
      // the vision tower of Gemma 4: its patch embedder and projection
      {{"gemma-4-26b-a4b", ""}, {-2'359'296, 30'720}},
      {{"gemma-4-31b", ""}, {-5'308'416, 30'720}},
      {{"gemma-4-e2b", ""}, {-589'824, 24'576}},
      {{"gemma-4-e4b", ""}, {-1'376'256, 24'576}},
      // its final norm has no weight, so that the last module with one, taken for the head, is a layer's down_proj
      {{"olmo-1b", ""}, {-16'777'216, 0}},
      // attention of another width before transformers 5
      {{"phi-tiny-moe", "4."}, {671'088'640, 2'621'440}}};
  return all;
}

Counted difference_of(const std::string& name, const std::string& transformers) {
  for (const auto& [key, difference] : differences())
    if (key.first == name && transformers.starts_with(key.second)) return difference;
  return {};
}

std::variant<Counted, InputError> count(const ModelSpec& spec, const std::string& versions) {
  const FrameworkConvention& framework =
      resolve_framework("hf-trainer", {.given = parse_stack_versions(versions), .date = {}}, spec.model_type);
  Recipe recipe;
  recipe.method = Method::Qlora;
  recipe.quant.kind = BaseQuant::Nf4;
  recipe.images.train = TrainVision::All;
  recipe.lora.rank = 16;
  const auto prepared = try_prepare(spec, recipe, framework);
  if (const auto* wrong = std::get_if<InputError>(&prepared)) return *wrong;
  const TrainedModel& model = std::get<TrainedModel>(prepared);
  Counted out{.trainable = model.trainable};
  model.each_state([&](const StateList& list, std::int64_t times) {
    for (const StateTensor& t : list)
      if (t.kind == StateKind::Quantised) out.four_bit += times * t.elements();
  });
  return out;
}

}  // namespace

TEST_CASE("4-bit weights and LoRA's parameters are those of real transformers and PEFT, for every model and version") {
  const json table = read_json_file(std::filesystem::path(GPUPLAN_TEST_DIR) / "models/meta_counts.json");
  std::int64_t compared = 0;
  for (const auto& [name, by_version] : table.at("models").items())
    for (const auto& [transformers, row] : by_version.items()) {
      if (row.contains("error")) continue;
      const Counted more = difference_of(name, transformers);
      for (const auto& [peft, trainable] : row.at("trainable").items()) {
        CAPTURE(name);
        CAPTURE(transformers);
        CAPTURE(peft);
        const auto counted = count(load_model(name).spec, "transformers=" + transformers + ",peft=" + peft);
        if (trainable.is_string()) {  // PEFT refuses out_proj of Mamba layers, and so does gpuplan
          REQUIRE(std::holds_alternative<InputError>(counted));
          CHECK(std::get<InputError>(counted).problem().find("out_proj takes no adapter") != std::string::npos);
          continue;
        }
        REQUIRE(std::holds_alternative<Counted>(counted));
        CHECK(std::get<Counted>(counted).four_bit + more.four_bit == row.at("four_bit"));
        CHECK(std::get<Counted>(counted).trainable + more.trainable == trainable);
        ++compared;
      }
    }
  CHECK(compared > 1000);
}

}  // namespace gpuplan
