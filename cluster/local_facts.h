// Places and links of the detected GPUs, in the words that topologies of other programs are read into.
#pragma once

#include "cluster/local_machine.h"
#include "cluster/machine_facts.h"

namespace gpuplan {

/// Layout, NVLinks, slots; what could not be known stays open and is said in `assumptions`.
MachineFacts facts_of(const LocalMachine& machine);

/// Whether every GPU reaches every other's memory; nothing when the driver does not say.
std::optional<bool> has_peer_to_peer(const LocalMachine& machine);

}  // namespace gpuplan
