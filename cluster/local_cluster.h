// The machine that gpuplan runs on, from its detected GPUs to a cluster.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "cluster/gpu_file.h"
#include "cluster/local_machine.h"
#include "cluster/machine_facts.h"

namespace gpuplan {

// From the detected GPUs to a cluster: products of the catalogue, or made up from what the driver says and a like GPU,
// with the figures of these very cards, joined as they really are.

/// `assumptions` receives what was assumed. The mistake that it would be to ask for such a GPU, where the name is
/// unknown and no GPU of the catalogue is like it.
std::variant<GpuFile, InputError> find_product(const LocalGpu& gpu, std::vector<std::string>& assumptions);
/// The same. Throws InputError.
GpuFile product_of(const LocalGpu& gpu, std::vector<std::string>& assumptions);

/// The part of a split GPU that one instance is: compute by multiprocessors, bandwidth by memory, no links to others.
GpuFile instance_of(GpuFile product, const LocalMigInstance& instance);

/// The spec with the memory that this very card offers: ECC and the driver change it.
void take_real_memory(GpuSpec& spec, const LocalGpu& gpu);

/// Id of a GPU that is not in the catalogue: "nvidia-geforce-rtx-4070-super".
std::string product_id(const std::string& name);

/// One machine with these GPUs, its layout and real fabric; what is not free now is in `memory_in_use`. A GPU that the
/// catalogue does not know has the rates of a like one, scaled by its multiprocessors (an assumption says so). Throws
/// InputError when that is not possible. Requires: there are GPUs.
ClusterSpec local_cluster(const LocalMachine& machine);
/// Says why it is not possible: a GPU that is like none of the catalogue, or that MIG leaves no part of.
std::optional<std::string> why_no_cluster(const LocalMachine& machine);

// What is known of a detected machine beyond its products: places and links of the GPUs, in the words that topologies
// of other programs are read into, and notes for people.

/// Layout, NVLinks, slots; what could not be known stays open and is said in `assumptions`.
MachineFacts facts_of(const LocalMachine& machine);

/// Says whether every GPU reaches every other's memory; nothing when the driver does not say.
std::optional<bool> has_peer_to_peer(const LocalMachine& machine);

/// Memory that is neither free nor the driver's own.
Bytes memory_in_use(const LocalGpu& gpu);

/// Notes on what works less well than these GPUs could, what memory is in use, and where all this is from.
std::vector<std::string> detection_notes(const LocalMachine& machine);

}  // namespace gpuplan
