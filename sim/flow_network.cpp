// The network as flows: collectives are lowered to the messages of their algorithm, messages share the links of the
// topology.
#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/narrow.h"
#include "sim/collective_run.h"
#include "sim/ring.h"
#include "sim/tree.h"

namespace gpuplan {
namespace {

/// Says how a run is kept for the next call of its kind.
enum class RunKind : std::uint8_t { Ring, Nvls, Tree, Chain, Count };

class FlowNetwork final : public Network {
 public:
  FlowNetwork(std::span<const CommGroup> communicators, const CommModel& comm, NetworkLinks links, EventQueue& queue)
      : communicators_(communicators.begin(), communicators.end()),
        comm_(comm),
        lowerings_(communicators_, comm_),
        links_(std::move(links)),
        channels_(links_.capacities, queue),
        ring_routes_(communicators_.size()),
        free_runs_(communicators_.size() * std::size_t(RunKind::Count)) {}

  RingCost ring_cost(std::uint32_t communicator) override {
    if (shared_.empty()) {
      std::vector<std::uint32_t> all;
      for (std::uint32_t c = 0; c < communicators_.size(); ++c) {
        const auto routes = ring_routes(c);
        all.insert(all.end(), routes.begin(), routes.end());
      }
      shared_ = channels_.shares().overfull(all);
    }
    const auto routes = ring_routes(communicator);
    const FairShare& shares = channels_.shares();
    const auto meets_others = [&](std::uint32_t route) {
      const auto links = shares.route(route);
      return std::any_of(links.begin(), links.end(), [&](const LinkUse& use) { return shared_[use.link]; });
    };
    if (std::any_of(routes.begin(), routes.end(), meets_others)) return RingCost::Messages;
    const auto is_alike = [&](std::uint32_t r) { return shares.free_rate(r) == shares.free_rate(routes.front()); };
    return std::all_of(routes.begin(), routes.end(), is_alike) ? RingCost::Closed : RingCost::Stepped;
  }

  std::uint32_t open(const CollectiveCall& call) override {
    const CommGroup& c = communicators_[call.communicator];
    const Lowering& lowering = lowerings_.of(call);
    const RunKind kind = c.size > 1 ? run_kind(call, c, lowering) : RunKind::Nvls;
    const std::size_t pool = call.communicator * std::size_t(RunKind::Count) + std::size_t(kind);
    const std::uint32_t id = take(free_runs_[pool]);
    if (!runs_[id]) runs_[id] = make_run(kind, id, call.communicator);
    transfers_[id] = {.pool = narrow<std::uint32_t>(pool), .num_open = narrow<std::uint32_t>(c.ranks.size())};
    runs_[id]->open(call, lowering);
    return id;
  }

  void join(std::uint32_t transfer, std::uint32_t member, SimTime now) override { runs_[transfer]->join(member, now); }

  std::uint32_t send(Neighbours ranks, Bytes message, SimTime now) override {
    const std::uint32_t route =
        remember(peer_routes_, {ranks.from, ranks.to}, [&] { return links_.route(ranks.from, ranks.to); });
    sent_.add(ranks.from, message);
    const LinkCost link = comm_.send_link(ranks.axis, message);
    // Where a measured message moves at another rate than the link's, it counts on the wire as so many bytes, as
    // collectives do.
    const double wire_bytes =
        double(message.count) * (comm_.axes[std::size_t(ranks.axis)].link.bandwidth / link.bandwidth);
    return begin_message(route, wire_bytes, to_sim_time(link.latency), now);
  }

  std::uint32_t copy(std::int64_t rank, HostCopy kind, Bytes amount, SimTime now) override {
    const std::uint32_t route =
        remember(copy_routes_, {rank, std::int64_t(kind)}, [&] { return links_.copy_route(rank, kind); });
    return begin_message(route, double(amount.count), {}, now);
  }

  void handle(const SimEvent& event, std::vector<Finished>& finished) override {
    const ChannelOwner owner = channels_.owner(event.index);
    CollectiveRun& run = *runs_[owner.transfer];
    switch (Channels::Kind(event.kind)) {
      case Channels::Kind::Ready: run.ready(owner.index, event.time); break;
      case Channels::Kind::Over: run.over(owner.index, event.stamp); break;
      case Channels::Kind::Sent:
        if (!channels_.finish(event)) return;
        run.sent(owner.index, event.time);
    }
    if (finished_.empty()) return;
    for (const Finished& f : finished_) {
      finished.push_back(f);
      Transfer& t = transfers_[f.transfer];
      if (--t.num_open > 0) continue;
      (t.pool == kMessages ? free_messages_ : free_runs_[t.pool]).push_back(f.transfer);
    }
    finished_.clear();
  }

  void settle(SimTime now) override {
    for (std::vector<std::uint32_t> crowded = channels_.crowded(); !crowded.empty(); crowded = channels_.crowded())
      for (const std::uint32_t transfer : crowded) runs_[transfer]->spread(now);
    channels_.settle(now);
  }
  std::span<const LinkLoad> link_loads() const override { return channels_.loads(); }
  Bytes bytes_sent(std::int64_t rank) const override { return sent_.of(rank); }

 private:
  struct Transfer {
    std::uint32_t pool = kMessages, num_open = 1;  // members that have not finished
  };
  static constexpr std::uint32_t kMessages = 0xffffffff;
  using RouteIds = std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t>;

