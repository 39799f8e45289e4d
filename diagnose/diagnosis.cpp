#include "diagnose/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "diagnose/predicted_parts.h"

namespace gpuplan {
namespace {

/// Eight of ten of a normal variable lie within so many standard deviations.
constexpr double kEightOfTen = 1.2816;
/// Says where no measured run states an error: that of all training (data/validation/accuracy.json).
constexpr double kUsualLow = 0.8, kUsualHigh = 1.25;
/// A part of a step is predicted worse than the whole, in which errors cancel. Derived: of n = 4 parts that are as
/// large and independent, each has sqrt(n) times the relative error of their sum.
constexpr double kPartSpread = 2;
/// Shares of the step below which a measured part says nothing.
constexpr double kPartFloor = 0.03;
/// The size of a change's effect is predicted worse than the plan: a standard deviation of the logarithm of its factor.
constexpr double kEffectSpread = 0.25;
/// A change that moves no figure by so much is no explanation.
constexpr double kVisible = 0.03;
/// Less likely explanations are not named.
constexpr double kWorthNaming = 0.05;
/// The logarithm of a ratio that nobody can explain lies anywhere in +-ln 10.
constexpr double kWidest = 2.302585;

AccuracyRange range_or_usual(const std::optional<AccuracyRange>& range) {
  if (range) return *range;
  AccuracyRange usual;
  usual.low = kUsualLow, usual.high = kUsualHigh;
  return usual;
}

/// Density of ln(measured / predicted): normal on either side, each with its own width.
struct SplitNormal {
  double below, above;
  explicit SplitNormal(const AccuracyRange& range)
      : below(std::max(0.01, -std::log(range.low) / kEightOfTen)),
        above(std::max(0.01, std::log(range.high) / kEightOfTen)) {}
  /// Widened by an error of its own.
  SplitNormal with(double spread) const {
    SplitNormal out = *this;
    out.below = std::hypot(below, spread), out.above = std::hypot(above, spread);
    return out;
  }
  double log_density(double x) const {
    const double z = x / (x < 0 ? below : above);
    return -0.5 * z * z - std::log((below + above) * std::sqrt(std::numbers::pi / 2));
  }
  double width() const { return 0.5 * (below + above); }
  /// Says whether x is among the eight of ten in the middle.
  bool contains(double x) const { return std::abs(x) <= kEightOfTen * (x < 0 ? below : above); }
};

/// Seconds of the parts in which a measured and a predicted step are compared; they add up to the step, but for work
/// that runs beside other work.
std::vector<double> comparable(const StepParts& p) {
  const auto of = [&](KernelClass c) { return p.of(c).value; };
  return {of(KernelClass::Gemm),
          of(KernelClass::Attention) + of(KernelClass::Scan),
          of(KernelClass::Memory) + of(KernelClass::Dequantise),
          of(KernelClass::Optimizer),
          p.exposed.value + p.copies.value,
          p.idle.value};
}

/// A plan with a difference, estimated.
struct Hypothesis {
  StrategyEstimate estimate;
  double time{};  // as Gap::measured counts
  std::optional<StepParts> parts;
  bool peaks_at_longest = false;  // memory is planned for the longest rows, which a run may not have met
};

class Diagnosing {
 public:
  Diagnosing(const Variant& asked, const std::string& strategy, const MeasuredRun& measured)
      : asked_(asked),
        name_(strategy),
        measured_(measured) {
    out_.request = asked.request;
    out_.measured = measured;
  }

  Diagnosis take() {
    const auto as_planned = hypothesis({});
    if (!as_planned) throw InputError("--strategy", fmt::format("{} is not possible here", name_));
    out_.predicted = as_planned->estimate;
    out_.predicted_parts = as_planned->parts;
    set_gaps(*as_planned);
    if (!out_.is_inside()) explain(*as_planned);
    return std::move(out_);
  }

 private:
  double time_of(const StrategyEstimate& e) const {
    return measured_.tokens_per_second ? e.tokens_per_second : e.time.step.value;
  }
  Bytes peak_of(const StrategyEstimate& e) const {
    switch (measured_.peak_kind) {
      case PeakKind::Allocated: return e.tiers.tensors;
      case PeakKind::Reserved: return e.tiers.reserved;
      case PeakKind::Process: break;
    }
    return e.fits() ? e.tiers.process - e.tiers.given_back() : e.tiers.process;
  }
  double measured_time() const {
    if (measured_.tokens_per_second) return *measured_.tokens_per_second;
    return measured_.step ? measured_.step->value : measured_.parts->step.value;
  }
  /// ln of measured over predicted time.
  double time_distance(double predicted) const {
    const double ratio = measured_time() / predicted;
    return measured_.tokens_per_second ? -std::log(ratio) : std::log(ratio);
  }

