// What is recommended, what is shown beside it, and what would help: questions whose answer follows from arithmetic.
#include "planner/recommend.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/unit_text.h"
#include "models/catalogue.h"
#include "planner/asked.h"
#include "planner/estimate.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// The recommended plan and the better ways beside it.
std::vector<StrategyEstimate> shown_by(const EstimateResult& result) {
  std::vector<StrategyEstimate> plans{row(result, result.recommended->strategy)};
  for (const BetterWay& way : result.recommended->better) plans.push_back(way.plan);
  return plans;
}

double most_tokens_per_second(const std::vector<StrategyEstimate>& plans) {
  double most = 0;
  for (const StrategyEstimate& e : plans) most = std::max(most, e.tokens_per_second);
  return most;
}

/// GPU seconds per token: what is paid for where every GPU has the same price.
double gpu_seconds(const StrategyEstimate& e) { return double(e.num_gpus_used) / e.tokens_per_second; }

bool has_line(const std::vector<std::string>& lines, const std::string& begin, const std::string& inside = "") {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.starts_with(begin) && line.find(inside) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("a pipeline whose GPUs take turns does not hide that all of them could work") {
  // 70B in NF4 is 36 GB: with every activation kept only the layers spread over the GPUs fit, one of four works at a
  // time. With checkpointing a shard of 9 GB fits, all four work, on 4/3 of the FLOPs: at most 3 times as fast, half of
  // it after communication.
  EstimateRequest r = asked("llama-3.1-70b", "4xA6000", Method::Qlora, 16);
  const EstimateResult result = estimate(r);
  REQUIRE(row(result, "mp").fits());
  CHECK(most_tokens_per_second(shown_by(result)) >= 1.5 * row(result, "mp").tokens_per_second);
  // the same of 32B in 16 bit, 65 GB
  const EstimateResult lora = estimate(asked("qwen2.5-32b", "4xA6000", Method::Lora, 16));
  REQUIRE(lora.recommended->strategy == "mp");
  CHECK(most_tokens_per_second(shown_by(lora)) >= 1.5 * row(lora, "mp").tokens_per_second);
  REQUIRE_FALSE(lora.recommended->better.empty());
  CHECK(has_line(lora.recommended->better.front().flags, "--checkpointing full"));
}

TEST_CASE("on mixed cards the cheapest way is one card with checkpointing, not four that take turns") {
  // mp pays for four GPUs while one works; one GPU that computes every forward twice pays for 4/3 of the work: a third
  EstimateRequest r = asked("qwen2.5-7b", "2x4090,2x3090", Method::Lora, 16);
  r.preference = Preference::Cost;
  const EstimateResult result = estimate(r);
  const StrategyEstimate& mp = row(result, "mp");
  REQUIRE(mp.fits());
  double least = gpu_seconds(mp);
  for (const StrategyEstimate& e : shown_by(result)) least = std::min(least, gpu_seconds(e));
  CHECK(least <= gpu_seconds(mp) / 2);
}

TEST_CASE("a 4-bit base of 8B with checkpointing has a copy on each card of 24 GB") {
  // NF4 with fp32 ends 7.3 GiB, fp32 logits of 2,048 tokens and what their loss makes of them below 5 GiB
  EstimateRequest r = asked("llama-3.1-8b", "2x4090", Method::Qlora, 16);
  r.recipe.checkpointing = Checkpointing::Full;
  const EstimateResult result = estimate(r);
  CHECK(row(result, "ddp").fit == Fit::Yes);
  CHECK_FALSE(row(result, result.recommended->strategy).strategy.layout.shards_weights);
  CHECK(row(result, result.recommended->strategy).num_gpus_used == 2);
}

TEST_CASE("of plans that cost the same the quickest is recommended, and what else costs the same is said") {
  // 8B in 16 bit fits on 48 GB: replicas that exchange adapters alone cost what one GPU costs, in a quarter of the time
  EstimateRequest r = asked("llama-3-8b", "4xA6000", Method::Lora, 8);
  r.preference = Preference::Cost;
  const EstimateResult result = estimate(r);
  const StrategyEstimate &chosen = row(result, result.recommended->strategy), &single = row(result, "single");
  CHECK(chosen.num_gpus_used == 4);
  CHECK(gpu_seconds(chosen) <= (1 + result.profile.time_error) * gpu_seconds(single));
  CHECK(chosen.tokens_per_second >= 3 * single.tokens_per_second);
  CHECK(result.recommended->reason.find("single costs the same within the error, but takes") != std::string::npos);
}

TEST_CASE("what fits in another precision or from the host is suggested before more GPUs") {
  // 70B in NF4, 36 GB with its ends on two cards of 24 GB: the frozen base on the host leaves two layers on a card
  const std::vector<std::string> frozen = [] {
    EstimateRequest r = asked("llama-3.1-70b", "2x3090", Method::Qlora, 16);
    r.recipe.checkpointing = Checkpointing::Full;
    return estimate(r).recommended->advice;
  }();
  CHECK(has_line(frozen, "--offload params", "fits"));
  // 6.74 B x 16 bytes are 50 GiB for each of two GPUs of 40 GB; in bf16 8 bytes, 25 GiB
  const std::vector<std::string> full =
      estimate(asked("llama-2-7b", "2xa100-40gb", Method::Full, 16)).recommended->advice;
  CHECK(has_line(full, "--precision bf16-true", "fits"));
  for (const auto& advice : {frozen, full}) CHECK_FALSE(has_line(advice, "--num-gpus"));
}

TEST_CASE("a plan that fits tightly and is much faster is named beside one that fits well") {
  // 72B in NF4 over four cards of 24 GB: as shards all four work, one after the other they share the work of one
  EstimateRequest r = asked("qwen2.5-72b", "4x4090", Method::Qlora, 16);
  r.recipe.checkpointing = Checkpointing::Full;
  const EstimateResult result = estimate(r);
  REQUIRE(result.recommended->strategy == "mp");
  REQUIRE(row(result, "zero3").fit == Fit::Tight);
  const double gain = row(result, "zero3").tokens_per_second / row(result, "mp").tokens_per_second;
  CHECK(gain > 2);
  CHECK(result.recommended->reason.find(fmt::format("zero3 fits tightly and would be {:.1f} times as fast", gain)) !=
        std::string::npos);
  r.preference = Preference::Memory;
  CHECK(estimate(r).recommended->reason.find("tightly") == std::string::npos);
}

TEST_CASE("FSDP on one GPU is refused with offload as the way out, and that way fits") {
  EstimateRequest r = asked("llama-3-8b", "1xA6000", Method::Full, 16);
  r.strategy = "fsdp";
  const EstimateResult refused = estimate(r);
  CHECK(row(refused, "fsdp").not_applicable == "needs at least 2 GPUs, or --offload on one");
  CHECK(has_line(refused.recommended->advice, "--offload optimizer,params", "fsdp fits"));
  r.recipe.offload.optimizer = r.recipe.offload.params = OffloadTarget::Cpu;
  CHECK(row(estimate(r), "fsdp").fits());
}

TEST_CASE("a reason and the table have one verdict: what one GPU needs is its row, and more than it has") {
  const std::string begin = "one GPU does not hold it (";
  int num_sharded = 0;
  for (const Method method : {Method::Full, Method::Lora, Method::Qlora})
    for (const char* model : {"llama-3.2-3b", "llama-3.1-8b", "qwen2.5-32b", "llama-3.1-70b"})
      for (const char* gpus : {"4x4090", "4xA6000", "8xH100"})
        for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full}) {
          EstimateRequest r = asked(model, gpus, method, 16);
          r.recipe.checkpointing = checkpointing;
          CAPTURE(model);
          CAPTURE(gpus);
          const EstimateResult result = estimate(r);
          const Recommendation& recommended = *result.recommended;
          const StrategyEstimate& single = row(result, "single");
          const auto at = recommended.reason.find(begin);
          CHECK((at == std::string::npos || !single.fits()));
          if (at != std::string::npos) {
            ++num_sharded;
            CHECK(recommended.reason.find(format_bytes(single.tiers.process), at) == at + begin.size());
            CHECK(single.tiers.process > single.tiers.usable);
          }
          if (recommended.reason.find("fit on one GPU") != std::string::npos) CHECK(single.fits());
          if (recommended.strategy.empty())
            for (const StrategyEstimate& e : result.strategies) CHECK((!e.not_applicable.empty() || !e.fits()));
        }
  CHECK(num_sharded >= 3);
}

