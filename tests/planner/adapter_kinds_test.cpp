// Adapters of other kinds than LoRA: what each trains by PEFT's own shapes, what it holds and keeps beside that, and
// what does not go with it.
#include <doctest/doctest.h>

#include "models/adapter_kind.h"
#include "models/catalogue.h"
#include "models/recipe_names.h"
#include "planner/plan_builder.h"
#include "planner/state_sizes.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

Recipe adapters(const std::string& spec) {
  Recipe recipe;
  recipe.method = Method::Lora;
  recipe.lora = parse_lora(spec).lora;
  return recipe;
}

TrainedModel prepared(const ModelSpec& model, const std::string& spec) {
  return prepare(model, adapters(spec), find_framework("hf-trainer"));
}

std::int64_t trainable(const ModelSpec& model, const std::string& spec) { return prepared(model, spec).trainable; }

std::int64_t buffers(const TrainedModel& model) {
  std::int64_t elements = 0;
  model.each_state([&](const StateList& list, std::int64_t times) {
    for (const StateTensor& t : list)
      if (t.kind == StateKind::AdapterBuffer) elements += times * t.elements();
  });
  return elements;
}

ModelSpec llama() { return load_model("llama-3.1-8b").spec; }

/// Bytes that a layer keeps with these adapters on q_proj, of 4,096 inputs and outputs.
std::int64_t kept(const std::string& spec) {
  Ledger ledger;
  ledger.recipe.method = Method::Lora;
  ledger.recipe.lora = parse_lora(spec + ",targets=q_proj").lora;
  return ledger.saved(llama());
}

std::int64_t tokens() { return Ledger{}.recipe.tokens(); }

}  // namespace

// Llama 3.1 8B: 32 layers; q, o [4096, 4096], k, v [1024, 4096], gate, up [14336, 4096], down [4096, 14336]

TEST_CASE("AdaLoRA has a singular value per rank between LoRA's factors, and begins with 12 ranks") {
  const std::int64_t sides = 2 * (4096 + 4096) + 2 * (1024 + 4096) + 3 * (14336 + 4096);
  CHECK(trainable(llama(), "kind=adalora") == 32 * 12 * (sides + 7));
  CHECK(trainable(llama(), "r=8") == 32 * 8 * sides);
}

TEST_CASE("VeRA trains two vectors of a linear, and the model holds one pair of factors for its widest linears") {
  // q_proj and v_proj: r + out each; A [256, 4096], B [4096, 256] once
  const std::string spec = "kind=vera,targets=q_proj+v_proj";
  CHECK(trainable(llama(), spec) == 32 * (2 * 256 + 4096 + 1024));
  CHECK(buffers(prepared(llama(), spec)) == 2 * 256 * 4096);
  CHECK(buffers(prepared(llama(), "kind=vera,r=64")) == 64 * (14336 + 14336));  // in of down, out of gate and up
}

TEST_CASE("LoHa has two pairs of factors") {
  CHECK(trainable(llama(), "kind=loha,targets=q_proj") == 32 * 2 * 8 * (4096 + 4096));
}

TEST_CASE("LoKr divides both sides in two factors: one product is a whole matrix, the other of low rank") {
  // 4096 = 64 x 64: [64, 64], [64, 8], [8, 64]
  CHECK(trainable(llama(), "kind=lokr,targets=q_proj") == 32 * (64 * 64 + 2 * 64 * 8));
  // a rank of half the larger factor or more: [64, 64] twice
  CHECK(trainable(llama(), "kind=lokr,r=32,targets=q_proj") == 32 * (64 * 64 + 64 * 64));
  // 14336 = 112 x 128, in: [64, 112], [64, 8], [8, 128]
  CHECK(trainable(llama(), "kind=lokr,targets=down_proj") == 32 * (64 * 112 + 8 * (64 + 128)));
  // factors of 4: [4, 4], [1024, 8], [8, 1024]
  CHECK(trainable(llama(), "kind=lokr,factor=4,targets=q_proj") == 32 * (4 * 4 + 2 * 1024 * 8));
}

