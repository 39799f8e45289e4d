// The search against an estimate of every plan by itself, and against itself on other numbers of threads.
#include "search/search.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "planner/rollout_phases.h"
#include "search/brute_force.h"
#include "search/engine_division.h"
#include "search/frontier.h"
#include "search/on_cores.h"
#include "search/questions.h"

using namespace gpuplan;
using test::compare_with_brute_force;

TEST_CASE("the search finds the plans that estimates of every plan by itself find, with their figures") {
  // one and several GPUs, cards that hold the model easily, barely and not at all; pipelines are cut by memory
  CHECK(compare_with_brute_force(test::question("llama-3.2-1b", {"1x4090", "2x4090", "1xt4", "2xA100"})) > 0);
  CHECK(compare_with_brute_force(test::question("llama-3.1-8b", {"1x4090", "1xA100", "2x3090", "2xA6000"})) > 0);
}

TEST_CASE("the same of full training, whose optimizer and precision are searched too") {
  SearchQuestion q = test::question("llama-3.2-1b", {"1x4090", "2x4090"});
  q.methods = {Method::Full, Method::Qlora};
  q.pinned.insert("loss");
  q.global_batch = 4;
  CHECK(compare_with_brute_force(q) > 0);
}

TEST_CASE("the same of rows of other lengths, where an average step is timed beside the one that must fit") {
  SearchQuestion q = test::question("llama-3.2-1b", {"1x4090", "2x3090"}, {"attention", "compile", "loss", "offload"});
  q.base.dataset.tokens_per_row = 500;
  compare_with_brute_force(q);
}

TEST_CASE("the same within limits and on machines of several GPUs and nodes") {
  SearchQuestion q = test::question("llama-3.2-1b", {"16xH100", "8xH100", "4xA6000"},
                                    {"packing", "attention", "compile", "offload", "loss"});
  q.is_rented = true;
  for (Hardware& machine : q.machines) machine.offers.front().usd_per_gpu_hour = 2;
  q.under = Seconds{600};
  q.budget = 1.5;
  compare_with_brute_force(q);
}

TEST_CASE("the same of a trainer that shares layers and lays stages, several machines of one size among them") {
  SearchQuestion q = test::question("llama-3.2-1b", {"4xH100", "4xA6000", "2x3090"},
                                    {"packing", "attention", "compile", "offload", "loss", "checkpointing"});
  q.base.recipe.framework = std::string("megatron");
  const Space space(q);
  CHECK(std::ranges::any_of(space.strategies,
                            [](const auto& s) { return s.tp > 1 && s.pp > 1 && s.virtual_stages > 1; }));
  q.global_batch = 48;
  compare_with_brute_force(q, 1e-9);  // picoseconds, as often as a round is skipped
  const Ranking found = search(space).ranking;
  const auto stages_of = [&](const RankedPlan& plan) { return space.strategies[plan.strategy].pp; };
  CHECK(std::ranges::any_of(found.plans, [&](const RankedPlan& plan) { return stages_of(plan) == 4; }));
}

TEST_CASE("the same of experts that ranks share, beside shared layers and stages") {
  SearchQuestion q = test::question("phi-tiny-moe", {"4xA6000"},
                                    {"packing", "attention", "compile", "offload", "loss", "checkpointing"});
  q.base.recipe.framework = std::string("megatron");
  const Space space(q);
  const auto has = [&](auto which) { return std::ranges::any_of(space.strategies, which); };
  CHECK(has([](const auto& s) { return s.ep == 4 && s.tp == 1 && s.pp == 1; }));
  CHECK(has([](const auto& s) { return s.ep > 1 && s.tp > 1; }));
  CHECK(has([](const auto& s) { return s.ep > 1 && s.pp > 1; }));
  CHECK(!has([](const auto& s) { return s.ep == 1 && s.tp > 1; }));
  compare_with_brute_force(q, 1e-9);
  const Ranking found = search(space).ranking;
  CHECK(
      std::ranges::any_of(found.plans, [&](const RankedPlan& plan) { return space.strategies[plan.strategy].ep > 1; }));
}