TEST_CASE("what trains something else is suggested behind what trains the same") {
  const auto trains_otherwise = [](const std::string& line) {
    return line.starts_with("--lora") || line.starts_with("--qlora") || line.starts_with("--seq-len") ||
           line.starts_with("--precision");
  };
  int num_both = 0;
  for (const Method method : {Method::Full, Method::Lora, Method::Qlora})
    for (const char* strategy : {"auto", "ddp", "fsdp"}) {
      EstimateRequest r = asked("llama-3-8b", "4x3090", method, 16);
      r.strategy = strategy;
      r.recipe.seq_len = 8192;
      r.recipe.micro_batch = 8;
      CAPTURE(strategy);
      const EstimateResult result = estimate(r);
      if (!result.recommended->strategy.empty()) continue;
      std::vector<std::string> lines = result.recommended->advice;
      std::erase_if(lines, [](const std::string& line) { return line.starts_with("--num-gpus"); });
      CHECK(std::ranges::is_sorted(lines, {}, trains_otherwise));
      num_both += !lines.empty() && trains_otherwise(lines.front()) != trains_otherwise(lines.back()) ? 1 : 0;
    }
  CHECK(num_both > 0);
}

TEST_CASE("a smaller micro batch is suggested with the batch of an evaluation that would keep the larger one") {
  EstimateRequest r = asked("qwen2.5-7b", "2x3090", Method::Qlora, 16);
  r.strategy = "ddp";
  r.recipe.checkpointing = Checkpointing::Full;
  r.recipe.seq_len = 4096;
  r.recipe.micro_batch = r.eval_batch = 16;
  const std::vector<std::string> advice = estimate(r).recommended->advice;
  CHECK_MESSAGE(has_line(advice, "--micro-batch 1 + --eval-batch 1", "together, then ddp fits"),
                fmt::format("{}", fmt::join(advice, "\n")));
}

