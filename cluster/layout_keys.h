// The keys of a cluster file's `layout:`: what hangs where in a machine.
#pragma once

#include "base/fields.h"
#include "cluster/machine.h"

namespace gpuplan {

/// Adds `layout:` to what `host:` and `inter:` already said. Requires: GPUs and adapters are read.
void read_layout(Fields& top, Machine& node);

}  // namespace gpuplan
