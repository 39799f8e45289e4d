// What a cluster file says, and the parts of it that have keys of their own: `layout:`, what hangs where in a machine;
// and the rows of `gpu_specs:`, what these very GPUs are, where it is not what the catalogue says of their product, or
// where the catalogue does not know them.
#pragma once

#include <cstdint>
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

/// Content of a cluster file.
struct ClusterFile {
  std::string id, name, file;
  Machine node;                     // one machine: every rank of it once
  std::vector<StatedGpu> own_gpus;  // `gpu_specs`
  std::int64_t num_nodes = 1;
  std::optional<std::int64_t> num_gpus;  // in place of all of the nodes
  bool has_network{};
  bool states_price{};                     // price_usd_h is there, even as null
  std::optional<double> usd_per_hour;      // of one whole machine
  std::optional<double> usd_per_gpu_hour;  // in place of it
  std::string price_source;
  std::vector<std::string> assumptions;
};

/// Reports what is missing of a GPU that the catalogue does not know.
std::vector<StatedGpu> read_gpu_specs(Fields& top);

/// One row: what differs from the catalogue; empty when nothing does and `name` is the id.
std::string gpu_spec_row(const std::string& name, const GpuSpec& spec);

}  // namespace gpuplan
