// A mesh that nobody gave, where dividing layers is better than sharding them.
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "planner/changes.h"
#include "planner/estimate.h"
#include "search/mesh_way.h"

using namespace gpuplan;

namespace {

EstimateRequest lora_on(const std::string& model, const std::string& gpus, const std::string& trainer) {
  EstimateRequest r;
  r.model = load_model(model).spec;
  r.recipe.method = Method::Lora;
  r.recipe.lora.rank = 32;
  r.recipe.seq_len = 4096;
  r.recipe.framework = find_framework(trainer);
  r.recipe.checkpointing = Checkpointing::Full;
  r.dataset = {.rows = 10'000, .tokens_per_row = 4096, .epochs = 1};
  r.cluster = parse_gpus(gpus);
  r.not_given.rows = {"checkpointing"};
  r.options = options_for(r);
  return r;
}

}  // namespace

TEST_CASE("a trainer that divides layers: the answer names a mesh that is better, and asked so it is the same plan") {
  const EstimateRequest asked = lora_on("llama-3-70b", "8xH100", "nemo");
  const EstimateResult answer = estimate(asked);
  const StrategyEstimate* shown = nullptr;
  for (const StrategyEstimate& e : answer.strategies)
    if (e.strategy.name == answer.recommended->strategy) shown = &e;
  REQUIRE(shown);
  const auto way = better_mesh(answer, shown);
  REQUIRE(way);
  const Mesh& mesh = way->plan.strategy.mesh;
  CHECK(mesh.ways(Axis::Tp) * mesh.ways(Axis::Pp) > 1);
  CHECK(way->plan.fits());
  CHECK(way->plan.time.step * (1 + answer.profile.time_error) <= shown->time.step);
  CHECK(way->plan.tokens_per_second > shown->tokens_per_second);  // the global batch is the same

  EstimateRequest again = asked;
  again.recipe.checkpointing = Checkpointing::None;
  again.strategy = way->plan.strategy.name;
  again.options.tp = mesh.ways(Axis::Tp), again.options.splits_sequence = mesh.splits_sequence();
  again.options.pp = mesh.ways(Axis::Pp), again.options.virtual_stages = way->plan.strategy.chunks;
  again.recipe.grad_accum = 8 / mesh.batch_replicas();
  again.options = options_for(again);
  const EstimateResult given = estimate(again);
  REQUIRE(given.strategies.size() == 1);
  CHECK(given.strategies.front().time.step == way->plan.time.step);
  CHECK(given.strategies.front().tiers.process == way->plan.tiers.process);
  CHECK(!better_mesh(given, &given.strategies.front()));  // degrees were given
}

TEST_CASE("where a model fits by offload alone, which nobody asked for, the mesh that holds it without is named") {
  EstimateRequest asked = lora_on("qwen3-235b-a22b", "8xH100", "nemo");
  asked.recipe.seq_len = asked.dataset.tokens_per_row = 2048;
  asked.recipe.offload.optimizer = asked.recipe.offload.params = OffloadTarget::Cpu;
  asked.not_given.rows.insert("offload");
  const EstimateResult answer = estimate(asked);
  const StrategyEstimate* shown = nullptr;
  for (const StrategyEstimate& e : answer.strategies)
    if (e.fits()) shown = &e;
  REQUIRE(shown);
  const auto way = better_mesh(answer, shown);
  REQUIRE(way);
  CHECK(way->plan.time.step < 0.5 * shown->time.step);
  CHECK(way->plan.strategy.mesh.ways(Axis::Ep) * way->plan.strategy.mesh.num_stages() > 1);
}

TEST_CASE("no mesh is named where the trainer has none, where one GPU is all there is, or where none is better") {
  for (const auto& [model, gpus, trainer] : {std::tuple{"llama-3-70b", "8xH100", "trl"},
                                             {"llama-3-8b", "1xH100", "nemo"},
                                             {"llama-3-8b", "8xH100", "megatron"}}) {
    CAPTURE(model);
    CAPTURE(trainer);
    EstimateRequest asked = lora_on(model, gpus, trainer);
    if (std::string(model) == "llama-3-8b") asked.recipe.checkpointing = Checkpointing::None;
    const EstimateResult answer = estimate(asked);
    const StrategyEstimate* shown = nullptr;
    for (const StrategyEstimate& e : answer.strategies)
      if (e.strategy.name == answer.recommended->strategy) shown = &e;
    CHECK(!better_mesh(answer, shown));
  }
}
