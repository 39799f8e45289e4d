#include "search/largest.h"

#include <algorithm>

#include "base/error.h"
#include "search/frontier.h"
#include "search/on_cores.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kContextStep = 256, kMostTokens = 4 << 20, kMostSequences = 4096;

/// The question with one sequence per GPU and pass, where nothing else is asked for, and the knobs of speed left as
/// they are.
SearchQuestion about_memory(const SearchQuestion& question) {
  SearchQuestion q = question;
  q.under.reset(), q.budget.reset(), q.global_batch.reset();
  Recipe& recipe = q.base.recipe;
  if (!q.pinned.contains("micro-batch")) recipe.micro_batch = 1;
  if (!q.pinned.contains("grad-accum")) recipe.grad_accum = 1;
  for (const char* row : {"micro-batch", "grad-accum", "compile", "attention"}) q.pinned.insert(row);
  return q;
}

/// The safest plan of one question that rests on no more host memory than is known or usual; nothing when none fits.
std::optional<Carried> carried_by(const SearchQuestion& q, unsigned num_threads) {
  try {
    const Space space(q);
    Ranking ranking = search(space, {.num_threads = num_threads, .stop = nullptr, .progress = {}}).ranking;
    std::erase_if(ranking.plans, [](const RankedPlan& plan) { return plan.fit == Fit::IfHost; });
    if (ranking.plans.empty()) return std::nullopt;
    std::vector<Merit> merits;
    for (const RankedPlan& plan : ranking.plans) merits.push_back(merit_of(plan, plan.total, plan.cost, q.is_rented));
    const RankedPlan& best = ranking.plans[best_of(merits, wishes_of(q, 1))];
    return Carried{.method = space.ways[best.way].recipe.method,
                   .strategy = std::string(space.strategies[best.strategy].name),
                   .fit = best.fit,
                   .offloads = best.offloads,
                   .per_million_tokens = best.total * (1e6 / double(total_tokens(q.base)))};
  } catch (const InputError&) { return std::nullopt; }  // a model without such linears, or with fewer positions
}

/// The best method that fits on the GPUs alone, else with offload, else tightly.
std::optional<Carried> best_method(const SearchQuestion& question, unsigned num_threads) {
  std::optional<Carried> best;
  const auto rank = [](const Carried& c) { return 2 * int(c.fit) + (c.offloads ? 0 : 1); };
  for (const Method method : {Method::Full, Method::Lora, Method::Qlora}) {
    if (std::find(question.methods.begin(), question.methods.end(), method) == question.methods.end()) continue;
    SearchQuestion q = question;
    if (q.methods.size() > 1) {
      const char* row = method == Method::Full ? "full" : method == Method::Lora ? "lora" : "qlora";
      const std::string value = method == Method::Full ? "on" : "r=" + std::to_string(q.base.recipe.lora.rank);
      const Setting setting = set_to(row, value);
      q.base = changed({std::move(q.base), {}}, {&setting, 1}).request;
      q.methods = {method};
    }
    const std::optional<Carried> found = carried_by(q, num_threads);
    if (found && (!best || rank(*found) > rank(*best))) best = found;
    if (best && best->fit == Fit::Yes && !best->offloads) break;
  }
  return best;
}

LargestRow row_of(const SearchQuestion& question, const CatalogueEntry& entry,
                  const std::vector<std::int64_t>& contexts) {
  LargestRow row{.model = entry.name, .parameters = entry.parameters, .by_context = {}};
  SearchQuestion q = question;
  q.base.model = read_catalogue_file(entry.file).spec;
  const std::int64_t most = q.base.model.max_position_embeddings;
  bool fits = true;  // a longer sequence needs no less
  for (const std::int64_t context : contexts) {
    q.base.recipe.seq_len = context;
    std::optional<Carried> carried;
    if (fits && (most == 0 || context <= most)) carried = best_method(q, 1);
    fits = carried.has_value();
    row.by_context.push_back(std::move(carried));
  }
  return row;
}

/// Says whether some plan fits well.
bool fits_well(const SearchQuestion& q, const SearchOptions& options) {
  const std::optional<Carried> carried = carried_by(q, options.num_threads);
  return carried && carried->fit == Fit::Yes;
}

/// The largest multiple of `step` for which `fits`, which holds up to some value; nothing when not even `step` does.
template <class Fits>
std::optional<std::int64_t> largest_value(std::int64_t step, std::int64_t most, Fits fits) {
  std::int64_t low = 0, high = 1;
  while (high * step <= most && fits(high * step)) low = high, high *= 2;
  high = std::min(high, most / step + 1);
  while (high - low > 1) {
    const std::int64_t mid = (low + high) / 2;
    (fits(mid * step) ? low : high) = mid;
  }
  return low > 0 ? std::optional(low * step) : std::nullopt;
}

}  // namespace

LargestTable largest_models(const SearchQuestion& question, const std::vector<std::int64_t>& contexts,
                            const std::vector<CatalogueEntry>& catalogue, const SearchOptions& options) {
  const SearchQuestion q = about_memory(question);
  std::vector<CatalogueEntry> entries;
  for (const CatalogueEntry& entry : catalogue)
    if (entry.is_modelled) entries.push_back(entry);
  std::vector<LargestRow> rows(entries.size());
  std::atomic<std::size_t> next{0};
  on_cores(num_threads_for(options.num_threads, entries.size()), [&](std::size_t) {
    for (std::size_t i; (i = next.fetch_add(1)) < entries.size();)
      if (!options.stop || !*options.stop) rows[i] = row_of(q, entries[i], contexts);
  });
  LargestTable table{.contexts = contexts, .rows = {}, .num_models = std::int64_t(entries.size())};
  for (LargestRow& row : rows)
    if (std::any_of(row.by_context.begin(), row.by_context.end(), [](const auto& c) { return c.has_value(); }))
      table.rows.push_back(std::move(row));
  std::ranges::stable_sort(table.rows,
                           [](const LargestRow& a, const LargestRow& b) { return a.parameters > b.parameters; });
  return table;
}

std::optional<std::int64_t> longest_context(const SearchQuestion& question, const SearchOptions& options) {
  SearchQuestion q = about_memory(question);
  const std::int64_t positions = q.base.model.learned_positions > 0 ? q.base.model.learned_positions : kMostTokens;
  return largest_value(kContextStep, std::min(kMostTokens, positions), [&](std::int64_t tokens) {
    q.base.recipe.seq_len = tokens;
    return fits_well(q, options);
  });
}

std::optional<std::int64_t> largest_batch(const SearchQuestion& question, const SearchOptions& options) {
  SearchQuestion q = about_memory(question);
  return largest_value(1, kMostSequences, [&](std::int64_t sequences) {
    q.base.recipe.micro_batch = sequences;
    return fits_well(q, options);
  });
}

}  // namespace gpuplan