TEST_CASE("Factors of a number are as PEFT divides it") {
  using Pair = std::array<std::int64_t, 2>;
  CHECK(near_factors(256, -1) == Pair{16, 16});  // the examples of its own documentation
  CHECK(near_factors(128, -1) == Pair{8, 16});
  CHECK(near_factors(127, -1) == Pair{1, 127});
  CHECK(near_factors(128, 4) == Pair{4, 32});
}

TEST_CASE("(IA)3 scales outputs, and the input of the MLP's last linear") {
  CHECK(trainable(llama(), "kind=ia3,targets=k_proj+v_proj+down_proj") == 32 * (1024 + 1024 + 14336));
}

TEST_CASE("BOFT trains whole blocks and a vector, and each linear holds a matrix of its inputs per factor") {
  // blocks of 4: 1,024 of 16 numbers each, and 4,096 scales
  CHECK(trainable(llama(), "kind=boft,targets=q_proj") == 32 * (1024 * 16 + 4096));
  CHECK(trainable(llama(), "kind=boft,rotation=8,factor=2,targets=q_proj") == 32 * (2 * 512 * 64 + 4096));
  CHECK(buffers(prepared(llama(), "kind=boft,targets=q_proj")) == 32LL * 4096 * 4096);
  CHECK(buffers(prepared(llama(), "kind=boft,factor=2,targets=q_proj")) == 2 * 32LL * 4096 * 4096);
  CHECK_THROWS_WITH_AS(prepared(llama(), "kind=boft,rotation=6"), doctest::Contains("do not divide"), InputError);
}

TEST_CASE("MiSS, which PEFT had as Bone, trains one matrix [r, out]") {
  CHECK(trainable(llama(), "kind=miss,targets=q_proj+v_proj") == 32 * 64 * (4096 + 1024));
  CHECK(trainable(llama(), "kind=bone,r=4,targets=q_proj+v_proj") == 32 * 4 * (4096 + 1024));
}

TEST_CASE("KaSA has a value per rank between LoRA's factors, and takes no packed base") {
  CHECK(trainable(llama(), "kind=kasa,targets=q_proj+v_proj") == 32 * 8 * (2 * 4096 + 4096 + 1024 + 2));
  Recipe recipe = adapters("kind=kasa");
  recipe.method = Method::Qlora;
  recipe.quant.kind = BaseQuant::Nf4;
  CHECK_THROWS_WITH_AS(prepare(llama(), recipe, find_framework("hf-trainer")),
                       doctest::Contains("takes no quantised base"), InputError);
}

TEST_CASE("BD-LoRA cuts B of what ranks divide by outputs, and A of what they divide by inputs") {
  CHECK(trainable(llama(), "kind=bdlora,r=16,targets=gate_proj") == 32 * 16 * (4096 + 14336));  // one block
  CHECK(trainable(llama(), "kind=bdlora,r=16,factor=4,targets=gate_proj") == 32 * 16 * (4096 + 14336 / 4));
  CHECK(trainable(llama(), "kind=bdlora,r=16,factor=4,targets=down_proj") == 32 * 16 * (14336 / 4 + 4096));
  CHECK_THROWS_WITH_AS(prepared(llama(), "kind=bdlora,r=16,factor=3,targets=gate_proj"),
                       doctest::Contains("3 blocks do not divide 16 ranks and the 14336 outputs of gate_proj"),
                       InputError);
}

TEST_CASE("bottleneck adapters are on the output of every MLP, whatever the targets are") {
  // what ms-swift's table of methods counts for Qwen-7B, of the same 32 layers of 4,096: 33.6896M
  CHECK(trainable(llama(), "kind=houlsby") == 33'689'600);
  CHECK(trainable(llama(), "kind=adapter,targets=q_proj") == 33'689'600);
  CHECK_THROWS_WITH_AS(prepared(llama(), "kind=bottleneck,dropout=0.1"), doctest::Contains("drop nothing"), InputError);
  CHECK_THROWS_WITH_AS(prepared(load_model("qwen3-30b-a3b").spec, "kind=bottleneck"),
                       doctest::Contains("behind MLPs of one last linear"), InputError);
}

