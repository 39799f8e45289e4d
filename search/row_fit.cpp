#include "search/row_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/changes.h"

namespace gpuplan {
namespace {

/// A plan on a machine whose speed is known.
struct Asked {
  const EstimateRequest& request;
  const Profile& profile;
  const std::string& strategy;
  double real_share = 1;  // of the tokens that lengths count; of pairs they count the longer answer
};

std::optional<StrategyEstimate> estimate_of(const Asked& asked, Packing packing, std::int64_t seq_len) {
  Variant variant{.request = asked.request, .profile = asked.profile};
  variant.request.recipe.packing = packing;
  variant.request.recipe.seq_len = seq_len;
  variant.request.dataset.tokens_per_row = 0;  // every sequence is computed as long as it is said to be
  return estimate_variant(variant, asked.strategy);
}

/// `cut`: the rows as they are trained. Nothing where the strategy does not allow it.
std::optional<FilledRows> fill(const Lengths& cut, const Asked& asked, std::int64_t seq_len, Packing packing) {
  const bool is_packed = packing == Packing::Packed, is_dynamic = packing == Packing::Dynamic;
  const std::int64_t longest = is_dynamic ? std::min(cut.at_most, seq_len) : seq_len;
  const double computed = is_dynamic ? cut.mean_longest_of(asked.request.recipe.micro_batch) : double(seq_len);
  const bool differ =
      cut.rows_of.size() > 1;  // so that batches do too, and the allocator keeps blocks of several sizes
  const auto peak = estimate_of(asked, is_packed || (is_dynamic && differ) ? packing : Packing::Padded, longest);
  if (!peak) return {};
  const auto length = std::max<std::int64_t>(1, std::llround(computed));
  const auto usual = length == longest ? peak : estimate_of(asked, Packing::Padded, length);
  if (!usual) return {};
  const double tokens = asked.real_share * cut.num_tokens();
  const double sequences = is_packed ? std::ceil(tokens / double(seq_len)) : double(cut.num_rows);
  const double real_per_sequence = tokens / sequences;
  const Seconds step = usual->time.step;
  const double per_step = double(usual->global_batch), answers = double(asked.request.recipe.answers_apart());
  return FilledRows{.packing = packing,
                    .padding = std::max(0.0, 1 - real_per_sequence / computed),
                    .tokens_per_second = per_step * answers * real_per_sequence / step.value,
                    .epoch = std::ceil(sequences / per_step) * step,
                    .process = peak->tiers.process,
                    .fit = peak->fit};
}

/// The way that is asked for, with the figures of the answer.
FilledRows as_shown(FilledRows way, const StrategyEstimate& shown) {
  way.process = shown.tiers.process;
  way.fit = shown.fit;
  way.epoch = shown.epoch.value_or(way.epoch);
  way.tokens_per_second = shown.tokens_per_second;
  return way;
}

}  // namespace

std::vector<LengthBin> histogram_of(const Lengths& lengths) {
  std::vector<LengthBin> bins;
  for (const auto& [length, count] : lengths.rows_of) {
    std::int64_t end = 1;
    while (end < length) end *= 2;
    while (bins.empty() || bins.back().to < end) {
      const std::int64_t to = bins.empty() ? end : 2 * bins.back().to;
      bins.push_back({.from = to / 2 + 1, .to = to, .num_rows = 0});
    }
    bins.back().num_rows += count;
  }
  return bins;
}

RowFit fit_rows(const Lengths& lengths, const EstimateRequest& request, const Profile& profile,
                const StrategyEstimate& shown) {
  const std::int64_t answers = request.recipe.answers_apart(), real = request.dataset.tokens_per_row;
  const Asked asked{.request = request,
                    .profile = profile,
                    .strategy = shown.strategy.name,
                    .real_share = answers > 1 && real > 0 ? double(real) / lengths.mean : 1};
  RowFit out{.source = {},
             .lengths = lengths,
             .num_tokens = double(answers) * asked.real_share * lengths.num_tokens(),
             .seq_len = request.recipe.seq_len,
             .asked = request.recipe.packing,
             .histogram = histogram_of(lengths),
             .ways = {},
             .uncut = {}};
  for (auto row = lengths.rows_of.upper_bound(out.seq_len); row != lengths.rows_of.end(); ++row)
    out.num_cut += row->second;
  const Lengths cut = cut_at(lengths, out.seq_len);
  out.share_lost = 1 - cut.num_tokens() / lengths.num_tokens();
  for (const Packing packing : {Packing::Packed, Packing::Dynamic, Packing::Padded})
    // packed rows are not cut: what does not fit goes on in the next sequence
    if (const auto way = fill(packing == Packing::Packed ? lengths : cut, asked, out.seq_len, packing))
      out.ways.push_back(packing == out.asked ? as_shown(*way, shown) : *way);
  if (out.num_cut > 0) out.uncut = fill(lengths, asked, lengths.longest, Packing::Dynamic);
  return out;
}

}  // namespace gpuplan