TEST_CASE("the same of experts that are cut too, where the trainer has that and whole ones are not as good") {
  SearchQuestion q =
      test::question("phi-tiny-moe", {"4xA6000"},
                     {"packing", "attention", "compile", "offload", "loss", "checkpointing", "optimizer", "precision"});
  q.base.recipe.method = Method::Full;
  q.methods = {Method::Full};
  q.base.recipe.framework = std::string("megatron");
  const auto has = [&](auto which) { return std::ranges::any_of(Space(q).strategies, which); };
  const auto is_cut = [](const auto& s) { return s.etp > 1; };
  CHECK(!has(is_cut));  // 16 experts, evenly loaded: ep 4 holds as much as ep 2 x etp 2, and exchanges less
  q.base.recipe.routing.imbalance = 1.5;  // of those that share the experts, not of those that share each
  CHECK(has([](const auto& s) { return s.tp == 2 && s.ep == 2 && s.etp == 2 && s.pp == 1; }));
  CHECK(has([](const auto& s) { return s.tp == 4 && s.ep == 2 && s.etp == 1; }));
  CHECK(!has([](const auto& s) { return s.etp > s.tp || s.ep * s.etp > 4; }));
  CHECK(!has([](const auto& s) { return s.tp > 1 && s.ep * s.etp == 1; }));  // whole experts beside tp are not planned
  compare_with_brute_force(q, 1e-9);
  q.base.recipe.routing.imbalance = 1;
  q.pinned.insert("ep");
  CHECK(has([](const auto& s) { return s.tp == 2 && s.ep == 1 && s.etp == 2 && s.pp == 1; }));
  CHECK(has([](const auto& s) { return s.etp == 2 && s.pp == 2; }));
  compare_with_brute_force(q, 1e-9);
  const Space space(q);
  const Ranking found = search(space).ranking;
  CHECK(std::ranges::any_of(found.plans,
                            [&](const RankedPlan& plan) { return is_cut(space.strategies[plan.strategy]); }));
  q.base.recipe.framework = std::string("megatron-swift");
  CHECK(has(is_cut));
  q.base.recipe.framework = std::string("trl");
  CHECK(!has(is_cut));
  q.base.recipe.framework = std::string("megatron");
  q.pinned.erase("ep");
  q.base.options.etp = 2;
  CHECK(has([](const auto& s) { return s.ep == 2; }));
  CHECK(!has([](const auto& s) { return s.etp != 2; }));
}

namespace {

/// GRPO with short answers and an engine on GPUs of its own, which generates while the others train.
SearchQuestion grpo_question(const std::string& model, const std::vector<std::string>& machines,
                             const std::string& engine) {
  SearchQuestion q =
      test::question(model, machines, {"packing", "attention", "compile", "offload", "loss", "checkpointing"});
  q.base.recipe.objective.method = "grpo";
  q.base.recipe.framework = std::string("trl");
  q.base.rollout.engine = parse_engine(engine);
  q.base.rollout.generations = 8;
  q.base.rollout.mean_completion = 64, q.base.rollout.max_completion = 128;
  settle_rows(q.base, {});
  q.global_batch = 168;
  q.machines = divided(q);
  return q;
}

}  // namespace

TEST_CASE("the same of machines that are divided between training and an engine, kinds of one size among them") {
  compare_with_brute_force(grpo_question("qwen2.5-0.5b", {"4xH100", "4xA6000"}, "vllm:server,async"));
  compare_with_brute_force(grpo_question("qwen2.5-0.5b", {"2xH100", "2xA6000"}, "vllm:colocate,util=0.3"));
}