  std::optional<Hypothesis> hypothesis(const Difference& difference) const {
    std::vector<Setting> settings = difference.settings;
    const bool pads = std::ranges::any_of(
        settings, [](const Setting& s) { return s.change->name == "packing" && s.value == "padded"; });
    if (pads && measured_.full_length > asked_.request.recipe.seq_len)
      settings.push_back(set_to("seq-len", std::to_string(measured_.full_length)));
    const auto possible = changed_if_possible(asked_, settings);
    if (!possible) return std::nullopt;
    const Variant& variant = *possible;
    auto estimate = estimate_variant(variant, name_);
    if (!estimate || estimate->time.step.value <= 0) return std::nullopt;
    Hypothesis out{.estimate = std::move(*estimate), .time = {}, .parts = {}};
    out.peaks_at_longest = variant.request.recipe.packing == Packing::Dynamic;
    const double slower = 1 + difference.wait;
    out.time = measured_.tokens_per_second ? time_of(out.estimate) / slower : time_of(out.estimate) * slower;
    if (!measured_.parts) return out;
    const EstimateRequest& r = variant.request;
    EstimateRequest settled = r;
    settled.profile = std::make_shared<const Profile>(variant.profile);
    out.parts = predicted_parts(Job(settled, make_strategy(name_, r.cluster, options_for(r))));
    out.parts->idle += difference.wait * out.parts->step;
    return out;
  }

  void set_gaps(const Hypothesis& as_planned) {
    const StrategyEstimate& e = as_planned.estimate;
    if (measured_.has_time())
      out_.time = Gap{.measured = measured_time(),
                      .predicted = as_planned.time,
                      .range = range_or_usual(e.time_range),
                      .ratio = std::exp(time_distance(as_planned.time))};
    if (!measured_.peak) return;
    const double predicted = double(peak_of(e).count);
    out_.memory = Gap{.measured = double(measured_.peak->count),
                      .predicted = predicted,
                      .range = range_or_usual(e.memory_range),
                      .ratio = double(measured_.peak->count) / predicted};
  }

  /// ln of the density of what was measured, if the hypothesis is true.
  double log_density(const Hypothesis& h) const {
    double sum = 0;
    if (out_.time && h.parts) {
      sum += log_density_of_parts(*h.parts, SplitNormal(out_.time->range));
    } else if (out_.time) {
      const double effect = std::abs(std::log(h.time / out_.time->predicted));
      sum += SplitNormal(out_.time->range).with(kEffectSpread * effect).log_density(time_distance(h.time));
    }
    if (out_.memory) {
      const double peak = double(peak_of(h.estimate).count);
      const double effect = std::abs(std::log(peak / out_.memory->predicted));
      const double distance = std::log(out_.memory->measured / peak);
      const SplitNormal error = SplitNormal(out_.memory->range).with(kEffectSpread * effect);
      sum += h.peaks_at_longest && distance < 0 ? -std::log(2 * kWidest) : error.log_density(distance);
    }
    return sum;
  }
  double log_density_of_parts(const StepParts& predicted, const SplitNormal& error) const {
    const std::vector<double> seen = comparable(*measured_.parts), expected = comparable(predicted),
                              planned = comparable(*out_.predicted_parts);
    const double step = measured_.parts->step.value, floor = kPartFloor * step;
    double sum = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const double effect = std::abs(std::log((expected[i] + floor) / (planned[i] + floor)));
      const double spread = std::hypot(kPartSpread * error.width(), kEffectSpread * effect);
      const double width = spread * std::max(seen[i], expected[i]) + floor;
      const double z = (seen[i] - expected[i]) / width;
      sum += -0.5 * z * z - std::log(width / step * std::sqrt(2 * std::numbers::pi));
    }
    return sum;
  }
  /// The same if something is true that gpuplan does not know: every ratio is as likely, and every part.
  double log_density_of_unknown() const {
    double sum = 0;
    if (out_.time) sum -= std::log(2 * kWidest);  // parts add up to a step that takes any time
    if (out_.memory) sum -= std::log(2 * kWidest);
    if (!measured_.parts) return sum;
    const SplitNormal error(out_.time->range);
    for (const double seen : comparable(*measured_.parts))  // each three of its widths off
      sum += -4.5 - std::log((kPartSpread * error.width() * seen / measured_.parts->step.value + kPartFloor) *
                             std::sqrt(2 * std::numbers::pi));
    return sum;
  }

  bool is_visible(const Hypothesis& h, const Hypothesis& as_planned) const {
    const auto moved = [](double a, double b) { return std::abs(std::log(a / b)) >= kVisible; };
    return (out_.time && moved(h.time, as_planned.time)) ||
           (out_.memory && moved(double(peak_of(h.estimate).count), double(peak_of(as_planned.estimate).count)));
  }

