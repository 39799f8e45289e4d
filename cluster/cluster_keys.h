// Parts of a cluster file: `layout:`, what hangs where in a machine; and the rows of `gpu_specs:`, what these very GPUs
// are, where it is not what the catalogue says of their product, or where the catalogue does not know them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "cluster/gpu_file.h"
#include "cluster/machine.h"

namespace gpuplan {

/// Adds `layout:` to what `host:` and `inter:` already said. Requires: GPUs and adapters are read.
void read_layout(Fields& top, Machine& node);

struct StatedGpu {
  std::string name;  // as `gpu` and `gpus` call it
  GpuFile gpu;
  std::optional<std::size_t> kind;  // in the machine, once it is used
};

/// Reports what is missing of a GPU that the catalogue does not know.
std::vector<StatedGpu> read_gpu_specs(Fields& top);

/// One row: what differs from the catalogue; empty when nothing does and `name` is the id.
std::string gpu_spec_row(const std::string& name, const GpuSpec& spec);

}  // namespace gpuplan
