#include "sim/critical_path.h"

#include <algorithm>

namespace gpuplan {

std::vector<std::uint32_t> find_critical_path(const std::vector<Span>& spans) {
  std::vector<std::uint32_t> path;
  if (spans.empty()) return path;
  const auto last =
      std::max_element(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.end < b.end; });
  for (std::uint32_t at = std::uint32_t(last - spans.begin()); at != Span::kNoSpan; at = spans[at].cause)
    path.push_back(at);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<CriticalPart> sum_critical_path(const std::vector<Span>& spans, const std::vector<std::uint32_t>& path) {
  std::vector<CriticalPart> parts;
  const auto add = [&](Activity activity, bool is_host, SimTime time, std::uint32_t span) {
    if (time <= SimTime{}) return;
    auto at = std::find_if(parts.begin(), parts.end(), [&](const CriticalPart& p) {
      return p.is_host == is_host && (is_host || p.activity == activity);
    });
    if (at == parts.end()) at = parts.insert(parts.end(), {.activity = activity, .is_host = is_host, .time = {}});
    at->time += time.seconds();
    const auto length = [&](std::uint32_t s) { return spans[s].end - spans[s].begin; };
    if (at->longest == Span::kNoSpan || length(span) > length(at->longest)) at->longest = span;
  };
  SimTime reached;
  for (const std::uint32_t k : path) {
    const Span& s = spans[k];
    const SimTime begin = std::max(reached, std::min(s.begin, s.end));
    add(s.activity, true, begin - reached, k);  // before the first span, and before what the host launched late
    const SimTime works = std::max(begin, s.end);
    const bool has_gaps = s.stream == StreamId::Compute;
    const SimTime active = has_gaps ? std::min(s.active, works - begin) : works - begin;
    add(s.activity, false, active, k);
    add(s.activity, true, works - begin - active, k);
    reached = works;
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  return parts;
}

}  // namespace gpuplan
