#include "validate/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/files.h"
#include "base/json_file.h"

namespace gpuplan {
namespace {

bool is_too_close(const PointResult& result) {
  const MemoryFigures& memory = result.point->memory;
  const double capacity = double(result.tiers->capacity.count), needed = double(result.tiers->needed.count);
  if (memory.gib && !memory.ran_out && *memory.gib * 0x1p30 > (1 - kTooClose) * capacity) return true;
  return std::abs(needed / capacity - 1) < kTooClose;
}

}  // namespace

std::optional<Fit> predicted_fit(const PointResult& result) {
  if (!result.fit || result.tiers->capacity.count <= 0) return std::nullopt;
  return result.fit;
}

VerdictCounts count_verdicts(const std::vector<PointResult>& results) {
  VerdictCounts counts;
  for (const PointResult& r : results) {
    if (r.status != PointStatus::Scored || r.point->kind != PointKind::Memory) continue;
    const auto fits = predicted_fit(r);
    if (!fits || !r.point->memory.capacity_gib || is_too_close(r)) {
      ++counts.left_out;
    } else if (r.point->memory.ran_out) {
      ++(*fits == Fit::Yes ? counts.oom_fits : *fits == Fit::Tight ? counts.oom_tight : counts.oom_oom);
      if (*fits == Fit::Yes) counts.dangerous.push_back(r.point->id);
    } else {
      ++(*fits == Fit::Yes ? counts.ok_fits : *fits == Fit::Tight ? counts.ok_tight : counts.ok_oom);
      if (*fits < Fit::Tight) counts.false_alarms.push_back(r.point->id);
    }
  }
  return counts;
}

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

std::vector<MemoryRow> memory_by_heading(const std::vector<PointResult>& results) {
  std::map<std::string, std::vector<PointResult>> parts;
  for (const PointResult& r : results)
    if (!r.heading.empty()) {
      parts[r.heading].push_back(r);
      parts[r.heading].back().status = PointStatus::Scored;
    }
  std::vector<MemoryRow> rows;
  for (const auto& [heading, part] : parts) rows.push_back({heading, summarise_memory(part)});
  return rows;
}

std::vector<ReasonCount> reasons_of(const std::vector<PointResult>& results, PointStatus status) {
  std::map<std::string, std::vector<std::string>> ids;
  for (const PointResult& r : results)
    if (r.status == status) ids[r.reason].push_back(r.point->id);
  std::vector<ReasonCount> out;
  for (auto& [reason, list] : ids) out.push_back({reason, std::move(list)});
  std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.ids.size() > b.ids.size(); });
  return out;
}

std::vector<const PointResult*> worst_of(const std::vector<PointResult>& results, PointKind kind, std::size_t most) {
  std::vector<const PointResult*> out;
  for (const PointResult& r : results)
    if (r.status == PointStatus::Scored && r.point->kind == kind && r.own) out.push_back(&r);
  const auto size = [](const PointResult* r) { return std::abs(std::log(r->own->predicted / r->own->measured)); };
  std::ranges::stable_sort(out, [&](const auto* a, const auto* b) { return size(a) > size(b); });
  out.resize(std::min(out.size(), most));
  return out;
}

namespace {

using nlohmann::json;

constexpr auto kPeer = [](Fields& row, Peer& peer) {
  row("tool", peer.tool);
  row("scope", peer.scope);
  row("median", peer.median);
  row("p90", peer.p90);
};

}  // namespace

Peers read_peers(const std::filesystem::path& file) {
  const json content = read_json_file(file);
  Fields fields(content, file.string());
  Peers peers{.source = fields.text("source")};
  fields.objects("memory", peers.memory, kPeer);
  fields.objects("speed", peers.speed, kPeer);
  fields.finish();
  return peers;
}

Peers read_peers() { return read_peers(data_dir() / "validation" / "peers.json"); }

}  // namespace gpuplan
