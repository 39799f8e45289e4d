// Every point against the planner's prediction of it, in the metric that the point measured.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "validate/comparison.h"
#include "validate/point_plan.h"

namespace gpuplan {

enum class PointStatus : std::uint8_t { Scored, Unsupported, Skipped };
std::string_view to_string(PointStatus status);

std::optional<MemoryTier> tier_of(std::string_view metric);

/// Tokens per second of the whole job, whatever the source printed.
struct Throughput {
  double measured{}, predicted{};
};

struct PointResult {
  const Point* point = nullptr;  // of the list that was judged
  PointStatus status = PointStatus::Scored;
  std::string reason;             // of a status other than scored
  std::string heading;            // of a skipped memory point that is scored apart; else empty
  std::string framework;          // our record
  MeasuredKind kind;              // of a predicted point
  std::string strategy;           // canonical; empty where it could not be read
  std::optional<Comparison> own;  // empty for a run that ran out of memory and for what was not predicted
  /// The same run, by tier: from the point's own metric where it is of that tier, else from another that it prints.
  std::optional<Comparison> allocated, process;
  std::optional<Comparison> boundary;    // the largest value that fits, as the point claims and as we say
  std::optional<MemoryTiers> tiers;      // predicted, of the fullest rank
  std::optional<Fit> fit;                // with tiers
  std::optional<Throughput> throughput;  // of speed points
};

struct Judgement {
  std::vector<PointResult> results;  // in the order of the points
  std::vector<Profile> profiles;     // that the predictions used
};

/// Replaces the time of an estimate, and what follows from it, by a better one: the simulator's.
using TimeRefinement = std::function<void(StrategyEstimate&, const Job&)>;

/// Points that do not count are predicted too where that is possible.
Judgement judge(const std::vector<Point>& points, PointPlanner& planner, const TimeRefinement& refine = {});

}  // namespace gpuplan
