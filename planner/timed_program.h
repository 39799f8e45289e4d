// The part of a step program that its forward passes read, resolved once: on every machine the same instructions wait
// for each other, and the same ones cost the same. A stream does its work in order, so that nobody waits for a buffer
// that one stream alone uses: operands that name such buffers are left out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/step_program.h"
#include "planner/step_time.h"

namespace gpuplan {

struct TimedProgram {
  /// An instruction of the program, and what tells it from others that look alike: where its operands lie, and whether
  /// they are activations.
  struct Example {
    std::uint32_t instruction{};
    std::uint8_t place{};
  };
  /// An operand of a turn of layers. It belongs to that instruction of a turn, and to that one of those that are work.
  struct Touch {
    Operand operand{};
    std::uint32_t step{}, instruction{}, work{};
  };
  /// A repeat of layers: the ends of its parts of the lists below.
  struct Turns {
    std::size_t touches{}, lasting{}, awaited{};
  };

  ProgramText text;
  std::vector<std::uint16_t> kinds;  // [instruction of the text] what it costs; of a repeat of layers: which
  std::vector<Example> examples;     // [kind]
  std::vector<StreamId> streams;     // that have work, and the one that computes
  std::vector<Turns> turns;          // the first one is that of no repeat
  std::vector<Touch> touches;        // uses of buffers
  std::vector<Touch> lasting;        // those of buffers that outlive the next turns
  std::vector<Touch> awaited;        // those of buffers that turns before may not have made
  std::uint32_t micro_batches = 1;   // turns of their repeat

  void clear();
};

/// The times of each program of a step; storage is reused.
struct TimedStep {
  /// A forward pass of it. Machines on which all prices are alike, as those of several vendors, take as long.
  struct Pass {
    std::vector<double> inputs;  // prices, and all else that it reads of machine and batch
    StepTime time;
  };
  std::vector<TimedProgram> programs;
  std::uint64_t build = 0;     // BuildNumber of that step
  std::vector<Pass> passes;    // of this build, as far as they are known
  std::vector<double> inputs;  // storage
};
/// Sets only the turns of micro-batches where `out` is of this build: another batch changes those and bytes alone.
void resolve(TimedStep& out, const StepProgram& program);

/// Reads the time of a step off an earlier pass with the same inputs, or makes the pass and keeps its time.
StepTime known_forward_pass(const StepProgram& program, TimedStep& timed, std::span<const CostModel> columns,
                            const CommModel& comm);

/// A turn of layers frees what the turns up to so many before it have made or used.
constexpr std::uint32_t kMostTurnsOfUse = 3;

}  // namespace gpuplan
