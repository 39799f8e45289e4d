#include "cli/flag_ranges.h"

#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cluster/machine.h"
#include "models/recipe.h"

namespace gpuplan {
namespace {

using Texts = std::vector<std::string>;

// --- where the numbers of a value are --------------------------------------------------------------------------------

Texts listed(const std::string& value) { return split(value, ','); }

/// "256" or "256GiB".
Texts in_gib(const std::string& value) {
  const bool has_unit = value.size() > 3 && to_lower(value).ends_with("gib");
  return {std::string(trim(has_unit ? value.substr(0, value.size() - 3) : value))};
}

Texts without_dollar(const std::string& value) { return {value.starts_with('$') ? value.substr(1) : value}; }

/// "100000000000" for "100B": k, M, B (or G) and T are thousands, millions, and so on.
Texts in_ones(const std::string& value) {
  constexpr std::string_view kSuffixes = "kmbt";
  const char suffix = value.empty() ? ' ' : to_lower(value.substr(value.size() - 1)).front();
  const std::size_t at = kSuffixes.find(suffix == 'g' ? 'b' : suffix);
  const auto number = at == std::string_view::npos ? std::nullopt : as_number(value.substr(0, value.size() - 1));
  return {number ? fmt::format("{:.15g}", *number * std::pow(1000.0, double(at + 1))) : value};
}

/// Behind the sign, where the value has it; "every-2" is "every=2".
Texts behind(const std::string& value, char sign) {
  const std::size_t at = value.find(sign);
  return at == std::string::npos ? Texts{} : Texts{value.substr(at + 1)};
}
Texts behind_every(const std::string& value) {
  if (to_lower(value).starts_with("every-k") || to_lower(value) == "every=k") return {};  // asked for the number
  return to_lower(value).starts_with("every-") ? behind(value, '-') : behind(value, '=');
}
Texts behind_chunked(const std::string& value) { return behind(value, '='); }
Texts behind_size(const std::string& value) { return behind(value, ':'); }

/// "1024x768" or "512".
Texts sides(const std::string& value) {
  const std::size_t cross = value.find_first_of("xX");
  return cross == std::string::npos ? Texts{value} : Texts{value.substr(0, cross), value.substr(cross + 1)};
}

/// "237s" for the "237s/it" of a progress bar, and "0.526s" for its "1.9it/s".
Texts per_step(const std::string& value) {
  const std::string text = to_lower(std::string(trim(value)));
  for (const std::string_view step : {"it", "step", "iteration"}) {
    if (text.ends_with(fmt::format("/{}", step))) return {text.substr(0, text.size() - step.size() - 1)};
    const std::string rate = fmt::format("{}/s", step);
    if (!text.ends_with(rate)) continue;
    if (const auto number = as_number(trim(text.substr(0, text.size() - rate.size()))); number && *number > 0)
      return {fmt::format("{:.15g}s", 1 / *number)};
  }
  return {value};
}

/// On one side of each "=" of a list; a part without one is refused where it is read.
Texts around_equals(const std::string& value, bool is_behind) {
  Texts out;
  for (const std::string& part : split(value, ','))
    if (const std::size_t equals = part.find('='); equals != std::string::npos)
      out.push_back(is_behind ? part.substr(equals + 1) : part.substr(0, equals));
  return out;
}
Texts before_equals(const std::string& value) { return around_equals(value, false); }
Texts behind_equals(const std::string& value) { return around_equals(value, true); }

// --- the table -------------------------------------------------------------------------------------------------------

constexpr NumberKind kWhole = NumberKind::Whole, kReal = NumberKind::Real, kTime = NumberKind::Time;
constexpr double kMostSteps = 1e9, kDay = 86'400, kMostTokens = 2000 * kMostRows;
constexpr NumberRange kSequences{1, double(kMostMicroBatch)}, kTokens{1, double(kMostSeqLen)},
    kGpus{1, double(kMostGpus)}, kRanks{0, double(kMostGpus) - 1}, kSteps{1, kMostSteps};

constexpr std::array kRanges{
    // of a plan
    FlagRange{"--micro-batch", kWhole, kSequences}, FlagRange{"--seq-len", kWhole, kTokens},
    FlagRange{"--image-size", kWhole, {1, double(kMostPixels)}, "1024x768", "sides", sides},
    FlagRange{"--images-per-row", kWhole, {1, double(kMostImages)}},
    FlagRange{"--completion-len", kWhole, kTokens, "400,1024", "each", listed},
    FlagRange{"--prompt-len", kWhole, kTokens, "200,512", "each", listed}, FlagRange{"--generations", kWhole, {1, 1e4}},
    FlagRange{"--updates", kWhole, {1, 1e4}}, FlagRange{"--iterations", kWhole, {1, 1e3}},
    FlagRange{"--reward-time", kTime, {0, kDay}, "2s"}, FlagRange{"--sequences", kWhole, {1, 1e6}},
    FlagRange{"--attention-groups", kWhole, {1, double(kMostAttentionGroups)}}, FlagRange{"--labels", kWhole, {1, 1e6}},
    FlagRange{"--teacher-topk", kWhole, {1, 1e6}}, FlagRange{"--student-share", kReal, {1e-6, 1}},
    FlagRange{"--texts-per-row", kWhole, {1, 1e4}}, FlagRange{"--grad-accum", kWhole, {1, double(kMostGradAccum)}},
    FlagRange{"--rows", kWhole, {1, kMostRows}}, FlagRange{"--tokens-per-row", kWhole, kTokens},
    FlagRange{"--epochs", kReal, {1e-6, 1e6}}, FlagRange{"--tokens", kReal, {1, kMostTokens}, "100B", "", in_ones},
    FlagRange{"--eval-batch", kWhole, kSequences}, FlagRange{"--eval-generate", kWhole, {0, double(kMostSeqLen)}},
    FlagRange{"--checkpointing", kWhole, {1, 1e5}, "every=2", "K", behind_every},
    FlagRange{"--loss", kWhole, {1, double(kMostLossChunks)}, "chunked=8", "N", behind_chunked},
    FlagRange{"--num-gpus", kWhole, kGpus}, FlagRange{"--price-per-gpu-hour", kReal, {0, 1e6}, "1.09"},
    FlagRange{"--tp", kWhole, {1, 1024}}, FlagRange{"--cp", kWhole, {1, 1024}}, FlagRange{"--ep", kWhole, {1, 1024}},
    FlagRange{"--etp", kWhole, {1, 1024}}, FlagRange{"--expert-imbalance", kReal, {1, kMostImbalance}, "1.3"},
    FlagRange{"--expert-capacity", kReal, {0.001, kMostCapacity}, "1.25"}, FlagRange{"--pp", kWhole, {1, 1024}},
    FlagRange{"--virtual-stages", kWhole, {1, 1024}},
    FlagRange{"--stage-layers", kWhole, {0, double(kMostLayersOfStage)}, "6,8,8,5", "each", listed},
    FlagRange{"--shard-size", kWhole, {1, 1e6}}, FlagRange{"--reduce-bucket-size", kWhole, {1, 1e12}},
    FlagRange{"--wrap", kWhole, {1, 1e14}, "size:100000000", "N", behind_size},
    // of a search
    FlagRange{"--global-batch", kWhole, {1, 1 << 16}},
    FlagRange{"--host-memory", kReal, {1, 1e6}, "256 or 256GiB", "", in_gib},
    FlagRange{"--overhead", kTime, {0, 100 * kDay}, "20min or 1h"},
    FlagRange{"--under", kTime, {1, 10'000 * kDay}, "6h, 90min or 1.5 h"},
    FlagRange{"--budget", kReal, {0.01, 1e12}, "100", "", without_dollar}, FlagRange{"--top", kWhole, {1, 10}},
    // of a simulation; its clock ends after 106 days
    FlagRange{"--seed", kWhole, {0, std::numeric_limits<std::uint32_t>::max()}},  // NumPy takes no more
    FlagRange{"--jitter", kReal, {0, 1}, "0.02"},
    FlagRange{"--straggler", kWhole, kRanks, "3=1.2", "RANK", before_equals},
    FlagRange{"--straggler", kReal, {1e-3, 1e3}, "3=1.2", "FACTOR", behind_equals},
    FlagRange{"--scaling", kWhole, kGpus, "1,2,4,8", "each", listed},
    FlagRange{"--measured", kTime, {1e-6, 100 * kDay}, "1.4s, 830ms or 1.9it/s", "", per_step},
    FlagRange{"--tokens-per-s", kReal, {1e-3, 1e12}, "12500"},
    FlagRange{"--chart-from", kTime, {0, 100 * kDay}, "20ms", "", nullptr, "simulate"},
    FlagRange{"--chart-to", kTime, {0, 100 * kDay}, "60ms", "", nullptr, "simulate"},
    // of a machine
    FlagRange{"--from", kWhole, kRanks, "", "", nullptr, "topology"},
    FlagRange{"--to", kWhole, kRanks, "", "", nullptr, "topology"},
    // of a run
    FlagRange{"--max-steps", kWhole, kSteps}, FlagRange{"--lr", kReal, {0, 1e18}, "2e-4"},
    FlagRange{"--beta", kReal, {0, 1e18}, "0.1"}, FlagRange{"--warmup", kWhole, {0, kMostSteps}},
    FlagRange{"--weight-decay", kReal, {0, 100}, "0.01"}, FlagRange{"--clip", kReal, {0, 1e6}},
    FlagRange{"--save-every", kWhole, kSteps}, FlagRange{"--keep", kWhole, {1, 1e6}},
    FlagRange{"--port", kWhole, {1, 65'535}, "", "", nullptr, "run"},
    // of the page
    FlagRange{"--port", kWhole, {0, 65'535}, "", "", nullptr, "serve"},
    FlagRange{"--timeout", kTime, {1, kDay}, "90s or 5min"},
    // of measurements
    FlagRange{"--ranks", kWhole, {1, 1024}}, FlagRange{"--worst", kWhole, {0, 1e6}}};

std::string amount(const FlagRange& row, double value) {
  if (row.kind != kTime) return fmt::format("{:.15g}", value);
  return value >= kDay ? fmt::format("{:g} d", value / kDay) : fmt::format("{:g} s", value);
}

/// "4096", or "1e6" where that is whole and exact.
std::int64_t whole(const std::string& text, const std::string& where) {
  constexpr double kExact = 9007199254740992;  // 2^53
  const bool has_exponent =
      text.find_first_of("eE") != std::string::npos && text.find_first_not_of("0123456789.+-eE") == std::string::npos;
  if (has_exponent)
    if (const double value = parse_number(text, where); std::floor(value) == value && std::abs(value) <= kExact)
      return std::int64_t(value);
  return parse_integer(text, where, std::numeric_limits<std::int64_t>::min());
}

/// "write 200000; " for "200,000"; "4096 or 4000" for "4k", which is either.
std::string thousands(const std::string& text) {
  std::string digits = text;
  std::erase_if(digits, [](char c) { return c == ',' || c == '_' || c == ' '; });
  const bool is_grouped = digits.size() < text.size() && !digits.empty() && digits.size() <= 15 &&
                          digits.find_first_not_of("0123456789") == std::string::npos;
  if (is_grouped) return fmt::format("write {}; ", digits);
  const bool is_count = text.size() >= 2 && text.size() <= 7 &&
                        text.find_first_not_of("0123456789") == text.size() - 1 &&
                        (text.back() == 'k' || text.back() == 'K');
  if (!is_count) return {};
  const std::int64_t count = parse_integer(text.substr(0, text.size() - 1), "", 0);
  return fmt::format("write {} or {}; ", 1024 * count, 1000 * count);
}

/// Throws InputError for what is no number of this kind.
double number_in(const FlagRange& row, const std::string& text) {
  const std::string where(row.flag);
  switch (row.kind) {
    case kWhole: return double(whole(text, where));
    case kTime: return parse_time(text, where).value;
    case kReal: break;
  }
  return parse_number(text, where);
}

void check(const FlagRange& row, const std::string& text) {
  std::string problem;
  try {
    const double value = number_in(row, text);
    if (value >= row.range.least && value <= row.range.most) return;
    problem = text + " is out of range";
  } catch (const InputError& error) { problem = error.problem(); }
  throw InputError(std::string(row.flag), problem,
                   fmt::format("{}{}{}{}", row.kind == kWhole ? thousands(text) : "",
                               row.part.empty() ? "" : fmt::format("{}: ", row.part), to_string(row),
                               row.example.empty() ? "" : fmt::format(", for example {}", row.example)));
}

}  // namespace

std::span<const FlagRange> flag_ranges() { return kRanges; }

std::vector<const FlagRange*> ranges_of(std::string_view command, std::string_view flag) {
  std::vector<const FlagRange*> out;
  for (const FlagRange& row : kRanges)
    if (row.flag == flag && (row.command.empty() || row.command == command)) out.push_back(&row);
  return out;
}

std::string to_string(const FlagRange& row) {
  return fmt::format("{} to {}", amount(row, row.range.least), amount(row, row.range.most));
}

std::string ranges_text(std::string_view command, std::string_view flag) {
  std::string text;
  for (const FlagRange* row : ranges_of(command, flag))
    text += fmt::format("{}{}{}", text.empty() ? "" : "; ", row->part.empty() ? "" : fmt::format("{}: ", row->part),
                        to_string(*row));
  return text;
}

void check_ranges(std::string_view command, std::string_view flag, const std::string& value) {
  for (const FlagRange* row : ranges_of(command, flag))
    for (const std::string& text : row->numbers ? row->numbers(value) : Texts{value}) check(*row, text);
}

std::int64_t to_integer(const std::string& value) { return whole(value, ""); }

namespace {

/// The one number of a flag's value.
std::optional<std::string> given_text(const CLI::App& app, const std::string& flag) {
  auto value = given(app, flag);
  if (!value) return {};
  const FlagRange& row = *ranges_of(app.get_name(), flag).at(0);
  return row.numbers ? row.numbers(*value).at(0) : std::move(value);
}

}  // namespace

std::optional<std::int64_t> given_integer(const CLI::App& app, const std::string& flag) {
  const auto text = given_text(app, flag);
  return text ? std::optional(to_integer(*text)) : std::nullopt;
}

std::optional<double> given_number(const CLI::App& app, const std::string& flag) {
  const auto text = given_text(app, flag);
  return text ? std::optional(parse_number(*text, flag)) : std::nullopt;
}

std::optional<Seconds> given_time(const CLI::App& app, const std::string& flag) {
  const auto text = given_text(app, flag);
  return text ? std::optional(parse_time(*text, flag)) : std::nullopt;
}

}  // namespace gpuplan
