#include "report/text/answers_text.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/answers.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

std::string tenths(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }
std::string count(std::size_t n) { return std::to_string(n); }
/// Nothing where nothing happened.
std::string count_or_none(std::size_t n) { return n ? count(n) : ""; }
/// "8.5 / 22", per cent.
std::string median_p90(const ErrorSummary& s) {
  return s.num_points == 0 ? "" : fmt::format("{:.1f} / {:.0f}", 100 * s.median, 100 * s.p90);
}

void add_errors(Table& table, const char* name, const ErrorSummary& s, const ErrorSummary& in_sample) {
  if (s.num_points == 0) return;
  table.add({{name},
             {count(s.num_points)},
             {count(s.num_sources)},
             {tenths(s.median), Ink::Strong},
             {tenths(s.p90), Ink::Strong},
             {fmt::format("{:.1f} / {:.1f} %", 100 * in_sample.median, 100 * in_sample.p90)},
             {signed_percent(s.median_signed)},
             {fmt::format("{:+.0f} %", 100 * s.worst)},
             {tenths(s.pooled_median)},
             {tenths(s.pooled_p90)}});
}

void add_speed(Table& table, const std::string& key, const SpeedSummary& s, const SpeedSummary& in_sample) {
  const auto order = [](const PairOrder& o) {
    return o.pairs ? fmt::format("{:.0f} % of {}", 100 * o.share(), o.pairs) : "";
  };
  const bool has_errors = s.represented > 0;
  table.add({{"  " + key},
             {fmt::format("{}/{}", s.represented, s.scoreable)},
             {has_errors ? fmt::format("{:.3f}", s.median) : "", Ink::Strong},
             {has_errors ? fmt::format("{:.3f}", s.p90) : "", Ink::Strong},
             {has_errors ? fmt::format("{:.3f} / {:.3f}", in_sample.median, in_sample.p90) : ""},
             {has_errors ? fmt::format("{:+.3f}", s.bias) : ""},
             {has_errors && s.num_sources > 1 ? fmt::format("{:.3f}", s.mean_of_source_medians) : ""},
             {order(s.order)},
             {order(s.order_same_model)}});
}

Table empty_speed_table(const std::string& title) {
  return {.columns = {{title},
                      {"points", Align::Right},
                      {"median", Align::Right},
                      {"p90", Align::Right},
                      {"fitted to all", Align::Right, 1},
                      {"bias", Align::Right},
                      {"by source", Align::Right, 2},
                      {"order right", Align::Right, 1},
                      {"same model", Align::Right, 3}},
          .rows = {}};
}

constexpr std::array<const char*, 3> kGroupingTitles{"  source", "  method", "  strategy"};

/// Three digits, whatever the unit.
std::string figure_text(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 1000 ? 1 : 0); }

void add_range(Table& table, std::string_view figure, const AccuracyRange& r) {
  table.add({{fmt::format("  {}", figure)},
             {r.cell},
             {fmt::format("{:.0f} %", 100 * (r.low - 1))},
             {fmt::format("+{:.0f} %", 100 * (r.high - 1))},
             {count(r.num_points)},
             {count(r.num_sources)},
             {r.coverage > 0 ? fmt::format("{:.0f} %", 100 * r.coverage) : ""},
             {r.coverage > 0 ? fmt::format("{:.0f} %", 100 * r.coverage_of_pairs) : ""}});
}

Table memory_errors_table(const MemorySummary& s, const MemorySummary& in_sample) {
  Table table{.columns = {{"  memory"},
                          {"points", Align::Right},
                          {"sources", Align::Right, 2},
                          {"median", Align::Right},
                          {"p90", Align::Right},
                          {"fitted to all", Align::Right, 1},
                          {"bias", Align::Right},
                          {"worst", Align::Right},
                          {"by point", Align::Right, 3},
                          {"p90 by point", Align::Right, 3}},
              .rows = {}};
  add_errors(table, "  as printed", s.own, in_sample.own);
  add_errors(table, "  allocated", s.allocated, in_sample.allocated);
  add_errors(table, "  process", s.process, in_sample.process);
  add_errors(table, "  largest that fits", s.boundaries, in_sample.boundaries);
  return table;
}

Table speed_errors_table(const SpeedSummary& s, const SpeedSummary& in_sample) {
  Table table = empty_speed_table("  speed");
  add_speed(table, "|ln(predicted / measured)|", s, in_sample);
  return table;
}

