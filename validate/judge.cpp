#include "validate/judge.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "models/framework.h"
#include "planner/strategy_estimate.h"
#include "validate/comparison.h"

namespace gpuplan {
namespace {

struct TierRow {
  std::string_view metric;
  MemoryTier tier;
};
constexpr std::array kTiers{TierRow{"max_allocated", MemoryTier::Tensors}, TierRow{"max_active", MemoryTier::Tensors},
                            TierRow{"max_reserved", MemoryTier::Reserved}, TierRow{"nvidia-smi", MemoryTier::Process},
                            TierRow{"unspecified", MemoryTier::Process}};

double gib_of(Bytes amount) { return double(amount.count) / 0x1p30; }

double predicted_gib(const MemoryTiers& tiers, MemoryTier tier) {
  const Bytes unseen = tiers.given_back();
  const std::array<Bytes, 3> all{tiers.tensors, tiers.reserved - unseen, tiers.process - unseen};
  return gib_of(all[std::size_t(tier)]);
}

/// The figure of the first of `metrics` that the run prints.
std::optional<Comparison> compare(const MemoryFigures& memory, const MemoryTiers& tiers,
                                  std::initializer_list<std::string_view> metrics) {
  for (const std::string_view metric : metrics) {
    if (memory.metric == metric && memory.gib)
      return Comparison{memory.metric, *memory.gib, predicted_gib(tiers, *tier_of(metric)), tier_of(metric)};
    for (const auto& [other, gib] : memory.others_gib)
      if (other == metric) return Comparison{other, gib, predicted_gib(tiers, *tier_of(metric)), tier_of(metric)};
  }
  return std::nullopt;
}

void compare_memory(PointResult& result) {
  const MemoryFigures& memory = result.point->memory;
  if (memory.ran_out || !memory.gib) return;
  if (tier_of(memory.metric)) result.own = compare(memory, *result.tiers, {memory.metric});
  result.allocated = compare(memory, *result.tiers, {"max_allocated", "max_active"});
  const bool is_process = tier_of(memory.metric) && *tier_of(memory.metric) != MemoryTier::Tensors;
  result.process = is_process ? result.own : compare(memory, *result.tiers, {"nvidia-smi", "max_reserved"});
}

/// A quantity that a point may claim to be the largest that fits, and our answer to it.
struct BoundaryRow {
  std::string_view name;
  std::optional<std::int64_t> Point::*stated;
  std::optional<std::int64_t> StrategyEstimate::*predicted;
};
constexpr std::array kBoundaries{
    BoundaryRow{"max_micro_batch", &Point::micro_batch, &StrategyEstimate::max_micro_batch},
    BoundaryRow{"max_seq_len", &Point::seq_len, &StrategyEstimate::max_seq_len}};

/// Takes the limit that the point measured from `e`; 0 if nothing fits. Requires find_limits(e).
std::optional<Comparison> compare_boundary(const Point& point, const StrategyEstimate& e) {
  for (const BoundaryRow& row : kBoundaries)
    if (row.name == point.memory.boundary && point.*row.stated)
      return Comparison{point.memory.boundary, double(*(point.*row.stated)), double((e.*row.predicted).value_or(0))};
  return std::nullopt;
}

/// While rank 0 hands out the weights it holds all of them beside its own shard, in 16 bit.
double loading_gib(const Job& job) {
  const auto ways = double(job.strategy.mesh.shard_ways());
  return 2 * double(job.model.parameters) * (1 + 1 / ways) / 0x1p30;
}

/// Applies what the source says of the engine's own settings.
FrameworkConvention as_configured(FrameworkConvention framework, const Point& p) {
  if (p.reduce_bucket) framework.zero.buckets.size = framework.zero.buckets_stage3.size = *p.reduce_bucket;
  framework.zero.copies_fp8 |= std::find(p.offload.begin(), p.offload.end(), "quant_weights") != p.offload.end();
  return framework;
}

/// The card's profile with the rate of the attention kernel that the source names.
Profile with_kernel_of(Profile profile, const Point& p, const AliasTable& aliases) {
  const auto rate = aliases.attention_rates.find(p.attention);
  if (rate != aliases.attention_rates.end()) profile.flash_efficiency *= rate->second;
  return profile;
}

class Predictor {
 public:
  explicit Predictor(const TimeRefinement& refine) : refine_(refine) {}

