// OFT in the place of low-rank adapters: what is trained, kept and multiplied.
#include <doctest/doctest.h>

#include "models/adapter_kind.h"
#include "models/catalogue.h"
#include "models/recipe_names.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

Recipe oft(std::int64_t block) {
  Recipe recipe;
  recipe.method = Method::Lora;
  recipe.lora.kind = "oft";
  recipe.lora.rotation_block = block;
  return recipe;
}

std::int64_t trainable(const ModelSpec& model, std::int64_t block) {
  return prepare(model, oft(block), find_framework("hf-trainer")).trainable;
}

}  // namespace

TEST_CASE("OFT trains b (b - 1) / 2 numbers per block of the input of each linear") {
  // 32 x 31 / 2 = 496 per block of 32. Inputs of 4,096 have 128 blocks (q, k, v, o, gate, up), that of down, 14,336,
  // 448: 32 layers x (6 x 128 + 448) x 496 = 19,300,352
  CHECK(trainable(load_model("llama-3.1-8b").spec, 32) == 19'300'352);
  // 5 divides neither 64 nor 128: of the divisors, 4 is nearer than 8. 4 x 3 / 2 = 6 per block:
  // 4 layers x (6 x 16 + 32) x 6 (tiny model: hidden 64, MLP 128)
  CHECK(trainable(tiny_llama(), 5) == 4 * (6 * 16 + 32) * 6);
  CHECK(trainable(tiny_llama(), 1000) == 4 * (6 * 64 * 63 / 2 + 128 * 127 / 2));  // one block each
}

TEST_CASE("OFT's spelling comes back, and adapters of another form are no OFT") {
  Recipe recipe = oft(16);
  const std::string text = adapter_spec(recipe.lora, recipe.quant);
  CHECK(text == "r=8,kind=oft,rotation=16");
  CHECK(parse_lora(text).lora == recipe.lora);
  CHECK(parse_lora("r=8").lora.kind->is_lora());
}

TEST_CASE("OFT keeps an adapted linear's input and four matrices of its blocks, and no low-rank activation") {
  const ModelSpec model = load_model("llama-3.1-8b").spec;
  const auto saved = [&](std::int64_t block) {  // bytes that a layer keeps with adapters on q_proj
    Ledger ledger;
    ledger.recipe.method = Method::Lora;
    if (block > 0) ledger.recipe.lora.kind = "oft", ledger.recipe.lora.rotation_block = block;
    ledger.recipe.lora.targets = {"q_proj"};
    return ledger.saved(model);
  };
  // LoRA keeps q's input and 8 numbers per token, OFT the input and Q, Q^2, Q^3, R: 4 x 4,096 x 32 numbers for all
  // tokens, in fp32 as PEFT makes adapters, which nothing casts where a run in bf16 has no autocast
  CHECK(saved(32) - saved(0) == 4 * (4 * 4096 * 32 - 8 * Ledger{}.recipe.tokens()));
  CHECK(saved(64) - saved(32) == 4 * 4 * 4096 * 32);
}