  static RunKind run_kind(const CollectiveCall& call, const CommGroup& c, const Lowering& lowering) {
    const bool is_folded = std::int64_t(c.ranks.size()) < c.size;
    if (lowering.algorithm == Algorithm::Nvls) return RunKind::Nvls;
    if (call.kind == CollectiveKind::Broadcast) return is_folded ? RunKind::Nvls : RunKind::Chain;
    if (lowering.algorithm == Algorithm::Tree) return is_folded ? RunKind::Nvls : RunKind::Tree;
    return RunKind::Ring;
  }

  std::uint32_t take(std::vector<std::uint32_t>& free) {
    if (free.empty()) {
      runs_.emplace_back();
      transfers_.emplace_back();
      return narrow<std::uint32_t>(runs_.size() - 1);
    }
    const std::uint32_t id = free.back();
    free.pop_back();
    return id;
  }

  std::unique_ptr<CollectiveRun> make_run(RunKind kind, std::uint32_t id, std::uint32_t communicator) {
    const CommGroup& c = communicators_[communicator];
    const RunContext context{channels_, sent_, finished_};
    if (kind == RunKind::Ring) {
      const auto routes = ring_routes(communicator);
      const std::vector<bool> overfull = channels_.shares().overfull(routes);
      const bool fits = std::find(overfull.begin(), overfull.end(), true) == overfull.end();
      return std::make_unique<Ring>(context, id, c, routes, fits);
    }
    if (kind == RunKind::Nvls) return std::make_unique<Nvls>(context, id, c, ring_routes(communicator));
    const std::int64_t per_node = c.shape.ranks_per_node();
    Pipeline pipeline = kind == RunKind::Tree ? double_tree(c.size, per_node) : chain(c.size);
    std::vector<std::uint32_t> routes;
    for (const PipelineEdge& e : pipeline.edges) {
      const std::int64_t from = c.ranks[e.from], to = c.ranks[e.to];
      routes.push_back(remember(peer_routes_, {from, to}, [&] { return links_.route(from, to); }));
    }
    return std::make_unique<Tree>(context, id, c, std::move(pipeline), routes);
  }

  std::span<const std::uint32_t> ring_routes(std::uint32_t communicator) {
    const CommGroup& c = communicators_[communicator];
    auto& routes = ring_routes_[communicator];
    if (routes.empty())
      for (std::size_t m = 0; m < c.ranks.size(); ++m)
        routes.push_back(channels_.add_route(c.size > 1 ? links_.ring_route(c.ranks[m], c.next[m], c) : Route{}));
    return routes;
  }

  template <class Find>
  std::uint32_t remember(RouteIds& known, std::pair<std::int64_t, std::int64_t> key, Find find) {
    const auto [at, is_new] = known.try_emplace(key);
    if (is_new) at->second = channels_.add_route(find());
    return at->second;
  }

  std::uint32_t begin_message(std::uint32_t route, double wire_bytes, SimTime latency, SimTime now) {
    const std::uint32_t id = take(free_messages_);
    if (!runs_[id]) runs_[id] = std::make_unique<MessageRun>(RunContext{channels_, sent_, finished_}, id);
    transfers_[id] = {};
    static_cast<MessageRun&>(*runs_[id]).begin(route, wire_bytes, now + latency);
    return id;
  }

  std::vector<CommGroup> communicators_;
  CommModel comm_;
  Lowerings lowerings_;
  NetworkLinks links_;
  Channels channels_;
  SentBytes sent_;
  std::vector<Finished> finished_;  // by the event that is handled
  std::vector<std::unique_ptr<CollectiveRun>> runs_;
  std::vector<Transfer> transfers_;
  RouteIds peer_routes_, copy_routes_;
  std::vector<std::vector<std::uint32_t>> ring_routes_;  // by communicator
  std::vector<bool> shared_;                             // by link: the rings of all communicators would overfill it
  std::vector<std::vector<std::uint32_t>> free_runs_;    // by communicator and kind of run
  std::vector<std::uint32_t> free_messages_;
};

}  // namespace

std::unique_ptr<Network> make_flow_network(std::span<const CommGroup> communicators, const CommModel& comm,
                                           NetworkLinks links, EventQueue& queue) {
  return std::make_unique<FlowNetwork>(communicators, comm, std::move(links), queue);
}

std::unique_ptr<Network> make_flow_network(std::span<const CommGroup> communicators, const CommModel& comm,
                                           const Topology& topology, EventQueue& queue) {
  NetworkLinks links;
  for (std::uint32_t link = 0; link < topology.num_links(); ++link)
    links.capacities.push_back(topology.link(link).capacity);
  links.ring_route = [&topology](std::int64_t from, std::int64_t to, const CommGroup& group) {
    return topology.ring_route(from, to, group.shape.ranks_per_node(), group.shape.size, group.ranks);
  };
  links.route = [&topology](std::int64_t from, std::int64_t to) { return topology.route(from, to); };
  links.copy_route = [&topology](std::int64_t rank, HostCopy kind) {
    switch (kind) {
      case HostCopy::HostToDevice: return topology.host_route(rank, true);
      case HostCopy::DeviceToHost: return topology.host_route(rank, false);
      case HostCopy::NvmeToHost: return topology.nvme_route(rank, false);
      case HostCopy::HostToNvme: break;
    }
    return topology.nvme_route(rank, true);
  };
  return make_flow_network(communicators, comm, std::move(links), queue);
}

}  // namespace gpuplan