TEST_CASE("GPUs are divided between training and an engine as is fastest, and the command says how") {
  const SearchQuestion open = grpo_question("qwen2.5-7b", {"8xH100"}, "vllm:server,async");
  std::vector<std::int64_t> own;
  for (const Hardware& machine : open.machines) {
    own.push_back(machine.engine_gpus);
    CHECK(machine.num_gpus() == 8);
    const std::string flag =
        machine.engine_gpus == 4
            ? "--rollout-engine vllm:server,async --gpus 8xH100"
            : "--rollout-engine vllm:server,gpus=" + std::to_string(machine.engine_gpus) + ",async --gpus 8xH100";
    CHECK(machine.flags == flag);
  }
  CHECK(own == std::vector<std::int64_t>{4, 2, 6, 1});
  const auto fastest = [](const SearchQuestion& q) {
    const Space space(q);
    Seconds least{1e9};
    for (const RankedPlan& plan : search(space).ranking.plans) least = std::min(least, plan.total);
    return least;
  };
  Seconds of_one{1e9};
  for (const std::int64_t gpus : own) {
    const SearchQuestion one =
        grpo_question("qwen2.5-7b", {"8xH100"}, "vllm:server,async,gpus=" + std::to_string(gpus));
    REQUIRE(one.machines.size() == 1);
    CHECK(one.machines.front().flags == "--gpus 8xH100");  // the question says it
    of_one = std::min(of_one, fastest(one));
  }
  CHECK(fastest(open) == of_one);
  const double half = of_one / fastest(grpo_question("qwen2.5-7b", {"8xH100"}, "vllm:server,async,gpus=4"));
  CHECK(half < 0.7);  // of the time: seven train, one answers
  // engines of two GPUs: none of one or of three
  std::vector<std::int64_t> pairs;
  for (const Hardware& machine : grpo_question("qwen2.5-7b", {"8xH100", "2xH100"}, "vllm:server,async,tp=2").machines)
    pairs.push_back(machine.engine_gpus);
  CHECK(pairs == std::vector<std::int64_t>{4, 2, 6});
}

TEST_CASE("beside a given cp the ranks that share experts are searched: those of whole sequences") {
  SearchQuestion q = test::question("phi-tiny-moe", {"4xA6000"});
  q.base.recipe.framework = std::string("megatron");
  q.base.options.cp = 2;
  q.pinned.insert("cp");
  const std::vector<SearchedStrategy> strategies = Space(q).strategies;
  const auto with = [&](std::int64_t ep) {
    return std::ranges::any_of(strategies, [&](const auto& s) { return s.cp == 2 && s.ep == ep; });
  };
  CHECK(with(1));
  CHECK(with(2));
  CHECK(with(4));
}

TEST_CASE("degrees that are given stay, also where they are 1") {
  SearchQuestion q = test::question("phi-tiny-moe", {"4xA6000"});
  q.base.recipe.framework = std::string("megatron");
  const auto all = [&](auto which) { return std::ranges::all_of(Space(q).strategies, which); };
  CHECK(!all([](const auto& s) { return s.ep == 1; }));
  q.pinned.insert("ep");
  CHECK(all([](const auto& s) { return s.ep == 1; }));
  q.pinned.insert("pp");
  CHECK(all([](const auto& s) { return s.ep == 1 && s.pp == 1; }));
  q.pinned.erase("ep");
  q.pinned.insert("tp");
  CHECK(all([](const auto& s) { return s.tp == 1 && s.pp == 1; }));
}

TEST_CASE("a dearer offer of the same machine is never chosen, and brute force agrees that none is better") {
  SearchQuestion q = test::question("llama-3.2-1b", {"2x4090"}, {"packing", "attention", "compile", "offload", "loss"});
  Offer dear = q.machines[0].offers[0], cheap = dear;
  cheap.usd_per_gpu_hour = 0.3, dear.usd_per_gpu_hour = 0.5;
  q.machines[0].offers = {cheap, dear};
  const Space space(q);
  const Ranking found = search(space).ranking, all = search_by_brute_force(space);
  CHECK(all.plans.size() == 2 * found.plans.size());
  const auto cheapest = [](const Ranking& r) {
    return std::min_element(r.plans.begin(), r.plans.end(), [](auto& a, auto& b) { return a.cost < b.cost; })->cost;
  };
  CHECK(cheapest(found) == doctest::Approx(cheapest(all)).epsilon(1e-12));
}

TEST_CASE(
    "what would need a large host says so where the host is unknown, is not rented so, and is found where it is "
    "known") {
  // 16 bytes for each of 13 billion parameters: 194 GiB, and an eighth of a server usually has 128
  SearchQuestion q = test::question("llama-2-13b", {"1xV100-32GB"}, {"packing", "attention", "compile", "loss"});
  q.methods = {Method::Full};
  q.base.recipe.precision = Precision::Fp16Mixed;
  q.base.recipe.framework = "hf-deepspeed";
  const Ranking unknown = search(Space(q)).ranking;
  CHECK(std::ranges::all_of(unknown.plans, [](const RankedPlan& plan) { return plan.fit == Fit::IfHost; }));
  q.is_rented = true;
  const Ranking rented = search(Space(q)).ranking;
  CHECK(rented.plans.empty());
  CHECK(rented.rejected.at(std::string(kTooMuchOnHost)) > 0);
  q.is_rented = false;
  q.machines.front().cluster.host_memory = Bytes{std::int64_t{512} << 30};
  const Ranking known = search(Space(q)).ranking;
  CHECK_FALSE(known.plans.empty());
  CHECK(known.rejected.count(std::string(kTooMuchOnHost)) == 0);
}

