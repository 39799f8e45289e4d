#include "report/text/activity_look.h"

#include <array>

#include <fmt/format.h>

namespace gpuplan {
namespace {

// Terminals: the six basic colours, then bright ones. Pages: blue is forward, red is backward, greens and violets move
// data; each colour keeps a contrast of 3:1 with its background.
constexpr std::array<ActivityLook, std::size_t(kNumActivities)> kLooks{{
    {"▒", 'f', "34", "#2f6fdb", "#6ea0ff"},
    {"░", 'r', "36", "#3b96b8", "#6cc3e0"},
    {"█", 'B', "31", "#c8452f", "#ff8a70"},
    {"▓", 'H', "94", "#6a4fc9", "#a793ff"},
    {"◆", 'O', "33", "#a8750a", "#f0c04a"},
    {"━", 'g', "32", "#2f8f4e", "#63cf86"},
    {"┅", 's', "35", "#a83fa0", "#e58bdd"},
    {"═", 'a', "95", "#8b2f86", "#d873cf"},
    {"╋", 't', "95", "#7d3f6b", "#e08fc4"},
    {"≡", 'x', "96", "#0f8a8a", "#4fd6d6"},
    {"▼", 'i', "92", "#6f8f1d", "#b7d957"},
    {"▲", 'u', "93", "#8d7b2c", "#dccb74"},
    {"▚", 'c', "90", "#737b86", "#a2abb7"},
    {"◇", 'o', "33", "#a0622a", "#eda869"},
}};

constexpr std::array<std::string_view, std::size_t(kNumStreams)> kStreamNames{"compute", "gather",  "reduce",   "send",
                                                                              "receive", "copy in", "copy out", "host"};

}  // namespace

const ActivityLook& look(Activity activity) { return kLooks[std::size_t(activity)]; }

std::string_view name_of(StreamId stream) { return kStreamNames[std::size_t(stream)]; }

std::string draw(Activity activity, int count, const Screen& screen) {
  const ActivityLook& l = look(activity);
  std::string out;
  for (int i = 0; i < count; ++i) {
    if (!screen.has_unicode)
      out += l.ascii;
    else
      out += screen.has_colour ? "█" : l.glyph;
  }
  return screen.has_colour && count > 0 ? fmt::format("\x1b[{}m{}\x1b[0m", l.colour, out) : out;
}

WorkingPart working_part(const Span& span) {
  if (span.stream == StreamId::Compute) return {span.begin, span.begin + span.active};
  if (span.stream == StreamId::Recv) return {span.end - span.active, span.end};
  return {span.begin, span.end};
}

std::string span_name(const Span& span, std::int64_t num_layers) {
  if (span.activity == Activity::Head) return std::string(to_string(span.activity));
  return fmt::format("{} {}", to_string(span.activity), unit_name(span.unit, num_layers));
}

}  // namespace gpuplan
