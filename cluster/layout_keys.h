// The keys of a cluster file's `layout:`: what hangs where in a machine.
#pragma once

#include "base/yaml_file.h"
#include "cluster/machine.h"

namespace gpuplan {

/// Adds `layout:` to what `host:` and `inter:` already said. Requires: GPUs and adapters are read.
void read_layout(YamlFields& top, Machine& node);

}  // namespace gpuplan
