// Reader 1 of a step program: bytes. Program order is what the host tells a caching allocator, so the peak in program
// order is its "allocated" figure, whatever the speed of GPU and links.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "planner/program_walk.h"

namespace gpuplan {

/// When the peak happens, in words a report can print.
/// OtherModel: a pass of another model than the one that is trained; Generation: an engine writes answers, or takes new
/// weights (planner/phases.h).
enum class PeakInstant : std::uint8_t {
  Forward,
  LogitsAndLoss,
  Backward,
  OptimizerStep,
  Resident,
  Loading,
  Evaluation,
  Saving,
  OtherModel,
  Generation
};

/// Holds what one scalar pass finds: the peak of tensors, and what the allocator and the host need beside it.
struct Peak {
  Bytes tensors;   // highest total of live device bytes
  Bytes step;      // the same in training, where evaluation may be higher
  Bytes resident;  // persistent device bytes
  Bytes weights;   // of them, weights and adapters
  Bytes train;     // the same as `step` of the pass with gradients alone, and what persists of it
  Bytes trained_resident;
  Bytes at_loss;                // alive when the loss is known and backward has not begun, or the head to run
  Bytes pools;                  // sum of each tensor class's own peak: what reserved memory tends to
  Bytes joined_pools;           // the most of it between two moments without transients, before the optimizer's step
  Bytes joined_activations;     // of that: activations and logits
  Bytes joined_step;            // the same in the optimizer's step
  Bytes step_temporaries;       // of the optimizer that exist at once
  Bytes step_gradient;          // the fp32 copy of gradients that exists at once
  Bytes managed;                // paged optimizer states
  Bytes host, nvme;             // peak bytes on the host and on NVMe, of this rank
  std::uint32_t instruction{};  // of the peak
  std::uint16_t unit{};
  PeakInstant instant{};
};

/// One pass over a class's program; blocks and repeats are O(1) summaries. Exact.
Peak replay(const StepProgram& program, const RankClass& rank_class);
/// One for each class.
std::vector<Peak> replay_all(const StepProgram& program);

Category category_of(LocalKind kind);
using CategoryBytes = std::array<Bytes, std::size_t(kNumCategories)>;

/// Live device bytes per category at the peak, by expanding the blocks; equals replay() in total.
struct DetailedPeak {
  Bytes tensors;
  CategoryBytes by_category{};
  struct Item {
    std::string name;
    Bytes bytes;
    Category category{};
    std::int64_t count = 1;
  };
  std::vector<Item> items;  // largest first, layers alike folded ("32 x layer boundary")
};
/// Loss: as Peak::at_loss; Start: before the first instruction.
enum class Moment : std::uint8_t { Peak, Loss, Start };
DetailedPeak replay_detailed(const StepProgram& program, const RankClass& rank_class, std::int64_t num_layers,
                             Moment moment = Moment::Peak);

/// A change of live device bytes.
struct DeviceChange {
  int sign = 1;                // -1: freed
  std::int64_t bytes{};        // with that sign
  std::uint32_t buffer{};      // of the program; 0: a block's local
  const Local* local{};        // that
  std::uint16_t ops_before{};  // of its block
};
/// Holds what the instruction at the cursor changes, in order: allocations, its block's events, frees.
template <class Use>
void each_device_change(const StepProgram& program, const RankProgram& of_rank, const ProgramCursor& at, Use&& use) {
  const Instruction& i = at.instruction();
  const auto change = [&](Operand flag, int sign) {
    for (const Operand o : at.operands()) {
      const ProgramBuffer& b = of_rank.buffers[operand::id(o)];
      if ((o & flag) && b.space == MemorySpace::Device)
        use(DeviceChange{.sign = sign, .bytes = sign * b.bytes.count, .buffer = operand::id(o)});
    }
  };
  change(operand::kAllocates, 1);
  if (runs_block(i)) {
    const Block& block = program.blocks[i.block];
    const LayerGraph& graph = program.graphs[block.graph];
    std::uint16_t num_ops = 0;
    for (const BlockEvent& e : block.events) {
      if (e.kind == BlockEvent::Run) {
        ++num_ops;
        continue;
      }
      const Local& local = graph.locals[e.index];
      const int sign = e.kind == BlockEvent::Alloc ? 1 : -1;
      use(DeviceChange{.sign = sign, .bytes = sign * local.bytes().count, .local = &local, .ops_before = num_ops});
    }
  }
  change(operand::kFrees, -1);
}

/// Device bytes that are alive before and after the step.
Bytes resident_bytes(const RankProgram& program);

std::string describe(PeakInstant instant, std::uint16_t unit, std::int64_t num_layers);

/// Bytes this rank sends in one step, with ring collectives. Source: arXiv 1910.02054, section 7.
Bytes bytes_sent(const StepProgram& program, const RankClass& rank_class);

}  // namespace gpuplan
