#include "search/row_fit.h"

#include <cmath>

#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "planner/estimate.h"
#include "search/questions.h"

namespace gpuplan {
namespace {

EstimateRequest question(std::int64_t seq_len, std::int64_t micro_batch) {
  EstimateRequest r;
  r.model = load_model("qwen2.5-0.5b").spec;
  r.cluster = parse_gpus("A6000");
  r.recipe.seq_len = seq_len;
  r.recipe.micro_batch = micro_batch;
  return r;
}

RowFit fitted(const Lengths& lengths, EstimateRequest r) {
  r.dataset.rows = lengths.num_rows;
  r.dataset.tokens_per_row = std::llround(lengths.mean);
  const EstimateResult result = estimate(r);
  return fit_rows(lengths, r, result.profile, result.strategies.front());
}

const FilledRows& way(const RowFit& rows, Packing packing) {
  for (const FilledRows& one : rows.ways)
    if (one.packing == packing) return one;
  throw std::logic_error("no such way");
}

}  // namespace

TEST_CASE("bins end at powers of two and hold every row once, empty ones between them too") {
  const auto bins = histogram_of(make_lengths({{3, 2}, {4, 1}, {5, 1}, {33, 7}}));
  REQUIRE(bins.size() == 5);  // 3-4, 5-8, 9-16, 17-32, 33-64
  CHECK(bins[0].from == 3);
  CHECK(bins[0].num_rows == 3);
  CHECK(bins[1].num_rows == 1);
  CHECK(bins[2].num_rows == 0);
  CHECK(bins[4].to == 64);
  CHECK(bins[4].num_rows == 7);
  CHECK(histogram_of(make_lengths({{1, 5}})).front().from == 1);
}

TEST_CASE("padding is what is computed and is no token of the data") {
  // 100 rows of 256 and 100 of 768 tokens in sequences of 1024, four to a micro batch
  const RowFit rows = fitted(make_lengths({{256, 100}, {768, 100}}), question(1024, 4));
  CHECK(way(rows, Packing::Padded).padding == doctest::Approx(0.5));  // 512 of 1024
  // the longest of four is 256 with (1/2)^4: 256/16 + 768 * 15/16 = 736, and 1 - 512/736 = 0.304
  CHECK(way(rows, Packing::Dynamic).padding == doctest::Approx(1 - 512.0 / 736));
  CHECK(way(rows, Packing::Packed).padding == doctest::Approx(0));  // 102,400 tokens fill 100 sequences
  CHECK(way(rows, Packing::Packed).tokens_per_second > 1.5 * way(rows, Packing::Padded).tokens_per_second);
  CHECK(rows.num_cut == 0);
  CHECK_FALSE(rows.uncut);
}

TEST_CASE("packed and padded rows of full length are trained alike") {
  const EstimateRequest r = question(512, 2);
  const RowFit rows = fitted(make_lengths({{512, 64}}), r);
  const StrategyEstimate direct = estimate(r).strategies.front();
  for (const FilledRows& one : rows.ways) {
    CHECK(one.padding == 0);
    CHECK(one.tokens_per_second == doctest::Approx(direct.tokens_per_second));
    CHECK(one.process == direct.tiers.process);
    CHECK(one.epoch.value == doctest::Approx(32 * direct.time.step.value));  // 64 rows, two a step
  }
}

TEST_CASE("the way that is asked for has the figures of the answer beside it, for the longest row and no longer ones") {
  const Lengths lengths = make_lengths({{100, 60}, {700, 4}});
  EstimateRequest r = question(4096, 2);
  r.recipe.packing = Packing::Dynamic;
  EstimateRequest bounded = r;
  bounded.recipe.seq_len = 700;
  bounded.dataset = {.rows = 64, .tokens_per_row = 138, .epochs = 1};
  const EstimateResult result = estimate(bounded);
  const StrategyEstimate& shown = result.strategies.front();
  r.dataset = bounded.dataset;
  const RowFit rows = fit_rows(lengths, r, result.profile, shown);
  const FilledRows& dynamic = way(rows, Packing::Dynamic);
  CHECK(dynamic.process == shown.tiers.process);
  CHECK(dynamic.fit == shown.fit);
  CHECK(dynamic.tokens_per_second == shown.tokens_per_second);
  CHECK(dynamic.epoch == *shown.epoch);
  CHECK(way(rows, Packing::Padded).process > dynamic.process);  // 4,096 tokens
}

TEST_CASE("rows that are longer than a sequence lose tokens unless they are packed, and their peak is shown") {
  const RowFit rows = fitted(make_lengths({{100, 3}, {4000, 1}}), question(1000, 1));
  CHECK(rows.num_cut == 1);
  CHECK(rows.share_lost == doctest::Approx(3000.0 / 4300));
  REQUIRE(rows.uncut);
  CHECK(rows.uncut->process > way(rows, Packing::Dynamic).process);
  EstimateRequest longest = question(4000, 1);
  longest.recipe.packing = Packing::Dynamic;  // whose batches differ in length, so that the allocator keeps more
  CHECK(rows.uncut->process == estimate(longest).strategies.front().tiers.process);
  CHECK(rows.lengths.num_rows == 4);
}

}  // namespace gpuplan