  /// Fills the prediction of `result`. Throws InputError for a recipe that the model cannot follow.
  void predict(PointResult& result, const PointPlan& plan, const AliasTable& aliases) {
    const EstimateRequest& r = plan.request;
    const FrameworkConvention framework = as_configured(*r.recipe.framework, *result.point);
    const Profile profile = with_kernel_of(profile_of(r.cluster.gpus.front()), *result.point, aliases);
    const Job job(r, prepare(r.model, r.recipe, framework), framework, profile,
                  make_strategy(r.strategy, r.cluster, r.options));
    result.framework = framework.name;
    result.kind = measured_kind(job);
    result.kind.is_pretraining = result.point->method == "pretrain";
    StrategyEstimate e;
    if (result.point->kind == PointKind::Speed) {
      e = estimate_strategy(job, program_);
      if (refine_) refine_(e, job);
      result.own = compare_speed(*result.point, e, job, aliases);
      if (result.own)
        result.throughput =
            Throughput{e.tokens_per_second * std::exp(log_time_error(*result.own)), e.tokens_per_second};
    } else {
      evaluate(e, job, program_);
    }
    result.tiers = e.tiers;
    result.fit = e.fit_on_gpus();
    if (!result.point->memory.boundary.empty()) {
      find_limits(e, job, program_);
      result.boundary = compare_boundary(*result.point, e);
    }
    if (result.point->kind == PointKind::Memory) compare_memory(result);
    if (plan.measures_loading && result.own) {
      result.own->predicted = std::max(result.own->predicted, loading_gib(job));
      if (result.allocated) result.allocated = result.own;
    }
  }

  /// The classes that were used, without what single cards were measured to reach.
  std::vector<Profile> profiles() const {
    std::vector<Profile> out = shipped_profiles();
    std::erase_if(out, [&](const Profile& one) {
      return std::ranges::none_of(profiles_, [&](const auto& used) { return used.second.id == one.id; });
    });
    std::ranges::sort(out, {}, &Profile::id);
    return out;
  }

 private:
  const Profile& profile_of(const GpuSpec& gpu) {
    const auto known = profiles_.find(gpu.id);
    return known != profiles_.end() ? known->second : profiles_.emplace(gpu.id, default_profile(gpu)).first->second;
  }

  const TimeRefinement& refine_;
  std::map<std::string, Profile> profiles_;
  StepProgram program_;
};

/// Says why a point that has a plan has no comparison.
std::string why_incomparable(const PointResult& result) {
  const Point& p = *result.point;
  if (result.own || result.boundary || p.memory.ran_out) return {};
  if (p.kind == PointKind::Memory && !p.memory.gib) return "no figure is stated";
  return fmt::format("metric '{}'", p.kind == PointKind::Memory ? p.memory.metric : p.speed.metric);
}

PointResult judge_one(const Point& point, PointPlanner& planner, Predictor& predictor) {
  PointResult result{.point = &point};
  const PointPlan plan = planner.plan(point);
  std::string unsupported = plan.unsupported;
  result.strategy = plan.request.strategy == "auto" ? "" : plan.request.strategy;
  if (unsupported.empty()) {
    try {
      predictor.predict(result, plan, planner.aliases());
      unsupported = why_incomparable(result);
    } catch (const InputError& error) { unsupported = error.problem(); }
  }
  if (!point.skipped.empty()) {
    if (unsupported.empty()) result.heading = plan.heading;
    result.status = PointStatus::Skipped;
    result.reason = point.skipped;
  } else if (!unsupported.empty()) {
    result.status = PointStatus::Unsupported;
    result.reason = unsupported;
  }
  return result;
}

}  // namespace

std::string_view to_string(PointStatus status) {
  constexpr std::array<std::string_view, 3> kNames{"scored", "unsupported", "skipped"};
  return kNames[std::size_t(status)];
}

std::optional<MemoryTier> tier_of(std::string_view metric) {
  for (const TierRow& row : kTiers)
    if (row.metric == metric) return row.tier;
  return std::nullopt;
}

Judgement judge(const std::vector<Point>& points, PointPlanner& planner, const TimeRefinement& refine) {
  Predictor predictor(refine);
  Judgement out;
  out.results.reserve(points.size());
  for (const Point& point : points) out.results.push_back(judge_one(point, planner, predictor));
  out.profiles = predictor.profiles();
  return out;
}

}  // namespace gpuplan
