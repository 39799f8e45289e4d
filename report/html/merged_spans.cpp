#include "report/html/merged_spans.h"

#include <algorithm>

#include "report/text/activity_look.h"

namespace gpuplan {

SpanMerging::SpanMerging(const Simulation& simulation, std::size_t num_ranks) : simulation_(simulation) {
  is_critical_.resize(simulation.spans.size());
  for (const std::uint32_t i : simulation.critical_path) is_critical_[i] = true;
  for (std::uint32_t i = 0; i < simulation.spans.size(); ++i)
    if (simulation.spans[i].rank < num_ranks) order_.push_back(i);
  std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return simulation.spans[a].begin < simulation.spans[b].begin;
  });
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
    tracks.place[i] = std::uint32_t(track.size() - 1);
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

}  // namespace gpuplan
