// Laws that every plan obeys, over every modelled entry of the catalogue and every strategy.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <tuple>

#include "models/catalogue.h"
#include "models/families.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "planner/estimate.h"
#include "planner/program_builder.h"
#include "planner/strategy_estimate.h"
#include "sanitized.h"

using namespace gpuplan;

namespace {

std::vector<ModelSpec> modelled() {
  std::vector<ModelSpec> out;
  for (const CatalogueEntry& e : list_catalogue())
    if (e.is_modelled) out.push_back(load_model(e.name).spec);
  return out;
}

/// What decides which ops and tensors a model has, sizes aside.
auto class_of(const ModelSpec& m) {
  return std::make_tuple(m.family, m.residual, m.norm_placement, m.position, m.mlp, m.embedding_size > 0,
                         m.latent.q_rank > 0, m.sliding_window > 0);
}

/// The shallowest entry of each class: expensive laws need not see every size.
std::vector<ModelSpec> representatives() {
  std::map<decltype(class_of(ModelSpec{})), ModelSpec> shallowest;
  for (const ModelSpec& model : modelled()) {
    const auto [at, is_new] = shallowest.try_emplace(class_of(model), model);
    if (!is_new && model.num_layers() < at->second.num_layers()) at->second = model;
  }
  std::vector<ModelSpec> out;
  for (const auto& [key, model] : shallowest) out.push_back(model);
  return out;
}

struct Case {
  Recipe recipe;
  const char* name;
};
std::vector<Case> recipes() {
  Recipe full, pure, lora, qlora, checkpointed;
  full.seq_len = pure.seq_len = lora.seq_len = qlora.seq_len = checkpointed.seq_len = 512;
  pure.precision = Precision::Bf16True;
  lora.method = Method::Lora;
  qlora.method = Method::Qlora;
  qlora.quant.kind = BaseQuant::Nf4;
  checkpointed.method = Method::Lora;
  checkpointed.checkpointing = Checkpointing::Full;
  checkpointed.grad_accum = 4;
  return {{full, "full mixed"},
          {pure, "full bf16"},
          {lora, "lora"},
          {qlora, "qlora"},
          {checkpointed, "lora checkpointed, 4 micro-batches"}};
}

/// Under a sanitizer one recipe per model, another for each depth.
std::vector<Case> recipes_for(const ModelSpec& model) {
  std::vector<Case> all = recipes();
  if (!test::kIsSanitized) return all;
  return {all[std::size_t(model.num_layers()) % all.size()]};
}

struct Built {
  StepProgram program;
  Peak peak;
  StepTime time;
};

Built build(const EstimateRequest& r, const Strategy& strategy) {
  const Job job(r, strategy);
  Built b;
  const std::vector<CostModel> columns{
      make_cost_model(r.cluster.gpus.front(), job.profile,
                      {.dtype = job.numerics.compute, .is_handwritten = job.framework.layers.is_handwritten})};
  build_step_program(b.program, job, columns);
  for (const RankClass& c : b.program.classes) b.peak.tensors = std::max(b.peak.tensors, replay(b.program, c).tensors);
  b.time = forward_pass(b.program, columns, make_comm_model(r.cluster, job.profile, strategy.mesh));
  return b;
}

EstimateRequest request(const ModelSpec& model, const Recipe& recipe, const std::string& gpus) {
  EstimateRequest r;
  r.model = model;
  r.recipe = recipe;
  if (model.learned_positions > 0) r.recipe.seq_len = std::min(r.recipe.seq_len, model.max_position_embeddings);
  r.cluster = parse_gpus(gpus);
  return r;
}

}  // namespace

TEST_CASE("every program of every architecture verifies, and the scalar and the detailed replay agree to the byte") {
  CHECK(representatives().size() >= families().size());
  for (const ModelSpec& model : representatives()) {
    for (const Case& c : recipes_for(model)) {
      const EstimateRequest r = request(model, c.recipe, "4xA100");
      for (const std::string_view name : strategy_names()) {
        INFO(model.name << ", " << c.name << ", " << name);
        const Strategy strategy = make_strategy(name, r.cluster, {});
        if (!why_not_applicable(strategy, r.cluster, r.recipe, model).empty()) continue;
        const Built b = build(r, strategy);
        CHECK_NOTHROW(verify(b.program));
        for (const RankClass& k : b.program.classes) {
          const Peak peak = replay(b.program, k);
          CHECK(peak.tensors == replay_detailed(b.program, k, model.num_layers()).tensors);
          CHECK(peak.pools >= peak.tensors);
          CHECK(peak.resident <= peak.tensors);
        }
        CHECK(b.time.step.value > 0);
      }
    }
  }
}

