#include "sim/fair_share.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

constexpr double kTie = 1 + 1e-12;               // rounding: links that fill up together, rates that are alike
constexpr std::uint32_t kOwnLimit = 0xffffffff;  // bottleneck of a flow that has its free rate

// Demands are whole numbers, so that what comes and goes leaves no rounding behind.
constexpr std::int64_t kWholeCapacity = std::int64_t(1) << 44;
constexpr std::int64_t kFullDemand = kWholeCapacity + 256;  // each flow's is rounded

}  // namespace

FairShare::FairShare(std::vector<BytesPerSec> capacities) : links_(capacities.size()) {
  for (std::size_t k = 0; k < capacities.size(); ++k) {
    GPUPLAN_CHECK(capacities[k].value > 0, "a link has no capacity");
    links_[k].capacity = capacities[k].value;
  }
}

std::uint32_t FairShare::add_route(std::span<const LinkUse> route) {
  SharedRoute shared{.begin = narrow<std::uint32_t>(uses_.size()),
                     .free_rate = std::numeric_limits<double>::infinity()};
  for (const LinkUse& use : route) {
    if (use.weight <= 0) continue;
    const auto own = uses_.begin() + shared.begin;
    const auto same = std::find_if(own, uses_.end(), [&](const LinkUse& u) { return u.link == use.link; });
    if (same != uses_.end())
      same->weight += use.weight;
    else
      uses_.push_back(use);
  }
  shared.end = narrow<std::uint32_t>(uses_.size());
  for (std::uint32_t k = shared.begin; k < shared.end; ++k)
    shared.free_rate = std::min(shared.free_rate, links_[uses_[k].link].capacity / uses_[k].weight);
  for (std::uint32_t k = shared.begin; k < shared.end; ++k)
    demands_.push_back(
        std::llround(uses_[k].weight * shared.free_rate / links_[uses_[k].link].capacity * double(kWholeCapacity)));
  routes_.push_back(shared);
  return narrow<std::uint32_t>(routes_.size() - 1);
}

bool FairShare::is_slack(const Link& link) { return link.demand <= kFullDemand; }

std::vector<bool> FairShare::overfull(std::span<const std::uint32_t> routes) const {
  std::vector<std::int64_t> demand(links_.size());
  for (const std::uint32_t r : routes)
    for (std::uint32_t k = routes_[r].begin; k < routes_[r].end; ++k) demand[uses_[k].link] += demands_[k];
  std::vector<bool> out;
  for (const std::int64_t d : demand) out.push_back(d > kFullDemand);
  return out;
}

void FairShare::mark_changed(std::uint32_t link) {
  if (links_[link].is_changed) return;
  links_[link].is_changed = true;
  changed_links_.push_back(link);
}

void FairShare::press(std::uint32_t link) {
  if (links_[link].is_pressed || links_[link].holders.empty()) return;
  links_[link].is_pressed = true;
  pressed_links_.push_back(link);
}

void FairShare::begin(std::uint32_t flow, std::uint32_t route) {
  if (flow >= flows_.size()) flows_.resize(flow + 1);
  Flow& f = flows_[flow];
  f.rate = 0;
  f.route = route;
  f.bottleneck = kOwnLimit;
  f.is_active = true;
  for (std::uint32_t k = routes_[route].begin; k < routes_[route].end; ++k) {
    Link& link = links_[uses_[k].link];
    link.flows.push_back({flow, uses_[k].weight});
    link.demand += demands_[k];
    if (is_slack(link)) continue;
    mark_changed(uses_[k].link);
    press(uses_[k].link);
  }
  begun_.push_back(flow);
}

void FairShare::end(std::uint32_t flow) {
  Flow& f = flows_[flow];
  f.is_active = false;
  for (std::uint32_t k = routes_[f.route].begin; k < routes_[f.route].end; ++k) {
    Link& link = links_[uses_[k].link];
    if (!is_slack(link) && link.flows.size() > 1) mark_changed(uses_[k].link);
    link.demand -= demands_[k];
    const auto own = std::find_if(link.flows.begin(), link.flows.end(), [&](const Use& u) { return u.flow == flow; });
    *own = link.flows.back();
    link.flows.pop_back();
  }
}

void FairShare::hold(std::uint32_t holder, std::uint32_t route) {
  for (std::uint32_t k = routes_[route].begin; k < routes_[route].end; ++k) {
    Link& link = links_[uses_[k].link];
    link.holders.push_back(holder);
    link.demand += demands_[k];
    if (!is_slack(link)) press(uses_[k].link);
  }
}

void FairShare::let_go(std::uint32_t holder, std::uint32_t route) {
  for (std::uint32_t k = routes_[route].begin; k < routes_[route].end; ++k) {
    Link& link = links_[uses_[k].link];
    link.demand -= demands_[k];
    *std::find(link.holders.begin(), link.holders.end(), holder) = link.holders.back();
    link.holders.pop_back();
  }
}

