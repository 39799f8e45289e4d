// NCCL's choices on real machines, as messages: alone they take the closed form's time.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "planner/comm_model.h"
#include "sim/lowering.h"
#include "sim/sim_world.h"
#include "sim/tree.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

struct Machine {
  const char* cluster;
  std::int64_t num_gpus;
};

SimTime time_of(SimWorld& world, Network& network, const CollectiveCall& call) {
  const SimTime begin = world.now;
  const auto id = network.open(call);
  for (std::uint32_t m = 0; m < world.communicators[0].ranks.size(); ++m) network.join(id, m, begin);
  const auto done = world.run(network);
  CHECK(done.size() == world.communicators[0].ranks.size());
  return done.back().time - begin;
}

}  // namespace

TEST_CASE("flow network: on real machines every algorithm takes what CommModel says, folded or not") {
  std::set<Algorithm> seen;
  for (const Machine machine :
       {Machine{"dgx-h100", 8}, Machine{"dgx-a100-80gb", 8}, Machine{"dgx-h100", 64}, Machine{"dgx-a100-80gb", 32},
        Machine{"ws-4x-4090", 4}, Machine{"ws-2x-a6000-nvlink", 2}})
    for (const std::int64_t kept : {std::int64_t(1), machine.num_gpus}) {
      CAPTURE(machine.cluster);
      CAPTURE(machine.num_gpus);
      CAPTURE(kept);
      const std::int64_t n = machine.num_gpus;
      const ClusterSpec cluster = load_cluster(machine.cluster, n);
      SimWorld world(n, {}, kept);
      world.comm = make_comm_model(cluster, default_profile(cluster.gpus.front()), {{Axis::DpShard, n}});
      world.communicators[0].shape = world.comm.axes[std::size_t(Axis::DpShard)].group.shape;
      const auto flows = make_flow_network(world.communicators, world.comm, world.own_links(), world.queue);
      for (std::int64_t size = 1024; size <= std::int64_t(1) << 30; size *= 4)
        for (const CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                                          CollectiveKind::AllReduce, CollectiveKind::Broadcast})
          for (const std::int64_t pieces : {1, 4}) {
            CAPTURE(int(kind));
            CAPTURE(size);
            CAPTURE(pieces);
            const CollectiveCall call{kind, 0, {size}, pieces};
            seen.insert(lower(call, world.communicators[0], world.comm).algorithm);
            const SimTime simulated = time_of(world, *flows, call);
            const auto formula = make_analytic_network(world.communicators, world.comm, world.queue);
            const SimTime expected = time_of(world, *formula, call);
            CHECK(double(simulated.ps) == doctest::Approx(double(expected.ps)).epsilon(1e-4));
          }
    }
  CHECK(seen.size() == 3);  // ring, tree and NVLS were all met
}

TEST_CASE("what was chosen for a call is kept: the same call is not chosen again, another one is") {
  SimWorld world(4, {.latency = 5.0_us, .bandwidth = 100.0_GBps, .all_reduce_bandwidth = 100.0_GBps});
  Lowerings lowerings(world.communicators, world.comm);
  const CollectiveCall call{CollectiveKind::AllGather, 0, 1_MiB, 1};
  const Lowering& first = lowerings.of(call);
  CHECK(first.time == world.comm.gather_time(world.communicators[0].axis, 1_MiB));
  const Lowering& cut = lowerings.of({CollectiveKind::AllGather, 0, 1_MiB, 4});
  CHECK(&lowerings.of(call) == &first);
  CHECK(&cut != &first);
  CHECK(cut.time > first.time);  // pays the latency of each piece
}