TEST_CASE("LoReFT trains directions and a linear of them, beside a fixed matrix of the width") {
  CHECK(trainable(llama(), "kind=reft") == 32 * (2 * 4 * 4096 + 4));
  CHECK(buffers(prepared(llama(), "kind=loreft")) == 32LL * 4096 * 4096);
}

TEST_CASE("What a layer keeps for backward differs by kind") {
  // in fp32 as PEFT makes adapters, which nothing casts where a run in bf16 has no autocast; q's input is kept anyway,
  // in fp32 by those that multiply it
  const std::int64_t input = 4 * 4096 * tokens(), lora = input + 4 * 8 * tokens();
  const std::int64_t nothing = kept("r=8") - lora;
  CHECK(kept("kind=vera,r=8") - nothing == 4 * (8 + 4096) * tokens());  // both inputs of a vector
  CHECK(kept("kind=miss,r=8") - nothing == 4 * 8 * tokens());           // the sum of blocks alone
  CHECK(kept("kind=ia3") - nothing == 2 * 4096 * tokens());             // the base output, in bf16
  CHECK(kept("kind=loha") - nothing == input + 4 * 4096 * 4096);        // its weight
  CHECK(kept("kind=lokr") - nothing == input + 4 * 4096 * 4096);
  CHECK(kept("kind=adalora,r=8") - nothing == lora + 4 * 8 * 4096);   // A with its values
  CHECK(kept("kind=kasa,r=8") - nothing == lora + 4 * 8 * tokens());  // both sides of its values
}

TEST_CASE("A kind's spelling comes back, with its own rank where none is given") {
  for (const AdapterKind& kind : adapter_kinds()) {
    const AdapterFlag flag = parse_lora("kind=" + kind.name);
    CHECK(flag.lora.rank == kind.rank);
    CHECK(parse_lora(adapter_spec(flag.lora, flag.quant)).lora == flag.lora);
    CHECK(trainable(tiny_llama(), "kind=" + kind.name + (kind.block > 0 ? ",rotation=4" : ",r=4")) > 0);
  }
  CHECK_THROWS_WITH_AS(parse_lora("kind=vrea"), doctest::Contains("vera"), InputError);
}

TEST_CASE("What a kind does not go with is refused") {
  CHECK_THROWS_WITH_AS(prepared(llama(), "kind=vera,dora"), doctest::Contains("no magnitudes of DoRA"), InputError);
  Recipe recipe = adapters("kind=loha");
  recipe.method = Method::Qlora;
  recipe.quant.kind = BaseQuant::Nf4;
  CHECK_THROWS_WITH_AS(prepare(llama(), recipe, find_framework("hf-trainer")),
                       doctest::Contains("takes no quantised base"), InputError);
}

TEST_CASE("virtual tokens are trained in front of the rows, and no linear is adapted") {
  CHECK(trainable(llama(), "kind=prompt,r=100") == 100 * 4096);
  CHECK(trainable(llama(), "kind=p-tuning,r=20") == 20 * 4096 + 3 * (4096 * 4096 + 4096));
  CHECK(trainable(llama(), "kind=p-tuning,r=20,factor=512") == 20 * 4096 + 2 * 4096 * 512 + 512 * 512 + 2 * 512 + 4096);
}

TEST_CASE("layers that have their turn in other steps keep their optimizer states and have no gradient") {
  const ModelSpec model = tiny_llama();
  Recipe recipe;
  recipe.precision = Precision::Bf16True;
  recipe.trained = {"layers.0"};
  const auto sizes = [&] {
    const FrameworkConvention& framework = find_framework("hf-trainer");
    const TrainedModel trained = prepare(model, recipe, framework);
    return model_state(trained, resolve_numerics(recipe, framework, ShardingEngine::Local), recipe, {});
  };
  const StateSizes alone = sizes();
  recipe.trained_in_turn = true;
  const StateSizes in_turn = sizes();
  CHECK(in_turn.gradient == alone.gradient);
  CHECK(in_turn.trained + in_turn.frozen == alone.trained + alone.frozen);
  recipe.trained.clear();
  recipe.trained_in_turn = false;
  CHECK(in_turn.state == sizes().state);  // of all parameters
  CHECK(alone.state < in_turn.state);
}