TEST_CASE("the answer does not depend on the number of threads") {
  const SearchQuestion q = test::question("llama-3.1-8b", {"1xA100", "4xA6000", "2x4090"});
  const Space space(q);
  const Found one = search(space, {.num_threads = 1, .stop = nullptr, .progress = {}});
  for (const unsigned threads : {2u, 3u, 8u}) {
    const Found many = search(space, {.num_threads = threads, .stop = nullptr, .progress = {}});
    CHECK(many.ranking.plans == one.ranking.plans);
    CHECK(many.ranking.rejected == one.ranking.rejected);
    CHECK(many.ranking.num_plans == one.ranking.num_plans);
    CHECK(many.ranking.num_built == one.ranking.num_built);
  }
}

TEST_CASE("a search that is stopped gives what it has") {
  const SearchQuestion q = test::question("llama-3.1-8b", {"1xA100", "4xA6000", "2x4090"});
  const Space space(q);
  std::atomic<bool> stop{false};
  const Found all = search(space, {.num_threads = 1, .stop = nullptr, .progress = {}});
  const Found some = search(space, {.num_threads = 1, .stop = &stop, .progress = [&](double) { stop = true; }});
  CHECK(all.is_complete);
  CHECK_FALSE(some.is_complete);
  CHECK(some.ranking.num_plans > 0);
  CHECK(some.ranking.num_plans < all.ranking.num_plans);
}

TEST_CASE("wider limits never give a worse answer") {
  SearchQuestion q = test::question("llama-3.1-8b", {"1xA100", "2xA100", "4xA100", "1xA6000", "4xA6000", "8xH100"},
                                    {"packing", "attention", "compile", "offload"});
  q.is_rented = true;
  for (const Preference preference : {Preference::Speed, Preference::Cost}) {
    q.preference = preference;
    double last = 1e300;
    bool had_plan = false;
    for (const double budget : {0.5, 1.0, 2.0, 4.0, 8.0, 100.0}) {
      q.budget = budget;
      const Space space(q);
      double best = 1e300;
      for (const RankedPlan& plan : search(space).ranking.plans)
        best = std::min(best, preference == Preference::Speed ? plan.total.value : plan.cost);
      CAPTURE(budget);
      CHECK(best <= last);
      CHECK((!had_plan || best < 1e300));
      had_plan = best < 1e300;
      last = best;
    }
    CHECK(had_plan);
  }
}

TEST_CASE("batches add up to the global batch, and what is pinned stays") {
  SearchQuestion q = test::question("llama-3.2-1b", {"1x4090"});
  q.global_batch = 24;
  const Space space(q);
  for (const std::int64_t ranks : {1, 2, 3, 8}) {
    CHECK_FALSE(space.batches(ranks, {}).empty());
    for (const Batch b : space.batches(ranks, {})) CHECK(b.micro * b.accum * ranks == 24);
  }
  CHECK(space.batches(5, {}).empty());  // 24 is no multiple of 5
  q.pinned.insert("micro-batch");
  q.base.recipe.micro_batch = 3;
  const std::vector<Batch> pinned = Space(q).batches(2, {});
  REQUIRE(pinned.size() == 1);
  CHECK(pinned[0].micro == 3);
  CHECK(pinned[0].accum == 4);
}

TEST_CASE("what one thread throws arrives when all have ended") {
  std::atomic<int> ended{0};
  bool has_failed = false;
  const auto work = [&](std::size_t thread) {
    ++ended;
    if (thread == 1) throw std::runtime_error("one");
  };
  CHECK_THROWS_WITH(on_cores(3, work, [&] { has_failed = true; }), "one");
  CHECK(ended == 3);
  CHECK(has_failed);
  CHECK(num_threads_for(8, 3) == 3);
  CHECK(num_threads_for(0, 0) == 1);
}
