#include "report/html/timeline_data.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/narrow.h"
#include "report/text/activity_look.h"

namespace gpuplan {
namespace {

/// One or several spans of a stream, drawn as one.
struct MergedSpan {
  std::uint32_t first{};  // span
  SimTime begin, end, working, waiting;
  std::int64_t count = 1;
  Bytes bytes;
  bool is_critical{};
};

struct Tracks {
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::map<std::pair<std::uint32_t, int>, std::vector<MergedSpan>> of;  // by rank and stream
  std::vector<std::uint32_t> place;  // per span: in its track; kNone: of a rank left out
  std::size_t num_drawn{};
};

class SpanMerging {
 public:
  /// Keeps a reference to `simulation`. Only the first `num_ranks` ranks are looked at.
  SpanMerging(const Simulation& simulation, std::size_t num_ranks);

  /// Neighbours of the same activity that together are shorter than `pixel` are one; a pixel of no length merges none.
  Tracks merge(SimTime pixel) const;

 private:
  MergedSpan alone(std::uint32_t i) const;
  void add(MergedSpan& last, std::uint32_t i) const;

  const Simulation& simulation_;
  std::vector<bool> is_critical_;
  std::vector<std::uint32_t> order_;
};

SpanMerging::SpanMerging(const Simulation& simulation, std::size_t num_ranks) : simulation_(simulation) {
  is_critical_.resize(simulation.spans.size());
  for (const std::uint32_t i : simulation.critical_path) is_critical_[i] = true;
  for (std::uint32_t i = 0; i < simulation.spans.size(); ++i)
    if (simulation.spans[i].rank < num_ranks) order_.push_back(i);
  std::ranges::stable_sort(
      order_, [&](std::uint32_t a, std::uint32_t b) { return simulation.spans[a].begin < simulation.spans[b].begin; });
}

Tracks SpanMerging::merge(SimTime pixel) const {
  Tracks tracks;
  tracks.place.assign(simulation_.spans.size(), Tracks::kNone);
  for (const std::uint32_t i : order_) {
    const Span& span = simulation_.spans[i];
    std::vector<MergedSpan>& track = tracks.of[{span.rank, int(span.stream)}];
    const bool joins = !track.empty() && simulation_.spans[track.back().first].activity == span.activity &&
                       span.end - track.back().begin < pixel;
    if (joins) {
      add(track.back(), i);
    } else {
      track.push_back(alone(i));
      ++tracks.num_drawn;
    }
    tracks.place[i] = narrow<std::uint32_t>(track.size() - 1);
  }
  return tracks;
}

MergedSpan SpanMerging::alone(std::uint32_t i) const {
  const Span& span = simulation_.spans[i];
  const WorkingPart part = working_part(span);
  const SimTime working = part.end - part.begin;
  return {.first = i,
          .begin = span.begin,
          .end = span.end,
          .working = working,
          .waiting = span.end - span.begin - working,
          .bytes = span.bytes,
          .is_critical = is_critical_[i]};
}

void SpanMerging::add(MergedSpan& last, std::uint32_t i) const {
  const MergedSpan next = alone(i);
  last.end = next.end;
  last.working += next.working;
  last.waiting += next.waiting;
  last.bytes += next.bytes;
  last.is_critical = last.is_critical || next.is_critical;
  ++last.count;
}

using Json = nlohmann::ordered_json;

constexpr std::int64_t kFinest = 64'000, kCoarsest = 62;  // columns; 4,000 are a wide screen

std::int64_t nanoseconds(SimTime time) { return time.ps / 1000; }

/// Says where each track's spans begin among all spans of the page.
std::map<std::pair<std::uint32_t, int>, std::uint32_t> first_places(const Tracks& tracks) {
  std::map<std::pair<std::uint32_t, int>, std::uint32_t> out;
  std::uint32_t next = 0;
  for (const auto& [key, track] : tracks.of) {
    out[key] = next;
    next += narrow<std::uint32_t>(track.size());
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
  /// Share of the pass with gradients in which the track's spans work.
  double busy(const std::vector<MergedSpan>& track) const {
    SimTime sum;
    for (const MergedSpan& m : track) sum += m.working;
    return double(sum.ps) / double(std::max<std::int64_t>(1, simulation_.with_gradients().ps));
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

/// All points where they are few; else the highest and the lowest of every stretch.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& points, std::size_t most) {
  if (points.size() <= most) return points;
  const std::size_t stretch = ceil_div(std::int64_t(2 * points.size()), std::int64_t(most));
  std::vector<MemoryPoint> out;
  for (std::size_t i = 0; i < points.size(); i += stretch) {
    const auto begin = points.begin() + std::ptrdiff_t(i),
               end = begin + std::ptrdiff_t(std::min(stretch, points.size() - i));
    auto [low, high] = std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.live < b.live; });
    if (high < low) std::swap(low, high);
    out.push_back(*low);
    if (low != high) out.push_back(*high);
  }
  return out;
}

/// Time and bytes in turn.
Json curve(const std::vector<MemoryPoint>& points) {
  Json out = Json::array();
  for (const MemoryPoint& p : points) {
    out.push_back(nanoseconds(p.time));
    out.push_back(p.live.count);
  }
  return out;
}

/// Bytes at the points of the curve, of every category that has any.
Json by_category(const std::vector<MemoryPoint>& points) {
  Json out = Json::array();
  for (std::size_t c = 0; c < std::size_t(kNumCategories); ++c) {
    Json bytes = Json::array();
    for (const MemoryPoint& p : points) bytes.push_back(p.by_category[c].count);
    if (std::ranges::any_of(points, [&](const MemoryPoint& p) { return p.by_category[c].count > 0; }))
      out.push_back({{"name", to_string(Category(c))}, {"place", c}, {"bytes", std::move(bytes)}});
  }
  return out;
}

/// The fullest rank also has its categories.
Json ranks_json(const Simulation& simulation, std::size_t num_ranks, std::size_t max_points) {
  const auto end = simulation.ranks.begin() + std::ptrdiff_t(num_ranks);
  const auto fullest =
      std::max_element(simulation.ranks.begin(), end, [](const auto& a, const auto& b) { return a.peak < b.peak; });
  Json out = Json::array();
  for (auto rank = simulation.ranks.begin(); rank != end; ++rank) {
    const std::vector<MemoryPoint> points = thinned(rank->memory, max_points);
    out.push_back({{"name", rank->stands_for > 1 ? fmt::format("{} × {}", rank->name, rank->stands_for) : rank->name},
                   {"stage", rank->stage},
                   {"peak", rank->peak.count},
                   {"memory", curve(points)}});
    if (rank == fullest) out.back()["by_category"] = by_category(points);
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
    tracks = merging.merge({std::max<std::int64_t>(1, simulation.with_gradients().ps / columns)});
  }
  out.num_drawn = tracks.num_drawn;
  const Writer writer(simulation, tracks);
  out.json = {{"step", nanoseconds(simulation.with_gradients())},
              {"layers", num_layers},
              {"fields", kSpanFields},
              {"activities", activities_json()},
              {"ranks", ranks_json(simulation, out.num_ranks, limits.max_points)},
              {"tracks", writer.tracks()},
              {"messages", writer.messages(limits.max_messages)}};
  return out;
}

}  // namespace gpuplan
