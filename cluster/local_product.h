// The product that a detected GPU is: of the catalogue, or made up from what the driver says and a like GPU of the
// catalogue.
#pragma once

#include <string>
#include <vector>

#include "cluster/gpu_file.h"
#include "cluster/local_machine.h"

namespace gpuplan {

/// `assumptions` receives what was assumed. Throws InputError when the name is unknown and no GPU of the catalogue is
/// like it.
GpuFile product_of(const LocalGpu& gpu, std::vector<std::string>& assumptions);

/// The part of a split GPU that one instance is: compute by multiprocessors, bandwidth by memory, no links to others.
GpuFile instance_of(GpuFile product, const LocalMigInstance& instance);

/// The spec with the memory that this very card offers: ECC and the driver change it.
void take_real_memory(GpuSpec& spec, const LocalGpu& gpu);

/// Of GPUs that are not in the catalogue: "nvidia-geforce-rtx-4070-super".
std::string product_id(const std::string& name);

}  // namespace gpuplan
