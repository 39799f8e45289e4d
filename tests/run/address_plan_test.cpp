#include "run/address_plan.h"

#include <random>

#include <doctest/doctest.h>

#include "run/native_fixture.h"
#include "run/step_trace.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// The first two lifetimes that meet in time and in memory, in words; empty when none do.
std::string overlap_in(const std::vector<Lifetime>& lives, const AddressPlan& plan) {
  for (std::size_t i = 0; i < lives.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      const bool meet = lives[i].begin < lives[k].end && lives[k].begin < lives[i].end;
      const std::int64_t a = plan.offsets[i].count, b = plan.offsets[k].count;
      if (meet && a < b + lives[k].bytes.count && b < a + lives[i].bytes.count)
        return std::to_string(k) + " and " + std::to_string(i);
    }
  return {};
}

std::vector<Lifetime> random_lives(std::uint32_t seed) {
  std::mt19937 draw(seed);
  const auto up_to = [&](std::uint32_t n) { return std::uint32_t(draw() % n); };
  std::vector<Lifetime> lives(1 + up_to(60));
  for (Lifetime& life : lives) {
    life.begin = up_to(200);
    life.end = life.begin + 1 + up_to(up_to(2) ? 10 : 150);
    life.bytes = Bytes{std::int64_t(up_to(4) ? 1 + up_to(5000) : 1 + up_to(20))};
  }
  return lives;
}

/// The highest sum at any instant, asked of every instant.
std::int64_t naive_peak(const std::vector<Lifetime>& lives) {
  std::int64_t peak = 0;
  for (std::uint32_t t = 0; t < 400; ++t) {
    std::int64_t live = 0;
    for (const Lifetime& life : lives)
      if (life.begin <= t && t < life.end) live += life.bytes.count;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace

TEST_CASE(
    "address plan: what lives at the same time never overlaps, aligned, inside the arena, and the peak is the naive "
    "one") {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const auto lives = random_lives(seed);
    const AddressPlan plan = plan_addresses(lives);
    CHECK(overlap_in(lives, plan) == "");
    CHECK(peak_of(lives).count == naive_peak(lives));
    CHECK(plan.size >= peak_of(lives));
    for (std::size_t i = 0; i < lives.size(); ++i) {
      CHECK(plan.offsets[i].count % kArenaAlignment == 0);
      CHECK(plan.offsets[i] + lives[i].bytes <= plan.size);
    }
  }
}

TEST_CASE("address plan: lifetimes that follow each other share their place, and nothing needs no arena") {
  CHECK(plan_addresses({}).size == Bytes{});
  const AddressPlan plan = plan_addresses({{{640}, 0, 5}, {{640}, 5, 9}, {{640}, 9, 10}});
  CHECK(plan.size == Bytes{640});
}

TEST_CASE("address plan: the arena of every strategy and method is within 3 % of what lives at once") {
  for (NativeCase c : every_case()) {
    if (c.ranks == 4 && c.strategy != "mp") continue;  // their steps are those of two ranks
    c.model = tiny_llama(4);
    c.model.hidden_size = 192, c.model.head_dim = 48, c.model.intermediate_size = 500, c.model.vocab_size = 1000;
    c.seq_len = 96;
    for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full}) {
      c.checkpointing = checkpointing;
      CAPTURE(c.name());
      const NativeJob job(request_of(c), strategy_of(c));
      for (const RankClass& k : job.program().classes) {
        const auto lives = trace_step(job.program(), job.program().programs[k.program]).lifetimes;
        const AddressPlan plan = plan_addresses(lives);
        CHECK(overlap_in(lives, plan) == "");
        CHECK(double(plan.size.count) <= 1.03 * double(peak_of(lives).count));
      }
    }
  }
}
