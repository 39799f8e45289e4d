// gpuplan doctor: what this machine has, and what on it stands in the way of training as fast as it could. Everything
// is read: the driver (cluster/local_machine.h), /proc, /sys, the environment, the packages beside the Python on PATH.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cluster/cpu_ranks.h"
#include "cluster/local_machine.h"
#include "cluster/pci_facts.h"
#include "models/stack.h"

namespace gpuplan {

struct MachineFinding {
  std::string what, cure;
};

struct MachineCheck {
  std::optional<LocalMachine> machine;  // nothing: `no_gpus` says why
  std::string no_gpus;
  std::optional<ClusterSpec> cluster;  // the same in terms of the catalogue; nothing: a card is like none of it
  std::optional<HostFacts> host;
  PciFacts pci;
  StackVersions python;                  // libraries of data/stack that are installed; empty: none
  std::vector<MachineFinding> findings;  // what costs most first
};

MachineCheck check_machine();

}  // namespace gpuplan
