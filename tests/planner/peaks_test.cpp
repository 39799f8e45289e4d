// Peaks besides the training step, by arithmetic: loading, evaluation, saving.
#include <cmath>

#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "models/framework.h"
#include "models/stack.h"
#include "planner/estimate.h"
#include "planner/peaks.h"

using namespace gpuplan;

namespace {

constexpr std::int64_t kVocab = 128256, kTokens = 2048;

EstimateRequest ask(const char* model, const char* gpus, const char* strategy) {
  EstimateRequest r;
  r.model = load_model(model).spec;
  r.cluster = parse_gpus(gpus);
  r.recipe.method = Method::Lora;
  r.strategy = strategy;
  return r;
}

StrategyEstimate answer(const EstimateRequest& r) { return estimate(r).strategies.front(); }

}  // namespace

TEST_CASE("evaluation that nobody asked for changes no verdict and no peak") {
  EstimateRequest r = ask("llama-3.1-8b", "1xA6000", "single");
  const StrategyEstimate before = answer(r);
  CHECK(before.phase(PeakInstant::Evaluation)->tensors < before.peak.tensors);
  CHECK(before.peak.step == before.peak.tensors);
  r.eval_batch = 1;  // the micro batch: less than training needs
  CHECK(answer(r).tiers.process == before.tiers.process);
}

TEST_CASE("evaluation of a large batch dies of its logits: 16-bit, fp32 and log-softmax, 10 bytes each") {
  EstimateRequest r = ask("llama-3.1-8b", "1xA6000", "single");
  r.eval_batch = 24;
  const StrategyEstimate e = answer(r);
  CHECK(e.fit == Fit::No);
  CHECK(e.peak_instant == "evaluation");
  CHECK(e.peak.tensors == e.peak.resident + Bytes{24 * kTokens * kVocab * 10});
  CHECK(e.peak.step < e.peak.tensors);
  // Liger's models skip them in training alone; TRL asks for it in evaluation too: the activations of one layer remain
  r.recipe.loss = LossKernel::Fused;
  for (const auto& [trainer, fit] : {std::pair{"axolotl", Fit::No}, std::pair{"trl", Fit::Yes}}) {
    CAPTURE(trainer);
    r.recipe.framework = trainer;
    settle_stack(r);
    CHECK(answer(r).fit == fit);
  }
}

TEST_CASE("kept logits are those of all data-parallel ranks in fp32, and exist twice while they are joined") {
  EstimateRequest r = ask("llama-3.2-1b", "4xA6000", "ddp");
  r.eval_batch = 4;
  const auto eval = [&](EvalLogits logits) {
    r.eval_logits = logits;
    return answer(r).phase(PeakInstant::Evaluation)->tensors.count;
  };
  const std::int64_t gathered = 4 * 4 * kTokens * kVocab * 4;
  const std::int64_t none = eval(EvalLogits::None);
  CHECK(eval(EvalLogits::Last) == none + gathered);
  CHECK(eval(EvalLogits::Kept) == none + 2 * gathered);
  CHECK(answer(r).kept_logits.count == gathered);
}

TEST_CASE(
    "stages of mp are cut by what fills them most: a larger micro batch needs no less where evaluation is larger") {
  EstimateRequest r = ask("pythia-1b", "2xA6000", "mp");
  r.recipe.method = Method::Full;
  r.eval_batch = 10;
  r.eval_logits = EvalLogits::Kept;
  std::int64_t last = 0;
  for (const std::int64_t micro_batch : {1, 2, 4, 8, 16}) {
    r.recipe.micro_batch = micro_batch;
    const std::int64_t process = answer(r).tiers.process.count;
    CHECK(process >= last);
    last = process;
  }
}

