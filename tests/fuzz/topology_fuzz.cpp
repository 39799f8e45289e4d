// Machines as other programs describe them: the text of `nvidia-smi topo -m` and NCCL's topology dump. What is read
// becomes a cluster, its topology and the way between two GPUs.
#include "cluster/cluster_file.h"
#include "cluster/topology_builder.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  using fuzz::try_to;
  const std::string_view text = fuzz::text_of(data, size);
  kind_of_text(text);
  MachineFacts facts;
  try_to([&] { facts = read_topo_matrix(text, "fuzz.txt"); });
  try_to([&] { facts = read_nccl_topology(text, "fuzz.xml"); });
  if (size % 4 != 0 || facts.layout.gpus.empty()) return 0;  // the catalogue is read below, which is slow
  GPUPLAN_CHECK(problem_of(facts.layout, std::int64_t(facts.layout.gpus.size())).empty(),
                "a layout that was read is sound");
  const auto file = fuzz::as_file("fuzz.txt", text);
  ClusterSpec cluster;
  if (!try_to([&] { cluster = load_cluster(file.string(), std::nullopt, size % 8 == 0 ? "A6000" : "a100-sxm-80gb"); }))
    return 0;
  const Topology topology = build_topology(cluster);
  if (cluster.num_gpus() > 1) topology.ring_route(0, 1, cluster.num_gpus(), cluster.num_gpus());
  topology.host_route(0, true);
  return 0;
}
