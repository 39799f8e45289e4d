#include "cli/fix_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/unit_text.h"
#include "mend/text_edit.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

/// "97 %", "under 1 %".
std::string chance_text(double chance) {
  const double percent = 100 * chance;
  if (percent < 1) return "under 1 %";
  return percent > 99 ? "over 99 %" : fmt::format("{:.0f} %", percent);
}

std::string cards_text(const ClusterSpec& cluster) {
  if (cluster.gpus.kinds().size() != 1) return fmt::format("{} GPUs", cluster.num_gpus());
  return fmt::format("{} x {}", cluster.num_gpus(), cluster.gpus.front().name);
}

std::string files_text(const FixQuestion& question) {
  std::vector<std::string> names;
  for (const ConfigFile& file : question.given.files) names.push_back(file.name.substr(file.name.rfind('/') + 1));
  return fmt::format("{}", fmt::join(names, " + "));
}

std::string verdict(const StrategyEstimate& e) {
  const char* word = e.fits_well() ? "fits" : e.fit == Fit::Tight ? "may fit" : "does not fit";
  return fmt::format("{} ({} likely): {} of {} per GPU under {}", word, chance_text(e.chance),
                     format_bytes(e.tiers.process), format_bytes(e.tiers.usable), e.strategy.name);
}

/// "fits (97 % likely)" in words of both, where something changes.
std::string first_line(const FixAnswer& answer, const FixQuestion& question) {
  const std::string where = fmt::format("{} on {}: ", files_text(question), cards_text(question.given.request.cluster));
  if (!answer.before) {
    const std::string none = fmt::format("{} is not possible here", question.given.request.strategy);
    return where + (answer.after ? fmt::format("{}; changed, it {}", none, verdict(*answer.after)) : none);
  }
  if (!answer.after) return where + verdict(*answer.before);
  return where + fmt::format("{}; changed, it {}", verdict(*answer.before), verdict(*answer.after));
}

std::string range_of(double value, const std::optional<AccuracyRange>& range, std::string (*format)(double)) {
  if (!range) return format(value);
  const std::string low = format(value * range->low), high = format(value * range->high);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

std::string second_line(const FixAnswer& answer, const std::string& data) {
  const StrategyEstimate* e = answer.after ? &*answer.after : answer.before ? &*answer.before : nullptr;
  if (!e || !e->total) return fmt::format("Time: not known for {}", data);
  const std::string time =
      range_of(e->total->value, e->time_range, [](double s) { return format_duration(Seconds{s}); });
  const std::string cost = e->cost_usd ? ", " + range_of(*e->cost_usd, e->time_range, format_usd) : "";
  return fmt::format("{}{} for {}", time, cost, data);
}

std::string change_text(const KeyChange& change) {
  if (change.key.empty()) return fmt::format("{} ({})", change.file, change.after);
  if (change.before.empty()) return fmt::format("{}: {}", change.key, change.after);
  return fmt::format("{}: {} -> {}", change.key, change.before, change.after.empty() ? "nothing" : change.after);
}

std::string third_line(const FixAnswer& answer, const FixQuestion& question) {
  const std::vector<KeyChange>& keys = answer.mended.keys;
  if (!keys.empty()) {
    std::vector<std::string> words;
    for (const KeyChange& change : keys) words.push_back(change_text(change));
    const std::string count = keys.size() == 1 ? "this" : fmt::format("these {}", keys.size());
    return fmt::format("Change {}: {}", count, fmt::join(words, ", "));
  }
  if (answer.fits())
    return question.goal == Goal::Fits ? "Nothing needs to change"
                                       : "Nothing to change: no way is better by more than the error of a prediction";
  if (answer.would_do.empty()) return "No change that gpuplan knows makes it fit: take GPUs with more memory";
  std::vector<std::string> words;
  for (const Permission& row : answer.would_do)
    words.push_back(fmt::format("--allow {} would ({})", row.allow, row.what));
  return fmt::format("Nothing that may change makes it fit; {}", fmt::join(words, ", "));
}

std::string painted_diff(const std::string& diff, const Screen& screen) {
  std::string out;
  for (std::size_t at = 0; at < diff.size();) {
    const std::size_t end = diff.find('\n', at) + 1;
    const std::string line = diff.substr(at, end - at - 1);
    const bool is_head = line.starts_with("+++ ") || line.starts_with("--- ");
    const Ink ink = is_head                  ? Ink::Strong
                    : line.starts_with("+")  ? Ink::Good
                    : line.starts_with("-")  ? Ink::Bad
                    : line.starts_with("@@") ? Ink::Accent
                                             : Ink::Plain;
    out += paint(line, ink, screen) + "\n";
    at = end;
  }
  return out;
}

}  // namespace

std::string fix_text(const FixAnswer& answer, const FixQuestion& question, const std::string& data,
                     const Screen& screen) {
  const int width = prose_width(screen);
  std::string out = wrap(first_line(answer, question), width, "", "  ");
  out += wrap(second_line(answer, data), width, "", "  ");
  out += wrap(third_line(answer, question), width, "", "  ");
  for (const MendedFile& file : answer.mended.files)
    out += "\n" + painted_diff(unified_diff(file.before, file.after, file.name), screen);
  if (!answer.notes.empty()) out += "\n" + points(answer.notes, screen);
  return out;
}

}  // namespace gpuplan
