// Max-min fair rates of flows that share links, by progressive filling: all rates rise together; where a link is full
// its flows stop, the others go on. A flow takes weight x rate of each of its links. No clock in here. Source:
// Bertsekas & Gallager, Data Networks, 6.5.2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "cluster/topology.h"

namespace gpuplan {

/// Incremental: only flows that are connected with a change through links that may be full are solved again. A link is
/// slack while its flows at the rates they would have alone do not fill it; slack links bind nobody, so a flow whose
/// links are all slack costs no more than a look at them.
class FairShare {
 public:
  explicit FairShare(std::vector<BytesPerSec> capacities);

  /// Links named twice count twice. Returns the route's id; ids count from 0.
  std::uint32_t add_route(std::span<const LinkUse> route);
  std::span<const LinkUse> route(std::uint32_t id) const {
    return {uses_.data() + routes_[id].begin, uses_.data() + routes_[id].end};
  }
  /// What a flow over it gets alone; infinite without links.
  BytesPerSec free_rate(std::uint32_t route) const { return {routes_[route].free_rate}; }

  /// Flow ids are the caller's; small numbers. Has no rate before `settle`.
  void begin(std::uint32_t flow, std::uint32_t route);
  void end(std::uint32_t flow);
  /// Shares anew after all that began and ended since the last call; the flows whose rate is another now.
  std::span<const std::uint32_t> settle();

  BytesPerSec rate(std::uint32_t flow) const { return {flows_[flow].rate}; }
  std::size_t num_links() const { return links_.size(); }
  std::size_t num_flows(std::uint32_t link) const { return links_[link].flows.size(); }
  BytesPerSec capacity(std::uint32_t link) const { return {links_[link].capacity}; }

 private:
  struct Link {
    double capacity{}, demand{};  // demand: weight x free rate of its flows
    std::vector<std::uint32_t> flows;
    std::uint64_t epoch{};         // the search that found it last
    double left{}, open_weight{};  // while solving: capacity not given away, weights of flows without a rate
    std::uint32_t num_open{};
    bool is_changed{};
  };
  struct SharedRoute {
    std::uint32_t begin{}, end{};
    double free_rate{};
  };
  struct Flow {
    double rate{}, next_rate{};
    std::uint64_t epoch{};
    std::uint32_t route{};
    bool is_active{};
  };

  bool is_slack(const Link& link) const;
  std::span<const LinkUse> links_of(const Flow& flow) const { return route(flow.route); }
  void mark_changed(std::uint32_t link);
  void find_connected(std::uint32_t flow);
  void add_to_component(std::uint32_t flow);
  void solve();
  double lowest_level();
  void fix(Flow& flow, double level);

  std::vector<Link> links_;
  std::vector<LinkUse> uses_;
  std::vector<SharedRoute> routes_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> begun_, changed_links_, changed_flows_;
  std::vector<std::uint32_t> component_flows_, component_links_;
  std::uint64_t epoch_{};
};

}  // namespace gpuplan
