// gpuplan run --engine: a plan as the files and the commands of a launcher, written by the emitters of gpuplan export.
// Nothing is started here.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ecosystem/emit.h"
#include "ecosystem/versions.h"
#include "planner/estimate.h"

namespace gpuplan {

/// The launchers of --engine, but for native, gpuplan's own.
std::vector<std::string> engine_names();

/// Holds what is asked beside the plan.
struct EngineQuestion {
  std::string engine;                 // of engine_names()
  std::filesystem::path folder;       // absolute: where the files go
  std::vector<std::string> hosts;     // of --hosts; empty: this machine
  std::vector<std::string> script;    // a program of the user's with its arguments; empty: the shipped one
  std::set<std::size_t> secrets;      // words of `script` that no file may hold
  std::vector<std::string> options;   // of the shipped one: "--data", "rows.jsonl"
  std::vector<std::string> launcher;  // how it is called here: {"/usr/bin/torchrun"}, {"python3", "-m", …}
  std::string python = "python3";     // that the launcher starts
  Versions versions;                  // found here
  bool has_transformers = false;      // else torchrun gets the script of plain PyTorch
  int port = 29500;                   // of rank 0, on several machines
};

/// A launcher on one machine.
struct EngineCommand {
  std::string host;  // empty: this machine
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> variables;
};

struct EngineJob {
  std::vector<ExportedFile> files;  // of the question's folder
  std::vector<EngineCommand> commands;
  Versions packages;   // Python packages and the least versions that are needed
  std::string script;  // what trains: "train_sft.py", "train.py"
  std::vector<std::string> notes;
  std::string refusal, nearest;  // as ExportAnswer's
  bool is_refused() const { return !refusal.empty(); }
};

/// Says whether the script of plain PyTorch trains, and not the one of transformers: under torchrun where there is no
/// transformers, under Slurm where the plan is of `framework` torch.
bool uses_torch_script(const EngineQuestion& question, const std::string& framework);

/// Requires: request.strategy names one strategy. Throws InputError for hosts that are not as many as the plan's
/// machines.
EngineJob plan_engine(const EstimateRequest& request, const EngineQuestion& question, const PlanMark& mark);

/// Reads the file of --hosts: a host a line, "node1" or "node1 slots=8"; '#' begins a comment. Throws InputError naming
/// `where` and the line for what is no name of a host, and a host named twice.
std::vector<std::string> parse_hosts(const std::string& text, const std::string& where);

/// A command for another machine as the words of ssh; the one shell that reads it there sees each word as it is.
std::vector<std::string> over_ssh(const EngineCommand& command, const std::filesystem::path& folder);

}  // namespace gpuplan