Table memory_rows_table(const char* title, const std::vector<MemoryRow>& rows) {
  Table table{.columns = {{title},
                          {"points", Align::Right},
                          {"own, %", Align::Right},
                          {"bias, %", Align::Right},
                          {"allocated, %", Align::Right},
                          {"process, %", Align::Right},
                          {"false alarms", Align::Right, 1},
                          {"dangerous", Align::Right, 1}},
              .rows = {}};
  for (const MemoryRow& row : rows) {
    const MemorySummary& s = row.summary;
    table.add({{"  " + row.key},
               {fmt::format("{}/{}", s.represented, s.scoreable)},
               {median_p90(s.own), Ink::Strong},
               {s.own.num_points > 0 ? fmt::format("{:+.1f}", 100 * s.own.median_signed) : ""},
               {median_p90(s.allocated)},
               {median_p90(s.process)},
               {count_or_none(s.verdicts.ok_oom)},
               {count_or_none(s.verdicts.oom_fits)}});
  }
  return table;
}

Table memory_by_table(const ValidationAnswer& answer, Grouping grouping) {
  return memory_rows_table(kGroupingTitles[std::size_t(grouping)], memory_by(answer.not_seen, grouping));
}

Table memory_by_heading_table(const ValidationAnswer& answer) {
  return memory_rows_table("  heading", memory_by_heading(answer.results));
}

Table speed_by_table(const ValidationAnswer& answer, Grouping grouping) {
  Table table = empty_speed_table(kGroupingTitles[std::size_t(grouping)]);
  const std::vector<SpeedRow> in_sample = speed_by(answer.results, grouping);
  for (const SpeedRow& row : speed_by(answer.not_seen, grouping)) {
    const auto same = std::find_if(in_sample.begin(), in_sample.end(), [&](const auto& r) { return r.key == row.key; });
    add_speed(table, row.key, row.summary, same->summary);
  }
  return table;
}

Table verdicts_table(const VerdictCounts& v) {
  Table table{.columns = {{"  what happened"},
                          {"we say it fits", Align::Right},
                          {"tight", Align::Right},
                          {"we say it does not", Align::Right}},
              .rows = {}};
  table.add({{"  it ran"},
             {count(v.ok_fits)},
             {count(v.ok_tight)},
             {fmt::format("{} false alarms", v.ok_oom), v.ok_oom ? Ink::Bad : Ink::Plain}});
  table.add({{"  it ran out of memory"},
             {fmt::format("{} dangerous", v.oom_fits), v.oom_fits ? Ink::Bad : Ink::Plain},
             {count(v.oom_tight)},
             {count(v.oom_oom)}});
  return table;
}

Table reliability_table(const Reliability& r) {
  Table table{.columns = {{"  probability"},
                          {"stated", Align::Right},
                          {"ran", Align::Right},
                          {"by source", Align::Right},
                          {"questions", Align::Right}},
              .rows = {}};
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  for (const ReliabilityBand& band : r.bands)
    table.add({{fmt::format("  {:.0f}-{:.0f} %", 100 * band.from, 100 * band.to)},
               {percent(band.stated)},
               {percent(band.happened)},
               {fmt::format("{:.0f}-{:.0f} % of {}", 100 * band.least_of_a_source, 100 * band.most, band.num_sources)},
               {count(band.num_questions)}});
  return table;
}

std::string reliability_note(const Reliability& r) {
  return fmt::format(
      "Asked of each measured peak on cards of 0.7 to 1.4 times its prediction, by ranges that do not know its source. "
      "{} runs are known to have worked and {} to have run out of memory: for these the probability scores {:.3f} "
      "(mean "
      "of -ln, less is better), its word alone {:.3f}.",
      r.num_runs, r.num_out_of_memory, r.score, r.score_of_words);
}

Table worst_table(const ValidationAnswer& answer, PointKind kind, std::size_t most) {
  Table table{.columns = {{"  error", Align::Right},
                          {"measured", Align::Right},
                          {"predicted", Align::Right},
                          {"metric", Align::Left, 1},
                          {"point"}},
              .rows = {}};
  for (const PointResult* r : worst_of(answer.results, kind, most))
    table.add({{fmt::format("{:+.0f} %", 100 * r->own->error())},
               {figure_text(r->own->measured)},
               {figure_text(r->own->predicted)},
               {r->own->metric + (kind == PointKind::Memory ? ", GiB" : "")},
               {r->point->id}});
  return table;
}

