// The network by closed form: a collective begins when its last member has joined, and takes what CommModel says;
// nothing else disturbs it. The reference that the flow network must meet on an idle machine.
#include "base/error.h"
#include "base/narrow.h"
#include "sim/lowering.h"
#include "sim/network.h"

namespace gpuplan {
namespace {

struct Move {
  Seconds duration;
  std::uint32_t communicator = kNoCommunicator;  // of a collective
  std::uint32_t num_missing{};                   // members that have not joined
  Bytes sent;                                    // by each member of a collective
  static constexpr std::uint32_t kNoCommunicator = 0xffffffff;
};

class AnalyticNetwork final : public Network {
 public:
  AnalyticNetwork(std::span<const CommGroup> communicators, const CommModel& comm, EventQueue& queue)
      : communicators_(communicators.begin(), communicators.end()),
        comm_(comm),
        lowerings_(communicators_, comm_),
        queue_(queue) {}

  std::uint32_t open(const CollectiveCall& call) override {
    const Lowering& lowering = lowerings_.of(call);
    return add({.duration = lowering.time,
                .communicator = call.communicator,
                .num_missing = narrow<std::uint32_t>(communicators_[call.communicator].ranks.size()),
                .sent = lowering.payload});
  }

  void join(std::uint32_t transfer, std::uint32_t member, SimTime now) override {
    Move& t = transfers_[transfer];
    GPUPLAN_CHECK(t.num_missing > 0, "more members joined a collective than it has");
    sent_.add(communicators_[t.communicator].ranks[member], t.sent);
    if (--t.num_missing > 0) return;
    finish_at(transfer, now + to_sim_time(t.duration));
  }

  std::uint32_t send(Neighbours ranks, Bytes message, SimTime now) override {
    sent_.add(ranks.from, message);
    return begin({.duration = comm_.send_time(ranks.axis, message)}, now);
  }

  std::uint32_t copy(std::int64_t, HostCopy kind, Bytes amount, SimTime now) override {
    const bool uses_nvme = kind == HostCopy::NvmeToHost || kind == HostCopy::HostToNvme;
    return begin({.duration = amount / (uses_nvme ? comm_.nvme : comm_.host_link)}, now);
  }

  void handle(const SimEvent& event, std::vector<Finished>& finished) override {
    const Move& t = transfers_[event.index];
    const std::size_t members =
        t.communicator == Move::kNoCommunicator ? 1 : communicators_[t.communicator].ranks.size();
    for (std::size_t m = 0; m < members; ++m) finished.push_back({event.index, narrow<std::uint32_t>(m)});
    free_.push_back(event.index);
  }

  Bytes bytes_sent(std::int64_t rank) const override { return sent_.of(rank); }

 private:
  std::uint32_t add(const Move& t) {
    if (free_.empty()) {
      transfers_.push_back(t);
      return narrow<std::uint32_t>(transfers_.size() - 1);
    }
    const std::uint32_t id = free_.back();
    free_.pop_back();
    transfers_[id] = t;
    return id;
  }

  std::uint32_t begin(const Move& t, SimTime now) {
    const std::uint32_t id = add(t);
    finish_at(id, now + to_sim_time(t.duration));
    return id;
  }

  void finish_at(std::uint32_t transfer, SimTime time) {
    queue_.push({.time = time, .target = EventTarget::Network, .index = transfer});
  }

  std::vector<CommGroup> communicators_;
  CommModel comm_;
  Lowerings lowerings_;
  EventQueue& queue_;
  std::vector<Move> transfers_;
  std::vector<std::uint32_t> free_;
  SentBytes sent_;
};

}  // namespace

std::unique_ptr<Network> make_analytic_network(std::span<const CommGroup> communicators, const CommModel& comm,
                                               EventQueue& queue) {
  return std::make_unique<AnalyticNetwork>(communicators, comm, queue);
}

}  // namespace gpuplan
