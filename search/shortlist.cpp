#include "search/shortlist.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>

#include "planner/recommend.h"
#include "search/on_cores.h"
#include "search/row_text.h"

namespace gpuplan {
namespace {

constexpr int kMostRounds = 24;

PlanRow make_row(const Space& space, const RankedPlan& plan, const std::string& given) {
  const SearchQuestion& q = space.question;
  const Hardware& machine = q.machines[plan.machine];
  PlanRow row;
  row.plan = plan;
  row.request = request_of(space, plan);
  row.offer = machine.offers[plan.offer];
  row.is_rented = q.is_rented;
  row.overhead = q.overhead;
  row.command = command_of(space, plan, given);
  return row;
}

void simulate_row(PlanRow& row) {
  const EstimateRequest& r = row.request;
  const Job job(r, make_strategy(r.strategy, r.cluster, r.options));
  row.simulated = simulate_plan(job, {.records_spans = false});
  const SimulatedPlan& s = row.simulated;
  row.gpus = used_machine(r, s.estimate.num_gpus_used);
  if (row.offer.is_spot)
    row.slowdown = spot_slowdown(row.offer.spot, s.estimate.save.disk_with_optimizer, r.cluster.num_nodes());
  row.step = s.simulation.step_time();
  row.epoch = row.slowdown * s.epoch, row.total = row.slowdown * s.total + row.overhead;
  if (s.cost_usd) row.cost_usd = row.slowdown * *s.cost_usd + row.overhead_usd();
}

bool is_same_plan(const RankedPlan& a, const RankedPlan& b) {
  const auto place = [](const RankedPlan& p) {
    return std::tuple(p.way, p.machine, p.offer, p.strategy, p.batch.micro, p.batch.accum);
  };
  return place(a) == place(b);
}

std::pair<std::uint32_t, std::uint16_t> kind_of(const RankedPlan& plan) { return {plan.machine, plan.strategy}; }

}  // namespace

Shortlist::Shortlist(const Space& space, const std::vector<RankedPlan>& plans, const std::string& given, double error,
                     unsigned num_threads)
    : space_(space),
      question_(space.question),
      plans_(plans),
      given_(given),
      wishes_(wishes_of(space.question, error)),
      error_(error),
      num_threads_(num_threads) {
  for (std::size_t i = 0; i < plans.size() && !wants_dates_; ++i) wants_dates_ = question_.is_rented && is_dated(i);
}

bool Shortlist::is_dated(std::size_t plan) const {
  const RankedPlan& p = plans_[plan];
  return question_.machines[p.machine].offers[p.offer].is_dated();
}

std::vector<Merit> Shortlist::merits_of(const Indices& plans) const {
  std::vector<Merit> out;
  out.reserve(plans.size());
  for (const std::size_t i : plans) {
    const RankedPlan& p = plans_[i];
    const auto row = rows_.find(i);
    const auto known = corrections_.find(kind_of(p));
    const double by = known == corrections_.end() ? 1 : known->second;
    out.push_back(row != rows_.end() ? row->second.merit()
                                     : merit_of(p, by * p.total, by * p.cost, question_.is_rented));
  }
  return out;
}

bool Shortlist::meets_limits(std::size_t plan) const {
  const auto at = rows_.find(plan);
  if (at == rows_.end()) return true;  // as far as is known
  const PlanRow& row = at->second;
  return (!question_.under || row.total <= *question_.under) &&
         (!question_.budget || !row.cost_usd || *row.cost_usd <= *question_.budget);
}

template <class Admits>
Shortlist::Indices Shortlist::those(Admits admits) const {
  Indices out;
  for (std::size_t i = 0; i < plans_.size(); ++i)
    if (meets_limits(i) && admits(i)) out.push_back(i);
  return out;
}

bool Shortlist::simulate(const Indices& plans) {
  std::vector<std::pair<std::size_t, PlanRow>> rows;
  for (const std::size_t i : plans)
    if (!rows_.contains(i)) rows.emplace_back(i, make_row(space_, plans_[i], given_));
  std::atomic<std::size_t> next{0};
  on_cores(num_threads_for(num_threads_, rows.size()), [&](std::size_t) {
    for (std::size_t i; (i = next.fetch_add(1)) < rows.size();) simulate_row(rows[i].second);
  });
  for (auto& [i, row] : rows) {
    corrections_[kind_of(plans_[i])] = row.total / plans_[i].total;
    rows_.emplace(i, std::move(row));
  }
  return !rows.empty();
}

template <class Admits, class Choose>
Shortlist::Indices Shortlist::settled(Admits admits, Choose choose) {
  for (int round = 0;; ++round) {
    const bool is_last = round == kMostRounds;
    const Indices from = those([&](std::size_t i) { return admits(i) && (!is_last || rows_.contains(i)); });
    if (from.empty()) return {};
    Indices chosen;
    for (const std::size_t at : choose(merits_of(from), from)) chosen.push_back(from[at]);
    if (!simulate(chosen)) return chosen;
  }
}

std::vector<PlanRow> Shortlist::frontier_rows(std::size_t most) {
  const Indices chosen =
      settled([&](std::size_t i) { return !wants_dates_ || is_dated(i); },
              [&](const std::vector<Merit>& merits, const Indices&) { return frontier(merits, wishes_, most); });
  std::vector<PlanRow> out;
  for (const std::size_t i : chosen) out.push_back(rows_.at(i));
  if (out.size() > 2)
    std::ranges::stable_sort(std::span(out).subspan(1),
                             [](const PlanRow& a, const PlanRow& b) { return a.total < b.total; });
  return out;
}

Seconds Shortlist::step_of(std::size_t plan) const {
  if (const auto row = rows_.find(plan); row != rows_.end()) return row->second.step;
  const auto known = corrections_.find(kind_of(plans_[plan]));
  return (known == corrections_.end() ? 1 : known->second) * plans_[plan].step;
}

std::optional<PlanRow> Shortlist::star_as_estimate(std::vector<PlanRow>& rows, std::size_t most) {
  if (rows.empty()) return std::nullopt;
  const RankedPlan first = rows.front().plan;
  const auto is_same_job = [&](std::size_t i) {
    const RankedPlan& p = plans_[i];
    return p.machine == first.machine && p.offer == first.offer && p.way == first.way && p.batch == first.batch &&
           space_.strategies[p.strategy].has_mesh_of(space_.strategies[first.strategy]);
  };
  const Merit before = rows.front().merit();
  double least = score(before, wishes_.first);  // of all that are as sure to run: the error does not add up
  for (const Merit& m : merits())
    if (rank_of(m) >= rank_of(before)) least = std::min(least, score(m, wishes_.first));
  const bool wants_memory = question_.preference == Preference::Memory;
  const Indices chosen = settled(is_same_job, [&](const std::vector<Merit>& merits, const Indices& from) {
    std::vector<Contender> contenders;
    Indices places;
    for (std::size_t at = 0; at < from.size(); ++at) {
      const RankedPlan& p = plans_[from[at]];
      const bool is_first = p.strategy == first.strategy;
      if (!is_first && score(merits[at], wishes_.first) > least * (1 + error_)) continue;
      const double seconds = step_of(from[at]).value;
      contenders.push_back({2 * int(p.fit) - (p.takes_turns ? 1 : 0), wants_memory ? double(p.process.count) : seconds,
                            seconds, merits[at].chance, p.simplicity});
      places.push_back(at);
    }
    return contenders.empty() ? Indices{} : Indices{places[best_of(contenders, error_)]};
  });
  if (chosen.empty() || plans_[chosen.front()].strategy == first.strategy) return std::nullopt;
  const RankedPlan& star = plans_[chosen.front()];
  const PlanRow& row = rows_.at(chosen.front());
  std::erase_if(rows, [&](const PlanRow& other) { return is_same_plan(other.plan, star); });
  PlanRow replaced = rows.front();
  if (is_no_worse(row.merit(), replaced.merit(), wishes_.row_error)) rows.erase(rows.begin());
  rows.insert(rows.begin(), row);
  if (rows.size() > most) rows.resize(most);
  return replaced;
}

std::vector<PlanRow> Shortlist::best_by_gpu(const std::vector<PlanRow>& shown, std::size_t most) {
  const auto kind = [&](std::size_t i) -> const std::string& {
    return question_.machines[plans_[i].machine].cluster.gpus.front().id;
  };
  const auto is_shown = [&](std::size_t i) {
    return std::ranges::any_of(shown,
                               [&](const PlanRow& row) { return row.request.cluster.gpus.front().id == kind(i); });
  };
  const Indices chosen = settled([&](std::size_t i) { return !is_shown(i); },
                                 [&](const std::vector<Merit>& merits, const Indices& from) {
                                   std::map<std::string, Indices> kinds;
                                   for (std::size_t at = 0; at < from.size(); ++at) kinds[kind(from[at])].push_back(at);
                                   std::vector<Merit> best;
                                   Indices places;
                                   const auto dated = [&](std::size_t at) { return is_dated(from[at]); };
                                   for (auto& [id, own] : kinds) {
                                     if (std::ranges::any_of(own, dated)) std::erase_if(own, std::not_fn(dated));
                                     std::vector<Merit> all;
                                     for (const std::size_t at : own) all.push_back(merits[at]);
                                     const std::size_t at = best_of(all, wishes_);
                                     best.push_back(all[at]), places.push_back(own[at]);
                                   }
                                   Indices out;
                                   while (!best.empty()) {
                                     const auto at = std::ptrdiff_t(best_of(best, wishes_));
                                     out.push_back(places[std::size_t(at)]);
                                     best.erase(best.begin() + at), places.erase(places.begin() + at);
                                   }
                                   std::ranges::stable_partition(out, dated);
                                   out.resize(std::min(out.size(), most));
                                   return out;
                                 });
  std::vector<PlanRow> out;
  for (const std::size_t i : chosen) out.push_back(rows_.at(i));
  return out;
}

std::optional<PlanRow> Shortlist::undated_that_beats(const std::vector<PlanRow>& shown) {
  if (!wants_dates_ || shown.empty()) return std::nullopt;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < plans_.size(); ++i)
    if (!is_dated(i)) fewest = std::min(fewest, num_gpus(i));
  const Indices chosen =
      settled([&](std::size_t i) { return !is_dated(i) && (!question_.takes_fewest_gpus || num_gpus(i) == fewest); },
              [&](const std::vector<Merit>& merits, const Indices&) { return Indices{best_of(merits, wishes_)}; });
  if (chosen.empty()) return std::nullopt;
  const PlanRow& row = rows_.at(chosen.front());
  const Merit mine = row.merit();
  const bool has_fewer =
      question_.takes_fewest_gpus && fewest < question_.machines[shown.front().plan.machine].num_gpus();
  const bool would_be_first = has_fewer || best_of({shown.front().merit(), mine}, wishes_) == 1;
  const bool beats_one = std::ranges::any_of(shown, [&](const PlanRow& other) {
    return rank_of(mine) >= rank_of(other.merit()) && is_no_worse(mine, other.merit(), 0);
  });
  return would_be_first || beats_one ? std::optional(row) : std::nullopt;
}