TEST_CASE("double tree: every member sends up and is sent to once per tree, and is inner in one tree at most") {
  for (const std::int64_t size : {2, 3, 4, 5, 8, 9, 16, 30, 64})
    for (const std::int64_t per_node : {1, 8}) {  // 9 and 30: a last machine of 1 and of 6
      if (size < per_node) continue;
      CAPTURE(size);
      CAPTURE(per_node);
      const Pipeline p = double_tree(size, per_node);
      CHECK(p.num_trees == (per_node < size ? 2 * per_node : 2));
      CHECK(std::int64_t(p.edges.size()) == p.num_trees * 2 * (size - 1));
      for (int tree = 0; tree < p.num_trees; ++tree) {
        std::vector<std::set<std::uint32_t>> from(std::size_t(size), std::set<std::uint32_t>{}), to = from;
        for (const PipelineEdge& e : p.edges)
          if (e.tree == tree) from[e.from].insert(e.to), to[e.to].insert(e.from);
        CHECK(from == to);  // what goes up comes down
        std::vector<std::uint32_t> reached{0};
        std::set<std::uint32_t> known{0};
        for (std::size_t k = 0; k < reached.size(); ++k)
          for (const std::uint32_t next : from[reached[k]])
            if (known.insert(next).second) reached.push_back(next);
        CHECK(std::int64_t(reached.size()) == size);
      }
      if (per_node > 1 || size % 2 != 0)
        continue;  // of an even number, inner nodes of one tree are leaves of the other
      std::vector<int> inner(std::size_t(size), 0);
      for (int tree = 0; tree < 2; ++tree)
        for (std::uint32_t m = 0; m < size; ++m) {
          const auto degree = std::count_if(p.edges.begin(), p.edges.end(),
                                            [&](const PipelineEdge& e) { return e.tree == tree && e.from == m; });
          inner[m] += degree > 1;
        }
      CHECK(*std::max_element(inner.begin(), inner.end()) <= 1);
    }
}

TEST_CASE("a tree waits for a late member where its data is needed") {
  // 4 ranks in 4 machines; all but one join at once: nobody has the sum before the late one came.
  SimWorld world(4, {.latency = 5.0_us, .bandwidth = 100.0_GBps, .all_reduce_bandwidth = 100.0_GBps});
  std::vector<Finished> finished;
  SentBytes sent;
  Channels channels(std::vector(4, 100.0_GBps), world.queue);
  world.communicators[0].shape = {.size = 4, .nodes = 4};
  const Pipeline pipeline = double_tree(4, 1);
  std::vector<std::uint32_t> own, routes;
  for (std::uint32_t k = 0; k < 4; ++k) own.push_back(channels.add_route(Route{{.link = k}}));
  for (const PipelineEdge& e : pipeline.edges) routes.push_back(own[e.from]);
  Tree tree({channels, sent, finished}, 0, world.communicators[0], pipeline, routes);
  tree.open({CollectiveKind::AllReduce, 0, 1_MiB}, {.all_steps = 20.0_us, .wire_time = 10.0_us});
  for (const std::uint32_t m : {0u, 1u, 3u}) tree.join(m, {});
  world.queue.push({.time = {1'000'000'000}, .target = EventTarget::Engine});
  SimTime last;
  while (!world.queue.empty()) {
    const SimEvent event = world.queue.pop();
    last = event.time;
    if (event.target == EventTarget::Engine)
      tree.join(2, last);
    else if (Channels::Kind(event.kind) == Channels::Kind::Ready)
      tree.ready(channels.owner(event.index).index, last);
    else if (channels.finish(event))
      tree.sent(channels.owner(event.index).index, last);
    if (last.ps < 1'000'000'000) CHECK(finished.empty());
    if (world.queue.empty() || world.queue.next_time() > last) channels.settle(last);
  }
  CHECK(finished.size() == 4);
  CHECK(last.ps > 1'000'000'000);
  CHECK(last.ps <= 1'000'000'000 + 30'000'000 + 10);  // latency and wire time after it, at most
  // every edge carries half: per tree 3 edges up and 3 down
  CHECK((sent.of(0) + sent.of(1) + sent.of(2) + sent.of(3)).count == 2 * 6 * 524288);
}