std::vector<std::uint32_t> FairShare::crowded() {
  std::vector<std::uint32_t> out;
  for (const std::uint32_t pressed : pressed_links_) {
    Link& link = links_[pressed];
    link.is_pressed = false;
    if (!is_slack(link)) out.insert(out.end(), link.holders.begin(), link.holders.end());
  }
  pressed_links_.clear();
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::span<const std::uint32_t> FairShare::settle() {
  changed_flows_.clear();
  ++epoch_;
  for (const std::uint32_t changed : changed_links_) {
    links_[changed].is_changed = false;
    const auto& flows = links_[changed].flows;
    const auto is_solved = [&](const Use& u) { return flows_[u.flow].epoch == epoch_; };
    if (!std::all_of(flows.begin(), flows.end(), is_solved)) solve_around(changed);
  }
  changed_links_.clear();
  for (const std::uint32_t flow : begun_)
    if (const Flow& f = flows_[flow]; f.epoch != epoch_ && f.is_active) report(flow, routes_[f.route].free_rate);
  begun_.clear();
  return changed_flows_;
}

void FairShare::report(std::uint32_t flow, double rate) {
  Flow& f = flows_[flow];
  f.epoch = epoch_;
  if (rate <= f.rate * kTie && rate * kTie >= f.rate) return;
  f.rate = rate;
  if (f.reported == epoch_) return;
  f.reported = epoch_;
  changed_flows_.push_back(flow);
}

/// Solves among the flows of a link that changed, and those that lose their bottleneck by it.
void FairShare::solve_around(std::uint32_t link) {
  ++region_;
  inside_.clear();
  for (const Use& use : links_[link].flows) add_to_region(use.flow);
  do {
    find_links();
    solve();
  } while (add_disturbed());
  for (const std::uint32_t flow : inside_) report(flow, flows_[flow].next_rate);
}

void FairShare::add_to_region(std::uint32_t flow) {
  if (is_inside(flow)) return;
  flows_[flow].region = region_;
  inside_.push_back(flow);
}

/// The links that may bind the region's flows, with what the others leave of them. Slack links bind nobody, and where a
/// flow is alone its free rate stands for its bottleneck.
void FairShare::find_links() {
  for (const std::uint32_t link : region_links_) links_[link].region = 0;
  region_links_.clear();
  for (const std::uint32_t flow : inside_) {
    flows_[flow].next_rate = -1;
    for (const LinkUse& use : links_of(flows_[flow])) {
      Link& link = links_[use.link];
      if (is_slack(link)) continue;
      if (link.region != region_) {
        link.region = region_;
        link.left = link.capacity;
        link.level = -1;
        link.open_weight = 0;
        link.num_open = link.num_inside = 0;
        region_links_.push_back(use.link);
      }
      link.open_weight += use.weight;
      ++link.num_open;
      ++link.num_inside;
    }
  }
  for (const std::uint32_t id : region_links_) {
    Link& link = links_[id];
    if (link.num_inside == link.flows.size()) continue;
    for (const Use& use : link.flows)
      if (!is_inside(use.flow)) link.left -= use.weight * flows_[use.flow].rate;
    link.left = std::max(0.0, link.left);
  }
}

void FairShare::solve() {
  // A flow stops where its free rate ends, too: on links that are its own, or slack. Sorted, these are met in order.
  const auto free_rate = [&](std::uint32_t flow) { return routes_[flows_[flow].route].free_rate; };
  const auto is_slower = [&](std::uint32_t a, std::uint32_t b) {
    return free_rate(a) != free_rate(b) ? free_rate(a) < free_rate(b) : a < b;
  };
  if (!std::is_sorted(inside_.begin(), inside_.end(), is_slower)) std::ranges::sort(inside_, is_slower);
  open_links_ = region_links_;
  std::size_t slowest = 0;
  double level = 0;
  for (;;) {
    while (slowest < inside_.size() && flows_[inside_[slowest]].next_rate >= 0) ++slowest;
    if (slowest == inside_.size()) break;
    level = std::max(level, lowest_level());
    if (const double limit = free_rate(inside_[slowest]); limit <= level) {
      fix(flows_[inside_[slowest]], limit, kOwnLimit);
      continue;
    }
    for (const std::uint32_t full : open_links_) {
      Link& link = links_[full];
      if (link.num_open == 0 || link.left > level * kTie * link.open_weight) continue;
      link.level = level;
      for (const Use& use : link.flows)
        if (Flow& flow = flows_[use.flow]; is_inside(use.flow) && flow.next_rate < 0) fix(flow, level, full);
    }
  }
}

/// The rate at which the next link is full. Links whose flows have all stopped are dropped.
double FairShare::lowest_level() {
  double level = std::numeric_limits<double>::infinity();
  std::erase_if(open_links_, [&](std::uint32_t id) {
    const Link& link = links_[id];
    if (link.num_open > 0) level = std::min(level, link.left / link.open_weight);
    return link.num_open == 0;
  });
  return level;
}

void FairShare::fix(Flow& flow, double level, std::uint32_t bottleneck) {
  flow.next_rate = level;
  flow.bottleneck = bottleneck;
  for (const LinkUse& use : links_of(flow))
    if (Link& link = links_[use.link]; link.region == region_) {
      link.left = std::max(0.0, link.left - use.weight * level);
      link.open_weight -= use.weight;
      --link.num_open;
    }
}

/// Takes flows in whose rates the region's new ones contradict: on a link that stopped a slower flow inside, and those
/// whose bottleneck is no longer full or has a faster flow. False: there are none.
bool FairShare::add_disturbed() {
  disturbed_.clear();
  for (const std::uint32_t id : region_links_) {
    const Link& link = links_[id];
    if (link.num_inside == link.flows.size()) continue;
    double fastest = 0;
    for (const Use& use : link.flows)
      if (is_inside(use.flow)) fastest = std::max(fastest, flows_[use.flow].next_rate);
    const bool is_full = link.left <= link.capacity * (kTie - 1);
    for (const Use& use : link.flows) {
      if (is_inside(use.flow)) continue;
      const Flow& flow = flows_[use.flow];
      const bool takes_too_much = link.level >= 0 && flow.rate > link.level * kTie;
      const bool is_unbound = flow.bottleneck == id && (!is_full || fastest > flow.rate * kTie);
      if (takes_too_much || is_unbound) disturbed_.push_back(use.flow);
    }
  }
  for (const std::uint32_t flow : disturbed_) add_to_region(flow);
  return !disturbed_.empty();
}

}  // namespace gpuplan
