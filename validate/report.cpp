#include "validate/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace gpuplan {
namespace {

using Part = std::optional<Comparison> PointResult::*;

ErrorSummary summarise_part(const std::vector<PointResult>& results, Part part) {
  std::vector<double> errors;
  std::vector<PointPlace> places;
  for (const PointResult& r : results) {
    if (r.status != PointStatus::Scored || r.point->kind != PointKind::Memory || !(r.*part)) continue;
    errors.push_back((r.*part)->error());
    places.push_back({r.point->source, r.point->group});
  }
  return summarise(errors, places);
}

}  // namespace

MemorySummary summarise_memory(const std::vector<PointResult>& results) {
  MemorySummary s{.own = summarise_part(results, &PointResult::own),
                  .allocated = summarise_part(results, &PointResult::allocated),
                  .process = summarise_part(results, &PointResult::process),
                  .verdicts = count_verdicts(results),
                  .boundaries = summarise_part(results, &PointResult::boundary)};
  for (const PointResult& r : results) {
    if (r.point->kind != PointKind::Memory || r.status == PointStatus::Skipped) continue;
    ++s.scoreable;
    s.represented += r.status == PointStatus::Scored;
  }
  return s;
}

std::string key_of(const PointResult& result, Grouping grouping) {
  const std::array<std::string, 3> keys{result.point->source, result.point->method, result.strategy};
  const std::string& key = keys[std::size_t(grouping)];
  return key.empty() ? "other" : key;
}

std::vector<MemoryRow> memory_by(const std::vector<PointResult>& results, Grouping grouping) {
  std::map<std::string, std::vector<PointResult>> parts;
  for (const PointResult& r : results)
    if (r.point->kind == PointKind::Memory && r.status != PointStatus::Skipped) parts[key_of(r, grouping)].push_back(r);
  std::vector<MemoryRow> rows;
  for (const auto& [key, part] : parts) rows.push_back({key, summarise_memory(part)});
  return rows;
}

std::vector<ReasonCount> reasons_of(const std::vector<PointResult>& results, PointStatus status) {
  std::map<std::string, std::vector<std::string>> ids;
  for (const PointResult& r : results)
    if (r.status == status) ids[r.reason].push_back(r.point->id);
  std::vector<ReasonCount> out;
  for (auto& [reason, list] : ids) out.push_back({reason, std::move(list)});
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.ids.size() > b.ids.size(); });
  return out;
}

std::vector<const PointResult*> worst_of(const std::vector<PointResult>& results, PointKind kind, std::size_t most) {
  std::vector<const PointResult*> out;
  for (const PointResult& r : results)
    if (r.status == PointStatus::Scored && r.point->kind == kind && r.own) out.push_back(&r);
  const auto size = [](const PointResult* r) { return std::abs(std::log(r->own->predicted / r->own->measured)); };
  std::stable_sort(out.begin(), out.end(), [&](const auto* a, const auto* b) { return size(a) > size(b); });
  out.resize(std::min(out.size(), most));
  return out;
}

}  // namespace gpuplan
