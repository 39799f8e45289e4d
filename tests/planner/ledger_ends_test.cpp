// The ends of the ledger: what a logit costs at the loss (docs/memory_model.md), adapter state, and the dtypes of every
// part.
#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// Highest live bytes of logits-kind tensors in the head, per element of [N, V].
double bytes_per_logit(Ledger& ledger, const ModelSpec& m) {
  ledger.head(m);
  ModelBlocks program;
  program.graphs.push_back(ledger.graph);
  program.num_graphs = 1;
  const BlockId block = add_whole_block(program, 0, false);
  return double(program.blocks[block].by_kind[std::size_t(LocalKind::Logits)].peak) /
         double(ledger.recipe.tokens() * m.vocab_size);
}

double bytes_per_logit(Precision precision, LossKernel loss, const char* framework = "hf-trainer") {
  Ledger l;
  l.recipe.precision = precision;
  l.recipe.loss = loss;
  l.framework = find_framework(framework);
  return bytes_per_logit(l, tiny_llama());
}

}  // namespace

TEST_CASE("one logit costs 16 bytes under the HF Trainer's autocast, 14 in a plain 16-bit loop") {
  CHECK(bytes_per_logit(Precision::Bf16Mixed, LossKernel::Plain) ==
        16);  // upcast, log-softmax, two gradients: four fp32
  CHECK(bytes_per_logit(Precision::Bf16True, LossKernel::Plain, "hf-loop") ==
        14);  // logits 2 + log-softmax 4 + gradients 4 + 4
  CHECK(bytes_per_logit(Precision::Bf16True, LossKernel::Plain) == 14);
  CHECK(bytes_per_logit(Precision::Bf16Mixed, LossKernel::Plain, "trl") ==
        16);  // the shifted copy: the upcast is what the model returns
}

TEST_CASE(
    "a loss without upcast in 16 bit costs a quarter to a half: Lightning's old models keep logits, shifted, softmax, "
    "gradients") {
  // logits 2, shifted freed after the log-softmax, log-softmax 2, its gradient 2, the logits' gradient 2
  CHECK(bytes_per_logit(Precision::Bf16True, LossKernel::Plain, "lightning") == 8);
}

TEST_CASE("gradients written over the logits: 6 bytes where the framework upcasts, 2 where it does not") {
  CHECK(bytes_per_logit(Precision::Bf16True, LossKernel::InPlace) == 6);  // 16-bit logits beside their fp32 copy
  CHECK(bytes_per_logit(Precision::Bf16True, LossKernel::InPlace, "native") == 2);
}

TEST_CASE("a chunked loss divides the plain one: 14 bytes of one chunk") {
  Ledger l;
  l.recipe.loss = LossKernel::Chunked;
  l.recipe.loss_chunks = 8;
  CHECK(bytes_per_logit(l, tiny_llama()) == 14.0 / 8);  // logits 2, log-softmax and gradients 3 x 4, of one piece
  l.framework = find_framework("torchtune");            // all chunks' logits and log-softmax stay
  CHECK(bytes_per_logit(l, tiny_llama()) == 2 + 4 + 2 * 4.0 / 8);
}

TEST_CASE("Liger: chunks of next_pow2(ceil(N / ceil(V / h))) tokens, in 16 bit and in fp32") {
  Ledger l;
  l.recipe.loss = LossKernel::Fused;
  l.recipe.seq_len = 100;  // V / h = 4; 100 / 4 = 25 -> 32 tokens
  CHECK(bytes_per_logit(l, tiny_llama()) == doctest::Approx((2 + 4) * 32 / 100.0));
  const ModelSpec llama = load_model("llama-3.1-8b").spec;  // V / h = 31.3 -> 32; 4096 / 32 = 128 tokens
  l.recipe.seq_len = 4096;
  CHECK(bytes_per_logit(l, llama) == doctest::Approx(6 * 128 / 4096.0));
}

TEST_CASE("golden numbers: Llama-3.1-8B's logits at 4096 tokens take 7.83 GiB at 16 bytes and 6.85 GiB at 14") {
  const ModelSpec llama = load_model("llama-3.1-8b").spec;
  Ledger l;
  l.recipe.seq_len = 4096;
  l.recipe.precision = Precision::Bf16Mixed;
  CHECK(bytes_per_logit(l, llama) * 4096 * 128256 / 0x1p30 == doctest::Approx(7.83).epsilon(0.001));
  l.recipe.precision = Precision::Bf16True;
  CHECK(bytes_per_logit(l, llama) * 4096 * 128256 / 0x1p30 == doctest::Approx(6.85).epsilon(0.001));
}

