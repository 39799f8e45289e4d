#include "diagnose/log_line.h"

#include <cstdlib>
#include <string>

namespace gpuplan {
namespace {

constexpr std::string_view kDigits = "0123456789";

/// The number of a key of a Python dictionary.
std::optional<double> number_of(std::string_view line, std::string_view key) {
  for (const char quote : {'\'', '"'})
    if (const auto value = number_behind(line, quote + std::string(key) + quote + ":")) return value;
  return std::nullopt;
}

/// "1:02:03" or "02:03" as seconds.
std::optional<double> clock_time(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  while (!text.empty()) {
    const std::size_t colon = text.find(':');
    const std::string part(text.substr(0, colon));
    if (part.empty() || part.size() > 6 || part.find_first_not_of(kDigits) != std::string::npos) return std::nullopt;
    seconds = 60 * seconds + std::strtod(part.c_str(), nullptr);
    text = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  }
  return seconds;
}

/// The value that follows `text`, past quotes, colons and spaces; empty: none.
std::string_view behind(std::string_view line, std::string_view text) {
  constexpr std::size_t kMostBetween = 6;
  const std::size_t at = line.find(text);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = line.find_first_not_of(" '\":=", at + text.size());
  return begin > at + text.size() + kMostBetween ? std::string_view{} : line.substr(begin);
}

/// "2.50s/it" or "1.9it/s" as seconds.
std::optional<double> bar_rate(std::string_view text) {
  const std::string number(text.substr(0, 20));
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (end == number.c_str() || !(value > 0)) return std::nullopt;
  const std::string_view unit = std::string_view(number).substr(std::size_t(end - number.c_str()));
  if (unit.starts_with("s/")) return value;
  return unit.find("/s") != std::string_view::npos ? std::optional(1 / value) : std::nullopt;
}

/// "12/100 [" of a progress bar that counts time per step.
bool read_bar(std::string_view line, LoggedStep& out) {
  const std::size_t bracket = line.find(" [");
  if (bracket == std::string_view::npos || line.find('<', bracket) == std::string_view::npos) return false;
  const std::size_t slash = line.rfind('/', bracket);
  if (slash == std::string_view::npos || slash == 0) return false;
  const std::string_view total = line.substr(slash + 1, bracket - slash - 1);
  std::size_t begin = slash;
  while (begin > 0 && kDigits.find(line[begin - 1]) != std::string_view::npos) --begin;
  const std::string_view done = line.substr(begin, slash - begin);
  const auto is_count = [](std::string_view text) {
    return !text.empty() && text.size() < 16 && text.find_first_not_of(kDigits) == std::string_view::npos;
  };
  if (!is_count(done) || !is_count(total)) return false;
  out.step = std::stoll(std::string(done));
  out.total = std::stoll(std::string(total));
  const std::size_t left = line.find('<', bracket), comma = line.find(", ", left);
  out.elapsed = clock_time(line.substr(bracket + 2, left - bracket - 2));
  if (comma == std::string_view::npos) return true;
  const std::size_t rate = line.find_first_not_of(' ', comma + 1);
  if (rate != std::string_view::npos) out.seconds_per_step = bar_rate(line.substr(rate));
  return true;
}

}  // namespace

std::optional<double> number_behind(std::string_view line, std::string_view text, std::string_view then) {
  constexpr std::size_t kMostDigits = 40;
  std::string digits;
  for (const char c : behind(line, text).substr(0, kMostDigits))
    if (c != ',' || digits.empty()) digits += c;
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  if (end == digits.c_str() || !std::string_view(end).starts_with(then)) return std::nullopt;
  return value;
}

std::optional<double> clock_behind(std::string_view line, std::string_view text) {
  const std::string_view rest = behind(line, text);
  return clock_time(rest.substr(0, rest.find_first_not_of("0123456789:")));
}

std::optional<LoggedStep> read_log_line(std::string_view line) {
  LoggedStep out;
  const bool has_bar = read_bar(line, out);
  if (line.find('{') != std::string_view::npos) {
    out.loss = number_of(line, "loss");
    out.grad_norm = number_of(line, "grad_norm");
    out.learning_rate = number_of(line, "learning_rate");
    if (const auto step = number_of(line, "step"); step && *step >= 1) out.step = std::int64_t(*step);
  }
  if (!has_bar && !out.loss) return std::nullopt;
  return out;
}

}  // namespace gpuplan
