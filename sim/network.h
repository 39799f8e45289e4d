// What moves data in the simulator, behind one interface: by closed form (alpha-beta on the bottleneck) or as flows
// that share the links of the topology. The engine announces who takes part when; the network says when each of them is
// done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cluster/topology.h"
#include "planner/collective.h"
#include "planner/comm_model.h"
#include "sim/event_queue.h"
#include "sim/sim_time.h"

namespace gpuplan {

/// Ranks that run collectives together, along one axis of the mesh.
struct CommGroup {
  Axis axis{};
  std::int64_t size = 1;  // real ranks, those folded away included
  std::vector<std::int64_t>
      ranks;  // those that are simulated, in ring order; rank ranks[i] sends to the real rank next[i]
  std::vector<std::int64_t> next;
  std::vector<std::uint32_t> next_member;  // index into `ranks` of who stands for next[i]; a permutation
  GroupShape shape;
};

struct CollectiveCall {
  CollectiveKind kind{};  // not SendRecv: Network::send
  std::uint32_t communicator{};
  Bytes message;                  // the whole tensor
  std::int64_t num_messages = 1;  // cut into so many, each pays the latency
};

enum class HostCopy : std::uint8_t { HostToDevice, DeviceToHost, NvmeToHost, HostToNvme };

/// A member of a collective is done, or a copy or message (member 0).
struct Finished {
  std::uint32_t transfer{}, member{};
};

struct LinkLoad {
  SimTime busy;      // while any flow uses it; of a flow under way it is not final
  double carried{};  // bytes, protocol overhead and the weights of routes included
};

/// Two ranks along an axis.
struct Neighbours {
  Axis axis{};
  std::int64_t from{}, to{};
};

/// The cost of the rings of a communicator: nothing per message where they meet nobody, links alike; a step of a
/// recurrence where their links differ; an event or two for every message where they fill links together.
enum class RingCost : std::uint8_t { Closed, Stepped, Messages };

class Network {
 public:
  virtual ~Network() = default;

  /// Looks at the rings of all communicators at once; copies and messages may still turn them into messages.
  virtual RingCost ring_cost(std::uint32_t) { return RingCost::Closed; }

  /// Ids are handed out in order and reused when every member has finished.
  virtual std::uint32_t open(const CollectiveCall& call) = 0;
  /// `member` is an index into the communicator's ranks.
  virtual void join(std::uint32_t transfer, std::uint32_t member, SimTime now) = 0;
  /// Both sides are ready.
  virtual std::uint32_t send(Neighbours ranks, Bytes message, SimTime now) = 0;
  virtual std::uint32_t copy(std::int64_t rank, HostCopy kind, Bytes amount, SimTime now) = 0;
  /// An event of this network (EventTarget::Network) is due.
  virtual void handle(const SimEvent& event, std::vector<Finished>& finished) = 0;
  /// After the last event of a moment: flows that began or ended share the links anew. Nothing to do for closed forms.
  virtual void settle(SimTime) {}

  /// Gives what each link carried so far, by the topology's ids. Empty for closed forms.
  virtual std::span<const LinkLoad> link_loads() const { return {}; }
  /// Bytes that left `rank` for other ranks, payload of the algorithm, protocol overhead not counted.
  virtual Bytes bytes_sent(std::int64_t rank) const = 0;
};

/// Durations by the formulas of `comm`; a collective begins when its last member joined.
std::unique_ptr<Network> make_analytic_network(std::span<const CommGroup> communicators, const CommModel& comm,
                                               EventQueue& queue);
/// Every message of every algorithm as a flow over `topology` (which must outlive it), with max-min fair sharing.
std::unique_ptr<Network> make_flow_network(std::span<const CommGroup> communicators, const CommModel& comm,
                                           const Topology& topology, EventQueue& queue);

/// Holds what the flow network asks of a topology; each question once.
struct NetworkLinks {
  std::vector<BytesPerSec> capacities;  // by link
  std::function<Route(std::int64_t from_rank, std::int64_t to_rank, const CommGroup& group)> ring_route;
  std::function<Route(std::int64_t from_rank, std::int64_t to_rank)> route;
  std::function<Route(std::int64_t rank, HostCopy kind)> copy_route;
};
std::unique_ptr<Network> make_flow_network(std::span<const CommGroup> communicators, const CommModel& comm,
                                           NetworkLinks links, EventQueue& queue);

}  // namespace gpuplan
