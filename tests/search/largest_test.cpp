#include "search/largest.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "search/questions.h"

using namespace gpuplan;

namespace {

std::vector<CatalogueEntry> some_models() {
  std::vector<CatalogueEntry> out;
  for (const CatalogueEntry& entry : list_catalogue())
    for (const char* name : {"llama-3.2-1b", "llama-3.1-8b", "llama-3.1-70b", "qwen2.5-32b"})
      if (entry.name == name) out.push_back(entry);
  REQUIRE(out.size() == 4);
  return out;
}

bool fits_well(SearchQuestion q, std::int64_t seq_len, std::int64_t micro_batch) {
  q.base.recipe.seq_len = seq_len, q.base.recipe.micro_batch = micro_batch, q.base.recipe.grad_accum = 1;
  q.global_batch.reset();
  q.pinned.insert({"micro-batch", "grad-accum", "compile", "attention"});
  const Space space(q);
  const std::vector<RankedPlan> plans = search(space).ranking.plans;
  return std::any_of(plans.begin(), plans.end(), [](const RankedPlan& p) { return p.fit == Fit::Yes; });
}

}  // namespace

TEST_CASE("the table of models: larger first, and no context carries more than a shorter one") {
  SearchQuestion q = test::question("llama-3.2-1b", {"2x3090"});
  q.methods = {Method::Full, Method::Lora, Method::Qlora};
  const LargestTable table = largest_models(q, {2048, 8192, 32768}, some_models(), {});
  CHECK(table.num_models == 4);
  REQUIRE_FALSE(table.rows.empty());
  for (std::size_t i = 1; i < table.rows.size(); ++i) CHECK(table.rows[i - 1].parameters >= table.rows[i].parameters);
  for (const LargestRow& row : table.rows)
    for (std::size_t c = 1; c < row.by_context.size(); ++c)
      CHECK((row.by_context[c - 1].has_value() || !row.by_context[c].has_value()));
  CHECK(table.rows.back().model == "llama-3.2-1b");
  CHECK(table.rows.back().by_context.front()->method == Method::Full);  // 1.2 B x 16 bytes fit on 24 GiB
}

TEST_CASE("the longest context and the largest batch fit, and the next do not") {
  const SearchQuestion q = test::question("llama-3.1-8b", {"1xA6000"});
  const auto tokens = longest_context(q, {});
  REQUIRE(tokens);
  CHECK(fits_well(q, *tokens, 1));
  CHECK_FALSE(fits_well(q, *tokens + 256, 1));
  const auto batch = largest_batch(q, {});
  REQUIRE(batch);
  CHECK(fits_well(q, 2048, *batch));
  CHECK_FALSE(fits_well(q, 2048, *batch + 1));
  CHECK_FALSE(longest_context(test::question("llama-3.1-70b", {"1x4090"}, {"offload", "packing"}), {}));
}