Table ranges_table(const Accuracy& ranges) {
  Table table{.columns = {{"  figure"},
                          {"cell"},
                          {"from", Align::Right},
                          {"to", Align::Right},
                          {"points", Align::Right},
                          {"sources", Align::Right},
                          {"covers unseen sources", Align::Right},
                          {"two unseen", Align::Right}},
              .rows = {}};
  for (const auto& [figure, a] : ranges.figures) {
    std::string_view name = to_string(figure);
    for (const AccuracyRange& range : a.cells) add_range(table, std::exchange(name, ""), range);
  }
  return table;
}

Table picks_table(const std::vector<PickSummary>& picks) {
  Table table{.columns = {{"  picks"},
                          {"comparisons", Align::Right},
                          {"our pick is the best", Align::Right},
                          {"within 5 % of it", Align::Right},
                          {"mean regret", Align::Right},
                          {"worst regret", Align::Right}},
              .rows = {}};
  for (const PickSummary& s : picks) {
    if (s.picks.empty()) continue;
    const auto share = [&](std::size_t n) {
      return fmt::format("{} ({:.0f} %)", n, 100.0 * double(n) / double(s.picks.size()));
    };
    table.add({{s.picks.front().kind == PointKind::Memory ? "  least memory" : "  fastest"},
               {count(s.picks.size())},
               {share(s.num_best)},
               {share(s.num_close)},
               {tenths(s.mean_regret)},
               {tenths(s.worst_regret)}});
  }
  return table;
}

/// "3 x 'tp of degree 8'": one line per reason.
std::vector<std::string> reason_lines(const ValidationAnswer& answer, PointStatus status) {
  std::vector<std::string> lines;
  for (const ReasonCount& r : reasons_of(answer.results, status))
    lines.push_back(fmt::format("{}: {}", r.ids.size(), r.reason));
  return lines;
}

/// One line per comparison whose best we did not pick.
std::vector<std::string> missed_pick_lines(const std::vector<PickSummary>& picks) {
  std::vector<const Pick*> missed;
  for (const PickSummary& s : picks)
    for (const Pick& pick : s.picks)
      if (!pick.is_best()) missed.push_back(&pick);
  std::ranges::stable_sort(missed, [](const Pick* a, const Pick* b) { return a->regret > b->regret; });
  std::vector<std::string> lines;
  for (const Pick* p : missed)
    lines.push_back(fmt::format("{:+.1f} %: {}, of {} settings we pick {}, measured best is {}", 100 * p->regret,
                                p->source, p->num_settings, p->picked, p->best));
  return lines;
}

std::string shown(const Table& table, const Screen& screen) { return table.rows.empty() ? "" : render(table, screen); }

/// The table below its title; nothing for an empty one.
std::string titled(std::string_view title, const Table& table, const Screen& screen) {
  return table.rows.empty() ? "" : heading(title, screen) + shown(table, screen);
}

std::string titled(std::string_view title, const std::vector<std::string>& lines, const Screen& screen) {
  return lines.empty() ? "" : heading(title, screen) + points(lines, screen);
}

std::string counts_text(const ValidationAnswer& answer, const Screen& screen) {
  const std::size_t scoreable = answer.memory.scoreable + answer.speed.scoreable;
  const std::size_t represented = answer.memory.represented + answer.speed.represented;
  const double share = scoreable ? 100.0 * double(represented) / double(scoreable) : 0;
  return wrap(fmt::format("{} points; {} count, {} of them are predicted ({:.1f} %), with {} empirical constants",
                          answer.points.size(), scoreable, represented, share, answer.constants.size()),
              prose_width(screen), "", "");
}

std::string ids_line(const char* what, const std::vector<std::string>& ids, const Screen& screen) {
  return ids.empty() ? "" : wrap(fmt::format("{}: {}", what, fmt::join(ids, ", ")), prose_width(screen), "  ", "    ");
}

std::string verdicts_text(const VerdictCounts& v, const Screen& screen) {
  if (v.ok_fits + v.ok_tight + v.ok_oom + v.oom_oom + v.oom_tight + v.oom_fits + v.left_out == 0) return "";
  return heading("Fits or not", screen) + shown(verdicts_table(v), screen) +
         fmt::format("  {} not counted: within 5 % of the capacity, or none is stated\n", v.left_out) +
         ids_line("false alarms", v.false_alarms, screen) + ids_line("dangerous", v.dangerous, screen);
}