TEST_CASE("generation adds keys and values of every token of the evaluation batch") {
  EstimateRequest r = ask("llama-3.2-1b", "1xA6000", "single");
  r.eval_batch = 2;
  r.eval_generate = 200'000;
  const StrategyEstimate e = answer(r);
  // 16 layers, keys and values of 8 heads x 64 in 16 bit: 32 KiB per token; and the logits of one token in fp32
  CHECK(e.phase(PeakInstant::Evaluation)->tensors ==
        e.peak.resident + Bytes{2 * (kTokens + 200'000) * 16 * 2 * 8 * 64 * 2 + 2 * kVocab * 4});
}

TEST_CASE("unpacking a checkpoint takes as much as its loader makes beside one tensor") {
  const auto load = [](const char* model, const char* versions) {
    EstimateRequest r = ask(model, "H200", "single");
    r.recipe.method = Method::Lora;
    r.recipe.framework = resolve_framework("hf-trainer", {.given = parse_stack_versions(versions), .date = {}});
    return answer(r).phase(PeakInstant::Loading)->tensors.count;
  };
  // fp8: one linear, 4,096 x 12,288 values of 9 bytes
  CHECK(load("Qwen/Qwen3-8B-FP8", "transformers=5.15") - load("qwen3-8b", "transformers=5.15") == 9 * 4096 * 12288);
  // mxfp4: gate_up_proj of 32 experts of 5,760 x 2,880 values; indices of half of them at a time since 5.1, all before
  constexpr std::int64_t kValues = std::int64_t{32} * 5760 * 2880;
  const std::int64_t plain = load("gpt-oss-20b-BF16", "transformers=5.15");
  CHECK(load("gpt-oss-20b", "transformers=5.15") - plain == std::llround(4.15 * double(kValues)));
  CHECK(load("gpt-oss-20b", "transformers=5.0") - load("gpt-oss-20b-BF16", "transformers=5.0") ==
        std::llround(9.65 * double(kValues)));
  CHECK(Unpacking{.bytes_at_once = 9, .values_at_once = 100}.bytes_of(250) == Bytes{900});
}

TEST_CASE("embedding and head are in fp32 for a moment where a trainer turns them back after PEFT's preparation") {
  FrameworkConvention trl = resolve_framework("trl", {.given = parse_stack_versions("trl=0.26"), .date = {}}, "llama");
  const auto load = [&](bool takes_back) {
    EstimateRequest r = ask("llama-3.1-8b", "H200", "single");
    r.recipe.method = Method::Qlora;
    r.recipe.quant.kind = BaseQuant::Nf4;
    trl.dtypes.quantised_upcast.takes_back = takes_back;
    r.recipe.framework = trl;
    return answer(r).phase(PeakInstant::Loading)->tensors.count;
  };
  CHECK(trl.dtypes.quantised_upcast.takes_back);
  // 2 bytes more of embedding, head and final norm, or a projection of 14,336 in 16 bit while it is quantised
  CHECK(load(true) - load(false) == 2 * (2 * kVocab * 4096 + 4096) - 2 * 14336 * 4096);
}

TEST_CASE("loading holds the weights; a sharded rank holds its part and one whole unit") {
  const StrategyEstimate whole = answer(ask("llama-3.2-1b", "4xA6000", "ddp"));
  const StrategyEstimate sharded = answer(ask("llama-3.2-1b", "4xA6000", "fsdp"));
  CHECK(whole.phase(PeakInstant::Loading)->tensors < whole.peak.resident);  // no optimizer states yet
  CHECK(sharded.phase(PeakInstant::Loading)->tensors < whole.phase(PeakInstant::Loading)->tensors);
  CHECK(sharded.phase(PeakInstant::Loading)->tensors / whole.phase(PeakInstant::Loading)->tensors > 0.25);
  CHECK(sharded.phase(PeakInstant::Saving)->tensors == sharded.peak.resident + sharded.save.device_peak);
}

TEST_CASE("without zero.Init the whole model is on every GPU before stage 3 cuts it, and that decides the verdict") {
  // deepspeedai/DeepSpeed issue 4527: 6.8 B on 4 GPUs, parameters and optimizer on the host: 14,678 MiB after
  // initialize() where its estimator says 0.49 GB. 2 bytes x 6.738 B = 12.55 GiB, and 1.5 of context and communicators.
  EstimateRequest r = ask("llama-7b", "4xA6000", "zero3");
  r.recipe.method = Method::Full;
  r.recipe.micro_batch = 1, r.recipe.seq_len = 512;
  r.recipe.checkpointing = Checkpointing::Full;
  r.recipe.offload = {.optimizer = OffloadTarget::Cpu, .params = OffloadTarget::Cpu};
  r.recipe.framework = find_framework("deepspeed");
  const StrategyEstimate whole = answer(r);
  constexpr std::int64_t kWhole = 2 * std::int64_t{6'738'415'616};
  CHECK(whole.phase(PeakInstant::Loading)->tensors.count == doctest::Approx(double(kWhole)).epsilon(0.001));
  CHECK(whole.peak_instant == "loading");
  CHECK(whole.tiers.process / Bytes{1 << 20} == doctest::Approx(14'678).epsilon(0.15));
  r.cluster = parse_gpus("4x3080-12GB");  // 12 GiB would do for a step
  CHECK(answer(r).peak.step / Bytes{1 << 30} < 10);
  CHECK_FALSE(answer(r).fits());
  r.recipe.framework = find_framework("hf-deepspeed");  // from_pretrained under zero.Init
  CHECK(answer(r).phase(PeakInstant::Loading)->tensors / whole.phase(PeakInstant::Loading)->tensors < 0.05);
  CHECK(answer(r).peak.tensors == answer(r).peak.step);
}

TEST_CASE("a checkpoint is unpacked on the host where the GPU has no room: the verdict does not count it") {
  const auto loading = [](const char* versions) {
    EstimateRequest r = ask("gpt-oss-20b", "H200", "single");
    r.recipe.framework = resolve_framework("hf-trainer", {.given = parse_stack_versions(versions), .date = {}});
    return *answer(r).phase(PeakInstant::Loading);
  };
  constexpr std::int64_t kValues = std::int64_t{32} * 5760 * 2880;  // gate_up_proj of one layer
  CHECK(loading("transformers=5.15").spare.count == std::llround(4.15 * double(kValues)));
  CHECK(loading("transformers=5.0").spare == Bytes{});
}

TEST_CASE("sharded loading unpacks tensor by tensor beside nothing else: the shards come after it") {
  // hiyouga/LlamaFactory issue 8872: gpt-oss-20b from MXFP4 on 4 x 24 GB. 32 x 5,760 x 2,880 values in 16 bit and 9.65
  // bytes each while they are unpacked, by transformers before 5.1: 5.8 GiB, less than a fourth of the model and a
  // layer
  EstimateRequest r = ask("gpt-oss-20b", "4x3090", "fsdp");
  r.recipe.framework =
      resolve_framework("llama-factory", {.given = parse_stack_versions("transformers=5.0"), .date = {}});
  const StrategyEstimate sharded = answer(r);
  constexpr double kUnpacking = (2 + 9.65) * 32 * 5760 * 2880;
  CHECK(sharded.phase(PeakInstant::Loading)->tensors.count >= kUnpacking);
  CHECK(sharded.phase(PeakInstant::Loading)->tensors / Bytes{1 << 30} < 16);
  r.strategy = "ddp";  // 38.9 GiB of weights on each card, and the unpacked tensor's buffers
  CHECK(answer(r).phase(PeakInstant::Loading)->tensors / Bytes{1 << 30} > 43);
  CHECK_FALSE(answer(r).fits());
}
