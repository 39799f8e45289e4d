// What is known of a detected machine beyond its products: places and links of the GPUs, in the words that topologies
// of other programs are read into, and notes for people.
#pragma once

#include "cluster/local_machine.h"
#include "cluster/machine_facts.h"

namespace gpuplan {

/// Layout, NVLinks, slots; what could not be known stays open and is said in `assumptions`.
MachineFacts facts_of(const LocalMachine& machine);

/// Whether every GPU reaches every other's memory; nothing when the driver does not say.
std::optional<bool> has_peer_to_peer(const LocalMachine& machine);

/// What neither is free nor the driver's own.
Bytes memory_in_use(const LocalGpu& gpu);

/// What works less well than these GPUs could, what memory is in use, and where all this is from.
std::vector<std::string> detection_notes(const LocalMachine& machine);

}  // namespace gpuplan