std::string memory_text(const ValidationAnswer& answer, const Screen& screen) {
  if (answer.memory.scoreable == 0) return "";
  std::string out = "\n" + shown(memory_errors_table(answer.memory_not_seen, answer.memory), screen) +
                    verdicts_text(answer.memory.verdicts, screen);
  if (!answer.reliability.bands.empty())
    out += titled("Verdicts as probabilities", reliability_table(answer.reliability), screen) +
           wrap(reliability_note(answer.reliability), prose_width(screen), "  ", "  ");
  if (answer.by) out += titled("Memory: median / p90 of |error|", memory_by_table(answer, *answer.by), screen);
  out += titled("Memory, not counted above: median / p90 of |error|", memory_by_heading_table(answer), screen);
  return out + titled("Memory, furthest off", worst_table(answer, PointKind::Memory, answer.num_worst), screen);
}

std::string speed_text(const ValidationAnswer& answer, const Screen& screen) {
  if (answer.speed.scoreable == 0) return "";
  std::string out = "\n" + shown(speed_errors_table(answer.speed_not_seen, answer.speed), screen);
  if (answer.by)
    out += titled("Speed: |ln(predicted / measured)| of the time", speed_by_table(answer, *answer.by), screen);
  return out + titled("Speed, furthest off", worst_table(answer, PointKind::Speed, answer.num_worst), screen);
}

/// Lists points of which none counts, one by one: a summary has nothing to say of them.
Table apart_table(const ValidationAnswer& answer) {
  Table table{.columns = {{"  point"},
                          {"figure"},
                          {"predicted", Align::Right},
                          {"measured", Align::Right},
                          {"error", Align::Right}},
              .rows = {}};
  if (answer.memory.scoreable + answer.speed.scoreable > 0) return table;
  for (const PointResult& r : answer.results)
    if (r.own)
      table.add({{"  " + r.point->id},
                 {r.own->metric},
                 {fmt::format("{:.3g}", r.own->predicted)},
                 {fmt::format("{:.3g}", r.own->measured)},
                 {fmt::format("{:+.1f} %", 100 * r.own->error())}});
  return table;
}

/// Gives what the choice of `gpuplan plan` would have been worth; empty where no source ran one job in several ways.
std::string plan_picks_text(const ValidationAnswer& answer) {
  const PlanPicks p = judge_plans(answer.results);
  if (p.num_jobs == 0) return "";
  return fmt::format(
      "Jobs with one global batch whose measured speeds differ by more than {:.0f} %: {}. The configuration that we "
      "predict to be the fastest is within 10 % of the measured best in {} ({:.0f} %); median regret {:.1f} %.",
      100 * kContested, p.num_jobs, p.num_close, 100.0 * double(p.num_close) / double(p.num_jobs),
      100 * p.median_regret);
}

std::string picks_text(const ValidationAnswer& answer, const Screen& screen) {
  if (!answer.picks) return "";
  const std::string plans = plan_picks_text(answer);
  return titled("Of the settings that one source compared", picks_table(*answer.picks), screen) +
         (plans.empty() ? "" : wrap(plans, prose_width(screen), "  ", "  ")) +
         titled("Not picked", missed_pick_lines(*answer.picks), screen);
}

}  // namespace

std::string validation_text(const ValidationAnswer& answer, const Screen& screen) {
  return counts_text(answer, screen) + memory_text(answer, screen) + speed_text(answer, screen) +
         titled("Points, none of which counts", apart_table(answer), screen) + picks_text(answer, screen) +
         titled("8 of 10 measurements lie within", ranges_table(answer.ranges), screen) +
         titled("Not supported", reason_lines(answer, PointStatus::Unsupported), screen);
}