TEST_CASE("the parts of an estimate add up: categories to the process tier, tensors <= reserved <= process") {
  for (const char* name : {"llama-3-8b", "gemma-3-1b", "gpt2", "phi-3-mini", "qwen3-8b", "qwen1.5-moe-a2.7b",
                           "deepseek-v2-lite", "gpt-oss-20b", "flan-t5-small", "bert-base", "opt-350m", "falcon-7b"}) {
    for (const Case& c : recipes()) {
      const EstimateResult result = estimate(request(load_model(name).spec, c.recipe, "4xA100"));
      for (const StrategyEstimate& e : result.strategies) {
        if (!e.not_applicable.empty()) continue;
        INFO(name << ", " << c.name << ", " << e.strategy.name);
        Bytes sum;
        for (const Bytes part : e.memory) {
          CHECK(part.count >= 0);
          sum += part;
        }
        CHECK(sum == e.tiers.process);
        CHECK(e.tiers.tensors <= e.tiers.reserved);
        CHECK(e.tiers.reserved <= e.tiers.process);
      }
    }
  }
}

TEST_CASE("more work never needs less memory of the process, nor less without the allocator's cache") {
  const std::vector<const char*> names =
      test::kIsSanitized
          ? std::vector<const char*>{"mixtral-8x22b", "llama-3.2-1b"}
          : std::vector<const char*>{"mixtral-8x22b", "mixtral-8x7b", "qwen1.5-moe-a2.7b", "llama-3-8b", "llama-3.2-1b",
                                     "gemma-3-1b",    "gpt2",         "flan-t5-small",     "bert-base",  "mamba-1.4b",
                                     "falcon-7b",     "olmo2-13b"};
  for (const char* name : names) {
    const ModelSpec model = load_model(name).spec;
    for (const char* framework : {"lightning", "torchtune", "hf-trainer"})
      for (const Method method : {Method::Full, Method::Lora}) {
        Recipe recipe;
        recipe.method = method;
        if (model.family == "mamba") recipe.lora.targets = {"in_proj"};  // PEFT takes none on out_proj
        recipe.framework = framework;
        recipe.optimizer = find_framework(framework).default_optimizer;
        recipe.seq_len = 128;
        std::map<std::string, MemoryTiers> before;
        for (recipe.micro_batch = 1; recipe.micro_batch <= 512; recipe.micro_batch *= 2)
          for (const StrategyEstimate& e : estimate(request(model, recipe, "4xA100")).strategies) {
            if (!e.not_applicable.empty() || e.strategy.name == "mp") continue;  // mp: the cut may change
            INFO(name << ", " << framework << ", " << to_string(method) << ", " << e.strategy.name << ", "
                      << recipe.micro_batch);
            if (const auto at = before.find(e.strategy.name); at != before.end()) {
              CHECK(e.tiers.process >= at->second.process);
              CHECK(e.tiers.needed >= at->second.needed);
            }
            before[e.strategy.name] = e.tiers;
          }
      }
  }
}

TEST_CASE("sharding factor 1 equals ddp, N equals full sharding, in bytes and seconds") {
  for (const ModelSpec& model : representatives()) {
    for (const Case& c : recipes_for(model)) {
      INFO(model.name << ", " << c.name);
      const EstimateRequest r = request(model, c.recipe, "4xA100");
      const Built ddp = build(r, make_strategy("ddp", r.cluster, {}));
      const Built one = build(r, make_strategy("fsdp", r.cluster, {.shard_size = 1}));
      CHECK(one.peak.tensors == ddp.peak.tensors);
      CHECK(one.time.step == ddp.time.step);
      const Built all = build(r, make_strategy("fsdp", r.cluster, {.shard_size = 4}));
      const Built fsdp = build(r, make_strategy("fsdp", r.cluster, {}));
      CHECK(all.peak.tensors == fsdp.peak.tensors);
      CHECK(all.time.step == fsdp.time.step);
    }
  }
}

TEST_CASE("degree 1 equals a single GPU, whatever the strategy is called") {
  for (const ModelSpec& model : modelled()) {
    Recipe recipe;
    recipe.seq_len = 256;
    recipe.method = Method::Lora;
    const EstimateRequest r = request(model, recipe, "1xA100");
    const Built single = build(r, make_strategy("single", r.cluster, {}));
    for (const char* name : {"ddp", "mp"}) {
      INFO(model.name << ", " << name);
      const Built other = build(r, make_strategy(name, r.cluster, {}));
      CHECK(other.peak.tensors == single.peak.tensors);
      CHECK(other.time.step == single.time.step);
    }
  }
}

