#include "sim/fair_share.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

constexpr double kTie = 1 + 1e-12;  // rounding: links that fill up together

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
  routes_.push_back(shared);
  return narrow<std::uint32_t>(routes_.size() - 1);
}

bool FairShare::is_slack(const Link& link) const { return link.demand <= link.capacity * kTie; }

void FairShare::mark_changed(std::uint32_t link) {
  if (links_[link].is_changed) return;
  links_[link].is_changed = true;
  changed_links_.push_back(link);
}

void FairShare::begin(std::uint32_t flow, std::uint32_t route) {
  if (flow >= flows_.size()) flows_.resize(flow + 1);
  Flow& f = flows_[flow];
  f.rate = 0;
  f.route = route;
  f.is_active = true;
  for (const LinkUse& use : links_of(f)) {
    Link& link = links_[use.link];
    link.flows.push_back(flow);
    link.demand += use.weight * routes_[route].free_rate;
    if (!is_slack(link)) mark_changed(use.link);
  }
  begun_.push_back(flow);
}

void FairShare::end(std::uint32_t flow) {
  Flow& f = flows_[flow];
  f.is_active = false;
  for (const LinkUse& use : links_of(f)) {
    Link& link = links_[use.link];
    if (link.flows.size() == 1) {  // most often; no rounding is left behind
      link.flows.clear();
      link.demand = 0;
      continue;
    }
    if (!is_slack(link)) mark_changed(use.link);
    link.demand -= use.weight * routes_[f.route].free_rate;
    *std::find(link.flows.begin(), link.flows.end(), flow) = link.flows.back();
    link.flows.pop_back();
  }
}

std::span<const std::uint32_t> FairShare::settle() {
  changed_flows_.clear();
  ++epoch_;
  for (const std::uint32_t changed : changed_links_) {
    links_[changed].is_changed = false;
    for (const std::uint32_t flow : links_[changed].flows)
      if (flows_[flow].epoch != epoch_) {
        find_connected(flow);
        solve();
      }
  }
  changed_links_.clear();
  for (const std::uint32_t flow : begun_) {
    Flow& f = flows_[flow];
    if (f.epoch == epoch_ || !f.is_active) continue;
    f.epoch = epoch_;
    f.rate = routes_[f.route].free_rate;
    changed_flows_.push_back(flow);
  }
  begun_.clear();
  return changed_flows_;
}

void FairShare::add_to_component(std::uint32_t flow) {
  Flow& f = flows_[flow];
  if (f.epoch == epoch_) return;
  f.epoch = epoch_;
  f.next_rate = -1;
  component_flows_.push_back(flow);
}

/// Flows that `flow` reaches over links that are not slack, and all links that bind them: those, and where a flow is
/// alone its own bottleneck, which its free rate stands for.
void FairShare::find_connected(std::uint32_t flow) {
  component_flows_.clear();
  component_links_.clear();
  add_to_component(flow);
  for (std::size_t k = 0; k < component_flows_.size(); ++k)
    for (const LinkUse& use : links_of(flows_[component_flows_[k]])) {
      Link& link = links_[use.link];
      if (link.epoch == epoch_ || is_slack(link)) continue;
      link.epoch = epoch_;
      link.left = link.capacity;
      link.open_weight = 0;
      link.num_open = 0;
      component_links_.push_back(use.link);
      for (const std::uint32_t other : link.flows) add_to_component(other);
    }
}

void FairShare::solve() {
  for (const std::uint32_t flow : component_flows_)
    for (const LinkUse& use : links_of(flows_[flow]))
      if (Link& link = links_[use.link]; link.epoch == epoch_) {
        link.open_weight += use.weight;
        ++link.num_open;
      }
  // A flow stops where its free rate ends, too: on links that are its own, or slack. Sorted, these are met in order.
  const auto free_rate = [&](std::uint32_t flow) { return routes_[flows_[flow].route].free_rate; };
  const auto is_slower = [&](std::uint32_t a, std::uint32_t b) {
    return free_rate(a) != free_rate(b) ? free_rate(a) < free_rate(b) : a < b;
  };
  if (!std::is_sorted(component_flows_.begin(), component_flows_.end(), is_slower))
    std::sort(component_flows_.begin(), component_flows_.end(), is_slower);
  std::size_t slowest = 0;
  double level = 0;
  for (;;) {
    while (slowest < component_flows_.size() && flows_[component_flows_[slowest]].next_rate >= 0) ++slowest;
    if (slowest == component_flows_.size()) break;
    level = std::max(level, lowest_level());
    if (const double limit = free_rate(component_flows_[slowest]); limit <= level) {
      fix(flows_[component_flows_[slowest]], limit);
      continue;
    }
    for (const std::uint32_t full : component_links_) {
      const Link& link = links_[full];
      if (link.num_open == 0 || link.left > level * kTie * link.open_weight) continue;
      for (const std::uint32_t flow : link.flows)
        if (flows_[flow].next_rate < 0) fix(flows_[flow], level);
    }
  }
  for (const std::uint32_t flow : component_flows_) {
    Flow& f = flows_[flow];
    if (f.rate == f.next_rate) continue;
    f.rate = f.next_rate;
    changed_flows_.push_back(flow);
  }
}

/// The rate at which the next link is full. Links whose flows have all stopped are dropped.
double FairShare::lowest_level() {
  double level = std::numeric_limits<double>::infinity();
  std::erase_if(component_links_, [&](std::uint32_t id) {
    const Link& link = links_[id];
    if (link.num_open > 0) level = std::min(level, link.left / link.open_weight);
    return link.num_open == 0;
  });
  return level;
}

void FairShare::fix(Flow& flow, double level) {
  flow.next_rate = level;
  for (const LinkUse& use : links_of(flow))
    if (Link& link = links_[use.link]; link.epoch == epoch_) {
      link.left = std::max(0.0, link.left - use.weight * level);
      link.open_weight -= use.weight;
      --link.num_open;
    }
}

}  // namespace gpuplan
