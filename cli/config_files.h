// --from: configuration files of other programs (ecosystem/config_reader.h) beside the flags.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ecosystem/config_reader.h"
#include "ecosystem/named_data.h"

namespace CLI {
class App;
}

namespace gpuplan {

void add_config_flag(CLI::App& app);

/// The files of these names as their texts. Throws InputError.
std::vector<ConfigFile> read_config_files(const std::vector<std::string>& names);

/// A file that another one names: as it stands, beside that one, or below a folder above it: scripts are started in
/// the root of their repository.
std::optional<ConfigFile> find_named_config(const std::string& named, const std::string& by);

/// Gives what flags say beside the files: the GPUs of --gpus "2x8xH100", and settings in their place.
SaidBeside said_beside(const CLI::App& app);

/// Reads all files of --from together; empty without the flag. Throws InputError.
std::optional<ConfigReading> given_configs(const CLI::App& app);

/// Loads the model that the files name. Where they name none, or one that is not here, throws an error with the flag
/// that says it.
void load_named_model(const ConfigReading& configs, const std::function<void(const std::string& model)>& load);

/// Lists what in the files is likely mistyped: keys that are like known ones, data files that are not there.
std::vector<std::string> mistakes_in(const ConfigReading& configs);

/// Says whether a flag says how much is trained on.
bool says_rows(const CLI::App& app);

/// Says how many GPUs there are beside those of the cluster as it was given.
struct GivenGpus {
  std::int64_t of_plan = 0;  // in all, of a plan whose machine stays; 0: the cluster's
  bool are_divided = true;   // between those that train and an engine; false: all generate
};

/// Leaves those that train to the cluster, of all GPUs: those given, or as many as the files need where one is named
/// without a number. An engine of its own has the others. Returns what another number than the files' changes.
std::string settle_gpus(const CLI::App& app, const ConfigReading* configs, GivenGpus have, EstimateRequest& request,
                        std::vector<std::string>& notes);

/// Fits the strategy to the cluster, where no flag says one; and how much is trained on.
SettledData settle_configs(const CLI::App& app, const ConfigReading& configs, EstimateRequest& request,
                           std::vector<std::string>& notes);

/// The key of the trainer by which a plan whose highest moment is evaluation needs less; empty: another moment is,
/// or it has one sequence already.
std::string evaluation_note(const ConfigReading& configs, const EstimateRequest& request, const StrategyEstimate& plan);

/// Optimizer steps of all epochs.
std::int64_t steps_of(const EstimateRequest& request, const StrategyEstimate& plan);

}  // namespace gpuplan
