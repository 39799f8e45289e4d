#include "cli/fix_text.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/unit_text.h"
#include "mend/text_edit.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

/// "97 %", "under 1 %".
std::string chance_text(double chance) {
  const double percent = 100 * chance;
  if (percent < 1) return "under 1 %";
  return percent > 99 ? "over 99 %" : fmt::format("{:.0f} %", percent);
}

std::string verdict(const StrategyEstimate& e) {
  if (e.fit == Fit::IfHost)
    return fmt::format("{} if the host has {}", e.fit_on_gpus() == Fit::Yes ? "fits" : "may fit",
                       format_bytes(e.host.needed()));
  return e.fits_well() ? "fits" : e.fit == Fit::Tight ? "may fit" : "does not fit";
}

/// "89 % likely", or nothing where it hardly is.
std::string likely(const StrategyEstimate& e) {
  return e.chance < 0.01 ? "" : fmt::format("{} likely, ", chance_text(e.chance));
}

/// "; 51.7 GiB of host memory, where 64.0 GiB are usual": where the changed files need more there than they do now, and
/// much of what there is.
std::string host_text(const FixAnswer& answer) {
  constexpr std::int64_t kMuch = 4;  // a quarter
  const HostBytes& host = answer.after->host;
  const bool is_more = !answer.before || host.needed() > answer.before->host.needed();
  const Bytes room = host.capacity.count > 0 ? host.capacity : host.usual;
  if (!is_more || kMuch * host.needed().count < room.count) return "";
  const std::string needed = format_bytes(host.needed());
  if (host.capacity.count > 0) return fmt::format("; {} of the host's {}", needed, format_bytes(room));
  if (room.count == 0) return fmt::format("; {} of host memory", needed);
  return fmt::format("; {} of host memory, where {} are usual", needed, format_bytes(room));
}

/// "; the files name no strategy, and with ddp, as they start without one, 203 GiB: does not fit".
std::string plain_text(const StrategyEstimate& plain) {
  return fmt::format("; the files name no strategy, and with {}, as they start without one, {}: {}",
                     plain.strategy.name, format_bytes(shown_memory(plain)), verdict(plain));
}

/// "Does not fit (157 GiB of 22.9 GiB); changed, it fits (20.0 GiB, 89 % likely)".
std::string first_line(const FixAnswer& answer, const FixQuestion& question) {
  std::string out = fmt::format("{} is not possible on these GPUs", question.given.request.strategy);
  if (!question.given.why_refused.empty()) out = fmt::format("the trainer stops: {}", question.given.why_refused);
  if (answer.before) {
    const StrategyEstimate& e = *answer.before;
    const std::string with = answer.plain ? " with " + e.strategy.name : "",
                      is = answer.plain ? plain_text(*answer.plain) : "";
    out = fmt::format("{}{} ({}{} of {}{})", verdict(e), with, likely(e), format_bytes(shown_memory(e)),
                      format_bytes(e.tiers.usable), is);
  }
  if (!answer.why_not.empty()) out += ": " + answer.why_not;
  out[0] = char(std::toupper(static_cast<unsigned char>(out[0])));
  if (!answer.after) return out;
  const StrategyEstimate& after = *answer.after;
  return fmt::format("{}; changed, it {} ({}, {} likely{})", out, verdict(after), format_bytes(shown_memory(after)),
                     chance_text(after.chance), host_text(answer));
}

std::string range_of(double value, const std::optional<AccuracyRange>& range, std::string (*format)(double)) {
  if (!range) return format(value);
  const std::string low = format(value * range->low), high = format(value * range->high);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

std::string second_line(const FixAnswer& answer, const std::string& data) {
  const StrategyEstimate* e = answer.after ? &*answer.after : answer.before ? &*answer.before : nullptr;
  if (!e || !e->total) return fmt::format("How long it takes is not known: {}", data);
  const AccuracyRange range = e->time_range.value_or(AccuracyRange{});
  const std::string time = range_text(range.low * *e->total, range.high * *e->total);
  const std::string cost = e->cost_usd ? ", " + range_of(*e->cost_usd, e->time_range, format_usd) : "";
  return fmt::format("{}{}: {}", time, cost, data);
}

std::string change_text(const KeyChange& change, bool shows_value) {
  if (change.key.empty()) return fmt::format("{} ({})", change.file, change.after);
  if (!shows_value) return change.key;
  if (change.before.empty()) return fmt::format("{}: {}", change.key, change.after);
  return fmt::format("{}: {} -> {}", change.key, change.before, change.after.empty() ? "nothing" : change.after);
}

/// The keys that change; of a few with their values, which the diff shows too.
std::string third_line(const FixAnswer& answer, const FixQuestion& question) {
  constexpr std::size_t kFew = 2;
  const std::vector<KeyChange>& keys = answer.mended.keys;
  if (!keys.empty()) {
    std::vector<std::string> words;
    for (const KeyChange& change : keys) words.push_back(change_text(change, keys.size() <= kFew));
    return fmt::format("Change {}: {}", keys.size() == 1 ? "one key" : fmt::format("{} keys", keys.size()),
                       fmt::join(words, ", "));
  }
  if (!answer.not_started.empty())
    return fmt::format("These files cannot say that they start on these GPUs: {}", answer.not_started);
  if (answer.fits())
    return question.goal == Goal::Fits ? "Nothing needs to change"
                                       : "Nothing to change: no way is better by more than the error of a prediction";
  if (answer.before && answer.before->fit == Fit::IfHost && answer.would_do.empty())
    return "Nothing that these files can say makes it fit on a smaller host: --host-memory says what yours has";
  if (answer.would_do.empty() && !answer.unsayable.empty())
    return fmt::format("These files cannot say what would make it fit: {}", answer.unsayable);
  if (answer.would_do.empty() && !answer.why_not.empty()) return "No change that gpuplan knows helps here";
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

std::string diffs(const FixAnswer& answer, std::size_t context, const Screen& screen) {
  std::string out;
  for (const MendedFile& file : answer.mended.files)
    out += "\n" + painted_diff(unified_diff(file.before, file.after, file.name, context), screen);
  return out;
}

}  // namespace

std::string fix_text(const FixAnswer& answer, const FixQuestion& question, const std::string& data,
                     const Screen& screen) {
  const int width = prose_width(screen);
  const std::string head = wrap(first_line(answer, question), width, "", "  ") +
                           wrap(second_line(answer, data), width, "", "  ") +
                           wrap(third_line(answer, question), width, "", "  ");
  std::vector<std::string> notes = answer.notes;
  if (answer.after && !answer.unsayable.empty())
    notes.push_back(fmt::format("these files cannot say {}, which changes less or is faster", answer.unsayable));
  const std::string tail = notes.empty() ? "" : "\n" + points(notes, screen);
  for (std::size_t context = kMostContext;; --context)
    if (std::string out = head + diffs(answer, context, screen) + tail;
        context == 1 || std::ranges::count(out, '\n') < kFirstScreen)
      return out;
}

std::string next_step(const FixAnswer& answer) {
  if (answer.mended.files.empty() || !answer.after) return {};
  return fmt::format("changed, it {}; --write does it and keeps FILE.orig", verdict(*answer.after));
}

}  // namespace gpuplan
