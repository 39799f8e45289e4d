#include "sim/tree.h"
#include "base/narrow.h"

#include <algorithm>

namespace gpuplan {

Tree::Tree(const RunContext& context, std::uint32_t transfer, const CommGroup& communicator, Pipeline pipeline,
           std::span<const std::uint32_t> routes)
    : CollectiveRun(context, transfer),
      communicator_(communicator),
      pipeline_(std::move(pipeline)),
      targets_(pipeline_.edges.size()),
      edges_of_member_(communicator.ranks.size()),
      edges_(pipeline_.edges.size()) {
  for (std::uint32_t e = 0; e < edges_.size(); ++e) {
    const PipelineEdge& edge = pipeline_.edges[e];
    const std::uint32_t channel = context.channels.add({transfer, e}, routes[e]);
    if (e == 0) first_channel_ = channel;
    for (const std::uint32_t source : edge.sources) targets_[source].push_back(e);
    edges_of_member_[edge.from].push_back(e);
    edges_of_member_[edge.to].push_back(e);
  }
  busiest_ = context.channels.seconds_per_byte(routes);
  most_edges_ = most_edges();
}

std::uint32_t Tree::most_edges() const {
  const auto per_node = narrow<std::uint32_t>(communicator_.shape.ranks_per_node());
  std::vector<std::uint32_t> of_member(communicator_.ranks.size()), of_node(communicator_.ranks.size());
  std::uint32_t most = 0;
  for (const PipelineEdge& e : pipeline_.edges) {
    const bool crosses = e.from / per_node != e.to / per_node;
    most = std::max(most, crosses ? ++of_node[e.from / per_node] : ++of_member[e.from]);
  }
  return most;
}

void Tree::open(const CollectiveCall& call, const Lowering& lowering) {
  call_ = call;
  latency_ = to_sim_time(lowering.base + lowering.all_steps);
  bytes_ = lowering.wire_bytes / most_edges_;
  if (busiest_ > 0) bytes_ = std::min(bytes_, lowering.wire_time.value / busiest_);
  pieces_left_ = call.num_messages;
  reset();
}

void Tree::reset() {
  --pieces_left_;
  num_open_members_ = narrow<std::uint32_t>(communicator_.ranks.size());
  open_edges_of_member_.resize(num_open_members_);
  for (std::uint32_t m = 0; m < num_open_members_; ++m)
    open_edges_of_member_[m] = narrow<std::uint32_t>(edges_of_member_[m].size());
  for (std::uint32_t e = 0; e < edges_.size(); ++e) {
    const auto num_sources = narrow<std::uint32_t>(pipeline_.edges[e].sources.size());
    edges_[e] = {.num_missing = 2 + num_sources, .num_open_sources = num_sources};
  }
}

void Tree::join(std::uint32_t member, SimTime now) {
  for (const std::uint32_t e : edges_of_member_[member]) prepare(e, now);
}

/// One less to wait for. Whoever passes on begins with its sources; whoever has none waits for the latency.
void Tree::prepare(std::uint32_t edge, SimTime now) {
  if (--edges_[edge].num_missing > 0) return;
  const bool is_first = pipeline_.edges[edge].sources.empty();
  context_.channels.call_at(first_channel_ + edge, is_first ? now + latency_ : now);
}

void Tree::ready(std::uint32_t channel, SimTime now) {
  context_.channels.begin(first_channel_ + channel, bytes_, now);
  for (const std::uint32_t target : targets_[channel]) prepare(target, now);
}

void Tree::sent(std::uint32_t channel, SimTime now) {
  edges_[channel].is_sent = true;
  end_if_passed_on(channel, now);
}

/// The last bytes of an edge cannot be there before those that it passes on.
void Tree::end_if_passed_on(std::uint32_t edge, SimTime now) {
  if (edges_[edge].is_sent && edges_[edge].num_open_sources == 0) end(edge, now);
}

void Tree::end(std::uint32_t edge, SimTime now) {
  const PipelineEdge& e = pipeline_.edges[edge];
  for (const std::uint32_t target : targets_[edge]) {
    --edges_[target].num_open_sources;
    end_if_passed_on(target, now);
  }
  if (pieces_left_ == 0) {  // all of the message went this way
    const std::int64_t from = e.tree * call_.message.count / pipeline_.num_trees;
    const std::int64_t to = (e.tree + 1) * call_.message.count / pipeline_.num_trees;
    context_.sent.add(communicator_.ranks[e.from], {to - from});
  }
  leave(e.from, now);
  leave(e.to, now);
}

void Tree::leave(std::uint32_t member, SimTime now) {
  if (--open_edges_of_member_[member] > 0) return;
  if (pieces_left_ == 0) finish(member);
  if (--num_open_members_ > 0 || pieces_left_ == 0) return;
  reset();
  for (std::uint32_t m = 0; m < communicator_.ranks.size(); ++m) join(m, now);
}

}  // namespace gpuplan
