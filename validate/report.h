// What `gpuplan validate` has to say about a list of judged points. Everything that is shown or stored is computed
// here.
#pragma once

#include <string>
#include <vector>

#include "validate/judge.h"
#include "validate/statistics.h"
#include "validate/verdicts.h"

namespace gpuplan {

/// Memory errors of a set of points: each in its own metric, and by tier.
struct MemorySummary {
  std::size_t scoreable{}, represented{};  // points that count; those of them that have a prediction
  ErrorSummary own, allocated, process;
  VerdictCounts verdicts;
  ErrorSummary boundaries;  // of the largest batch or length that fits
};

MemorySummary summarise_memory(const std::vector<PointResult>& results);

enum class Grouping : std::uint8_t { Source, Method, Strategy };
std::string key_of(const PointResult& result, Grouping grouping);

/// One row of a table by source, method or strategy.
struct MemoryRow {
  std::string key;
  MemorySummary summary;
};
std::vector<MemoryRow> memory_by(const std::vector<PointResult>& results, Grouping grouping);

/// A reason and the points it stands for.
struct ReasonCount {
  std::string reason;
  std::vector<std::string> ids;
};
/// Of one status, most frequent first.
std::vector<ReasonCount> reasons_of(const std::vector<PointResult>& results, PointStatus status);

/// Scored points with the largest |error| in their own metric, worst first.
std::vector<const PointResult*> worst_of(const std::vector<PointResult>& results, PointKind kind, std::size_t most);

}  // namespace gpuplan
