#include "report/html/timeline_data.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "report/html/merged_spans.h"
#include "report/text/activity_look.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kFinest = 64'000, kCoarsest = 62;  // columns; 4,000 are a wide screen

std::int64_t nanoseconds(SimTime time) { return time.ps / 1000; }

/// Where each track's spans begin among all spans of the page.
std::map<std::pair<std::uint32_t, int>, std::uint32_t> first_places(const Tracks& tracks) {
  std::map<std::pair<std::uint32_t, int>, std::uint32_t> out;
  std::uint32_t next = 0;
  for (const auto& [key, track] : tracks.of) {
    out[key] = next;
    next += std::uint32_t(track.size());
  }
  return out;
}

class Writer {
 public:
  Writer(const Simulation& simulation, const Tracks& tracks)
      : simulation_(simulation),
        tracks_(tracks),
        first_(first_places(tracks)) {}

  /// Place of a span among all spans of the page; -1: not on it.
  std::int64_t place(std::uint32_t span) const {
    if (span == Span::kNoSpan || tracks_.place[span] == Tracks::kNone) return -1;
    const Span& s = simulation_.spans[span];
    return std::int64_t(first_.at({s.rank, int(s.stream)}) + tracks_.place[span]);
  }

  Json tracks() const {
    Json out = Json::array();
    for (const auto& [key, track] : tracks_.of) {
      out.push_back({{"rank", key.first},
                     {"name", name_of(StreamId(key.second))},
                     {"busy", busy(track)},
                     {"spans", spans(track)}});
    }
    return out;
  }

  Json messages(std::size_t most) const {
    Json out = Json::array();
    for (const Message& message : simulation_.messages) {
      const std::int64_t from = place(message.sender), to = place(message.receiver);
      if (from < 0 || to < 0 || out.size() >= 2 * most) continue;
      out.push_back(from);
      out.push_back(to);
    }
    return out;
  }

 private:
  /// Share of the step in which the track's spans work.
  double busy(const std::vector<MergedSpan>& track) const {
    SimTime sum;
    for (const MergedSpan& m : track) sum += m.working;
    return double(sum.ps) / double(std::max<std::int64_t>(1, simulation_.step.ps));
  }

  Json spans(const std::vector<MergedSpan>& track) const {
    Json out = Json::array();
    std::int64_t at = 0;
    for (const MergedSpan& m : track) {
      const Span& span = simulation_.spans[m.first];
      const std::int64_t begin = nanoseconds(m.begin), end = nanoseconds(m.end);
      const int flags =
          (m.is_critical ? 1 : 0) + (span.waits_for_host ? 2 : 0) + (span.stream == StreamId::Recv ? 4 : 0);
      for (const std::int64_t field : {begin - at, end - begin, std::int64_t(span.activity), std::int64_t(span.unit),
                                       std::int64_t(span.micro_batch), std::int64_t(flags), m.count, m.bytes.count,
                                       nanoseconds(m.waiting), place(span.cause)})
        out.push_back(field);
      at = end;
    }
    return out;
  }

  const Simulation& simulation_;
  const Tracks& tracks_;
  std::map<std::pair<std::uint32_t, int>, std::uint32_t> first_;
};

/// The curve as time and bytes in turn; where it is too fine, the highest and the lowest point of every stretch.
Json curve(const std::vector<MemoryPoint>& points, std::size_t most) {
  const std::size_t stretch = points.size() <= most ? 1 : ceil_div(std::int64_t(2 * points.size()), std::int64_t(most));
  Json out = Json::array();
  const auto add = [&](const MemoryPoint& p) {
    out.push_back(nanoseconds(p.time));
    out.push_back(p.live.count);
  };
  for (std::size_t i = 0; i < points.size(); i += stretch) {
    const auto begin = points.begin() + std::ptrdiff_t(i),
               end = begin + std::ptrdiff_t(std::min(stretch, points.size() - i));
    auto [low, high] = std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.live < b.live; });
    if (high < low) std::swap(low, high);
    add(*low);
    if (low != high) add(*high);
  }
  return out;
}

Json ranks_json(const Simulation& simulation, std::size_t num_ranks, std::size_t max_points) {
  Json out = Json::array();
  for (std::size_t r = 0; r < num_ranks; ++r) {
    const SimulatedRank& rank = simulation.ranks[r];
    out.push_back({{"name", rank.stands_for > 1 ? fmt::format("{} × {}", rank.name, rank.stands_for) : rank.name},
                   {"peak", rank.peak.count},
                   {"memory", curve(rank.memory, max_points)}});
  }
  return out;
}

Json activities_json() {
  Json out = Json::array();
  for (int a = 0; a < kNumActivities; ++a)
    out.push_back(
        {{"name", to_string(Activity(a))}, {"light", look(Activity(a)).light}, {"dark", look(Activity(a)).dark}});
  return out;
}

}  // namespace

TimelineData timeline_data(const Simulation& simulation, std::int64_t num_layers, const TimelineLimits& limits) {
  TimelineData out;
  out.num_ranks = std::min(simulation.ranks.size(), limits.max_ranks);
  out.num_spans = simulation.spans.size();
  const SpanMerging merging(simulation, out.num_ranks);
  Tracks tracks = merging.merge({});
  for (std::int64_t columns = kFinest; tracks.num_drawn > limits.max_spans && columns >= kCoarsest; columns /= 2) {
    out.num_columns = columns;
    tracks = merging.merge({std::max<std::int64_t>(1, simulation.step.ps / columns)});
  }
  out.num_drawn = tracks.num_drawn;
  const Writer writer(simulation, tracks);
  out.json = {{"step", nanoseconds(simulation.step)},
              {"layers", num_layers},
              {"fields", kSpanFields},
              {"activities", activities_json()},
              {"ranks", ranks_json(simulation, out.num_ranks, limits.max_points)},
              {"tracks", writer.tracks()},
              {"messages", writer.messages(limits.max_messages)}};
  return out;
}

}  // namespace gpuplan
