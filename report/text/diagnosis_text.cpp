// A measured run beside the predicted one, for people.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/unit_text.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/line_budget.h"
#include "report/text/table.h"
#include "search/row_text.h"

namespace gpuplan {
namespace {

/// A time a step, or tokens per second.
std::string time_text(double value, bool is_rate) {
  return is_rate ? fmt::format("{} tokens/s", format_grouped(std::llround(value)))
                 : format_short_duration(Seconds{value});
}

/// "1.52 times the predicted time", "0.70 times".
std::string times_text(double ratio, const char* what) {
  return fmt::format("{:.2f} times the predicted {}", ratio, what);
}

std::string gap_line(const Gap& gap, const std::string& measured, const std::string& predicted, const std::string& low,
                     const std::string& high, const char* what) {
  return fmt::format("{} measured, {} predicted ({} to {}): {}, {} the range", measured, predicted, low, high,
                     times_text(gap.ratio, what), gap.is_inside() ? "inside" : "outside");
}

std::string time_line(const Diagnosis& d) {
  const bool is_rate = d.measured.tokens_per_second.has_value();
  const Gap& gap = *d.time;
  const double low = is_rate ? gap.predicted / gap.range.high : gap.predicted * gap.range.low;
  const double high = is_rate ? gap.predicted / gap.range.low : gap.predicted * gap.range.high;
  const auto beside = [&](double value) {
    return is_rate ? time_text(value, is_rate) : format_duration_beside(Seconds{gap.measured}, Seconds{value});
  };
  return gap_line(gap, time_text(gap.measured, is_rate) + (is_rate ? "" : " a step"), beside(gap.predicted),
                  beside(low), beside(high), "time");
}

std::string memory_line(const Diagnosis& d) {
  const auto bytes = [](double count) { return format_bytes(Bytes{std::int64_t(count)}); };
  const Gap& gap = *d.memory;
  return gap_line(gap, fmt::format("{} of memory", bytes(gap.measured)), bytes(gap.predicted),
                  bytes(gap.predicted * gap.range.low), bytes(gap.predicted * gap.range.high), "memory");
}

std::string settings_text(const Difference& difference) {
  std::vector<std::string> out;
  for (const Setting& s : difference.settings) out.push_back(fmt::format("{}={}", s.change->name, s.value));
  return out.empty() ? "" : fmt::format(" (simulate --what-if {})", fmt::join(out, ","));
}

}  // namespace

Table parts_table(const StepParts& measured, const StepParts& predicted) {
  Table table{.columns = {{"of a step"}, {"measured", Align::Right}, {"predicted", Align::Right}, {"", Align::Right}},
              .rows = {}};
  const auto add = [&](std::string_view name, Seconds seen, Seconds expected, int indent) {
    const double step = std::max(measured.step.value, predicted.step.value);
    if (std::max(seen.value, expected.value) < 0.002 * step) return;
    const std::string ratio = expected.value > 0.002 * step ? fmt::format("x {:.2f}", seen / expected) : "";
    table.add({{std::string(std::size_t(indent), ' ') + std::string(name)},
               {format_short_duration(seen)},
               {format_short_duration(expected)},
               {ratio}});
  };
  add("step", measured.step, predicted.step, 0);
  add("compute", measured.compute, predicted.compute, 0);
  for (std::size_t p = 0; p < measured.phases.size(); ++p)
    add(kStepPhaseNames[p], measured.phases[p], predicted.phases[p], 2);
  for (const NameRow<KernelClass>& row : kKernelClasses)
    if (!is_collective(row.value) && row.value != KernelClass::Copy)
      add(row.name, measured.of(row.value), predicted.of(row.value), 4);
  add("collectives", measured.communication, predicted.communication, 0);
  for (const NameRow<KernelClass>& row : kKernelClasses)
    if (is_collective(row.value)) add(row.name, measured.of(row.value), predicted.of(row.value), 2);
  add("beside compute", measured.overlap, predicted.overlap, 2);
  add("beside nothing", measured.exposed, predicted.exposed, 2);
  add("copies beside nothing", measured.copies, predicted.copies, 0);
  add("idle", measured.idle, predicted.idle, 0);
  add("waits for data", measured.loader, predicted.loader, 2);
  return table;
}

/// The gap, had `times` as much time been measured.
Gap scaled(Gap gap, double times) {
  gap.measured *= times, gap.ratio *= times;
  return gap;
}

/// Asks about a time that is as predicted for a step that the data does not fill, or for one micro-batch; else empty.
std::string other_step_question(const Diagnosis& d) {
  const bool is_step = d.time && (d.measured.step || d.measured.parts);
  if (!is_step || d.time->is_inside()) return "";
  const std::int64_t passes = d.request.recipe.grad_accum;
  const double steps = std::ceil(double(d.predicted.steps_per_epoch) * d.request.dataset.epochs);
  const double mean = d.predicted.total && steps > 0 ? d.predicted.total->value / steps : d.time->predicted;
  if (scaled(*d.time, d.time->predicted / mean).is_inside())
    return fmt::format(
        "The data fills a step to {:.0f} %: {} a step is predicted in the mean of the {:.0f}, and {} is inside that "
        "range",
        100 * mean / d.time->predicted, time_text(mean, false), steps, time_text(d.time->measured, false));
  const Gap all = scaled(*d.time, double(passes));
  if (passes == 1 || !all.is_inside()) return "";
  return fmt::format("{} micro-batches of {} are {}, inside the range: was one of them timed? A step is all {}", passes,
                     time_text(d.time->measured, false), time_text(all.measured, false), passes);
}

namespace {

/// Says what of a traced step the GPU does not compute in, beside what was predicted.
std::string waits_line(const StepParts& measured, const StepParts& predicted) {
  const auto pair = [](const char* what, Seconds seen, Seconds expected) {
    return fmt::format("{} {} ({})", what, format_short_duration(seen), format_duration_beside(seen, expected));
  };
  return fmt::format("The trace's step, and the predicted one in brackets: {}, {}, {}",
                     pair("compute", measured.compute, predicted.compute),
                     pair("communication beside nothing", measured.exposed, predicted.exposed),
                     pair("idle", measured.idle, predicted.idle));
}

}  // namespace

std::vector<std::string> gap_lines(const Diagnosis& d) {
  std::vector<std::string> out;
  if (d.time) out.push_back(time_line(d));
  if (d.measured.parts && d.predicted_parts) out.push_back(waits_line(*d.measured.parts, *d.predicted_parts));
  if (std::string question = other_step_question(d); !question.empty()) out.push_back(std::move(question));
  if (d.memory) out.push_back(memory_line(d));
  if (!d.predicted.fits())
    out.push_back(
        fmt::format("As described it would not run, it needs {} and a GPU offers {}: some setting was another one",
                    format_bytes(d.predicted.tiers.needed), format_bytes(d.predicted.tiers.usable)));
  return out;
}

std::string prediction_with(const Explanation& e, const Diagnosis& d) {
  std::vector<std::string> predicted;
  if (d.time) predicted.push_back(time_text(e.time, d.measured.tokens_per_second.has_value()));
  if (d.memory) predicted.push_back(format_bytes(e.peak));
  return fmt::format("{}{}", fmt::join(predicted, ", "), settings_text(e.difference));
}

std::string no_explanation(const Diagnosis& d) {
  if (d.is_inside()) return "Nothing is claimed: predictions of such runs are that far off without a cause";
  return d.explanations.empty() && other_step_question(d).empty() ? "No change that gpuplan knows explains it" : "";
}

std::vector<std::string> reading_notes(const DiagnosisAnswer& answer) {
  const Diagnosis& d = answer.diagnosis;
  std::vector<std::string> notes{fmt::format("predicted with {}, as the settings say it, on {}",
                                             d.predicted.strategy.name, machine_name(d.request.cluster))};
  notes.insert(notes.end(), answer.sources.begin(), answer.sources.end());
  notes.insert(notes.end(), answer.notes.begin(), answer.notes.end());
  return notes;
}

namespace {

/// "62 %  peer-to-peer between …", what it predicts, and how to see it.
std::string cause_text(const Explanation& e, const Diagnosis& d, const Screen& screen) {
  const int width = prose_width(screen);
  const std::string indent(7, ' ');
  return wrap(std::string(e.cause->says), width, fmt::format("{:>4.0f} %  ", 100 * e.probability), indent + " ") +
         wrap(fmt::format("Predicted with it: {}", prediction_with(e, d)), width, indent + " ", indent + " ") +
         wrap(fmt::format("See: {}", e.cause->check), width, indent + " ", indent + " ");
}

std::string unexplained_text(const Diagnosis& d) {
  return fmt::format("{:>4.0f} %  none of these\n", 100 * d.unexplained);
}

std::string parts_text(const Diagnosis& d, const Screen& screen) {
  if (!d.measured.parts || !d.predicted_parts) return "";
  return heading("Parts of the step", screen) + render(parts_table(*d.measured.parts, *d.predicted_parts), screen);
}

/// The answer of `diagnose` on one screen, of at most kFirstScreen lines: the likeliest causes.
std::string first_diagnosis_text(const DiagnosisAnswer& answer, const Screen& screen) {
  const Diagnosis& d = answer.diagnosis;
  LineBudget out(kFirstScreen - 1, screen);
  for (const std::string& line : gap_lines(d)) out.add_prose(line);
  const std::string none = no_explanation(d), parts = parts_text(d, screen);
  out.add_prose(none);
  std::vector<std::string> hidden;
  if (none.empty()) {
    out.add(heading("What explains it", screen));
    std::size_t shown = 0;
    while (shown < d.explanations.size() && out.add(cause_text(d.explanations[shown], d, screen))) ++shown;
    if (const std::size_t more = d.explanations.size() - shown; more > 0)
      hidden.push_back(fmt::format("{} less likely cause{}", more, more == 1 ? "" : "s"));
    else
      out.add(unexplained_text(d));
  }
  if (!parts.empty() && !out.add(parts)) hidden.emplace_back("the parts of the step");
  hidden.emplace_back("how the run was read");
  return out.take() + fmt::format("--explain: {}\n", fmt::join(hidden, ", "));
}

std::string whole_diagnosis_text(const DiagnosisAnswer& answer, const Screen& screen) {
  const Diagnosis& d = answer.diagnosis;
  std::string out;
  for (const std::string& line : gap_lines(d)) out += wrap(line, prose_width(screen), "", "  ");
  if (const std::string none = no_explanation(d); !none.empty()) {
    out += wrap(none, prose_width(screen), "", "  ");
  } else {
    out += heading("What explains it", screen);
    for (const Explanation& e : d.explanations) out += cause_text(e, d, screen);
    out += unexplained_text(d);
  }
  return out + parts_text(d, screen) + heading("Read as", screen) + points(reading_notes(answer), screen);
}

}  // namespace

std::string diagnosis_text(const DiagnosisAnswer& answer, const Screen& screen) {
  const std::string whole = whole_diagnosis_text(answer, screen);
  return answer.is_brief && std::ranges::count(whole, '\n') > kFirstScreen ? first_diagnosis_text(answer, screen)
                                                                           : whole;
}

}  // namespace gpuplan