namespace {

constexpr std::size_t kWorstListed = 15;

constexpr const char* kHead =
    "# How accurate gpuplan is\n\n"
    "Written by `gpuplan validate data/validation/*.jsonl --report docs/accuracy.md`; a test compares it with the "
    "program. The "
    "points are published measurements of other people (data/validation/README.md). No number of the model belongs to "
    "a source, "
    "a model or a point.\n\n";

constexpr const char* kSeenHead =
    "Figures are cross-validated: every point is predicted with constants fitted to the other sources only "
    "(`scripts/fit_speed.py --cross-validate --write`, {}). `fitted to all` is median / p90 with the shipped "
    "constants, "
    "which "
    "have "
    "seen all sources: what `estimate` computes with. Of the memory constants one is fitted (`pool_slack`), and no "
    "figure "
    "here moves with it; what framework records say was inferred in part from published peaks, and that is not left "
    "out.\n\n";

constexpr const char* kMemoryHead =
    "Error: predicted / measured - 1. Each point is judged in the metric that its source measured: allocated bytes, "
    "bytes "
    "reserved by the allocator, or the process as nvidia-smi shows it (reserved, nvidia-smi and unspecified count as "
    "process). "
    "Median and p90 of |error| are macro-weighted: points within a group, groups within a source, then sources alike. "
    "Pooled: "
    "every point alike. Bias: median of the signed error.\n\n";

constexpr const char* kSpeedHead =
    "|ln(predicted / measured)| of the time of a step, every point alike; by source: mean of the sources' medians; "
    "bias above 0 is "
    "too slow. Order: of two settings that one source measured on the same hardware and that differ by more than 10 % "
    "in tokens "
    "per second, how often the faster one is predicted to be faster. Nothing is calibrated on the machines of the "
    "points.\n\n";

constexpr const char* kRangesHead =
    "`estimate` states these ranges beside its figures: 8 of 10 measurements lie between from and to, in per cent of "
    "the "
    "prediction. The cell is what was asked: memory by method and sharding, time by fine-tuning or pre-training and by "
    "where the work is done; kinds of models and runs unlike any measured one have ranges of their own. A range is a "
    "prediction interval for a source that was not seen: mean and variance of ln(measured / predicted), by fits "
    "without "
    "the point's source, are pooled with those of the parent, which counts as two sources, and the ends are Student's "
    "t "
    "times the deviation of a new source's points. The last columns are the shares of a source's points inside the "
    "range "
    "that is derived without it, and without another one too.\n\n";

/// The section, or nothing when there is nothing to say.
std::string section(const std::string& title, const std::string& text) {
  return text.empty() ? "" : "## " + title + "\n\n" + text + "\n";
}
std::string table_or_none(const Table& table) { return table.rows.empty() ? "" : markdown_table(table) + "\n"; }

std::string grouped(const ValidationAnswer& answer, Table (*make)(const ValidationAnswer&, Grouping)) {
  std::string out;
  for (const Grouping grouping : {Grouping::Method, Grouping::Strategy, Grouping::Source})
    out += table_or_none(make(answer, grouping));
  return out;
}

Table peers_table(const std::vector<Peer>& peers, double median, double p90, const std::string& scope) {
  Table table{.columns = {{"tool"}, {"median", Align::Right}, {"p90", Align::Right}, {"answers"}}, .rows = {}};
  table.add({{"gpuplan"}, {fmt::format("{:.3f}", median)}, {fmt::format("{:.3f}", p90)}, {scope}});
  for (const Peer& p : peers)
    table.add({{p.tool}, {fmt::format("{:.3g}", p.median)}, {fmt::format("{:.3g}", p.p90)}, {p.scope}});
  return table;
}

std::string ids_text(const char* what, const std::vector<std::string>& ids) {
  return ids.empty() ? "" : fmt::format("{}: {}.\n\n", what, fmt::join(ids, ", "));
}

std::string memory_text(const ValidationAnswer& answer) {
  const MemorySummary& s = answer.memory;
  if (s.scoreable == 0) return "";
  const VerdictCounts& v = s.verdicts;
  return kMemoryHead + fmt::format("{} points count, {} are predicted.\n\n", s.scoreable, s.represented) +
         table_or_none(memory_errors_table(answer.memory_not_seen, s)) + "Median / p90 of |error| in per cent:\n\n" +
         grouped(answer, memory_by_table) +
         "### Scored apart\n\nNot counted above: what the model, or the peak itself, is another.\n\n" +
         table_or_none(memory_by_heading_table(answer)) + "### Fits or not\n\n" + table_or_none(verdicts_table(v)) +
         fmt::format(
             "{} points are not counted: the measurement or the prediction is within 5 % of the capacity, or no "
             "capacity is "
             "stated.\n\n",
             v.left_out) +
         ids_text("False alarms", v.false_alarms) + ids_text("Dangerous", v.dangerous) +
         "### Verdicts as probabilities\n\n" + table_or_none(reliability_table(answer.reliability)) +
         reliability_note(answer.reliability) + "\n\n### Furthest off\n\n" +
         table_or_none(worst_table(answer, PointKind::Memory, kWorstListed));
}

std::string speed_text(const ValidationAnswer& answer) {
  const SpeedSummary& s = answer.speed;
  if (s.scoreable == 0) return "";
  return kSpeedHead + fmt::format("{} points count, {} are predicted.\n\n", s.scoreable, s.represented) +
         table_or_none(speed_errors_table(answer.speed_not_seen, s)) + grouped(answer, speed_by_table) +
         "### Furthest off\n\n" + table_or_none(worst_table(answer, PointKind::Speed, kWorstListed));
}

std::string picks_text(const ValidationAnswer& answer) {
  const std::vector<PickSummary> picks{judge_picks(answer.results, PointKind::Memory),
                                       judge_picks(answer.results, PointKind::Speed)};
  const Table table = picks_table(picks);
  if (table.rows.empty()) return "";
  const std::string plans = plan_picks_text(answer);
  return "For sources that compared settings of one job on the same hardware: is our pick the measured best? "
         "Regret: what our "
         "pick measured above the best.\n\n" +
         markdown_table(table) + "\n" + (plans.empty() ? "" : plans + "\n\n") + "Not picked:\n\n" +
         markdown_list(missed_pick_lines(picks));
}

std::string peers_text(const ValidationAnswer& answer, const Peers& peers) {
  std::string out = fmt::format("Figures of the other tools: {}.\n\n", peers.source);
  if (answer.memory.represented > 0)
    out += "Memory:\n\n" +
           markdown_table(
               peers_table(peers.memory, answer.memory_not_seen.own.median, answer.memory_not_seen.own.p90,
                           fmt::format("{} of {} points", answer.memory.represented, answer.memory.scoreable))) +
           "\n";
  if (answer.speed.represented > 0)
    out += "Speed:\n\n" + markdown_table(peers_table(
                              peers.speed, answer.speed_not_seen.median, answer.speed_not_seen.p90,
                              fmt::format("{} of {} points", answer.speed.represented, answer.speed.scoreable)));
  return out;
}

std::string constants_text(const ValidationAnswer& answer) {
  Table table{.columns = {{"constant"},
                          {"value", Align::Right},
                          {"unit"},
                          {"kind"},
                          {"of"},
                          {"points", Align::Right},
                          {"without it", Align::Right},
                          {"source"}},
              .rows = {}};
  for (const EmpiricalConstant& c : answer.constants)
    table.add({{c.name},
               {fmt::format("{:.4g}", c.value)},
               {c.unit},
               {c.kind},
               {c.use == ConstantUse::Memory ? "memory" : "time"},
               {c.ablation ? std::to_string(c.ablation->num_points) : ""},
               {c.ablation ? fmt::format("{:.3f} / {:.3f}", c.ablation->median, c.ablation->p90) : ""},
               {c.source}});
  std::string head = fmt::format(
      "{} numbers that were fitted, measured or chosen stand behind these predictions. A number that classes of "
      "cards share counts once.",
      answer.constants.size());
  if (const auto all = ablation_of_none())
    head += fmt::format(
        " Points: whose prediction moves by more than 1 % when the number moves by half. Without it: median / p90 of "
        "|ln(predicted / measured)| on sources not seen, with the number at a value without its effect, or at its "
        "guess, "
        "and the others fitted again; {:.3f} / {:.3f} with all of them (`scripts/fit_speed.py --ablate --write`).",
        all->median, all->p90);
  return head + "\n\n" + markdown_table(table);
}

}  // namespace

std::string validation_report(const ValidationAnswer& answer, const Peers& peers) {
  std::string out =
      kHead + fmt::format(fmt::runtime(kSeenHead), answer.cross_validation.date) +
      section("Memory", memory_text(answer)) + section("Speed", speed_text(answer)) +
      section("Other tools on the same points", peers_text(answer, peers)) +
      section("Ranges",
              answer.ranges.figures.empty() ? "" : kRangesHead + markdown_table(ranges_table(answer.ranges))) +
      section("Picks", picks_text(answer)) + section("Empirical constants", constants_text(answer)) +
      section("Not supported", markdown_list(reason_lines(answer, PointStatus::Unsupported))) +
      section("Not scored", markdown_list(reason_lines(answer, PointStatus::Skipped)));
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace gpuplan
