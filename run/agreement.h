// Before a run begins all ranks must see the same plan, output folder and checkpoint to go on from.
// A rank of another machine may see another state of a shared folder, or have been started with other flags.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "device/communicator.h"

namespace gpuplan {

/// Compares every rank's `own` with rank 0's; a collective of all ranks, null for one rank alone. Where they differ,
/// each rank that differs throws InputError: what it sees, what rank 0 sees, by the name of the first such entry. The
/// others throw PeerFailed. `hint` says what would be right.
void require_alike(Communicator* world, const nlohmann::json& own, const std::string& hint);

/// A number that no other run has, drawn by rank 0: 48 random bits, so that a double holds it exactly.
std::int64_t new_run_id(Communicator* world);

}  // namespace gpuplan
