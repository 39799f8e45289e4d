// Tables of a simulation that terminal and page share.
#pragma once

#include <cstddef>

#include "report/text/table.h"
#include "sim/simulation.h"

namespace gpuplan {

/// One row per simulated GPU: how long each stream is busy, what it sends, its peak. At most `max_rows` rows.
Table streams_table(const Simulation& simulation, std::size_t max_rows);

/// The busiest links. At most `max_rows` rows.
Table links_table(const Simulation& simulation, std::size_t max_rows);

}  // namespace gpuplan