TEST_CASE("adapters: r (in + out) per linear, DoRA one magnitude per output, modules_to_save a full trained copy") {
  Recipe r;
  r.method = Method::Lora;
  r.lora.targets = {"q_proj", "k_proj"};
  const FrameworkConvention& hf = find_framework("hf-trainer");
  const std::int64_t lora = 4 * 8 * ((64 + 64) + (64 + 32));  // four layers, r = 8
  CHECK(prepare(tiny_llama(), r, hf).trainable == lora);
  r.lora.is_dora = true;
  CHECK(prepare(tiny_llama(), r, hf).trainable == lora + 4 * (64 + 32));
  r.lora.is_dora = false;
  r.lora.modules_to_save = {"lm_head", "embed_tokens"};
  const TrainedModel saved = prepare(tiny_llama(), r, hf);
  CHECK(saved.trainable == lora + 2 * 256 * 64);
  CHECK(saved.parameters == kTinyModel);  // the frozen originals stay beside the copies
  const StateSizes before = state_sizes(saved.before, resolve_numerics(r, hf, ShardingEngine::Local), r, {});
  CHECK(before.frozen == Bytes{2 * 256 * 64});
  CHECK(before.trained == Bytes{2 * 256 * 64});  // peft casts adapters to fp32, not copies
  CHECK(before.state == Bytes{4 * 256 * 64});
}

TEST_CASE("dtypes per method, precision and engine") {
  struct Row {
    Method method;
    Precision precision;
    ShardingEngine engine;
    const char* framework;
    Dtype weight, adapter, ends, residual, reduce;
    bool autocast, master;
  };
  using enum Method;
  using enum Precision;
  using enum Dtype;
  const Row rows[] = {
      //  method  precision   engine        framework        weight adapter ends  residual reduce autocast master
      {Full, Fp32, ShardingEngine::Local, "hf-trainer", F32, F32, F32, F32, F32, false, false},
      {Full, Bf16True, ShardingEngine::Local, "hf-trainer", BF16, BF16, BF16, BF16, BF16, false, false},
      {Full, Bf16Mixed, ShardingEngine::Local, "hf-trainer", F32, BF16, F32, F32, F32, true,
       false},  // fp32 weights, fp32 DDP
      {Full, Fp16Mixed, ShardingEngine::Local, "hf-trainer", F32, F16, F32, F32, F32, true, false},
      {Full, Bf16Mixed, ShardingEngine::Fsdp2, "hf-trainer", F32, BF16, F32, BF16, BF16, false,
       false},  // gathered in 16 bit
      {Full, Bf16Mixed, ShardingEngine::Fsdp2, "torchtitan", F32, BF16, F32, BF16, F32, false,
       false},  // reduce_dtype fp32
      {Full, Bf16Mixed, ShardingEngine::Zero, "hf-trainer", BF16, BF16, BF16, BF16, BF16, false,
       true},  // ZeRO paper: 16 bytes
      {Full, Bf16Mixed, ShardingEngine::Local, "native", F32, BF16, F32, BF16, F32, false, false},
      {Lora, Bf16Mixed, ShardingEngine::Local, "hf-trainer", BF16, F32, BF16, BF16, F32, true,
       false},  // PEFT: fp32 adapters
      {Lora, Bf16Mixed, ShardingEngine::Zero, "hf-trainer", BF16, BF16, BF16, BF16, BF16, false,
       true},  // DeepSpeed: runs in 16 bit itself, base dtype, fp32 master
      {Lora, Bf16True, ShardingEngine::Local, "litgpt", BF16, BF16, BF16, BF16, BF16, false, false},
      {Qlora, Bf16Mixed, ShardingEngine::Local, "hf-trainer", BF16, F32, F32, F32, F32, true,
       false},  // prepare_model_for_kbit_training
      {Qlora, Bf16Mixed, ShardingEngine::Fsdp1, "hf-trainer", BF16, F32, BF16, BF16, BF16, true,
       false},  // one dtype per flat parameter
      {Qlora, Bf16Mixed, ShardingEngine::Local, "fms-hf-tuning", BF16, F32, BF16, BF16, F32, true, false},
  };
  for (const Row& row : rows) {
    INFO("row " << (&row - rows) << ", " << row.framework);
    Recipe r;
    r.method = row.method;
    r.precision = row.precision;
    if (row.method == Qlora) r.quant.kind = BaseQuant::Nf4;
    const DtypePolicy n = resolve_numerics(r, find_framework(row.framework), row.engine);
    CHECK(n.weight == row.weight);
    CHECK(n.adapter == row.adapter);
    CHECK(n.ends == row.ends);
    CHECK(n.residual == row.residual);
    CHECK(n.reduce == row.reduce);
    CHECK(n.is_autocast == row.autocast);
    CHECK(n.has_master == row.master);
    CHECK(n.compute == (row.precision == Fp32 ? F32 : row.precision == Fp16Mixed ? F16 : BF16));
  }
}
