// A training run as one rank lives it: data, steps, metrics, checkpoints, the saved adapter or model.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "run/data/examples.h"
#include "run/executor.h"
#include "run/files/content.h"
#include "run/metrics.h"

namespace gpuplan {

struct TrainingOptions {
  std::filesystem::path model_folder;            // config.json and safetensors
  bool is_random = false;                        // --init random
  std::optional<std::filesystem::path> adapter;  // a PEFT adapter to go on from
  std::optional<DataOptions> data;               // none: random tokens, to measure
  std::filesystem::path output;                  // empty: nothing is saved
  std::int64_t save_every = 0, keep = 0;         // steps; checkpoints
  bool resumes = false;
  std::set<std::string> allow_changed;  // of run_settings: what --resume may take other values of
  nlohmann::json identity;              // run_identity where it is known: files are read for it; null: not yet
  std::filesystem::path metrics;        // empty: none
  OptimizerSettings optimizer;
  std::optional<double> beta;  // of a loss that compares answers; unset: the method's
  double learning_rate = 2e-4;
  LrSchedule schedule = LrSchedule::Constant;
  std::int64_t warmup_steps = 0;
  std::int64_t max_steps = 0;  // 0: `epochs` of the data
  double epochs = 1;
  bool shuffles = true;
  std::uint64_t seed = 0;
  bool records_last_step = false;  // its timeline, for --trace and the report
  bool uses_graph = true;          // where the device can: Executor::use_graph
};

struct TrainingOutcome {
  std::int64_t first_step = 1, last_step = 0, total_steps = 0;
  bool was_stopped = false;        // by a signal, after saving
  std::vector<StepMetrics> steps;  // of this run
  Bytes persistent, peak;          // of this rank's device memory, as allocated
  Bytes host;                      // of pinned host memory, what is offloaded
  Bytes process;                   // what the hook said at the end, all of it still held
  CategoryBytes at_peak{};         // of it, in use at the fullest instant
  std::vector<TaskTime> timeline;  // of the last step
  std::vector<std::string> notes;  // what was read and written, for people
};

struct TrainingHooks {
  std::function<void(const StepMetrics&, std::int64_t total_steps)> on_step;  // rank 0
  std::function<void(std::int64_t step)> on_alive;  // every rank, before each step; below 0: before it saves after one
  const std::atomic<bool>* stop = nullptr;          // asked to save and end
  std::function<void()> on_failure;                 // as soon as this rank fails, before others can notice
  std::function<Bytes(Bytes held)> process_memory;  // of the process, that holds this much in buffers
};

/// Identity that all ranks must share, and that a checkpoint must agree with to go on exactly: the model by its shape,
/// weights and data by their content and not by their place, recipe and ranks. Reads files. Throws InputError naming
/// one that it cannot read.
nlohmann::json run_identity(const NativeJob& job, const TrainingOptions& options);

/// Settings that decide the losses to come and may be changed on purpose when a run goes on, by the names of the flags.
inline constexpr std::array kRunSettings{"lr", "schedule", "warmup", "weight-decay", "clip", "max-steps"};
/// Their values. `total_steps` counts only where the schedule ends with them.
nlohmann::json run_settings(const TrainingOptions& options, std::int64_t total_steps);

/// Waits where this rank gives up because another failed: that one knows the cause, and the first to speak is heard
/// alone (run/heartbeat). Requires: an exception is handled.
void let_cause_speak();

/// Runs to the end. Collective; throws InputError and EnvError, as the parts do.
TrainingOutcome train(const NativeJob& job, const RankPlace& place, Device& device, Communicator* world,
                      const TrainingOptions& options, const TrainingHooks& hooks);

}  // namespace gpuplan