TEST_CASE("persistent state never grows with the ZeRO stage") {
  for (const ModelSpec& model : representatives()) {
    for (const Case& c : recipes_for(model)) {
      const EstimateRequest r = request(model, c.recipe, "8xA100");
      Bytes before{std::numeric_limits<std::int64_t>::max()};
      for (const char* name : {"zero1", "zero2", "zero3"}) {
        INFO(model.name << ", " << c.name << ", " << name);
        const Built b = build(r, make_strategy(name, r.cluster, {}));
        const Bytes resident = replay(b.program, b.program.classes.front()).resident;
        CHECK(resident <= before);
        before = resident;
      }
    }
  }
}

TEST_CASE(
    "all ranks together hold the whole model: 12 bytes of weight and optimizer per parameter, however it is cut") {
  for (const ModelSpec& model : representatives()) {
    Recipe recipe;  // fp32 weights and two fp32 states
    recipe.seq_len = 256;
    recipe.images.train = TrainVision::All;
    const EstimateRequest r = request(model, recipe, "4xA100");
    const ModelWeights weights = list_weights(model);
    // towers that never run (Gemma 3n) are frozen and have no states
    const std::int64_t whole = 12 * weights.total_elements() - 8 * weights.part_elements(ModelPart::Idle);
    for (const auto& [name, version] : {std::pair{"single", 1}, {"fsdp", 1}, {"fsdp", 2}, {"zero3", 1}}) {
      INFO(model.name << ", " << name << " " << version);
      const Strategy strategy = make_strategy(name, r.cluster, {.fsdp_version = version});
      const Built b = build(r, strategy);
      const std::int64_t ways = strategy.mesh.world();
      CHECK(replay(b.program, b.program.classes.front()).resident.count * ways >= whole);
    }
  }
}

TEST_CASE("a repeat equals the micro-batches written out: one more costs the same time and no more memory") {
  for (const char* name : {"single", "ddp", "zero2", "fsdp", "fsdp-grad-op", "hsdp", "zero3", "mp"}) {
    Recipe recipe;
    recipe.method = Method::Lora;
    recipe.seq_len = 512;
    EstimateRequest r = request(load_model("llama-3.2-1b").spec, recipe, "4xA100");
    const auto at = [&](std::int64_t m) {
      r.recipe.grad_accum = m;
      return build(r, make_strategy(name, r.cluster, {}));
    };
    const Built three = at(3), four = at(4), five = at(5), nine = at(9);
    INFO(name);
    CHECK(three.peak.tensors == nine.peak.tensors);
    const double one = (four.time.step - three.time.step).value;
    CHECK((five.time.step - four.time.step).value == doctest::Approx(one).epsilon(1e-6));
    CHECK((nine.time.step - five.time.step).value == doctest::Approx(4 * one).epsilon(1e-6));
  }
}

TEST_CASE("memory never falls with the micro batch, and the reported limits are the last that fit") {
  std::mt19937 random(20261121);
  const auto specs = modelled();
  for (int trial = 0; trial < 12; ++trial) {
    const ModelSpec& model = specs[random() % specs.size()];
    const auto all = recipes();
    const Case& c = all[random() % all.size()];
    EstimateRequest r = request(model, c.recipe, "4xA6000");
    const std::string name(strategy_names()[random() % strategy_names().size()]);
    StepProgram program;
    StrategyEstimate e;
    Job job(r, make_strategy(name, r.cluster, {}));
    if (!why_not_applicable(job.strategy, r.cluster, r.recipe, model).empty()) continue;
    INFO("trial " << trial << ": " << model.name << ", " << c.name << ", " << name);
    find_limits(e, job, program);
    Bytes before{};
    for (const std::int64_t b : {1, 2, 3, 5, 8}) {
      job.request.recipe.micro_batch = b;
      evaluate(e, job, program);
      // the stages of mp are laid anew for each batch, by bytes that are not the whole peak: a unit may move
      const double share = job.strategy.takes_turns() ? 0.98 : 1;
      CHECK_MESSAGE(double(e.tiers.needed.count) >= share * double(before.count), "micro batch " << b);
      before = std::max(before, e.tiers.needed);
    }
    if (!e.max_micro_batch || *e.max_micro_batch >= 4096) continue;
    job.request.recipe.micro_batch = *e.max_micro_batch;
    evaluate(e, job, program);
    CHECK(e.is_predicted_to_fit());
    job.request.recipe.micro_batch = *e.max_micro_batch + 1;
    evaluate(e, job, program);
    CHECK_FALSE(e.is_predicted_to_fit());
  }
}