std::vector<PlanRow> Shortlist::cheaper_with_offload(const PlanRow& first) {
  const Merit beaten = first.merit();
  if (wishes_.first != Preference::Cost || !question_.is_rented || beaten.offloads) return {};
  const Indices chosen = settled(
      [&](std::size_t i) {
        return plans_[i].offloads && plans_[i].fit >= beaten.fit && (!wants_dates_ || is_dated(i));
      },
      [&](const std::vector<Merit>& merits, const Indices&) {
        Indices cheaper;
        for (std::size_t i = 0; i < merits.size(); ++i)
          if (merits[i].cost * (1 + kAlike) < beaten.cost) cheaper.push_back(i);
        if (cheaper.empty()) return cheaper;
        const auto least = [&](auto figure) { return *std::ranges::min_element(cheaper, {}, figure); };
        const std::size_t cheapest = least([&](std::size_t i) { return std::pair(merits[i].cost, merits[i].time); });
        const std::size_t fastest = least([&](std::size_t i) { return std::pair(merits[i].time, merits[i].cost); });
        if (merits[fastest].time * (1 + kWorthRow) < merits[cheapest].time) return Indices{cheapest, fastest};
        return Indices{cheapest};
      });
  std::vector<PlanRow> out;
  for (const std::size_t i : chosen) out.push_back(rows_.at(i));
  return out;
}

std::vector<Merit> Shortlist::merits() const {
  return merits_of(those([&](std::size_t i) { return !wants_dates_ || is_dated(i); }));
}

}  // namespace gpuplan
