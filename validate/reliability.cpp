#include "validate/reliability.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "planner/tiers.h"
#include "validate/point.h"
#include "validate/ranges.h"

namespace gpuplan {
namespace {

/// Ranges of the process's bytes as the other sources give them.
class OtherSources {
 public:
  explicit OtherSources(std::vector<Ratio> ratios) : ratios_(std::move(ratios)) {}

  const std::vector<Ratio>& ratios() const { return ratios_; }
  const AccuracyRange& range_for(const std::string& source, const std::vector<std::string>& cells) {
    const auto [known, is_new] = known_.try_emplace({source, cells});
    if (is_new) {
      std::vector<Ratio> others = ratios_;
      std::erase_if(others, [&](const Ratio& r) { return r.place.source == source; });
      if (!others.empty()) known->second = derive_range(others, cells);
    }
    return known->second;
  }

 private:
  std::vector<Ratio> ratios_;
  std::map<std::pair<std::string, std::vector<std::string>>, AccuracyRange> known_;
};

/// On a card that has `room` times what is predicted.
double chance_with(double room, const AccuracyRange& range) {
  constexpr Bytes kPredicted{std::int64_t(1) << 40};
  const Bytes usable{std::llround(room * double(kPredicted.count))};
  return chance_to_run({.tensors = {},
                        .reserved = kPredicted,
                        .process = kPredicted,
                        .needed = kPredicted,
                        .capacity = usable,
                        .usable = usable},
                       range);
}

/// One band's questions of one source.
struct Asked {
  std::size_t num = 0;
  double stated = 0, happened = 0;
};

constexpr std::array kBands{0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0};

std::vector<ReliabilityBand> ask_about_peaks(OtherSources& others) {
  constexpr double kLeastRoom = 0.7, kMostRoom = 1.4, kStep = 1.02;
  std::array<std::map<std::string, Asked>, kBands.size() - 1> asked;
  for (const Ratio& ratio : others.ratios())
    for (double room = kLeastRoom; room < kMostRoom; room *= kStep) {
      const double chance = chance_with(room, others.range_for(ratio.place.source, ratio.cells));
      const auto above = std::upper_bound(kBands.begin() + 1, kBands.end() - 1, chance);
      Asked& one = asked[std::size_t(above - kBands.begin() - 1)][ratio.place.source];
      ++one.num;
      one.stated += chance;
      one.happened += ratio.measured_over_predicted <= room ? 1 : 0;
    }
  std::vector<ReliabilityBand> out;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    ReliabilityBand band{.from = kBands[i], .to = kBands[i + 1], .least_of_a_source = 1};
    for (const auto& [source, one] : asked[i]) {
      const double happened = one.happened / double(one.num);
      band.num_questions += one.num;
      band.stated += one.stated / double(one.num) / double(asked[i].size());
      band.happened += happened / double(asked[i].size());
      band.least_of_a_source = std::min(band.least_of_a_source, happened);
      band.most = std::max(band.most, happened);
    }
    band.num_sources = asked[i].size();
    if (band.num_sources > 0) out.push_back(band);
  }
  return out;
}

/// A run that is known to have worked, or not.
struct Outcome {
  std::string source;
  double chance{};
  Fit word{};
  bool ran{};
};

std::vector<Outcome> outcomes_of(const std::vector<PointResult>& results, OtherSources& others) {
  std::vector<Outcome> out;
  for (const PointResult& r : results) {
    if (r.status != PointStatus::Scored || r.point->kind != PointKind::Memory || !r.tiers) continue;
    if (!r.point->memory.capacity_gib || r.tiers->capacity.count <= 0) continue;
    const double chance = chance_to_run(*r.tiers, others.range_for(r.point->source, cells_of(Figure::Process, r.kind)));
    out.push_back({r.point->source, chance, fit_of(chance), !r.point->memory.ran_out});
  }
  return out;
}

/// -ln of the probability of what happened; nothing is certain to more than one in a thousand.
double score_of(double chance, bool ran) {
  constexpr double kLeast = 1e-3;
  return -std::log(std::clamp(ran ? chance : 1 - chance, kLeast, 1.0));
}

double chance_of_word(const Outcome& asked, const std::vector<Outcome>& all) {
  double ran = 1, num = 2;
  for (const Outcome& other : all)
    if (other.word == asked.word && other.source != asked.source) ++num, ran += other.ran ? 1 : 0;
  return ran / num;
}

}  // namespace

Reliability measure_reliability(const std::vector<PointResult>& not_seen, const std::vector<PointResult>& results) {
  Reliability out;
  std::vector<Ratio> ratios = ratios_of(not_seen, Figure::Process);
  std::erase_if(ratios, [](const Ratio& r) { return r.cells.empty(); });  // kinds of models that are scored apart
  OtherSources others(std::move(ratios));
  out.bands = ask_about_peaks(others);
  const std::vector<Outcome> outcomes = outcomes_of(results, others);
  for (const Outcome& one : outcomes) {
    ++(one.ran ? out.num_runs : out.num_out_of_memory);
    out.score += score_of(one.chance, one.ran) / double(outcomes.size());
    out.score_of_words += score_of(chance_of_word(one, outcomes), one.ran) / double(outcomes.size());
  }
  return out;
}

}  // namespace gpuplan
