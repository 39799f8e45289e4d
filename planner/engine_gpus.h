// The GPUs of an engine that has its own. `--gpus` counts what a run uses in all: the cluster of a request has those
// that train, and its engine says how many answer.
#pragma once

#include <cstdint>
#include <vector>

#include "models/mesh.h"
#include "planner/job.h"

namespace gpuplan {

/// Gives the place of the engine of a method that generates: as asked, else where its trainer has it.
EnginePlace engine_place(const EstimateRequest& request);

/// Says whether the next answers are written while these train: as asked, or as the trainer always has it.
bool writes_ahead(const EstimateRequest& request);

/// Says whether answers are generated on GPUs that do not train.
bool has_engine_apart(const EstimateRequest& request);

/// GPUs of an engine that has its own, beside so many that train; 0: none.
std::int64_t engine_gpus(const EstimateRequest& request, std::int64_t that_train);
std::int64_t engine_gpus(const EstimateRequest& request, const Mesh& mesh);

/// Counts the GPUs that train and those of the engine.
std::int64_t num_gpus_in_all(const EstimateRequest& request);

/// The machine of all of them.
ClusterSpec whole_cluster(const EstimateRequest& request);

/// Lists how many of so many GPUs in all an engine that has its own may get, half of them first; just the number that
/// is asked for, where one is. Empty: there are too few.
std::vector<std::int64_t> divisions_of(const EstimateRequest& request, std::int64_t in_all);

/// Gives the engine its GPUs of so many in all, half of them where nothing says how many, and leaves the others to the
/// cluster. Throws InputError where none is left that trains. Requires: the cluster has GPUs.
void divide_gpus(EstimateRequest& request, std::int64_t in_all);

}  // namespace gpuplan
