// The topology of a cluster: machine 0 from its layout, copies of it, and the network that joins them.
#pragma once

#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"
#include "cluster/topology.h"

namespace gpuplan {

/// The graph of `cluster`, or of what `fold` keeps of it. ClusterSpec::layout says what hangs where; without one the
/// usual layout of the fabric is taken and said in `assumptions`.
Topology build_topology(const ClusterSpec& cluster, const TopologyFold& fold = {});
/// Builds the topology with the efficiencies of another profile than the default one of the cluster's first GPU.
Topology build_topology(const ClusterSpec& cluster, const Profile& profile, const TopologyFold& fold);

}  // namespace gpuplan
