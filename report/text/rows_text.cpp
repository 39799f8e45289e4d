// The rows of the data set in the sequences of a plan.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "models/recipe_names.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

std::string histogram_text(const RowFit& rows, const Screen& screen) {
  std::int64_t most = 1;
  for (const LengthBin& bin : rows.histogram) most = std::max(most, bin.num_rows);
  Table table{.columns = {{"  tokens", Align::Right}, {"rows", Align::Right}, {""}}, .rows = {}};
  constexpr int kBar = 24;
  for (const LengthBin& bin : rows.histogram)
    table.add({{fmt::format("{} to {}", format_grouped(bin.from), format_grouped(bin.to))},
               {format_grouped(bin.num_rows)},
               {bar(double(bin.num_rows) / double(most), kBar)}});
  return render(table, screen);
}

std::string ways_text(const RowFit& rows, const Screen& screen) {
  Table table{.columns = {{"  filled"},
                          {"padding", Align::Right},
                          {"tokens/s", Align::Right},
                          {"1 epoch", Align::Right},
                          {"GiB", Align::Right},
                          {"fits"}},
              .rows = {}};
  const auto add = [&](const FilledRows& way, const std::string& name, bool is_asked) {
    table.add({{(is_asked ? "★ " : "  ") + name},
               {fmt::format("{:.0f} %", 100 * way.padding)},
               {format_grouped(std::llround(way.tokens_per_second))},
               {format_duration(way.epoch)},
               {fmt::format("{:.1f}", way.process / Bytes{std::int64_t(1) << 30})},
               {std::string(to_string(way.fit))}});
  };
  for (const FilledRows& way : rows.ways) add(way, std::string(to_string(way.packing)), way.packing == rows.asked);
  if (rows.uncut) add(*rows.uncut, fmt::format("dynamic, up to {}", format_grouped(rows.lengths.longest)), false);
  return render(table, screen);
}

}  // namespace

std::string rows_text(const RowFit& rows, const Screen& screen) {
  const Lengths& l = rows.lengths;
  std::vector<std::string> facts{fmt::format(
      "{}: {} rows, {} tokens; a row has {:.0f} on average, half up to {}, nine of ten up to {}, the longest {}",
      rows.source, format_grouped(l.num_rows), format_grouped(std::llround(rows.num_tokens)), l.mean,
      format_grouped(l.quantile(0.5)), format_grouped(l.quantile(0.9)), format_grouped(l.longest))};
  if (rows.num_cut > 0)
    facts.push_back(fmt::format(
        "{} {} longer than {} tokens; where rows are not packed they are cut, and {:.1f} % of the tokens are lost",
        format_grouped(rows.num_cut), rows.num_cut == 1 ? "row is" : "rows are", format_grouped(rows.seq_len),
        100 * rows.share_lost));
  return heading("Rows of the data", screen) + points(facts, screen) + histogram_text(rows, screen) +
         ways_text(rows, screen);
}

}  // namespace gpuplan
