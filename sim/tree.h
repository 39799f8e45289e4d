// All-reduce over a double binary tree, and broadcast along a chain: every edge moves its bytes in one stream that
// begins when the first of them can be there, and ends after those it passes on have come.
#pragma once

#include "base/narrow.h"
#include "sim/collective_run.h"

namespace gpuplan {

/// An edge of the pipeline: messages from one member to another that pass on what `sources` bring.
struct PipelineEdge {
  std::uint32_t from{}, to{};          // members
  std::vector<std::uint32_t> sources;  // edges
  int tree{};                          // which part of the message
};
struct Pipeline {
  std::vector<PipelineEdge> edges;
  int num_trees = 1;  // parts of the message
};

/// Pairs of trees over the machines, inner nodes of one being leaves of the other; within a machine a chain that begins
/// with the rank that is in the trees. Every local rank heads a pair, so that all adapters carry their share. Up to the
/// root the parts of the message are reduced, down they are spread. Source: NVIDIA/nccl src/graph/trees.cc; Sanders,
/// Speck, Traeff 2009, Two-tree algorithms.
Pipeline double_tree(std::int64_t size, std::int64_t ranks_per_node);
/// The number of those trees. Within one machine all chains are alike: one pair.
constexpr int num_trees(std::int64_t size, std::int64_t ranks_per_node) {
  return 2 * narrow<int>(ranks_per_node < size ? ranks_per_node : 1);
}
/// Member 0 to all others, one after the other.
Pipeline chain(std::int64_t size);

/// The latency of all levels passes first, then all edges move bytes at once: NCCL's closed form, latency + wire time,
/// says so too (edges near the leaves could begin earlier, and would leave the links earlier). Edges carry so many
/// bytes that the busiest rank or machine sends the closed form's wire bytes, or fewer: a link on the way may take the
/// closed form's wire time when the links are idle otherwise, not more.
class Tree final : public CollectiveRun {
 public:
  /// `routes`: per edge of `pipeline`. For a communicator whose ranks are all simulated.
  Tree(const RunContext& context, std::uint32_t transfer, const CommGroup& communicator, Pipeline pipeline,
       std::span<const std::uint32_t> routes);

  void open(const CollectiveCall& call, const Lowering& lowering) override;
  void join(std::uint32_t member, SimTime now) override;
  void ready(std::uint32_t channel, SimTime now) override;
  void sent(std::uint32_t channel, SimTime now) override;

 private:
  struct Edge {
    std::uint32_t num_missing{};       // ends that have not joined, sources that have not begun
    std::uint32_t num_open_sources{};  // that have not ended
    bool is_sent{};
  };
  std::uint32_t most_edges() const;
  void reset();
  void prepare(std::uint32_t edge, SimTime now);
  void end_if_passed_on(std::uint32_t edge, SimTime now);
  void end(std::uint32_t edge, SimTime now);
  void leave(std::uint32_t member, SimTime now);

  const CommGroup& communicator_;
  Pipeline pipeline_;
  std::vector<std::vector<std::uint32_t>> targets_, edges_of_member_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> open_edges_of_member_;
  std::uint32_t first_channel_{}, num_open_members_{};
  CollectiveCall call_;
  std::int64_t pieces_left_{};
  SimTime latency_;
  double busiest_{};            // seconds that the busiest link takes per byte on every edge
  std::uint32_t most_edges_{};  // that leave a rank for others of its machine, or a machine
  double bytes_{};              // of an edge
};

}  // namespace gpuplan
