// Training of some parameters alone, and fake quantisers: what is stored, kept and run, on a tiny model.
#include <doctest/doctest.h>

#include "base/error.h"
#include "models/trained_names.h"
#include "planner/plan_builder.h"
#include "planner/strategy.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

std::int64_t trainable(const std::vector<std::string>& trained, const Recipe& like = {}) {
  Recipe recipe = like;
  recipe.trained = trained;
  return prepare(tiny_llama(), recipe, find_framework("hf-trainer")).trainable;
}

Plan partial_plan(const std::vector<std::string>& trained, const char* strategy = "ddp") {
  Plan plan;
  plan.recipe.trained = trained;
  plan.build(strategy);
  return plan;
}

std::int64_t num_backward(const Plan& plan) {
  std::int64_t count = 0;
  for (const Instruction& i : plan.of_rank().instructions)
    count += i.op == OpCode::Call && plan.program.blocks[i.block].runs_backward ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("names of trained parameters: parts of a path, any text, lists of numbers") {
  const auto means = [](const char* name) { return names_parameter(name, "model.layers.12.mlp.up_proj.weight"); };
  for (const char* name :
       {"mlp", "layers", "layers.12", "layers.8-15", "layers.3,12", "model.layers.12.mlp.up_proj.weight",
        "layers.*.mlp", "up_proj", "*up_proj*", "layers.0-3,9-12.mlp.up_proj"})
    CHECK_MESSAGE(means(name), name);
  for (const char* name : {"layers.1", "layers.13-20", "lp", "mlp.down_proj", "12.up_proj", "", "layers.1,2"})
    CHECK_MESSAGE(!means(name), name);
  CHECK(parse_trained_names("layers.2-3+lm_head", "x") == std::vector<std::string>{"layers.2-3", "lm_head"});
  CHECK_THROWS_AS(parse_trained_names("layers.2-", "x"), InputError);
  CHECK_THROWS_AS(parse_trained_names("a++b", "x"), InputError);
}

TEST_CASE("parts of a model are trained alone: parameters add up to those of all of it") {
  CHECK(trainable({"layers.3"}) == kTinyLayer);
  CHECK(trainable({"layers.1-2"}) == 2 * kTinyLayer);
  CHECK(trainable({"mlp"}) == 4 * 3 * 64 * 128);
  CHECK(trainable({"lm_head"}) == kTinyEmbedding);
  CHECK(trainable({"layers"}) + trainable({"embed_tokens", "model.norm", "lm_head"}) == kTinyModel);
  // adapters of two of four layers: r (in + out) of each linear
  Recipe lora;
  lora.method = Method::Lora;
  CHECK(trainable({"layers.0,2"}, lora) * 2 == trainable({}, lora));
  CHECK_THROWS_AS(trainable({"layers.7"}), InputError);
  CHECK_THROWS_WITH_AS(trainable({"layers.2-9"}), doctest::Contains("the model has no 'layers.9'"), InputError);
  CHECK_THROWS_AS(trainable({"layers.0,8"}), InputError);
  CHECK_THROWS_AS(trainable({"wings"}), InputError);
  CHECK_THROWS_WITH_AS(trainable({"lm_head"}, lora), doctest::Contains("leaves nothing to train"), InputError);
}

TEST_CASE("layers in front of the first that is trained run no backward, those behind it all do") {
  CHECK(num_backward(partial_plan({})) == 5);  // four layers and the embedding
  CHECK(num_backward(partial_plan({"layers.3"})) == 1);
  CHECK(num_backward(partial_plan({"layers.1"})) == 3);
  CHECK(num_backward(partial_plan({"layers.1.mlp", "lm_head"})) == 3);
  CHECK(num_backward(partial_plan({"lm_head"})) == 0);
  CHECK(num_backward(partial_plan({"embed_tokens"})) == 5);
}

TEST_CASE("what is frozen has no gradient, no optimizer state, and is not reduced") {
  const Plan all = partial_plan({}), some = partial_plan({"layers.2-3"});
  // fp32 weights stay; gradients and two states of 4 bytes each go, and DDP's copy of the gradients
  const std::int64_t frozen = kTinyModel - 2 * kTinyLayer;
  CHECK(all.peak().resident - some.peak().resident == Bytes{(2 * 4 + 4) * frozen});
  CHECK(all.sent() - some.sent() > 0);
  CHECK(some.sent() * kTinyModel == all.sent() * 2 * kTinyLayer);
  CHECK(all.peak().tensors > some.peak().tensors);
}

TEST_CASE("every strategy trains some layers alone, the head alone and the embedding alone") {
  for (const StrategyRow& row : strategy_rows())
    for (const char* name : {"layers.3", "lm_head", "embed_tokens", "layers.0.mlp.up_proj"}) {
      CAPTURE(row.name);
      CAPTURE(name);
      Plan all, some;
      some.recipe.trained = {name};
      CHECK(some.build(std::string(row.name).c_str()).peak().tensors <=
            all.build(std::string(row.name).c_str()).peak().tensors);
    }
}

TEST_CASE("a tied head that PEFT saves is a trained copy beside the embedding") {
  ModelSpec tied = tiny_llama();
  tied.tie_word_embeddings = true;
  Recipe recipe;
  recipe.method = Method::Lora;
  const auto model_of = [&] { return prepare(tied, recipe, find_framework("hf-trainer")); };
  const TrainedModel plain = model_of();
  recipe.lora.modules_to_save = {"lm_head"};
  const TrainedModel saved = model_of();
  CHECK(saved.trainable - plain.trainable == kTinyEmbedding);
  CHECK(saved.parameters == plain.parameters);
  CHECK(saved.trains_head);
  CHECK(!saved.trains_embedding);
}

TEST_CASE("fake quantisers keep what they cut off and what they multiply, until backward") {
  // int8-int4 of torchao: of each element of the weights and of the inputs 4 bytes, and the fake quantised value in
  // 16 bit; the inputs of q, k and v are quantised three times
  const auto kept = [](Qat qat) {
    Ledger ledger;
    ledger.recipe.qat = qat;
    return ledger.saved(tiny_llama());
  };
  const std::int64_t tokens = 64, inputs = tokens * (3 * 64 + 64 + 2 * 64 + 128);  // of q, k, v; o; gate, up; down
  // fake quantised inputs stand beside the ones they are made of: those of q, k and v and of gate and up no linear
  // keeps
  const std::int64_t replaced = tokens * (64 + 64 + 64 + 128);
  CHECK(kept(Qat::Int8Int4) - kept(Qat::None) == kTinyLinears * (4 + 2) + inputs * (4 + 2) - replaced * 2);
  CHECK(kept(Qat::Int4) - kept(Qat::None) == kTinyLinears * (2 + 2));
  CHECK(kept(Qat::Nvfp4) < kept(Qat::Int8Int4));
  // onebitllms' keeps the values that are multiplied, and of weights and inputs nothing beside them
  CHECK(kept(Qat::Bitnet) - kept(Qat::None) == kTinyLinears * 2 + (inputs - replaced) * 2);
}
