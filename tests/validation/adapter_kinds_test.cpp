// PEFT's own comparison of methods on Llama 3.2 3B: what it counts as trained, and the memory that it measured.
#include <cmath>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "base/files.h"
#include "models/adapter_kind.h"
#include "models/catalogue.h"
#include "models/trained_model.h"
#include "validate/judge.h"
#include "validate/read_points.h"

using namespace gpuplan;

namespace adapter_kinds {
namespace {

const std::vector<Point>& points() {
  static const std::vector<Point> all = read_points(data_dir() / "validation" / "adapters.jsonl");
  return all;
}

/// num_trainable_params of its result files.
const std::map<std::string, std::int64_t> kTrained{{"adalora", 18'353'664},  {"vera", 129'024},    {"loha", 18'350'080},
                                                   {"lokr", 2'294'656},      {"ia3", 286'720},     {"oft", 8'171'520},
                                                   {"boft", 802'816},        {"miss", 7'340'032},  {"prompt", 614'400},
                                                   {"p-tuning", 28'382'208}, {"bdlora", 8'429'568}};

}  // namespace

TEST_CASE("every kind of adapters trains as many parameters as PEFT counts") {
  CHECK(points().size() == kTrained.size());
  for (const Point& point : points()) {
    CAPTURE(point.id);
    Recipe recipe;
    recipe.method = Method::Lora;
    recipe.lora.kind = point.lora.kind;
    recipe.lora.rank = point.lora.rank.value_or(8);
    recipe.lora.rotation_block = point.lora.rotation_block;
    recipe.lora.factor = point.lora.factor;
    recipe.lora.targets = point.lora.targets;
    const TrainedModel model = prepare(load_model("llama-3.2-3b").spec, recipe, find_framework("hf-loop"));
    CHECK(model.trainable == kTrained.at(point.lora.kind));
  }
}

TEST_CASE("measured memory of every kind of adapters is within 4 %, but for BOFT's permutations in host memory") {
  PointPlanner planner(AliasTable::read());
  const auto results = judge(points(), planner).results;
  for (const PointResult& r : results) {
    REQUIRE_MESSAGE(r.own.has_value(), r.point->id << ": " << r.reason);
    MESSAGE(r.point->id << ": " << r.own->predicted << " of " << r.own->measured << " GiB");
    constexpr double kPermutations = 28.0 * 2 * 3072 * 3072 * 4 / (1LL << 30);  // that a Trainer moves to the GPU
    const double predicted = r.own->predicted - (r.point->lora.kind == "boft" ? kPermutations : 0);
    CHECK(std::abs(std::log(predicted / r.own->measured)) < 0.04);
  }
}

}  // namespace adapter_kinds
