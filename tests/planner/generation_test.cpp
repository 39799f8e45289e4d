// An engine by itself, by arithmetic: lengths of answers, what its memory holds, and the time of a token.
#include <cmath>

#include <doctest/doctest.h>

#include "base/error.h"
#include "models/catalogue.h"
#include "planner/cost.h"
#include "planner/generation.h"
#include "planner/job.h"

using namespace gpuplan;

namespace generation_by_itself {
namespace {

struct Case {
  ModelSpec model = load_model("qwen2.5-7b").spec;
  ClusterSpec cluster = parse_gpus("1xH100");
  EngineSetup setup{.engine = &*RowOf<GenerationEngine>("vllm"), .utilisation = 0.5};
  GenerationBatch batch{.sequences = 64, .prompt_len = 512, .max_completion = 512};

  Profile profile() const {
    EstimateRequest r;
    r.model = model, r.cluster = cluster;
    return profile_of(r);
  }
  Generation run() const {
    const ModelWeights weights = list_weights(model);
    return generate(model, weights, setup, batch, cluster, profile());
  }
};

}  // namespace

TEST_CASE("TensorRT-LLM's share is of what weights, a forward pass and graphs leave free") {
  Case c;
  const Generation vllm = c.run();
  c.setup.engine = &*RowOf<GenerationEngine>("trtllm");
  const Generation own = c.run();
  const Bytes card = c.cluster.gpus[0].framework_memory;
  const Bytes left = card - own.weights - own.working - own.graphs;
  CHECK(std::llabs(own.cache.count - left.count / 2) <= 1);
  CHECK(own.cache > vllm.cache);
  CHECK(own.awake <= card);
}

TEST_CASE("lengths of answers: the scale gives back the mean, and the cut ones are as long as the longest") {
  const AnswerLengths lengths(400, 1024);
  double sum = 0;
  constexpr int kParts = 100'000;
  for (int i = 0; i < kParts; ++i) sum += lengths.quantile((i + 0.5) / kParts);
  CHECK(sum / kParts == doctest::Approx(400).epsilon(0.001));
  CHECK(lengths.quantile(0.999) == 1024);
  CHECK(lengths.share_longer(1024) == 0);
  CHECK(lengths.longest_of(1) == doctest::Approx(400).epsilon(0.001));
  CHECK(lengths.longest_of(1000) == doctest::Approx(1024).epsilon(0.001));
  // all alike: a mean that is the longest
  CHECK(AnswerLengths(0, 300).quantile(0.1) == 300);
  CHECK(AnswerLengths(0, 300).mean_square() == 90'000);
}

TEST_CASE("what follows waits for every engine: two answers each by 32 take as long as the longest of 64") {
  Case c;
  c.cluster = parse_gpus("32xH100");
  c.batch = {.sequences = 64, .prompt_len = 512, .mean_completion = 1000, .max_completion = 8192};
  c.setup.num_gpus = 32;
  const AnswerLengths lengths(1000, 8192);
  const double longest = std::round(lengths.quantile(63.5 / 64));  // about 4,850 tokens
  CHECK(longest > 4500);
  const Generation many = c.run();
  CHECK(many.sequences == 2);
  // from the second longest answer on one sequence runs, whose token takes about what the last one takes
  CHECK(many.decode.value > 0.8 * longest * many.last_token.value);
  c.setup.num_gpus = 1;
  const Generation one = c.run();  // all 64 by one engine
  CHECK(many.decode.value < one.decode.value);
  CHECK(many.decode.value > 0.5 * one.decode.value);
}

TEST_CASE("an engine takes its share of the card; the cache is what weights and a forward pass leave") {
  const Case c;
  const Generation g = c.run();
  // Qwen2.5-7B: 28 layers, 4 heads of 128 for keys and values, 2 bytes: 28 x 2 x 4 x 128 x 2 = 57,344 bytes a token
  CHECK(g.cache_per_token.count == 57'344);
  CHECK(g.weights.count == 2 * 7'615'616'512);
  // 8,192 tokens x (2 x 3,584 + 3 x 18,944) x 2 bytes; logits of 1,024 rows (an 80 GB card) x 152,064 x (2 + 4 + 4)
  CHECK(g.working.count == 8192LL * (2 * 3584 + 3 * 18944) * 2 + 1024LL * 152064 * 10);
  const Bytes share{std::int64_t(0.5 * double(c.cluster.gpus.front().framework_memory.count))};
  CHECK(g.cache == share - g.weights - g.working);
  CHECK(g.awake == share + g.graphs);  // captured when the cache is there
  CHECK(g.asleep == g.awake);          // it was not asked to sleep
  CHECK(g.refusal.empty());
}

TEST_CASE("an engine whose cache holds no whole sequence does not start, and says why") {
  Case c;
  c.setup.utilisation = 0.2;
  CHECK(c.run().refusal.find("finds no room for one sequence") != std::string::npos);
  c.setup.utilisation = 0.3;
  CHECK(c.run().refusal.empty());
  c.batch.max_completion = 1 << 20;
  CHECK_FALSE(c.run().refusal.empty());
}

TEST_CASE("a token takes the reading of weights and cache, or the arithmetic, and the host") {
  const Case c;
  const Generation g = c.run();
  const CostModel cost = make_cost_model(c.cluster.gpus.front(), c.profile(), {.dtype = Dtype::BF16});
  const double weights = 2 * 7'615'616'512.0 / cost.memory_rate().value;
  const EnginePace& pace = *c.setup.engine->pace("");
  const double host = pace.host_per_token.value + 64 * pace.host_per_sequence.value;
  const auto cache = [&](double tokens) { return 64 * tokens * 57'344 / cost.memory_rate().value; };
  CHECK(g.first_token.value == doctest::Approx(weights + cache(512) + host));
  // all answers are alike: 512 tokens of the average context 512 + 256
  CHECK(g.decode.value == doctest::Approx(512 * (weights + cache(768) + host)));
  CHECK(g.tail.value == 0);
  CHECK(g.tokens_per_second == doctest::Approx(64 * 512 / g.total.value));
  CHECK(g.bound == GenerationBound::Weights);
}

TEST_CASE("the tail does not shrink with more engines: four times the GPUs do not quarter the time") {
  Case c;
  c.batch = {.sequences = 8192, .generations = 16, .prompt_len = 256, .mean_completion = 1000, .max_completion = 8192};
  c.cluster = parse_gpus("8xH100");
  c.setup.num_gpus = 8, c.setup.max_sequences = 256, c.setup.utilisation = 0.8;
  const Generation on_8 = c.run();
  c.setup.num_gpus = 32;
  const Generation on_32 = c.run();
  CHECK(on_32.total.value > 0.3 * on_8.total.value);
  CHECK(on_32.total < on_8.total);
  CHECK(on_32.decode.value > 0.9 * 8192 * on_32.last_token.value * 0.8);  // the longest answer alone
}

TEST_CASE("engines of several GPUs divide weights and heads, and wait for each other in every layer") {
  Case c;
  c.cluster = parse_gpus("4xH100");
  c.setup.num_gpus = 4, c.setup.tp = 4;
  const Generation g = c.run();
  CHECK(g.weights.count == (2 * 7'615'616'512 + 3) / 4);
  CHECK(g.cache_per_token.count == 57'344 / 4);  // one of 4 heads each
  c.setup.tp = 1;
  CHECK(c.run().cache_per_token.count == 57'344);
}

TEST_CASE("generate() of transformers runs one batch until its longest answer ends, beside the trainer's weights") {
  Case c;
  c.setup = {.engine = &*RowOf<GenerationEngine>("hf")};
  c.batch = {.sequences = 8, .prompt_len = 256, .mean_completion = 100, .max_completion = 256};
  const Generation g = c.run();
  CHECK(g.weights.count == 0);
  CHECK(g.cache.count == 8 * 512 * 57'344);
  CHECK(g.bound == GenerationBound::Host);
  CHECK(g.tail.value > 0);
}

TEST_CASE("a mixture of experts reads the experts that its running sequences are sent to") {
  Case c;
  c.model = load_model("qwen3-30b-a3b").spec;
  c.setup.utilisation = 0.9;
  c.batch.sequences = 1;
  const Generation one = c.run();
  c.batch.sequences = 64;
  const Generation many = c.run();
  // one sequence meets 8 of 128 experts, 64 of them nearly all: 1 - (1 - 8 / 128)^64 = 0.984
  CHECK(many.first_token.value > 3 * (one.first_token.value - 0.0024));
}

TEST_CASE("--rollout-engine: words, defaults and what makes no sense") {
  const EngineChoice choice = parse_engine("vllm:colocate,util=0.3,tp=2,sleep=yes,version=0.8.2");
  CHECK((*choice.engine)->name == "vllm");
  CHECK(choice.place == EnginePlace::Colocate);
  CHECK(choice.utilisation == 0.3);
  CHECK(choice.tp == 2);
  CHECK(choice.sleeps == true);
  CHECK(parse_engine(to_text(choice)) == choice);
  CHECK(parse_engine("sglang:async,gpus=8").place == EnginePlace::Server);
  CHECK_THROWS_AS(parse_engine("vlm"), InputError);
  CHECK_THROWS_AS(parse_engine("hf:server"), InputError);
  CHECK_THROWS_AS(parse_engine("vllm:colocate,gpus=4"), InputError);
  CHECK_THROWS_AS(parse_engine("vllm:util=1.5"), InputError);
  CHECK_THROWS_AS(parse_engine("vllm:utl=0.5"), InputError);
  const GenerationEngine& vllm = *RowOf<GenerationEngine>("vllm");
  CHECK(vllm.pace("0.8.5")->host_per_sequence > vllm.pace("0.11")->host_per_sequence);
  CHECK(vllm.pace("") == vllm.pace("1.0"));
  CHECK(RowOf<GenerationEngine>("hf")->pace("") == nullptr);
}

}  // namespace generation_by_itself
