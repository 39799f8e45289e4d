#include "ecosystem/out_of_memory.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

constexpr std::string_view kStart = "Tried to allocate ";
constexpr std::size_t kLongest = 2000;  // characters of one message

/// "2.00 GiB" at the start of `text`.
std::optional<Bytes> amount_at(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return {};
  std::size_t end = space + 1;
  while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
  return as_bytes(text.substr(0, end));
}

std::optional<Bytes> after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : amount_at(text.substr(at + words.size()));
}

/// The amount that ends where `words` begin: "22.08 GiB already allocated".
std::optional<Bytes> before(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos || at == 0) return {};
  std::size_t begin = text.find_last_of(";,(.\n", at);
  while (begin != std::string_view::npos && begin + 1 < at && text[begin] == '.' &&
         std::isdigit(static_cast<unsigned char>(text[begin + 1])))
    begin = begin == 0 ? std::string_view::npos : text.find_last_of(";,(.\n", begin - 1);
  const std::string_view part = trim(text.substr(begin == std::string_view::npos ? 0 : begin + 1,
                                                 at - (begin == std::string_view::npos ? 0 : begin + 1)));
  return amount_at(std::string(part) + " ");
}

std::optional<Bytes> first_of(std::optional<Bytes> one, std::optional<Bytes> other) { return one ? one : other; }

}  // namespace

std::optional<OutOfMemory> find_out_of_memory(std::string_view log) {
  const std::size_t at = log.rfind(kStart);
  if (at == std::string_view::npos) return {};
  std::string_view text = log.substr(at, kLongest);
  const auto asked = after(text, kStart);
  if (!asked) return {};
  return OutOfMemory{
      .asked = *asked,
      .capacity = first_of(after(text, "has a total capacity of "),
                           first_of(after(text, "has a total capacty of "), before(text, " total capacity"))),
      .free = first_of(after(text, "of which "), before(text, " free;")),
      .in_use = after(text, "this process has "),
      .allocated = first_of(after(text, "Of the allocated memory "), before(text, " already allocated"))};
}

std::string describe(const OutOfMemory& m) {
  std::string out = fmt::format("{} were asked for", format_bytes(m.asked));
  if (m.free) out += fmt::format(" with {} free", format_bytes(*m.free));
  if (m.capacity) out += fmt::format(" on a GPU of {}", format_bytes(*m.capacity));
  if (m.in_use) out += fmt::format("; the process held {}", format_bytes(*m.in_use));
  if (m.allocated) out += fmt::format("{} {} in tensors", m.in_use ? "," : "; it held", format_bytes(*m.allocated));
  return out;
}

std::string compare_with(const OutOfMemory& m, Bytes predicted, const std::optional<AccuracyRange>& range,
                         const std::string& strategy) {
  const double ratio = double(m.needed().count) / double(predicted.count);
  const AccuracyRange exact{}, &measured = range ? *range : exact;
  const auto times = [&](double factor) { return format_bytes(Bytes{std::llround(factor * double(predicted.count))}); };
  const std::string prediction = range
                                     ? fmt::format("{} is predicted to need {} ({} to {}: runs of this kind)", strategy,
                                                   format_bytes(predicted), times(range->low), times(range->high))
                                     : fmt::format("{} is predicted to need {}", strategy, format_bytes(predicted));
  if (ratio >= measured.low && ratio <= measured.high)
    return fmt::format("{}, and the log's process needed {}: this plan explains it", prediction,
                       format_bytes(m.needed()));
  if (ratio < 1)
    return fmt::format("{}; the log's process stopped at {}, on its way there", prediction, format_bytes(m.needed()));
  return fmt::format(
      "{}, and the log's process already needed {}: it trained with other settings, kept something between steps, or "
      "shared the GPU",
      prediction, format_bytes(m.needed()));
}

}  // namespace gpuplan
