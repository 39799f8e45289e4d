// Kinds of adapters against PEFT 0.20.0 itself: figures of tests/clients/adapters.py, which builds them in a small
// Llama and counts what a pass keeps. Where ours are less, indices and weights of a few numbers are not in the rows.
#include <doctest/doctest.h>

#include "models/adapter_kind.h"
#include "models/catalogue.h"
#include "models/recipe_names.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

struct Figures {
  const char* spec;
  std::int64_t trained, buffer_bytes, kept_per_token, kept_once;
};

/// adapters.py prints more where indices, routers or cosines of a few numbers are kept or trained: FourierFT keeps
/// 540,288 bytes, WaveFT 1,065,640, VB-LoRA 38,016, PSOFT 20,608, RoAd 12,288, Poly 24,792 and Lily 16,400 and 1,072 a
/// token; Poly trains 131,408. TinyLoRA keeps 16 bytes beside its tokens, as its middle is no rotation. GLoRA's
/// buffers, 24,576 bytes there, are of 16 bits. The input itself, 512 bytes a token, is not counted there; GLoRA and
/// SHiRA alone keep it.
constexpr std::array kFigures{
    Figures{"kind=lora,r=8", 65536, 0, 1056, 0},
    Figures{"kind=beft", 4096, 0, 0, 0},
    Figures{"kind=road", 4096, 0, 4096, 0},
    Figures{"kind=road,factor=2", 8192, 0, 4096, 0},
    Figures{"kind=road,factor=4", 16384, 0, 4096, 0},
    Figures{"kind=c3a,rotation=64", 18432, 0, 1024, 0},
    Figures{"kind=fourierft,factor=1000", 14000, 0, 1024, 524288},
    Figures{"kind=waveft,factor=1000", 14000, 0, 1024, 1048576},
    Figures{"kind=randlora,r=24", 34448, 1130496, 1024, 270336},
    Figures{"kind=vblora,r=4,rotation=64,factor=32", 18432, 0, 1040, 36864},
    Figures{"kind=unilora,r=4,factor=256", 256, 393216, 1040, 12288},
    Figures{"kind=psoft,r=32", 7840, 1159680, 128, 20480},
    Figures{"kind=tinylora,r=2,factor=64", 896, 79872, 8, 80},
    Figures{"kind=lily,r=8,factor=4", 98752, 0, 1056, 16384},
    Figures{"kind=peanut,r=8", 65536, 0, 1024, 1056768},
    Figures{"kind=peanut,r=8,factor=2", 69120, 0, 1024, 1105920},
    Figures{"kind=glora,r=8", 131072, 49152, 512, 262144},
    Figures{"kind=deft,r=8", 65536, 0, 3136, 24576},
    Figures{"kind=shira,r=8", 65536, 524288, 512, 385024},
    Figures{"kind=poly,r=8,factor=2", 131100, 0, 1056, 24576},
    Figures{"kind=cpt,r=20", 5120, 20480, 0, 0},
    Figures{"kind=multitask-prompt,r=20,factor=3", 5948, 0, 0, 0},
};

ModelSpec small_llama() {
  ModelSpec m = tiny_llama(2);
  m.hidden_size = 256, m.head_dim = 64, m.intermediate_size = 512;
  return m;
}

Recipe adapters(const std::string& spec) {
  Recipe recipe;
  recipe.method = Method::Lora;
  recipe.lora = parse_lora(spec).lora;
  return recipe;
}

std::int64_t buffer_numbers(const TrainedModel& model) {
  std::int64_t elements = 0;
  model.each_state([&](const StateList& list, std::int64_t times) {
    for (const StateTensor& t : list)
      if (t.kind == StateKind::AdapterBuffer) elements += times * t.elements();
  });
  return elements;
}

std::int64_t kept(const std::string& spec, std::int64_t tokens, Precision precision = Precision::Bf16True) {
  Ledger ledger;
  ledger.recipe.precision = precision;
  ledger.recipe.seq_len = tokens;
  ledger.recipe.method = Method::Lora;
  ledger.recipe.lora = parse_lora(spec + ",targets=up_proj").lora;
  return ledger.saved(small_llama());
}

}  // namespace

