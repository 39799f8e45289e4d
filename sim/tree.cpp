#include "sim/tree.h"

#include <algorithm>

namespace gpuplan {

Tree::Tree(const RunContext& context, std::uint32_t transfer, const Communicator& communicator, Pipeline pipeline,
           std::span<const std::uint32_t> routes)
    : CollectiveRun(context, transfer),
      communicator_(communicator),
      pipeline_(std::move(pipeline)),
      targets_(pipeline_.edges.size()),
      edges_of_member_(communicator.ranks.size()),
      edges_(pipeline_.edges.size()) {
  for (std::uint32_t e = 0; e < edges_.size(); ++e) {
    const PipelineEdge& edge = pipeline_.edges[e];
    const std::uint32_t lane = context.lanes.add({transfer, e}, routes[e]);
    if (e == 0) first_lane_ = lane;
    for (const std::uint32_t source : edge.sources) targets_[source].push_back(e);
    edges_of_member_[edge.from].push_back(e);
    edges_of_member_[edge.to].push_back(e);
  }
}

void Tree::open(const CollectiveCall& call, const Lowering& lowering) {
  call_ = call;
  lowering_ = lowering;
  pieces_left_ = call.num_messages;
  reset();
}

void Tree::reset() {
  --pieces_left_;
  num_open_members_ = std::uint32_t(communicator_.ranks.size());
  open_edges_of_member_.assign(num_open_members_, 0);
  for (std::uint32_t m = 0; m < num_open_members_; ++m) open_edges_of_member_[m] = std::uint32_t(edges_of_member_[m].size());
  for (std::uint32_t e = 0; e < edges_.size(); ++e) {
    const PipelineEdge& edge = pipeline_.edges[e];
    const auto num_sources = std::uint32_t(edge.sources.size());
    const SimTime step = to_sim_time(edge.crosses_nodes ? lowering_.inter_step : lowering_.intra_step);
    const SimTime base = num_sources == 0 ? to_sim_time(lowering_.base) : SimTime{};
    edges_[e] = {.num_missing = 2 + num_sources, .num_open_sources = num_sources, .latency = step + base};
  }
}

void Tree::join(std::uint32_t member, SimTime now) {
  for (const std::uint32_t e : edges_of_member_[member]) prepare(e, now);
}

/// One less to wait for.
void Tree::prepare(std::uint32_t edge, SimTime now) {
  if (--edges_[edge].num_missing == 0) context_.lanes.call_at(first_lane_ + edge, now + edges_[edge].latency);
}

/// Bytes of one tree's part of a piece.
double Tree::part() const {
  return double(call_.message.count) * lowering_.wire_factor / double(pipeline_.num_trees * call_.num_messages);
}

void Tree::ready(std::uint32_t lane, SimTime now) {
  if (edges_[lane].is_sent) return end(lane, now);
  context_.lanes.begin(first_lane_ + lane, part(), now);
  for (const std::uint32_t target : targets_[lane]) prepare(target, now);
}

void Tree::sent(std::uint32_t lane, SimTime now) {
  edges_[lane].is_sent = true;
  check_end(lane, now);
}

/// The last bytes of an edge cannot be there before those of its sources were passed on.
void Tree::check_end(std::uint32_t edge, SimTime now) {
  const Edge& e = edges_[edge];
  if (!e.is_sent || e.num_open_sources > 0) return;
  if (e.not_before > now)
    context_.lanes.call_at(first_lane_ + edge, e.not_before);
  else
    end(edge, now);
}

void Tree::end(std::uint32_t edge, SimTime now) {
  const PipelineEdge& e = pipeline_.edges[edge];
  for (const std::uint32_t t : targets_[edge]) {
    Edge& target = edges_[t];
    --target.num_open_sources;
    target.not_before = std::max(target.not_before, now + target.latency);
    check_end(t, now);
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
