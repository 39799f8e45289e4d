// Reinforcement learning as phases, by arithmetic: what an engine holds through training, which passes a trainer runs,
// and what a step adds up to. Sources of the rules: docs/rl.md, data/rl_trainers.yaml.
#include <algorithm>

#include <doctest/doctest.h>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/stack.h"
#include "models/training_method.h"
#include "planner/engine_share.h"
#include "planner/estimate.h"
#include "planner/generation.h"
#include "planner/phases.h"
#include "planner/recommend.h"
#include "planner/rollout_phases.h"

using namespace gpuplan;

namespace rollout_phases {
namespace {

EstimateRequest ask(const char* method, const char* framework, const char* strategy, const char* gpus,
                    const char* engine) {
  EstimateRequest r;
  r.model = load_model("qwen2.5-0.5b").spec;
  r.cluster = parse_gpus(gpus);
  r.recipe.objective.method = method;
  r.recipe.objective.completion_len = 256;
  r.recipe.framework = framework;
  r.recipe.seq_len = 512;
  r.recipe.micro_batch = 8;
  r.recipe.packing = Packing::Padded;
  r.recipe.checkpointing = Checkpointing::Full;
  r.rollout.engine = parse_engine(engine);
  r.rollout.prompt_len = 256, r.rollout.max_completion = 256, r.rollout.generations = 8;
  r.strategy = strategy;
  return r;
}

StrategyEstimate answer(const EstimateRequest& r) {
  StrategyEstimate e = estimate(r).strategies.front();
  REQUIRE(e.not_applicable == "");
  return e;
}

const PhaseFigures* phase(const StrategyEstimate& e, std::string_view begin) {
  const auto found = std::ranges::find_if(e.phases, [&](const PhaseFigures& p) { return p.name.starts_with(begin); });
  return found == e.phases.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("an engine that computes with the trainer's own weights counts a 4-bit base as it is stored") {
  // unslothai/notebooks nb/Llama3.1_(8B)-GRPO.ipynb ran on a T4, where vLLM said "model weights take 5.60GiB", with the
  // scales of blocks in fp32: 6.98e9 x 0.5625 + 1.05e9 x 2 bytes. Ours are quantised twice: x 0.516, 5.3 GiB. In 16 bit
  // they would be 15.0 GiB, and no card of 16 GB would do.
  EstimateRequest r = ask("grpo", "unsloth", "single", "1xT4", "vllm:util=0.6");
  r.model = load_model("llama-3.1-8b").spec;
  r.recipe.method = Method::Qlora;
  r.recipe.quant.kind = BaseQuant::Nf4;
  r.recipe.precision = Precision::Fp16Mixed;
  const StrategyEstimate e = answer(r);
  CHECK(e.fits());
  r.recipe.method = Method::Lora;
  r.recipe.quant = {};
  CHECK_FALSE(answer(r).fits());
}

TEST_CASE("a pass for log-probs holds as many sequences at once as its file says, of those that a rank has") {
  EstimateRequest r = ask("grpo", "verl", "fsdp", "4xA100-80", "vllm:colocate,util=0.1,tp=1");
  r.recipe.objective.reference = Reference::None;
  r.recipe.grad_accum = 16;  // 8 x 16 answers on a rank
  const auto held = [&](std::int64_t at_once) {
    r.rollout.old_batch = at_once;
    return phase(answer(r), "old log-probs")->tensors;
  };
  const Bytes usual = held(0);
  CHECK(held(8) == usual);  // as many as a micro batch
  CHECK(held(32) > usual);
  CHECK(held(1000) == held(128));
}

TEST_CASE("weights and optimizer states leave the GPU each by itself while an engine generates") {
  EstimateRequest r = ask("grpo", "verl", "fsdp", "2xA100-80", "vllm:colocate,util=0.9,tp=1,offload=no");
  const auto peak = [&](const char* offload) {
    r.rollout.engine.offloads = parse_name<TrainerOffload>(offload, "offload");
    return answer(r).peak.tensors;
  };
  const Bytes none = peak("no"), weights = none - peak("weights"), states = none - peak("states");
  CHECK(weights.count > 0);
  CHECK(states.count > weights.count);
  CHECK(none - peak("yes") == weights + states);
  CHECK(to_text(parse_engine("vllm:colocate,offload=states")) == "vllm:colocate,offload=states");
  CHECK(to_text(parse_engine("vllm:colocate,offload=yes")) == "vllm:colocate,offload=yes");
}

TEST_CASE("where nothing fits, a strategy that cannot run beside an engine is not the one that is spoken of") {
  EstimateRequest r = ask("grpo", "trl", "auto", "4xA100-40GB", "vllm:colocate,util=0.4,tp=2");
  r.recipe.precision = Precision::Bf16True;
  r.strategy = EstimateRequest{}.strategy;
  r.model = load_model("llama-3.2-3b").spec;
  r.recipe.seq_len = 3584, r.recipe.objective.completion_len = 3072;
  r.rollout.prompt_len = 512, r.rollout.max_completion = 3072;
  const EstimateResult result = estimate(r);
  REQUIRE(result.recommended->strategy == "");
  const auto mp = std::ranges::find_if(result.strategies, [](const auto& e) { return e.strategy.takes_turns(); });
  REQUIRE(mp != result.strategies.end());
  CHECK(mp->tiers.needed < strategy_in_focus(result)->tiers.needed);
  CHECK(strategy_in_focus(result) != &*mp);
}

TEST_CASE("passes as the trainer runs them: old log-probs with an engine or when answers are used again") {
  // huggingface/trl grpo_trainer.py: use_vllm and its importance sampling correction, or steps beyond one
  CHECK_FALSE(phase(answer(ask("grpo", "trl", "single", "1xH100", "hf")), "old log-probs"));
  CHECK(phase(answer(ask("grpo", "trl", "single", "1xH100", "vllm:util=0.3")), "old log-probs"));
  EstimateRequest twice = ask("grpo", "trl", "single", "1xH100", "hf");
  twice.rollout.iterations = 2;
  CHECK(phase(answer(twice), "old log-probs"));
  // beta is 0 in GRPO and 0.05 in RLOO
  CHECK_FALSE(phase(answer(ask("grpo", "trl", "single", "1xH100", "hf")), "log-probs of the reference"));
  const StrategyEstimate rloo = answer(ask("rloo", "trl", "single", "1xH100", "hf"));
  REQUIRE(phase(rloo, "log-probs of the reference"));
  CHECK(phase(rloo, "log-probs of the reference")->resident.count == 4 * 494'032'768LL);  // a copy in fp32
  CHECK_FALSE(phase(answer(ask("dapo", "verl", "fsdp", "2xH100", "vllm:tp=1")), "log-probs of the reference"));
}

TEST_CASE("engines stand where the trainer has them, and write ahead where it always does") {
  // OpenRLHF openrlhf/cli/train_ppo_ray.py @3c3be623 (train.colocate_all off); prime-rl: trainer and engine do not wait
  const auto usual = [](const char* framework, const char* strategy) {
    EstimateRequest r = ask("grpo", framework, strategy, "4xH100", "vllm");
    r.rollout.engine = {};
    return r;
  };
  CHECK(engine_place(usual("openrlhf", "zero3")) == EnginePlace::Server);
  CHECK(engine_place(usual("verl", "fsdp")) == EnginePlace::Colocate);
  CHECK(engine_place(ask("grpo", "openrlhf", "zero3", "4xH100", "vllm:sleep=yes")) == EnginePlace::Colocate);
  CHECK_FALSE(writes_ahead(usual("openrlhf", "zero3")));
  CHECK_FALSE(writes_ahead(usual("verl", "fsdp")));
  const EstimateRequest ahead = usual("prime-rl", "fsdp");
  CHECK(writes_ahead(ahead));
  const StrategyEstimate e = answer(ahead);
  REQUIRE(phase(e, "generation"));
  CHECK(phase(e, "generation")->beside.value > 0);
  EstimateRequest alone = ahead;
  alone.rollout.generations = 0;
  CHECK(answers_of_row(alone) == 1);  // group_size of its orchestrator, rollouts_per_example before
}

TEST_CASE("answers are evaluated by an engine, without logits of a trainer, unless an evaluation is asked for") {
  const auto evaluates = [](const EstimateRequest& r) {
    const EstimateResult result = estimate(r);
    return std::ranges::any_of(result.strategies.front().run_phases,
                               [](const PhasePeak& p) { return p.phase == PeakInstant::Evaluation; });
  };
  EstimateRequest r = ask("grpo", "openrlhf", "zero3", "4xH100", "vllm");
  CHECK_FALSE(evaluates(r));
  r.eval_batch = 8;
  CHECK(evaluates(r));
}

TEST_CASE("an engine that does not sleep holds its share of the card through training; one that sleeps its graphs") {
  const StrategyEstimate none = answer(ask("grpo", "trl", "single", "1xH100", "vllm:server,gpus=1"));
  const StrategyEstimate awake = answer(ask("grpo", "trl", "single", "1xH100", "vllm:util=0.3,sleep=no"));
  const StrategyEstimate asleep = answer(ask("grpo", "trl", "single", "1xH100", "vllm:util=0.3,sleep=yes"));
  const std::int64_t share =
      std::int64_t(0.3 * double(parse_gpus("1xH100").gpus.front().framework_memory.count)) + (1LL << 30);
  CHECK(awake.peak.resident.count - none.peak.resident.count == share);
  CHECK(awake.peak.tensors.count - none.peak.tensors.count == share);
  CHECK(asleep.peak.resident.count - none.peak.resident.count == (1LL << 30));
  // while it generates: what trains at rest, and its share
  CHECK(phase(asleep, "generation")->tensors.count == none.peak.resident.count + share);
}

TEST_CASE("an engine with a share that needs more than the rest sets the peak") {
  EstimateRequest r = ask("grpo", "trl", "single", "1xH100", "vllm:util=0.85,sleep=yes");
  const StrategyEstimate e = answer(r);
  CHECK(e.peak.instant == PeakInstant::Generation);
  CHECK(e.peak.tensors == phase(e, "generation")->tensors);
  CHECK(e.peak_instant == "generation of answers");
}

TEST_CASE("an engine over more GPUs than it has, or that do not divide the heads, is refused and not cut") {
  // 14 heads, 2 of keys and values
  const auto wrong = [](const char* engine, const char* words) {
    CHECK_THROWS_WITH_AS(estimate(ask("grpo", "trl", "zero3", "4xH100", engine)), doctest::Contains(words), InputError);
  };
  wrong("vllm:tp=8", "8 GPUs would share the layers of vLLM, and it has 4");
  wrong("vllm:tp=3", "4 GPUs of the engine are no groups of 3");
  wrong("vllm:tp=4", "divides the 14 attention heads of qwen2.5-0.5b");
  wrong("vllm:server,gpus=2,tp=4", "4 GPUs would share the layers of vLLM, and it has 2");
  CHECK_NOTHROW(estimate(ask("grpo", "trl", "zero3", "4xH100", "vllm:tp=2")));
  // 7 divide the 14 heads, and neither divide nor repeat the 2 others
  EngineSetup setup{.engine = &row_named("vllm", std::type_identity<GenerationEngine>{}), .tp = 7, .num_gpus = 7};
  CHECK(why_no_engine(load_model("qwen2.5-0.5b").spec, setup).find("divides or repeats") != std::string::npos);
  // a strategy of the search with fewer GPUs says it in its row
  EstimateRequest r = ask("grpo", "trl", "single", "4xH100", "vllm:tp=2");
  CHECK(answer(r).why_not_yes == "2 GPUs would share the layers of vLLM, and it has 1");
}

TEST_CASE(
    "an engine is not started for longer sequences than the model reads, by the engine's rules of scaled positions") {
  const GenerationEngine& vllm = row_named("vllm", std::type_identity<GenerationEngine>{});
  const GenerationEngine& sglang = row_named("sglang", std::type_identity<GenerationEngine>{});
  ModelSpec model = load_model("qwen2.5-0.5b").spec;
  model.max_position_embeddings = 32768;
  CHECK(context_of(model, vllm) == 32768);
  model.rope = {.type = "yarn", .factor = 4, .original_positions = 16384};
  CHECK(context_of(model, vllm) == 65536);
  CHECK(context_of(model, sglang) == 32768);
  model.rope = {.type = "linear", .factor = 4};
  CHECK(context_of(model, vllm) == 131072);
  model.rope.type = "llama3";
  CHECK(context_of(model, vllm) == 32768);
  const auto asked = [](const char* framework, const char* strategy, const char* engine, std::int64_t completion) {
    EstimateRequest r = ask("grpo", framework, strategy, "2xH100", engine);
    r.model.max_position_embeddings = 4096;
    r.rollout.max_completion = completion;
    r.recipe.seq_len = r.rollout.prompt_len + completion;
    return r;
  };
  const auto refuses = [&](const EstimateRequest& r) {
    CHECK_THROWS_WITH_AS(estimate(r), doctest::Contains("qwen2.5-0.5b reads 4,096"), InputError);
  };
  // 256 + 3,840 are all that it reads
  CHECK_NOTHROW(estimate(asked("openrlhf", "zero3", "vllm:tp=1,context=4096", 3840)));
  refuses(asked("openrlhf", "zero3", "vllm:tp=1,context=4097", 3840));
  refuses(asked("trl", "zero3", "vllm:context=4097", 3840));
  const EstimateResult cut = estimate(asked("trl", "zero3", "vllm", 3841));
  CHECK(std::ranges::any_of(cut.assumptions, [](const std::string& line) {
    return line.find("reads 4,096 tokens, at which answers end") != std::string::npos;
  }));
  CHECK(to_text(parse_engine("vllm:context=4097")) == "vllm:context=4097");
}

TEST_CASE("one answer to a prompt is refused where the trainer refuses it, and else it is said what it means") {
  const auto alone = [](const char* method, const char* framework, const char* strategy) {
    EstimateRequest r = ask(method, framework, strategy, "2xH100", "vllm:tp=1");
    r.rollout.generations = 1;
    return r;
  };
  for (const char* framework : {"trl", "ms-swift", "openrlhf"})
    CHECK_THROWS_WITH_AS(estimate(alone("grpo", framework, "zero3")), doctest::Contains("refuses one alone"),
                         InputError);
  CHECK_NOTHROW(estimate(alone("ppo", "openrlhf", "zero3")));
  const auto says = [](const EstimateResult& result, const char* words) {
    return std::ranges::any_of(result.assumptions,
                               [&](const std::string& line) { return line.find(words) != std::string::npos; });
  };
  CHECK(says(estimate(alone("grpo", "verl", "fsdp")), "the advantage is the reward itself"));
  CHECK(says(estimate(alone("grpo", "nemo-rl", "fsdp")), "its advantage is 0"));
  CHECK_FALSE(says(estimate(alone("ppo", "verl", "fsdp")), "one answer to a prompt"));
}

TEST_CASE("a trainer starts the engines that it has, and for some methods none") {
  const auto why = [](const char* trainer, const char* engine, const char* method) {
    return why_not_started(*rollout_convention(trainer), *RowOf<GenerationEngine>(engine), method);
  };
  CHECK(why("trl", "vllm", "grpo").empty());
  CHECK(why("trl", "hf", "ppo").empty());
  CHECK(why("trl", "vllm", "ppo") == "ppo of trl writes answers with the module that it trains, and starts no engine");
  CHECK(why("trl", "sglang", "grpo") == "trl starts no SGLang");
  CHECK(why("verl", "tensorrt-llm", "ppo").empty());
  CHECK(why("openrlhf", "tensorrt-llm", "ppo") == "openrlhf starts no TensorRT-LLM");
}

TEST_CASE("weights sent in buckets take a bucket of memory, which may be stated where a trainer has them") {
  const auto sync = [](const char* engine) {
    return phase(answer(ask("grpo", "verl", "fsdp", "2xH100", engine)), "weight sync")->tensors.count;
  };
  // verl's bucket is 2,048 MiB
  CHECK(sync("vllm:tp=1") == sync("vllm:tp=1,bucket=2048MiB"));
  CHECK(sync("vllm:tp=1,bucket=4GiB") - sync("vllm:tp=1,bucket=512MiB") == (4LL << 30) - (512LL << 20));
  CHECK(to_text(parse_engine("vllm:bucket=512MiB")) == "vllm:bucket=512MiB");
  CHECK(parse_engine("vllm:bucket=1GB").sync_bucket ==
        parse_engine(to_text(parse_engine("vllm:bucket=1GB"))).sync_bucket);
  CHECK_THROWS_WITH_AS(estimate(ask("grpo", "trl", "zero3", "2xH100", "vllm:bucket=512MiB")),
                       doctest::Contains("one by one, not in buckets"), InputError);
  CHECK_THROWS_AS(parse_engine("vllm:bucket=0MiB"), InputError);
}

TEST_CASE("an engine without room is advised by what was tried, and never beside 'nothing helps'") {
  // 2.87 GiB of weights in 0.036 of 79.1 GiB leave no room for a sequence on one GPU, and do on two
  EstimateRequest r = ask("grpo", "trl", "zero3", "4xH100", "vllm:util=0.036,sleep=yes");
  r.model = load_model("qwen2.5-1.5b").spec;
  const EstimateResult result = estimate(r);
  REQUIRE(result.recommended);
  CHECK(result.recommended->strategy == "");
  for (const StrategyEstimate& e : result.strategies) CHECK(e.why_not_yes.find("has room") == std::string::npos);
  const std::vector<std::string>& advice = result.recommended->advice;
  const auto names = [&](const char* words) {
    return std::ranges::any_of(advice, [&](const std::string& a) { return a.find(words) != std::string::npos; });
  };
  CHECK(names("tp=2"));
  CHECK_FALSE(names(std::string(kNothingHelps).c_str()));
}

TEST_CASE("the share of a card that an engine takes is named where it is not stated, with the most that fits") {
  const auto line = [](const char* engine) {
    const EstimateRequest r = ask("grpo", "verl", "fsdp", "2xH100", engine);
    return assumed_engine_share(r, answer(r));
  };
  CHECK(line("vllm:tp=1,util=0.5") == "");
  CHECK(line("vllm:server,gpus=1") == "");
  CHECK(line("hf") == "");
  // all but what trains: 0.5 of 79.1 GiB and what is usable beside the process of generation
  const std::string most = line("vllm:tp=1");
  REQUIRE(most.find("0.5, as verl does") != std::string::npos);
  const double share = std::stod(most.substr(most.rfind(' ')));
  const auto fits = [](double util) {
    return answer(ask("grpo", "verl", "fsdp", "2xH100", ("vllm:tp=1,util=" + std::to_string(util)).c_str()))
        .is_predicted_to_fit();
  };
  CHECK(fits(share - 0.02));
  CHECK_FALSE(fits(share + 0.05));
}

TEST_CASE("a step is the sum of its phases; a server that works one step ahead is hidden behind training") {
  const StrategyEstimate e = answer(ask("grpo", "trl", "single", "1xH100", "vllm:server,gpus=1"));
  Seconds sum;
  for (const PhaseFigures& p : e.phases) sum += p.time.step - p.beside;
  CHECK(e.time.step.value == doctest::Approx(sum.value));
  CHECK(e.num_gpus_used == 2);
  const StrategyEstimate ahead = answer(ask("grpo", "trl", "single", "1xH100", "vllm:async,gpus=1"));
  CHECK(ahead.time.step < e.time.step);
  const Seconds hidden = phase(ahead, "generation")->beside;
  CHECK(hidden.value > 0);
  CHECK(hidden <= phase(ahead, "generation")->time.step);
}

TEST_CASE("several steps on one generation share its time") {
  EstimateRequest r = ask("grpo", "trl", "single", "1xH100", "vllm:server,gpus=1");
  r.rollout.iterations = 4;
  const StrategyEstimate once = answer(ask("grpo", "trl", "single", "1xH100", "vllm:server,gpus=1")), four = answer(r);
  CHECK(phase(four, "generation")->time.step.value == doctest::Approx(phase(once, "generation")->time.step.value / 4));
  CHECK(phase(four, "old log-probs")->time.step.value ==
        doctest::Approx(phase(once, "old log-probs")->time.step.value / 4));
  CHECK(four.steps_per_epoch == 4 * once.steps_per_epoch);
}

TEST_CASE("distillation that generates in a share of its steps: its time on average, and the memory of one that does") {
  EstimateRequest r = ask("on-policy-distill", "trl", "single", "1xH100", "hf");
  r.rollout.generations = 1;
  r.teacher = std::make_shared<const ModelSpec>(load_model("qwen2.5-1.5b").spec);
  EstimateRequest half = r;
  half.rollout.share = 0.5;
  const StrategyEstimate always = answer(r), often = answer(half);
  const Seconds whole = phase(always, "generation")->time.step;
  CHECK(phase(often, "generation")->time.step.value == doctest::Approx(whole.value / 2));
  CHECK(phase(often, "generation")->tensors == phase(always, "generation")->tensors);
  CHECK(often.memory == always.memory);
  const double kept = (always.time.step.value - often.time.step.value) / (whole.value / 2);
  CHECK(kept >= 0.999);  // and the trainer's share between phases with it
  CHECK(kept < 1.5);
  CHECK(often.steps_per_epoch == always.steps_per_epoch);
}

TEST_CASE("a batch that the answers to a prompt do not divide is refused as the trainer refuses it") {
  EstimateRequest r = ask("grpo", "trl", "single", "1xH100", "hf");
  r.recipe.micro_batch = 6;
  CHECK_THROWS_WITH_AS(
      answer(r), doctest::Contains("8 answers to a prompt do not divide the 6 that are generated at once"), InputError);
  r.recipe.grad_accum = 4;
  CHECK(answer(r).fit == Fit::Yes);
}

TEST_CASE("generate() under ZeRO-3 gathers all weights on every rank; an adapter merged there for an engine too") {
  const std::int64_t whole = 2 * 494'032'768LL;
  const StrategyEstimate zero3 = answer(ask("grpo", "trl", "zero3", "2xH100", "hf"));
  // cache: 8 rows x 512 tokens x 24 layers x 2 x 2 heads x 64 x 2 bytes; one layer of it is concatenated at a time
  const std::int64_t cache = 8 * 512 * 24LL * 2 * 2 * 64 * 2;
  CHECK(phase(zero3, "generation")->tensors.count > zero3.peak.trained_resident.count + whole + cache);
  EstimateRequest r = ask("grpo", "trl", "zero3", "2xH100", "vllm:util=0.3,sleep=yes");
  r.recipe.method = Method::Lora;
  const StrategyEstimate lora = answer(r);
  r.rollout.engine.syncs_adapter = true;
  const StrategyEstimate adapter_alone = answer(r);
  CHECK(phase(lora, "weight sync")->tensors.count - phase(adapter_alone, "weight sync")->tensors.count == whole);
  CHECK(phase(adapter_alone, "weight sync")->time.step < phase(lora, "weight sync")->time.step);
}

TEST_CASE(
    "generate() reads weights that wait on the host over the host link: once where they are gathered, else a token") {
  const auto with = [](const char* strategy, bool is_on_host, const char* gpus = "1xRTX 3090") {
    EstimateRequest r = ask("grpo", "trl", strategy, gpus, "hf");
    r.recipe.method = Method::Lora;
    if (is_on_host) r.recipe.offload.optimizer = r.recipe.offload.params = OffloadTarget::Cpu;
    return answer(r);
  };
  const double whole = 2 * 494'032'768.0, link = 25e9;  // PCIe 4.0 x16 reaches about 25 GB/s
  const double a_copy = whole / link;                   // 40 ms
  const StrategyEstimate zero3 = with("zero3", true), fsdp = with("fsdp", true), plain = with("single", false);
  const auto time = [](const StrategyEstimate& e) { return phase(e, "generation")->time.step.value; };
  // summon_full_params(recurse=False) gathers no layer: each of 256 tokens copies all of them, 256 x 40 ms
  CHECK(time(fsdp) - time(plain) > 256 * a_copy * 0.8);
  CHECK(time(fsdp) - time(plain) < 256 * a_copy * 1.3);
  CHECK(phase(fsdp, "generation")->bound == "host link");
  // ds3_gather_for_generation: one copy, and all weights beside the cache
  CHECK(time(zero3) - time(plain) > a_copy * 0.8);
  CHECK(time(zero3) - time(plain) < a_copy * 1.3);
  CHECK(double(phase(zero3, "generation")->tensors.count) > whole);
  // at least the embedding, which is the root's, and two layers of 14.9 M parameters
  const std::int64_t root = 2 * 151'936LL * 896, layers = 2 * 2 * 14'912'384LL;
  CHECK(phase(fsdp, "generation")->tensors.count > root + layers);
  CHECK(double(phase(fsdp, "generation")->tensors.count) < double(phase(zero3, "generation")->tensors.count));
  // what stays gathered after a forward without backward is fetched once
  CHECK(time(with("fsdp-grad-op", true)) < time(fsdp) / 2);
  // of two ranks each copies its half and sends it to the other
  CHECK(time(with("fsdp", true, "2xRTX 3090")) > time(with("fsdp", false, "2xRTX 3090")));
}

TEST_CASE("logits of completions alone are made: one position more than the answer, of every row") {
  // fp32 logits that backward needs: 8 rows x 257 positions x 151,936 x 4 bytes
  const StrategyEstimate e = answer(ask("grpo", "trl", "single", "1xH100", "hf"));
  const auto logits = std::ranges::find_if(e.items, [](const DetailedPeak::Item& item) {
    return item.category == Category::Logits && item.bytes.count == 8 * 257 * 151'936LL * 4;
  });
  CHECK(logits != e.items.end());
}

TEST_CASE("on their way to an engine, weights that ranks hold parts of are joined") {
  const auto sync = [](const char* engine, std::int64_t tp, std::int64_t pp) {
    EstimateRequest r = ask("grpo", "verl-megatron", "zero1", "4xH100", engine);
    r.options.tp = tp, r.options.pp = pp;
    r.recipe.checkpointing = Checkpointing::None;
    r.recipe.grad_accum = 4;
    return phase(answer(r), "weight sync")->time.step.value;
  };
  const double whole = sync("vllm:tp=1", 1, 1);
  // a gather per tensor, and its host time: 290 tensors (24 x 12, embedding and norm) of 3 ms
  CHECK(sync("vllm:tp=1", 2, 1) - whole > 290 * 3e-3);
  CHECK(sync("vllm:tp=1", 1, 2) - whole > 290 * 3e-3);
  CHECK(sync("vllm:tp=1", 2, 1) - whole < 2 * 290 * 3e-3);
}

TEST_CASE("log-probs of ranks that share the vocabulary: all tokens, and a part of its columns") {
  const auto logits = [](std::int64_t tp, bool splits) {
    EstimateRequest r = ask("grpo", "verl-megatron", "zero1", "4xH100", "vllm:tp=1");
    r.options.tp = tp, r.options.splits_sequence = splits;
    r.recipe.checkpointing = Checkpointing::Full;
    r.recipe.loss = LossKernel::InPlace;
    return double(answer(r).memory[std::size_t(Category::Logits)].count);
  };
  CHECK(logits(2, false) == doctest::Approx(logits(1, false) / 2).epsilon(0.02));
  CHECK(logits(2, true) == doctest::Approx(logits(1, false) / 2).epsilon(0.02));
}

TEST_CASE("methods that generate are refused where nothing is known of them") {
  CHECK_THROWS_AS(answer(ask("grpo", "hf-trainer", "single", "1xH100", "hf")), InputError);
  for (const RolloutConvention& row : rollout_conventions()) {
    CAPTURE(row.framework);
    CHECK_FALSE(row.source.empty());
    const std::vector<std::string>& methods = find_framework(row.framework).preference.methods;
    CHECK(std::ranges::find(methods, "grpo") != methods.end());
  }
}

TEST_CASE("a share of the card in which the engine finds no room for a sequence: the advice is a larger one") {
  EstimateRequest r = ask("grpo", "trl", "auto", "1xH100", "vllm:util=0.01");
  const EstimateResult small = estimate(r);
  CHECK(small.recommended->strategy.empty());
  CHECK(small.strategies.front().why_not_yes.find("finds no room for one sequence") != std::string::npos);
  const auto& advice = small.recommended->advice;
  CHECK(
      std::ranges::any_of(advice, [](const std::string& text) { return text.find("util=0.02") != std::string::npos; }));
  r.rollout.engine = parse_engine("vllm:util=0.02");
  CHECK(!estimate(r).recommended->strategy.empty());
}

TEST_CASE("a reward model judges beside GRPO where it is asked for, on the GPUs that train") {
  EstimateRequest r = ask("grpo", "verl", "fsdp", "2xH100", "vllm:tp=1");
  CHECK_FALSE(phase(answer(r), "scores of the reward model"));
  r.reward_model = std::make_shared<const ModelSpec>(r.model);
  const StrategyEstimate judged = answer(r);
  REQUIRE(phase(judged, "scores of the reward model"));
  // 494,032,768 parameters, the head of the vocabulary shared, and 896 of a row of numbers: fp32 shards on two GPUs
  CHECK(double(phase(judged, "scores of the reward model")->resident.count) ==
        doctest::Approx(4.0 * (494'032'768 + 896) / 2).epsilon(1e-5));
}

TEST_CASE("online DPO: two answers to each prompt are written, scored and trained on") {
  EstimateRequest r = ask("online-dpo", "trl", "single", "1xH100", "hf");
  r.rollout.generations = 0;
  const Job job(r, make_strategy(r.strategy, r.cluster, r.options));
  CHECK(job_rollout(job).batch.sequences == 2 * 8);
  CHECK(job_rollout(job).batch.generations == 2);
  const StrategyEstimate e = answer(r);
  REQUIRE(phase(e, "log-probs of the reference"));
  CHECK(phase(e, "log-probs of the reference")->resident.count == 4 * 494'032'768LL);  // a copy in fp32
  CHECK_FALSE(phase(e, "scores of the reward model"));
}

TEST_CASE("verl's and NeMo RL's reference waits on the host between its passes") {
  for (const char* framework : {"verl", "nemo-rl"}) {
    EstimateRequest r = ask("grpo", framework, "fsdp", "2xH100", "vllm:tp=1");
    CHECK(usual_reference(r.recipe) == Reference::Host);
    r.recipe.objective.reference = Reference::Copy;
    const StrategyEstimate copy = answer(r);
    r.recipe.objective.reference = Reference::Host;
    const StrategyEstimate host = answer(r);
    CHECK(phase(host, "log-probs of the reference")->resident.count <
          phase(copy, "log-probs of the reference")->resident.count / 2);
    r.recipe.method = Method::Lora;
    CHECK(usual_reference(r.recipe) == Reference::Adapter);
  }
}

TEST_CASE("remax writes one answer to each prompt more, apart from the others, and trains on none of these") {
  const EstimateRequest r = ask("remax", "verl", "fsdp", "2xH100", "vllm:tp=1");
  const StrategyEstimate e = answer(r), grpo = answer(ask("grpo", "verl", "fsdp", "2xH100", "vllm:tp=1"));
  const PhaseFigures* const apart = phase(e, "generation of answers that are only scored");
  const PhaseFigures* const trained = phase(e, "generation by");
  REQUIRE(apart);
  // 8 rows x 2 GPUs are 16 answers to two prompts, so that each of two engines writes 8 and then 1
  CHECK(trained->rows == 8);
  CHECK(apart->rows == 1);
  CHECK(apart->time.step < trained->time.step);
  CHECK(apart->time.step.value > trained->time.step.value / 8);  // a tail of its own
  CHECK_FALSE(phase(grpo, "generation of answers that are only scored"));
  CHECK(phase(e, "pass with gradients")->time.step.value ==
        doctest::Approx(phase(grpo, "pass with gradients")->time.step.value));
}

TEST_CASE("a teacher beside a policy's gradient reads the answers once per generation; a served one is no model here") {
  EstimateRequest r = ask("teacher-reward", "ms-swift", "single", "1xH100", "vllm:util=0.3");
  r.teacher = std::make_shared<const ModelSpec>(load_model("qwen2.5-1.5b").spec);
  r.recipe.objective.reference = Reference::None;
  const StrategyEstimate e = answer(r);
  const PhaseFigures* const teacher = phase(e, "log-probs of the teacher");
  REQUIRE(teacher);
  CHECK(teacher->resident.count >= 2 * 1'543'714'304LL);
  EstimateRequest twice = r;
  twice.rollout.iterations = 2;
  CHECK(phase(answer(twice), "log-probs of the teacher")->time.step.value ==
        doctest::Approx(teacher->time.step.value / 2));
  const StrategyEstimate served = answer(ask("served-distill", "ms-swift", "single", "1xH100", "vllm:util=0.3"));
  CHECK_FALSE(phase(served, "logits of the teacher"));
  CHECK(phase(served, "generation by"));
}

TEST_CASE(
    "verl before 0.4 keeps the entropy of all logits: two gradients beside them, where later releases write one") {
  EstimateRequest r = ask("grpo", "verl", "fsdp", "2xH100", "vllm:tp=1");
  const auto peak = [&](const char* versions) {
    EstimateRequest asked = r;
    asked.recipe.framework = resolve_framework("verl", {.given = parse_stack_versions(versions), .date = {}});
    settle_rows(asked, {.seq_len = true});
    CHECK((asked.recipe.loss == LossKernel::InPlace) == (std::string_view(versions) == "verl=0.7.0"));
    return double(phase(answer(asked), "pass with gradients")->tensors.count);
  };
  // 8 rows of 257 scored positions over 151,936 words: 2 bytes a logit in place, 4 at least with a gradient beside it
  const double logits = 8.0 * 257 * 151'936;
  CHECK(peak("verl=0.3.0") - peak("verl=0.7.0") > 1.9 * logits);
}

}  // namespace rollout_phases