TEST_CASE("kinds of adapters train, hold and keep what PEFT's do") {
  for (const Figures& of : kFigures) {
    CAPTURE(of.spec);
    const TrainedModel model = prepare(small_llama(), adapters(of.spec), find_framework("hf-trainer"));
    CHECK(model.trainable == of.trained);
    CHECK(4 * buffer_numbers(model) == of.buffer_bytes);
    if (adapters(of.spec).lora.kind->is_prompt()) continue;
    const auto beside_base = [&](std::int64_t tokens) { return kept(of.spec, tokens) - kept("kind=beft", tokens); };
    CHECK((beside_base(64) - beside_base(32)) / 32 == of.kept_per_token);
    CHECK(2 * beside_base(32) - beside_base(64) == of.kept_once);
  }
}

TEST_CASE("under autocast adapters keep 16 bit, and casts of what is frozen") {
  // adapters.py with its pass under torch.autocast: RandLoRA 405,504 bytes; PEANuT 536,576, of which 8,192 are casts of
  // its parameters, which autocast makes once; FourierFT 278,144, of which 16,000 are indices
  const auto beside_base = [&](const std::string& spec, std::int64_t tokens) {
    return kept(spec + ",base=bf16", tokens, Precision::Bf16Mixed) -
           kept("kind=beft,base=bf16", tokens, Precision::Bf16Mixed);
  };
  const auto once = [&](const std::string& spec) { return 2 * beside_base(spec, 32) - beside_base(spec, 64); };
  CHECK(once("kind=randlora,r=24") == 405504);
  CHECK(once("kind=peanut,r=8") == 528384);
  CHECK(once("kind=fourierft,factor=1000") == 262144);
}

TEST_CASE("factors that are made of their parameters are kept on the narrower side alone") {
  // down_proj [512 -> 256]: the second factor is made, so the bases' activation is kept instead of the input
  Ledger ledger;
  ledger.recipe.method = Method::Lora;
  ledger.recipe.lora = parse_lora("kind=randlora,r=24,targets=down_proj").lora;
  CHECK(ledger.keeps(small_llama(), "B, made of its parameters"));
  ledger.recipe.lora = parse_lora("kind=randlora,r=24,targets=up_proj").lora;
  CHECK_FALSE(ledger.keeps(small_llama(), "B, made of its parameters"));
}

TEST_CASE("blocks of outputs, biases and packed bases that a kind does not take are refused") {
  const FrameworkConvention& framework = find_framework("hf-trainer");
  CHECK_THROWS_WITH_AS(prepare(small_llama(), adapters("kind=c3a,rotation=512,targets=down_proj"), framework),
                       doctest::Contains("the 256 outputs of down_proj"), InputError);
  CHECK_THROWS_WITH_AS(prepare(load_model("qwen2.5-7b").spec, adapters("kind=glora,targets=q_proj"), framework),
                       doctest::Contains("with a bias, as q_proj is"), InputError);
  CHECK_NOTHROW(prepare(load_model("qwen2.5-7b").spec, adapters("kind=glora,targets=o_proj"), framework));
  Recipe packed = adapters("kind=glora");
  packed.method = Method::Qlora;
  packed.quant.kind = BaseQuant::Nf4;
  CHECK_THROWS_WITH_AS(prepare(small_llama(), packed, framework), doctest::Contains("takes no quantised base"),
                       InputError);
}

TEST_CASE("one B of Lily is shared by linears of a name and shape, and a number of Uni-LoRA by all of them") {
  const FrameworkConvention& framework = find_framework("hf-trainer");
  ModelSpec deep = small_llama();
  deep.num_hidden_layers = 4;
  const auto trained = [&](const ModelSpec& model, const std::string& spec) {
    return prepare(model, adapters(spec), framework).trainable;
  };
  const std::string lily = "kind=lily,r=8,factor=4,targets=up_proj";  // A [8, 256], router [4, 8]; B [32, 512] once
  CHECK(trained(small_llama(), lily) == 2 * (8 * 256 + 32) + 32 * 512);
  CHECK(trained(deep, lily) == 4 * (8 * 256 + 32) + 32 * 512);
  CHECK(trained(deep, "kind=unilora,factor=100") == 100);
}
