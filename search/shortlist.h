// The plans of a search that an answer shows, simulated. The forward pass ranks every plan; the simulator may think
// otherwise of some. What it says of one plan corrects the others on that machine with that strategy, and plans are
// simulated until none that was not would be shown.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "search/plan_row.h"
#include "search/search.h"

namespace gpuplan {

class Shortlist {
 public:
  /// `plans` of the space, `given` as answer() has it; both outlive the list.
  Shortlist(const Space& space, const std::vector<RankedPlan>& plans, const std::string& given, double error,
            unsigned num_threads);

  /// The rows of a frontier: the best first, then by time. Empty where the simulator sees none within the limits.
  /// Prices without a date stand in none where others do it.
  std::vector<PlanRow> frontier_rows(std::size_t most);

  /// Puts first what `estimate` stars of the first row's job: of the strategies with its machine, settings and batch
  /// the one that the rule of planner/recommend.h takes, within the error of the best of all. Returns the row that it
  /// replaces, which stays where it is visibly better.
  std::optional<PlanRow> star_as_estimate(std::vector<PlanRow>& rows, std::size_t most);

  /// The best plan of each kind of GPU that no row shows, the best first; those whose price has no date stand last.
  std::vector<PlanRow> best_by_gpu(const std::vector<PlanRow>& shown, std::size_t most);

  /// The best plan at a price without a date that is in no row for that alone, where it beats the first row in what was
  /// asked for, or some row in everything.
  std::optional<PlanRow> undated_that_beats(const std::vector<PlanRow>& shown);

  /// Plans that are cheaper than `first` and in no row as they offload, where the cheapest is asked for: the
  /// cheapest, and the fastest where that one is slower.
  std::vector<PlanRow> cheaper_with_offload(const PlanRow& first);

  /// Figures of the plans that rows are chosen from, as far as they are known.
  std::vector<Merit> merits() const;

 private:
  using Indices = std::vector<std::size_t>;
  bool is_dated(std::size_t plan) const;
  std::int64_t num_gpus(std::size_t plan) const { return question_.machines[plans_[plan].machine].num_gpus(); }
  bool meets_limits(std::size_t plan) const;
  /// The step, simulated where it was, else as other plans of that machine and strategy correct it.
  Seconds step_of(std::size_t plan) const;
  /// Those that meet the limits and that `admits` lets in.
  template <class Admits>
  Indices those(Admits admits) const;
  std::vector<Merit> merits_of(const Indices& plans) const;
  /// Returns false where all of them were.
  bool simulate(const Indices& plans);
  /// `choose` gives indices into the list that it is given. Simulates and asks again until all that it chooses are.
  template <class Admits, class Choose>
  Indices settled(Admits admits, Choose choose);

  const Space& space_;
  const SearchQuestion& question_;
  const std::vector<RankedPlan>& plans_;
  const std::string& given_;
  Wishes wishes_;
  double error_;  // of predictions
  unsigned num_threads_;
  bool wants_dates_ = false;             // some price has one
  std::map<std::size_t, PlanRow> rows_;  // simulated, by plan
  /// Simulated over forward pass, by machine and strategy.
  std::map<std::pair<std::uint32_t, std::uint16_t>, double> corrections_;
};

}  // namespace gpuplan
