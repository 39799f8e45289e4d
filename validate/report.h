// What `gpuplan validate` has to say about a list of judged points. Everything that is shown or stored is computed
// here.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "validate/judge.h"
#include "validate/statistics.h"

namespace gpuplan {

/// No credit or blame this near to the capacity: the share of it.
inline constexpr double kTooClose = 0.05;

/// The verdict that estimate would give; empty without a prediction or a capacity.
std::optional<Fit> predicted_fit(const PointResult& result);

/// Fits or not, against what happened: how often a run that worked was called too large, and the reverse.
struct VerdictCounts {
  std::size_t ok_fits{}, ok_tight{}, ok_oom{}, oom_oom{}, oom_tight{}, oom_fits{}, left_out{};
  std::vector<std::string> false_alarms, dangerous;  // ids of ok_oom and oom_fits: certain, and wrong
};

/// Over the scored points. Left out are those without a stated capacity, runs measured above 95 % of it, and
/// predictions within 5 % of it.
VerdictCounts count_verdicts(const std::vector<PointResult>& results);

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

/// Points that do not count but have a heading of their own, one row per heading.
std::vector<MemoryRow> memory_by_heading(const std::vector<PointResult>& results);

/// A reason and the points it stands for.
struct ReasonCount {
  std::string reason;
  std::vector<std::string> ids;
};
/// Reasons of points with one status, most frequent first.
std::vector<ReasonCount> reasons_of(const std::vector<PointResult>& results, PointStatus status);

/// Scored points with the largest |error| in their own metric, worst first.
std::vector<const PointResult*> worst_of(const std::vector<PointResult>& results, PointKind kind, std::size_t most);

struct Peer {
  std::string tool, scope;
  double median{}, p90{};  // memory: of |error|; speed: of |ln(predicted / measured)|
};

/// Accuracy of other tools on the same points: data/validation/peers.json.
struct Peers {
  std::string source;
  std::vector<Peer> memory, speed;
};

/// Throws InputError naming the file.
Peers read_peers(const std::filesystem::path& file);
Peers read_peers();

}  // namespace gpuplan
