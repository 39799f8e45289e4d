// Max-min fair rates of flows that share links, by progressive filling: all rates rise together; where a link is full
// its flows stop, the others go on. A flow takes weight x rate of each of its links. No clock in here. Source:
// Bertsekas & Gallager, Data Networks, 6.5.2.
//
// Three flows on two links: A carries 100 GB/s, B 30 GB/s; flow 0 crosses A, flow 1 both, flow 2 B. The rates rise to
// 15 GB/s, where B is full: flows 1 and 2 stop there. Flow 0 goes on until A is full, at 85 GB/s. B is the bottleneck
// of flows 1 and 2, A that of flow 0. When flow 2 ends, flow 1 rises to the 30 GB/s of B, and flow 0 falls to 70 GB/s
// because A is its bottleneck and has 15 GB/s less left. The rates are right when every flow has a bottleneck: a full
// link on which nobody is faster. So a change is solved among the flows of its links alone, all others keeping their
// rates; only those that lose their bottleneck by it, or leave too little to one that stopped, join and are solved too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "cluster/topology.h"

namespace gpuplan {

/// Incremental: what a change does not reach is not looked at. A link is slack while its flows at the rates they would
/// have alone do not fill it; slack links bind nobody, so a flow whose links are all slack costs no more than a look at
/// them.
class FairShare {
 public:
  explicit FairShare(std::vector<BytesPerSec> capacities);

  /// Links named twice count twice. Returns the route's id; ids count from 0.
  std::uint32_t add_route(std::span<const LinkUse> route);
  std::span<const LinkUse> route(std::uint32_t id) const {
    return {uses_.data() + routes_[id].begin, uses_.data() + routes_[id].end};
  }
  /// Gives what a flow over it gets alone; infinite without links.
  BytesPerSec free_rate(std::uint32_t route) const { return {routes_[route].free_rate}; }
  /// By link: flows over all of `routes` at once would ask for more than it carries.
  std::vector<bool> overfull(std::span<const std::uint32_t> routes) const;

  /// Flow ids are the caller's; small numbers. Has no rate before `settle`.
  void begin(std::uint32_t flow, std::uint32_t route);
  void end(std::uint32_t flow);
  /// Shares anew after all that began and ended since the last call; the flows whose rate is another now.
  std::span<const std::uint32_t> settle();

  /// Counts as a flow over `route` that comes and goes without being told, at its free rate. `holder` is the caller's.
  void hold(std::uint32_t holder, std::uint32_t route);
  void let_go(std::uint32_t holder, std::uint32_t route);
  /// Holders on links that stopped being slack since the last call, ascending: theirs must become flows before
  /// `settle`.
  std::vector<std::uint32_t> crowded();

  BytesPerSec rate(std::uint32_t flow) const { return {flows_[flow].rate}; }
  std::size_t num_links() const { return links_.size(); }
  std::size_t num_flows(std::uint32_t link) const { return links_[link].flows.size(); }
  BytesPerSec capacity(std::uint32_t link) const { return {links_[link].capacity}; }

 private:
  struct Use {
    std::uint32_t flow{};
    double weight{};
  };
  struct Link {
    double capacity{};
    std::int64_t demand{};  // of its flows and holders
    std::vector<Use> flows;
    std::vector<std::uint32_t> holders;  // one for each route
    std::uint64_t region{};              // the region that found it last
    double left{}, open_weight{};        // while solving: capacity not given away, weights of flows without a rate
    double level{};                      // of the region's flows that it stopped; negative: none
    std::uint32_t num_open{}, num_inside{};
    bool is_changed{}, is_pressed{};
  };
  struct SharedRoute {
    std::uint32_t begin{}, end{};
    double free_rate{};
  };
  struct Flow {
    double rate{}, next_rate{};
    std::uint64_t region{}, epoch{};  // that solved it last: the region, and the call of `settle`
    std::uint64_t reported{};         // the call of `settle`
    std::uint32_t route{}, bottleneck{};
    bool is_active{};
  };

  static bool is_slack(const Link& link);
  std::span<const LinkUse> links_of(const Flow& flow) const { return route(flow.route); }
  bool is_inside(std::uint32_t flow) const { return flows_[flow].region == region_; }
  void mark_changed(std::uint32_t link);
  void press(std::uint32_t link);
  void solve_around(std::uint32_t link);
  void add_to_region(std::uint32_t flow);
  void find_links();
  void solve();
  double lowest_level();
  void fix(Flow& flow, double level, std::uint32_t bottleneck);
  bool add_disturbed();
  void report(std::uint32_t flow, double rate);

  std::vector<Link> links_;
  std::vector<LinkUse> uses_;
  std::vector<std::int64_t> demands_;  // of each use: weight x free rate, in parts of the capacity
  std::vector<SharedRoute> routes_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> begun_, changed_links_, pressed_links_, changed_flows_;
  std::vector<std::uint32_t> inside_, region_links_, open_links_, disturbed_;  // of the region
  std::uint64_t epoch_{}, region_{};
};

}  // namespace gpuplan