  /// A step that was measured ran: says how likely that is if the hypothesis is true, beside the plan as it is. A
  /// measured peak says it already.
  double chance_to_run(const Hypothesis& h, const Hypothesis& as_planned) const {
    constexpr double kLeast = 1e-4;  // predictions of memory are further off now and then
    const auto chance = [&](const Hypothesis& of) { return std::max(kLeast, of.estimate.chance); };
    return out_.memory ? 1 : std::min(1.0, chance(h) / chance(as_planned));
  }

  /// Says whether a figure that is outside its range would be nearer; parts that happen to agree are no reason.
  bool comes_nearer(const Hypothesis& h, const Hypothesis& as_planned) const {
    const auto distance = [](double measured, double predicted) { return std::abs(std::log(measured / predicted)); };
    const auto peak = [&](const Hypothesis& of) { return double(peak_of(of.estimate).count); };
    return (out_.time && !out_.time->is_inside() &&
            distance(out_.time->measured, h.time) < distance(out_.time->measured, as_planned.time)) ||
           (out_.memory && !out_.memory->is_inside() &&
            distance(out_.memory->measured, peak(h)) < distance(out_.memory->measured, peak(as_planned)));
  }

  /// Says whether the step of a trace is one that the hypothesis predicts: parts that agree explain no other time. The
  /// density of a time alone says so by itself.
  bool predicts_step(const Hypothesis& h) const {
    if (!measured_.parts) return true;
    const double effect = std::abs(std::log(h.time / out_.time->predicted));
    return SplitNormal(out_.time->range).with(kEffectSpread * effect).contains(time_distance(h.time));
  }

  /// Weighs causes by their prior and the order of their values, then by how near each comes to the measurement.
  void explain(const Hypothesis& as_planned) {
    struct Weighed {
      Explanation explanation;
      double density{};  // mean over its values, beside that of the unknown
    };
    std::vector<Weighed> all;
    const Strategy& strategy = as_planned.estimate.strategy;
    const double base = log_density(as_planned), unknown = log_density_of_unknown();
    for (const Cause& cause : causes()) {
      Weighed own{.explanation = {.cause = &cause, .difference = {}, .probability = 0, .time = 0, .peak = {}}};
      double best = -1e300;
      const std::vector<Difference> ways = cause.ways(asked_, strategy);
      double share = 1 / (2 - std::exp2(1 - double(ways.size())));  // of the first value: all add up to 1
      for (const Difference& difference : ways) {
        const double weight = cause.prior * std::exchange(share, share / 2);
        const auto h = difference.settings.empty() && !measured_.parts ? waiting(as_planned, difference.wait)
                                                                       : hypothesis(difference);
        if (!h || !is_visible(*h, as_planned) || !comes_nearer(*h, as_planned) || !predicts_step(*h)) continue;
        const double log = log_density(*h);
        // the unknown is never far below what fits
        own.density += weight * chance_to_run(*h, as_planned) * std::exp(log - unknown);
        if (log <= best) continue;
        best = log;
        own.explanation.difference = difference;
        own.explanation.time = h->time;
        own.explanation.peak = peak_of(h->estimate);
      }
      if (best > base) all.push_back(std::move(own));  // others come no nearer than the plan
    }
    double sum = 1 + std::exp(base - unknown);  // of what gpuplan does not know, and of the plan as it is
    for (const Weighed& w : all) sum += w.density;
    for (Weighed& w : all) {
      w.explanation.probability = w.density / sum;
      if (w.explanation.probability >= kWorthNaming) out_.explanations.push_back(std::move(w.explanation));
    }
    std::ranges::stable_sort(out_.explanations, std::ranges::greater{}, &Explanation::probability);
    for (const Explanation& e : out_.explanations) out_.unexplained -= e.probability;
  }

  /// The plan with a training loop that waits.
  Hypothesis waiting(const Hypothesis& as_planned, double wait) const {
    Hypothesis out = as_planned;
    out.time = measured_.tokens_per_second ? out.time / (1 + wait) : out.time * (1 + wait);
    return out;
  }

  const Variant& asked_;
  const std::string& name_;
  const MeasuredRun& measured_;
  Diagnosis out_;
};

}  // namespace

Diagnosis diagnose(const Variant& asked, const std::string& strategy, const MeasuredRun& measured) {
  if (!measured.has_time() && !measured.peak)
    throw InputError("", "nothing was measured", "--measured 1.4s, --tokens-per-s, --peak, --trace or --log");
  return Diagnosing(asked, strategy, measured).take();
}

}  // namespace gpuplan