TEST_CASE("FSDP over one GPU is neither chosen nor shown, unless it is asked for; ZeRO is where it offloads") {
  const auto strategies = [](const EstimateRequest& r) {
    std::string names;
    const EstimateResult result = estimate(r);
    for (const StrategyEstimate& e : result.strategies)
      if (e.not_applicable.empty()) names += (names.empty() ? "" : " ") + e.strategy.name;
    return names;
  };
  EstimateRequest r = asked("llama-3.1-8b", "1x4090", Method::Full);
  CHECK(strategies(r) == "single");
  r.recipe.offload.optimizer = OffloadTarget::Cpu;
  CHECK(strategies(r) == "zero1 zero2 zero3");
  r.recipe.offload.params = OffloadTarget::Cpu;
  CHECK(strategies(r) == "zero3");
  r.strategy = "fsdp";
  CHECK(strategies(r) == "fsdp");
  for (const char* gpu : {"1x3090", "1x4090", "1xH100"})
    for (const Method method : {Method::Full, Method::Lora, Method::Qlora})
      for (const char* model : {"llama-3.1-8b", "qwen2.5-32b", "llama-3.1-70b"}) {
        const EstimateResult result = estimate(freely(asked(model, gpu, method)));
        CAPTURE(gpu);
        CAPTURE(model);
        if (result.recommended) CHECK_FALSE(result.recommended->strategy.starts_with("fsdp"));
      }
}
