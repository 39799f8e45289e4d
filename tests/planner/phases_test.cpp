// Phases over resident models, by arithmetic: bytes of references by trainer and engine, copies of logits by path, and
// what a phase adds to the peak and to the step. Sources of the rules: docs/phases.md, data/frameworks.
#include <cmath>
#include <numeric>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/training_method.h"
#include "planner/estimate.h"
#include "planner/phases.h"
#include "planner/program_builder.h"

using namespace gpuplan;

namespace phases_of_steps {
namespace {

// Qwen2.5-0.5B: 494,032,768 parameters, tied head, 151,936 x 896, 24 layers
constexpr std::int64_t kParameters = 494032768, kVocab = 151936, kHidden = 896, kLayers = 24;
constexpr std::int64_t kTokens = 512;
constexpr std::int64_t kLogits = 2 * kTokens * kVocab;  // of one pair

EstimateRequest ask(const char* method, const char* framework, const char* strategy, const char* gpus = "2xH100") {
  EstimateRequest r;
  r.model = load_model("qwen2.5-0.5b").spec;
  r.cluster = parse_gpus(gpus);
  r.recipe.objective.method = method;
  r.recipe.framework = framework;
  r.recipe.seq_len = kTokens;
  r.recipe.packing = Packing::Padded;
  r.recipe.checkpointing = Checkpointing::Full;
  r.strategy = strategy;
  return r;
}

EstimateRequest with(EstimateRequest r, Reference reference) {
  r.recipe.objective.reference = reference;
  return r;
}

EstimateRequest with_adapters(EstimateRequest r) {
  r.recipe.method = Method::Lora;
  return r;
}

StrategyEstimate answer(const EstimateRequest& r) {
  StrategyEstimate e = estimate(r).strategies.front();
  REQUIRE(e.not_applicable == "");
  return e;
}

/// Bytes of its own model that the first phase beside the pass with gradients has.
std::int64_t reference_bytes(const EstimateRequest& r) { return answer(r).phases.at(1).resident.count; }

struct HeadBytes {
  std::int64_t saved, forward, backward;  // bytes of logits: kept between the two, and the highest of either
};

HeadBytes head_bytes(const EstimateRequest& r) {
  StepProgram program;
  const Job job(r, make_strategy(r.strategy, r.cluster, r.options));
  build_step_program(program, job, {});
  verify(program);
  const auto logits = std::size_t(LocalKind::Logits);
  const Usage forward = program.blocks[program.made->head].by_kind[logits];
  const Usage backward = program.blocks[program.made->head_backward].by_kind[logits];
  CHECK(forward.net + backward.net == 0);
  return {forward.net, forward.peak, forward.net + backward.peak};
}

EstimateRequest with_versions(EstimateRequest r, const char* versions) {
  r.recipe.framework =
      resolve_framework(r.recipe.framework->name, {.given = parse_stack_versions(versions), .date = {}});
  return r;
}

void check_per_logit(const EstimateRequest& r, HeadBytes per_logit, std::int64_t logits = kLogits) {
  const HeadBytes bytes = head_bytes(r);
  CHECK(bytes.saved == per_logit.saved * logits);
  CHECK(bytes.forward == per_logit.forward * logits);
  CHECK(bytes.backward == per_logit.backward * logits);
}

}  // namespace

TEST_CASE("a method is a row: names, aliases, and what nobody knows") {
  CHECK(training_methods().front().name == "sft");
  CHECK(find_training_method("RM").name == "reward");
  CHECK(find_training_method("gkd").name == "distill");
  CHECK_THROWS_AS(find_training_method("dpoo"), InputError);
  for (const char* name : {"ipo", "hinge", "dr-grpo"}) {  // planned alike, and no loss of gpuplan's own executor
    const TrainingMethod& other = find_training_method(name);
    CHECK(other.name == name);
    CHECK(other.like == (other.generates ? "grpo" : "dpo"));
    CHECK(other.passes.size() == find_training_method(other.like).passes.size());
    CHECK(other.loss == MethodLoss::None);
  }
  for (const TrainingMethod& method : training_methods()) CHECK_FALSE(method.source.empty());
}

TEST_CASE("supervised fine-tuning is the list of one phase: no figure has another model in it") {
  EstimateRequest r = ask("sft", "trl", "ddp");
  r.recipe.objective = {};
  const StrategyEstimate e = answer(r);
  CHECK(e.phases.empty());
  CHECK(e.peak.step == e.peak.train);
  CHECK(e.peak.resident == e.peak.trained_resident);
}

TEST_CASE("a copy as reference has the dtype in which the trainer loads it, and is cut where the engine cuts weights") {
  // TRL loads fp32; accelerate's DDP and one GPU leave it so, DeepSpeed turns the module into 16 bit and cuts it in
  // stage 3 alone (prepare_deepspeed: stage 0 otherwise), FSDP keeps fp32 shards
  CHECK(reference_bytes(ask("dpo", "trl", "single", "1xH100")) == 4 * kParameters);
  CHECK(reference_bytes(ask("dpo", "trl", "ddp")) == 4 * kParameters);
  CHECK(reference_bytes(ask("dpo", "trl", "zero1")) == 2 * kParameters);
  CHECK(reference_bytes(ask("dpo", "trl", "zero2")) == 2 * kParameters);
  CHECK(reference_bytes(ask("dpo", "trl", "fsdp")) == 4 * kParameters / 2);
  // Of stage 3, parameters of up to 10 x 896 elements stay whole: per layer two norms (2 x 896) and the biases of q, k,
  // v (896 + 2 x 128), and the final norm.
  const std::int64_t whole = kLayers * (2 * kHidden + kHidden + 2 * 128) + kHidden;
  CHECK(reference_bytes(ask("dpo", "trl", "zero3")) == 2 * ((kParameters - whole) / 2 + whole));
  // LLaMA-Factory and ms-swift load it in 16 bit.
  CHECK(reference_bytes(ask("dpo", "llama-factory", "ddp")) == 2 * kParameters);
  CHECK(reference_bytes(ask("dpo", "ms-swift", "ddp")) == 2 * kParameters);
}

TEST_CASE("a reference that is no copy has no bytes of its own; one on the host has them there") {
  CHECK(reference_bytes(with_adapters(ask("dpo", "trl", "ddp"))) == 0);
  CHECK(reference_bytes(with_adapters(ask("dpo", "openrlhf", "zero2"))) ==
        2 * kParameters);  // another Actor in any case
  const StrategyEstimate precomputed = answer(with(ask("dpo", "trl", "ddp"), Reference::Precomputed));
  CHECK(precomputed.phases.at(1).resident.count == 0);
  CHECK(precomputed.phases.at(1).is_before_training);
  CHECK(precomputed.time.step == precomputed.phases.front().time.step);
  const StrategyEstimate copy = answer(ask("dpo", "trl", "ddp"));
  CHECK(copy.peak.resident - precomputed.peak.resident == Bytes{4 * kParameters});
  const StrategyEstimate host = answer(with(ask("dpo", "openrlhf", "zero2"), Reference::Host));  // --ref.offload
  CHECK(host.phases.at(1).resident.count == 0);
  CHECK(host.peak.host == Bytes{2 * kParameters});
  CHECK(answer(ask("orpo", "trl", "ddp")).phases.size() == 1);
}

TEST_CASE("copies of the logits of a pair, by trainer and engine") {
  // Bytes per logit; R = 2 rows; all but Liger's counted with PyTorch too (docs/phases.md). TRL under accelerate: bf16
  // becomes fp32 (2 + 4, then 4 saved); backward has the gradients of the rows and their stack (4 + 4) beside it.
  check_per_logit(ask("dpo", "trl", "ddp"), {4, 6, 12});
  check_per_logit(ask("dpo", "trl", "fsdp"), {4, 6, 12});
  check_per_logit(ask("simpo", "trl", "single", "1xH100"), {4, 6, 12});
  // Under DeepSpeed the output stays in 16 bit: output and log-softmax (2 + 2); backward lets the output go and has the
  // gradients of the rows and their stack (2 + 2).
  check_per_logit(ask("dpo", "trl", "zero3"), {4, 4, 4});
  // With a contiguous copy (TRL 1.5): output and copy (4 + 4), and the exponentials of a row (2).
  check_per_logit(with_versions(ask("dpo", "trl", "ddp"), "trl=1.5.1"), {8, 10, 12});
  // LLaMA-Factory: fp32 output (4), its log-softmax (4), a contiguous copy for it (4); backward: log-softmax, the
  // gradient of the labels and that of the logits (4 + 4 + 4).
  check_per_logit(ask("dpo", "llama-factory", "ddp"), {8, 12, 12});
  check_per_logit(ask("dpo", "llama-factory", "zero3"), {8, 12, 12});
  // ORPO: beside 4, the log-softmax of the first answer (2), made of a contiguous copy (2).
  check_per_logit(ask("orpo", "trl", "ddp"), {6, 8, 14});
}

TEST_CASE("DPO of OpenRLHF, torchtune and NeMo RL: bytes per logit, where the reference is, and when it runs") {
  // Bytes per logit of a pair, counted with PyTorch 2.6 on the CPU, allocation by allocation (docs/phases.md).
  // OpenRLHF: 16-bit output made fp32 (2 + 4), of which a kernel keeps 4; backward writes the gradient beside it (4 +
  // 4). DeepSpeed leaves stages 1 and 2 whole references, in 16 bit.
  check_per_logit(ask("dpo", "openrlhf", "zero3"), {4, 6, 8});
  check_per_logit(ask("dpo", "openrlhf", "zero2"), {4, 6, 8});
  CHECK(reference_bytes(ask("dpo", "openrlhf", "zero2")) == 2 * kParameters);
  // torchtune's LoRA recipe: fp32 output (4), contiguous without the last position (4), log-softmax (4), which alone is
  // kept; backward has its gradient and that of the logits (4 + 4) beside it. The reference has the shards of FSDP2 in
  // the 16 bit of the whole training; with LoRA it is the policy without its adapters.
  check_per_logit(with_adapters(ask("dpo", "torchtune", "fsdp")), {4, 12, 12});
  CHECK(reference_bytes(with_adapters(ask("dpo", "torchtune", "fsdp"))) == 0);
  EstimateRequest tuned = ask("dpo", "torchtune", "fsdp");
  tuned.recipe.precision = Precision::Bf16True;
  CHECK(reference_bytes(tuned) == 2 * kParameters / 2);
  // NeMo RL: FSDP2 hands out fp32 (4), which lives until the loss is returned; contiguous and log-softmax (4 + 4). The
  // reference reads the batch before it is trained on, with weights from the host: its 12 stand on the state alone.
  const EstimateRequest nemo = ask("dpo", "nemo-rl", "fsdp");
  check_per_logit(nemo, {8, 12, 12});
  const StrategyEstimate e = answer(nemo);
  CHECK(e.phases.at(1).resident.count == 0);
  CHECK(e.peak.host.count > 0);
  CHECK((e.phases.at(1).tensors - e.peak.resident).count >= 12 * kLogits);
  CHECK(e.phases.at(1).tensors < e.peak.at_loss + Bytes{12 * kLogits});
  const StrategyEstimate in_graph = answer(with(ask("dpo", "torchtune", "fsdp"), Reference::Host));
  CHECK(in_graph.phases.at(1).tensors >= in_graph.peak.at_loss + Bytes{12 * kLogits});
}

TEST_CASE("TPO reads three answers and keeps a log-softmax of the gold one besides") {
  // A third of the logits of three answers is made contiguous and kept as log-softmax, fp32: 4 / 3 each, beside
  // TRL's 4.
  const HeadBytes bytes = head_bytes(ask("tpo", "trl", "ddp"));
  const std::int64_t of_three = kLogits / 2 * 3;
  CHECK(bytes.saved == 4 * of_three + 4 * kLogits / 2);
  CHECK(answer(ask("tpo", "trl", "ddp")).phases.size() == 1);
  CHECK(answer(ask("tpo", "trl", "ddp")).phases.front().rows == 3);
}

TEST_CASE("one row has no rows beside it: its temporaries are as large as all logits") {
  // KTO reads one row. Rows of fp32: 4 saved, the exponentials (4); backward 4, its gradient (4) and two temporaries
  // (8). In 16 bit: output and log-softmax (2 + 2); backward log-softmax, gradient of the label's logits and of all (2
  // each). Full: a row is contiguous, so that no copy is made. Beside that TRL and LLaMA-Factory copy the logits of
  // chosen and rejected rows for what they log (4, in 16 bit 2), until the loss is returned.
  check_per_logit(ask("kto", "trl", "ddp"), {8, 8, 16}, kLogits / 2);
  check_per_logit(ask("kto", "trl", "zero3"), {6, 6, 6}, kLogits / 2);
  check_per_logit(ask("kto", "llama-factory", "ddp"), {12, 12, 12}, kLogits / 2);
  check_per_logit(ask("kto", "ms-swift", "ddp"), {4, 8, 16}, kLogits / 2);  // which sums the logits of a row
}

TEST_CASE("ms-swift keeps the logits of completions alone, where their length is said") {
  EstimateRequest r = ask("dpo", "ms-swift", "ddp");
  CHECK(head_bytes(r).saved == 4 * kLogits);
  r.recipe.objective.completion_len = 127;  // and the position before it
  CHECK(head_bytes(r).saved == 4 * kLogits / 4);
  r = ask("dpo", "trl", "ddp");
  r.recipe.objective.completion_len = 127;
  CHECK(head_bytes(r).saved == 4 * kLogits);
}

TEST_CASE("Liger's loss holds the logits of one pair, whatever the batch") {
  EstimateRequest r = ask("dpo", "trl", "ddp");
  r.recipe.loss = LossKernel::Fused;
  r.recipe.micro_batch = 4;
  // logits 2, which their gradient replaces, and the gradient of the log-softmax 4; the reference's logits (2) are gone
  // by then
  CHECK(head_bytes(r).forward == 6 * kLogits);
  CHECK(head_bytes(r).saved == 0);
}

TEST_CASE("in the reference's pass the policy's graph and logits wait, and its own logits come on top") {
  const EstimateRequest r = with_adapters(ask("dpo", "trl", "single", "1xH100"));
  const StrategyEstimate e = answer(r);
  // 4 bytes of the policy wait, 2 + 4 of the reference's output are converted: 10, against 12 in backward
  CHECK(e.peak.instant == PeakInstant::LogitsAndLoss);
  CHECK((e.phases.at(1).tensors - e.peak.at_loss).count >= 6 * kLogits);
  CHECK((e.phases.at(1).tensors - e.peak.at_loss).count < 7 * kLogits);
  // LLaMA-Factory: 8 wait, and 12 come on top, against 12 in backward
  const StrategyEstimate full = answer(with_adapters(ask("dpo", "llama-factory", "single", "1xH100")));
  CHECK(full.peak.instant == PeakInstant::OtherModel);
  const PhaseFigures& reference = full.phases.at(1);
  CHECK(reference.tensors == full.peak.tensors);
  CHECK((reference.tensors - full.peak.at_loss).count >= 12 * kLogits);
  CHECK(full.phases.front().tensors < reference.tensors);
}

TEST_CASE("the parts of a peak add up, whichever phase sets it") {
  for (const char* method : {"dpo", "kto", "simpo", "reward"})
    for (const char* framework : {"trl", "llama-factory"})
      for (const char* strategy : {"ddp", "zero3", "fsdp"}) {
        EstimateRequest r = ask(method, framework, strategy);
        r.recipe.micro_batch = 8;
        const StrategyEstimate e = answer(r);
        CAPTURE(method);
        CAPTURE(framework);
        CAPTURE(strategy);
        CHECK(std::accumulate(e.memory.begin(), e.memory.end(), Bytes{}) == e.tiers.process);
        Bytes items;
        for (const DetailedPeak::Item& item : e.items) items += item.bytes;
        CHECK(items == e.peak.tensors);
        Seconds seconds;
        for (const PhaseFigures& phase : e.phases) seconds += phase.time.step;
        CHECK(seconds.value == doctest::Approx(e.time.step.value));
        for (const PhaseFigures& phase : e.phases) CHECK(phase.tensors <= e.peak.tensors);
      }
}

TEST_CASE("passes without gradients hold neither gradients nor states, and every program of theirs is sound") {
  for (const char* strategy : {"single", "ddp", "zero2", "zero3", "fsdp"})
    for (const bool has_adapters : {false, true})
      for (const char* method : {"dpo", "kto"}) {
        EstimateRequest r = ask(method, "trl", strategy, std::string(strategy) == "single" ? "1xH100" : "2xH100");
        r.recipe.grad_accum = 3;
        if (has_adapters) r = with_adapters(r);
        const Job job(r, make_strategy(strategy, r.cluster, r.options));
        for (const SidePhase& phase : side_phases(job)) {
          StepProgram program;
          build_step_program(program, phase.job, {});
          verify(program);
          for (const ProgramBuffer& b : program.programs.front().buffers) {
            CHECK(b.category != Category::Gradients);
            CHECK(b.category != Category::Optimizer);
            CHECK(b.category != Category::Master);
          }
          CHECK(phase.job.model.trainable == 0);
        }
      }
}

TEST_CASE("a reference's forward costs a quarter to a third of the pass with gradients") {
  // three forwards' worth of work, and one more with checkpointing: 1 / 4, or 1 / 3 without; LoRA has no weight
  // gradients: 1 / 3 and 1 / 2
  EstimateRequest r = ask("dpo", "trl", "single", "1xH100");
  r.model = load_model("llama-3.1-8b").spec;
  r.recipe.seq_len = 2048;
  const auto share = [](const EstimateRequest& asked) {
    const StrategyEstimate e = answer(asked);
    return e.phases.at(1).time.flops / e.phases.at(0).time.flops;
  };
  CHECK(share(r) == doctest::Approx(1.0 / 4).epsilon(0.05));
  r.recipe.checkpointing = Checkpointing::None;
  CHECK(share(r) == doctest::Approx(1.0 / 3).epsilon(0.05));
  CHECK(share(with_adapters(r)) == doctest::Approx(1.0 / 2).epsilon(0.08));
}

TEST_CASE("KTO reads one row per row of the data, and the policy and the reference read mismatched rows beside it") {
  const StrategyEstimate dpo = answer(ask("dpo", "trl", "ddp")), kto = answer(ask("kto", "trl", "ddp"));
  REQUIRE(kto.phases.size() == 3);
  CHECK(kto.phases[0].rows == 1);
  CHECK(kto.phases[1].rows == 1);
  CHECK(kto.phases[1].resident.count == 0);
  CHECK(kto.phases[2].rows == 2);
  CHECK(dpo.phases[0].rows == 2);
  CHECK(dpo.global_batch == kto.global_batch);
}

TEST_CASE("KTO: the reference reads twice, and LLaMA-Factory's keeps the logits of the first time") {
  const auto on_top = [](const char* framework) {
    const StrategyEstimate e = answer(with_adapters(ask("kto", framework, "single", "1xH100")));
    return (e.phases.at(2).tensors - e.peak.at_loss).count;
  };
  // a row is half a pair; bf16 becomes fp32: 2 + 4, then its exponentials: 4 + 4
  CHECK(on_top("trl") >= 8 * kLogits / 2);
  CHECK(on_top("trl") < 9 * kLogits / 2);
  // 4 and its log-softmax 4, beside the copies of the first time, 4
  CHECK(on_top("llama-factory") >= 12 * kLogits / 2);
  CHECK(on_top("llama-factory") < 13 * kLogits / 2);
}

TEST_CASE("a loss without mismatched rows leaves out their passes") {
  const StrategyEstimate kto = answer(ask("kto", "trl", "ddp")), apo = answer(ask("apo-zero-unpaired", "trl", "ddp"));
  REQUIRE(apo.phases.size() == 2);
  CHECK(apo.phases[1].rows == 1);
  CHECK(apo.phases[1].time.step.value == doctest::Approx(kto.phases[2].time.step.value / 2));
}

TEST_CASE("GradCache: every piece once more without gradients, in the memory of the pass with gradients") {
  EstimateRequest r = ask("embed", "hf-trainer", "ddp");
  r.recipe.micro_batch = 4, r.recipe.grad_accum = 8;
  r.recipe.checkpointing = Checkpointing::None;
  const StrategyEstimate plain = answer(r);
  r.recipe.objective.method = "gradcache";
  const StrategyEstimate cached = answer(r);
  REQUIRE(cached.phases.size() == 2);
  CHECK(cached.phases[1].rows == cached.phases[0].rows);
  CHECK(cached.phases[1].resident.count == 0);
  CHECK(cached.peak.tensors == plain.peak.tensors);
  // a forward pass is a third of forward and backward
  CHECK(cached.phases[1].time.flops / cached.phases[0].time.flops == doctest::Approx(1.0 / 3).epsilon(0.05));
}

TEST_CASE("an encoder writes no text: methods that compare or make answers are refused by name") {
  EstimateRequest r = ask("dpo", "trl", "ddp");
  r.model = load_model("xlm-roberta-base").spec;
  CHECK_THROWS_WITH_AS(estimate(r), doctest::Contains("is an encoder"), InputError);
  r = ask("classify", "hf-trainer", "ddp");
  r.model = load_model("xlm-roberta-base").spec;
  r.recipe.seq_len = 512;
  CHECK(estimate(r).strategies.front().not_applicable == "");
}

TEST_CASE("a reward model has one number per row in the place of the vocabulary") {
  EstimateRequest r = ask("reward", "trl", "ddp");
  r.model = load_model("llama-3.1-8b").spec;
  const EstimateResult result = estimate(r);
  // 8,030,261,248 parameters less 128,256 x 4,096 of the head, and 4,096 of the score
  CHECK(result.model.parameters == 8030261248 - 128256 * 4096 + 4096);
  CHECK(result.strategies.front().memory[std::size_t(Category::Logits)].count < (1 << 20));
  r.recipe.framework = "llama-factory";  // whose head of the vocabulary runs and stays
  CHECK(estimate(r).model.parameters == 8030261248 + 4096);
}

TEST_CASE("heads of a few numbers and of none: rows per row of the data, parameters, and no logits of the vocabulary") {
  // Llama 3.1 8B less its head (128,256 x 4,096), and one of `labels` x 4,096. A classifier has one number per label of
  // a row, a process reward model two of each token, a reranker one of the query with each text, an embedding none: the
  // texts of a row (anchor and positive, each hard negative one more) are alive at once.
  struct Head {
    const char *method, *framework;
    std::int64_t rows, labels;
  };
  for (const Head& head : {Head{"classify", "trl", 1, 2}, Head{"process-reward", "trl", 1, 2},
                           Head{"rerank", "ms-swift", 2, 1}, Head{"embed", "ms-swift", 2, 0}}) {
    CAPTURE(head.method);
    EstimateRequest r = ask(head.method, head.framework, "single", "1xH100");
    r.model = load_model("llama-3.1-8b").spec;
    r.recipe.micro_batch = 1;
    const EstimateResult result = estimate(r);
    const StrategyEstimate& e = result.strategies.front();
    CHECK(result.model.parameters == 8030261248 - 128256 * 4096 + head.labels * 4096);
    REQUIRE(e.phases.size() == 1);
    CHECK(e.phases.front().rows == head.rows);
    CHECK(e.memory[std::size_t(Category::Logits)].count < (1 << 20));
    if (head.labels > 0) continue;
    // six hard negatives more: each layer's input of six texts, 512 x 4,096 x 2 bytes, is kept besides
    const StrategyEstimate two = answer(with_adapters(r));
    r.recipe.objective.texts_per_row = 8;
    const StrategyEstimate eight = answer(with_adapters(r));
    CHECK(eight.phases.front().rows == 8);
    CHECK((eight.peak.tensors - two.peak.tensors).count >= 6 * 32 * kTokens * 4096 * 2);
  }
}

TEST_CASE("XLM-R as a classifier and as an embedding model: parameters, states, and rows that are alive at once") {
  // 278,043,648 parameters with the pooler (768 x 768 + 768), which the classifier's own linear is as large as; two
  // labels of 768 and their biases. fp32 weights and two fp32 states of each: 12 bytes.
  EstimateRequest r = ask("classify", "trl", "single", "1xH100");
  r.model = load_model("xlm-roberta-base").spec;
  const std::int64_t classifier = 278043648 + 2 * 768 + 2;
  CHECK(estimate(r).model.parameters == classifier);
  CHECK(answer(r).peak.resident == Bytes{12 * classifier});
  CHECK(answer(r).memory[std::size_t(Category::Logits)].count < (1 << 20));
  // as an embedding model without the pooler; each text more keeps its fp32 embeddings and the 16-bit inputs of layers
  EstimateRequest embedding = ask("embed", "ms-swift", "single", "1xH100");
  embedding.model = r.model;
  CHECK(estimate(embedding).model.parameters == 278043648 - 768 * 768 - 768);
  embedding.recipe.checkpointing = Checkpointing::None;
  embedding.recipe.micro_batch = 16;
  const StrategyEstimate two = answer(embedding);
  embedding.recipe.objective.texts_per_row = 4;
  const StrategyEstimate four = answer(embedding);
  CHECK(two.phases.front().rows == 2 * 16);
  // twelve layers, each of which keeps 44 bytes per token and hidden unit (tests/planner/ledger_test.cpp)
  CHECK((four.peak.tensors - two.peak.tensors).count >= 12 * 44 * 2 * 16 * kTokens * 768);
}

TEST_CASE("ModernBERT and DeBERTa bring what stands in front of a classifier's scores; an embedding model has none") {
  struct Encoder {
    const char* name;
    std::int64_t model, head;  // head: without the labels
  };
  // ModernBertPredictionHead: 768 x 768 without a bias and a norm of 768; ContextPooler: 768 x 768 + 768
  for (const Encoder& row : {Encoder{"modernbert-base", 149'014'272, 768 * 768 + 768},
                             Encoder{"deberta-v3-base", 183'831'552, 768 * 768 + 768}}) {
    CAPTURE(std::string(row.name));
    EstimateRequest r = ask("classify", "trl", "single", "1xH100");
    r.model = load_model(row.name).spec;
    r.recipe.seq_len = 512;
    r.recipe.objective.labels = 5;
    CHECK(estimate(r).model.parameters == row.model + row.head + 5 * 768 + 5);
    CHECK(answer(r).peak.resident == Bytes{12 * (row.model + row.head + 5 * 768 + 5)});
    EstimateRequest embedding = ask("embed", "ms-swift", "single", "1xH100");
    embedding.model = r.model;
    embedding.recipe.seq_len = 512;
    CHECK(estimate(embedding).model.parameters == row.model);
  }
}

TEST_CASE("what contradicts a method is said in one message") {
  const auto refuses = [](const EstimateRequest& r) { CHECK_THROWS_AS(estimate(r), InputError); };
  refuses(with(ask("dpo", "trl", "ddp"), Reference::Adapter));  // nothing to switch off
  refuses(with(ask("simpo", "trl", "ddp"), Reference::Copy));   // compares with none
  refuses(ask("cpo", "llama-factory", "ddp"));
  refuses(ask("dpo", "torchtitan", "fsdp"));
  refuses(ask("distill", "trl", "ddp"));  // without a teacher
  EstimateRequest labels = ask("dpo", "trl", "ddp");
  labels.recipe.objective.labels = 3;
  refuses(labels);
}

TEST_CASE("a teacher is a model beside the student, and the vocabulary of both is compared") {
  const auto with_teacher = [](EstimateRequest r) {
    r.teacher = std::make_shared<const ModelSpec>(load_model("qwen2.5-1.5b").spec);
    return r;
  };
  const EstimateRequest r = with_teacher(ask("distill", "trl", "ddp"));
  const StrategyEstimate e = answer(r);
  CHECK(e.phases.at(1).resident.count == 2 * r.teacher->recorded_parameters.value() * 2);  // fp32, as TRL's policy
  // One row, half a pair. TRL's loss, counted with PyTorch: 17 tensors like the output at its highest, 7 saved, 12 in
  // backward; fp32 under accelerate, 16 bit under DeepSpeed.
  const HeadBytes wide = head_bytes(r), narrow = head_bytes(with_teacher(ask("distill", "trl", "zero3")));
  CHECK(wide.forward == 17 * 4 * kLogits / 2);
  CHECK(wide.saved == 7 * 4 * kLogits / 2);
  CHECK(wide.backward == 12 * 4 * kLogits / 2);
  CHECK(narrow.forward == 17 * 2 * kLogits / 2);
  CHECK(narrow.saved == 7 * 2 * kLogits / 2);
  CHECK(narrow.backward == 12 * 2 * kLogits / 2);
}

TEST_CASE("ms-swift's divergence goes by 512 rows, or over the teacher's highest logits") {
  // Counted with PyTorch in chunks of a whole and a quarter of the rows (models/ledger/log_probs.cpp), and the outputs
  // of both models beside: of 512 rows 13 + 2, 7 and 7 + 5; of 2,048 rows 13 + 2 / 4, 7 and 7 + 5 / 4
  EstimateRequest r = ask("distill", "ms-swift", "ddp");
  r.teacher = std::make_shared<const ModelSpec>(load_model("qwen2.5-1.5b").spec);
  const HeadBytes one = head_bytes(r);
  const std::int64_t tensor = one.saved / 7;
  CHECK((tensor == 4 * kLogits / 2 || tensor == 2 * kLogits / 2));
  CHECK(one.forward == 15 * tensor);
  CHECK(one.backward == 12 * tensor);
  r.recipe.micro_batch *= 4;
  const HeadBytes four = head_bytes(r);
  CHECK(four.saved == 4 * one.saved);
  CHECK(four.forward == 54 * tensor);
  CHECK(four.backward == 33 * tensor);
  // outputs of both and a copy at the labels; two gradients; and 12 numbers for each of the highest
  r.recipe.objective.teacher_topk = 64;
  const HeadBytes highest = head_bytes(r);
  const std::int64_t small = tensor / kVocab * 4 * 12 * 64;
  CHECK(highest.forward == 3 * 4 * tensor + small);
  CHECK(highest.saved == 4 * tensor + small);
  CHECK(highest.backward == 2 * 4 * tensor + small);
  const auto why = [](EstimateRequest asked) -> std::string {
    try {
      estimate(asked);
      return "";
    } catch (const InputError& error) { return error.problem(); }
  };
  r.recipe.objective.teacher_topk = kVocab + 1;
  CHECK(why(r) == fmt::format("{} is more than the {} logits of a token of {}", format_grouped(kVocab + 1),
                              format_grouped(kVocab), r.teacher->name));
  r.recipe.objective.teacher_topk = 64;
  r.recipe.framework = std::string("trl");
  CHECK(why(r) == "trl compares all logits of a teacher");
  r = ask("sft", "ms-swift", "ddp");
  r.recipe.objective.teacher_topk = 64;
  CHECK(why(r) == "sft has no teacher");
}

TEST_CASE("torchtune's divergence in chunks keeps 13 bytes per logit until backward, beside 16-bit logits of both") {
  // Counted with PyTorch in 8 chunks: 17.5, 13.0 and 14.0. 4 + 4 softmax and log-softmax, 1 of the mask, 4 of the
  // labels' loss; the logits of both, 2 + 2, and a chunk of them in fp32, 4 / 8, until the losses are made. In backward
  // two gradients of a chunk, 8 / 8.
  EstimateRequest r = with_adapters(ask("distill", "torchtune", "single", "1xH100"));
  r.teacher = std::make_shared<const ModelSpec>(load_model("qwen2.5-1.5b").spec);
  r.recipe.loss = LossKernel::Chunked;
  r.recipe.loss_chunks = 8;
  const HeadBytes bytes = head_bytes(r);
  CHECK(bytes.forward == 35 * kLogits / 2 / 2);
  CHECK(bytes.saved == 13 * kLogits / 2);
  CHECK(bytes.backward == 14 * kLogits / 2);
  const Bytes logits = answer(r).memory[std::size_t(Category::Logits)];
  CHECK(logits.count >= 15 * kLogits / 2);  // in the teacher's pass, 13 and its own 2
  CHECK(logits.count < 18 * kLogits / 2);
  r.recipe.loss = LossKernel::Plain;
  CHECK(answer(r).memory[std::size_t(Category::Logits)].count >= 34 * kLogits / 2);
}

}  // namespace phases_of_steps
