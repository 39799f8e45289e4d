// One simulated training step as data: what was asked, what every stream of every GPU did when, and what that adds up
// to. For tables, charts, traces and reports.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/topology.h"
#include "planner/step_inputs.h"
#include "planner/strategy_estimate.h"
#include "sim/activity.h"
#include "sim/sim_time.h"

namespace gpuplan {

enum class NetworkFidelity : std::uint8_t { Flow, Analytic };

/// Kernels, copies and messages that a simulation with spans takes: 2 GB (docs/limits.md).
inline constexpr std::uint64_t kMostTasks = 2'500'000;

struct SimOptions {
  NetworkFidelity network = NetworkFidelity::Flow;
  bool folds = true;  // ranks that behave alike are simulated once
  std::uint64_t seed = 0;
  double jitter = 0;  // relative standard deviation of every compute task; breaks symmetry
  std::vector<std::pair<std::int64_t, double>> stragglers;  // rank, factor on its compute time
  std::uint64_t most_tasks = kMostTasks;                    // more than these are refused
  bool records_spans = true;                                // off: only the figures (scaling curves, comparisons)
};

/// Factor on the compute time of a rank.
inline double straggler_factor(const SimOptions& options, std::int64_t rank) {
  double factor = 1;
  for (const auto& [slow, times] : options.stragglers)
    if (slow == rank) factor *= times;
  return factor;
}

/// One instruction on one stream of one rank. While [begin, end) it occupies its stream.
struct Span {
  SimTime begin, end;
  std::uint32_t rank{};    // index into Simulation::ranks
  std::uint32_t number{};  // in program order of its rank, from 1
  std::uint32_t instruction{};
  std::uint32_t cause{kNoSpan};  // the span whose end let this one begin; kNoSpan: the host, or the start of the step
  StreamId stream{};
  Activity activity{};
  Axis axis{};           // of a collective or a message
  std::uint16_t unit{};  // 0 embedding, 1 + layer, num_layers + 1 head
  std::uint32_t micro_batch{};
  bool waits_for_host{};   // began when the host had launched it, not when its inputs were there
  bool is_async_kernel{};  // a collective kernel: resident on the GPU while it waits for its peers
  Bytes bytes;             // of a collective (whole tensor), message or copy
  SimTime active;          // of it, really working: without waiting for launches, peers or a message
  static constexpr std::uint32_t kNoSpan = 0xffffffff;
};

/// The way from a send to its receive.
struct Message {
  std::uint32_t sender{}, receiver{};  // spans
};

struct MemoryPoint {
  SimTime time;
  Bytes live;
  CategoryBytes by_category{};  // adds up to it
};

/// One simulated rank and what it stands for.
struct SimulatedRank {
  std::int64_t rank{};                      // in the real cluster
  std::int64_t stands_for = 1;              // real ranks
  std::int64_t stage{};                     // of the pipeline
  std::size_t rank_class{};                 // of the step program
  std::uint32_t alike{};                    // the first simulated rank that runs the same program at the same speed
  std::string name;                         // "GPU 0 (stage 1)"
  std::array<SimTime, kNumStreams> busy{};  // per stream
  SimTime resident;  // any kernel on the GPU, collective kernels that wait included: what nvidia-smi counts
  SimTime compute;   // a compute kernel is running
  SimTime exposed_communication;    // compute idle while a collective, message or copy is under way on this rank
  SimTime bubble;                   // compute idle, waiting for another pipeline stage
  SimTime host_bound;               // compute idle because the host had not launched the next kernel yet
  SimTime idle;                     // the rest of the compute stream's idle time
  double flops{};                   // executed, recompute included
  Bytes sent;                       // to other ranks
  std::vector<MemoryPoint> memory;  // program order on the clock; its highest point is the memory replay's peak
  Bytes peak;
};

/// A part of the critical path: what the step waits for, longest first.
struct CriticalItem {
  std::string what;  // "all-gather of weights between GPUs of dp_shard, through host memory"
  Activity activity{};
  bool is_host{};       // the host launches too slowly
  bool is_straggler{};  // what the slowness of one GPU adds
  bool is_phase{};      // a phase beside the pass with gradients: `what` is its name
  Seconds time;
  double share{};      // of the step
  std::string remedy;  // "NVLink would give 1.9x", or why nothing helps; empty: none
};

struct LinkUseSummary {
  std::uint32_t link{};
  double busy{};         // share of the step in which anything uses it
  double utilisation{};  // of its capacity, mean over the step
};

struct Simulation {
  SimTime step;
  SimTime side;  // of it, phases beside the pass with gradients, which have no spans
  std::vector<SimulatedRank> ranks;
  std::vector<Span> spans;  // in order of their end; empty when not recorded
  std::vector<Message> messages;
  std::vector<std::uint32_t> critical_path;  // spans, from the first to the last
  std::vector<CriticalItem> critical;
  std::vector<LinkUseSummary> links;  // of the flow level, busiest first
  std::uint64_t num_events{};
  bool is_folded{};
  NetworkFidelity network{};
  std::optional<Topology> topology;  // flow level: the part that was simulated

  // figures, over all real ranks
  Seconds step_time() const { return step.seconds(); }
  SimTime with_gradients() const { return step - side; }  // what the spans are of
  double resident{}, compute{};                           // utilisation, 0..1, mean over GPUs
  Seconds exposed_communication;                          // mean over GPUs
  Seconds bubble, host_bound, idle;                       // mean over GPUs
  Seconds side_compute, side_exposed;                     // of these, in phases beside the pass with gradients
  double executed_flops{};                                // per GPU, mean
};

/// Holds what a strategy's simulation starts from: the program with its costs, and the machine.
struct SimInput {
  const Job& job;
  const StepProgram& program;
  const StepColumns& columns;
  CommModel comm;
};

}  // namespace gpuplan
