// A model as one of the ranks that share each layer holds it (tensor parallelism): the same model with fewer heads, a
// narrower MLP and a part of the vocabulary. Or as one of those that share each sequence does (context parallelism):
// the same model and fewer tokens; or the experts (expert parallelism): the same model
// and fewer of them. State sizes, ledger and step program read it as they read a whole one.
#pragma once

#include <string>

#include "models/mesh.h"
#include "models/trained_model.h"

namespace gpuplan {

/// Says whether a record may list kinds of layers by this name (FrameworkTensorParallel::layers).
bool is_shared_layer(std::string_view name);

/// Says why ranks cannot share the layers of `model` so, or empty: the trainer does not do it, the model's parts are
/// not known to be divisible, or `ways` does not divide them.
std::string why_not_shared(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework,
                           std::string_view strategy, const Mesh& mesh);

/// Tokens of a sequence that a rank keeps at least where nobody says how many share it: with fewer its kernels are as
/// many and do less each.
inline constexpr std::int64_t kLeastContext = 8192;

/// The same of ranks that share sequences.
std::string why_not_in_context(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework,
                               std::string_view strategy, const Mesh& mesh);

/// The same of ranks that share the experts of each layer, or each expert; and why tokens cannot go to experts so.
std::string why_not_by_experts(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework,
                               std::string_view strategy, const Mesh& mesh);

/// One rank's part of `whole`; counts of parameters stay those of the whole model.
/// Requires: why_not_shared(), why_not_in_context() and why_not_by_experts() are empty.
TrainedModel rank_model(const TrainedModel& whole, const Recipe& recipe, const FrameworkConvention& framework,
                        const Mesh& mesh);

}  // namespace gpuplan
