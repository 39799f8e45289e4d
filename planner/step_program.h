// The step program: what one rank of a class does in one training step, in order. Memory replay, time and executor read
// it; none of them knows a strategy. Program order is memory order; allocation, free and waiting follow from operands.
// Design and proofs: docs/architecture.md.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "models/layer_graph.h"
#include "planner/strategy.h"

namespace gpuplan {

enum class StreamId : std::uint8_t { Compute, Gather, Reduce, Send, Recv, CopyIn, CopyOut, Host, Count };
constexpr int kNumStreams = int(StreamId::Count);

enum class MemorySpace : std::uint8_t { Device, Host, Managed, Nvme };  // Managed: paged optimizer states
constexpr int kNumSpaces = 4;

/// Names what a rank holds of a logical tensor, per axis. Partial: still to be summed.
enum class Placement : std::uint8_t { Replicated, Sharded, Partial };

/// Names what bytes are for, in every report. The last four are added by the tiers (planner/memory), not by programs.
enum class Category : std::uint8_t {
  Weights,
  Adapters,
  Gradients,
  Master,
  Optimizer,
  Activations,
  Logits,
  Communication,
  Workspace,
  Context,
  Nccl,
  Allocator,
  Count
};
constexpr int kNumCategories = int(Category::Count);
std::string_view to_string(Category category);
std::string_view in_words(Category category);  // "NCCL's buffers", for people

/// Says which tensor of a unit's state a buffer is; with `unit` it names the buffer.
enum class BufferRole : std::uint8_t {
  None,
  Trained,
  Frozen,
  Adapter,
  Gathered,
  Shard,
  Gradient,
  FullGradient,
  ReduceInput,
  Bucket,
  Master,
  State,
  StepGradient,
  FlatGradient,
  StepTemporary,
  Batch,
  Boundary,
  ActivationGradient,
  EncoderOutput,
  EncoderGradient,
  CastWeights,
  Kept,
  Constants,
  Beside,
  Count
};
std::string_view to_string(BufferRole role);

/// Says which of a unit's flat arrays a buffer holds (a part of, or a copy of): planner/unit_layout.h.
enum class StatePart : std::uint8_t { None, Trained, Frozen };

/// One lifetime per id (per turn of a repeat).
struct ProgramBuffer {
  Bytes bytes;  // of one rank of the class, padding included
  Category category{};
  MemorySpace space{};
  BufferRole role{};
  StreamId home{};       // stream of the first writer: its allocator pool
  std::uint16_t unit{};  // 0 embedding, 1 + layer, num_layers + 1 head
  std::array<Placement, kNumAxes> placement{};
  StatePart part : 2 {};
  bool is_persistent : 1 {};  // alive before and after the step
  bool is_allocated : 1 {};   // while building

  /// A rank holds its part of it.
  bool is_cut(const Domain& domain) const { return placement[std::size_t(domain.shard)] == Placement::Sharded; }
  bool operator==(const ProgramBuffer&) const = default;
};
static_assert(sizeof(ProgramBuffer) == 24, "a search writes hundreds of millions of them");

/// A buffer id (22 bits, 0 means "none"), how the instruction uses it, and what it is to the instruction. A copy, cast
/// or gather names its source first, its target second.
using Operand = std::uint32_t;
namespace operand {
constexpr Operand kRead = 1u << 22, kWrite = 1u << 23, kAllocates = 1u << 24, kFrees = 1u << 25, kOwnSlice = 1u << 26,
                  kAccumulates = 1u << 27;
constexpr Operand kIdMask = (1u << 22) - 1;
constexpr std::uint32_t id(Operand o) { return o & kIdMask; }

/// Names. The first ones bind the slots of a called block, in their order (models/layer_graph.h); the others are of an
/// optimizer step.
constexpr Operand kX = 1u << 28, kY = 2u << 28, kDy = 3u << 28, kDx = 4u << 28, kMemory = 5u << 28, kDMemory = 6u << 28,
                  kWeight = 7u << 28, kGradient = 8u << 28, kState = 9u << 28, kMaster = 10u << 28;
constexpr Operand name(Operand o) { return o & (0xfu << 28); }
/// The slot that an operand of a call binds, kNoLocal: none.
constexpr LocalId slot(Operand o) {
  const Operand n = o >> 28;
  return n >= 1 && n <= kNumSlots ? LocalId(n - 1) : kNoLocal;
}
/// Says whether the called block allocates and frees it. The encoder's output and its gradient belong to the program.
constexpr bool is_callees(Operand o) { return slot(o) <= kSlotDx; }
}  // namespace operand

enum class OpCode : std::uint8_t {
  Call,
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  Send,
  Recv,
  CopyIn,
  CopyOut,
  Cast,
  GradientNorm,
  OptimizerStep,
  LoadBatch,
  Release,
  Repeat,
  EndRepeat,
  Count
};
std::string_view to_string(OpCode op);
/// The instruction that does it; None: a call of a block.
OpCode op_of(Exchange exchange);
/// Says whether it is one of the collectives, in which every rank of a group takes part.
bool is_collective(OpCode op);

/// The part of a step that an instruction belongs to: what is gathered or copied for a phase, or left behind by it, is
/// of that phase. Head is the output matrix and the loss, forward and backward in one.
enum class Phase : std::uint8_t { Forward, Head, Recompute, Backward, OptimizerStep };

/// Says which way messages between stages go: activations forward, their gradients backward.
enum class Direction : std::uint8_t { Forward, Backward };

/// Numbers the blocks of a program. Layers of several kinds that exchange much have hundreds.
using BlockId = std::uint16_t;
constexpr BlockId kNoBlock = 0xffff;

struct Instruction {
  OpCode op{};
  StreamId stream{};
  Axis axis{};
  Phase phase{};
  Direction direction : 1 {};   // of a Send or Recv
  bool is_of_own_shard : 1 {};  // a step of this rank's part of the unit; an exchange that goes with its products
  std::int8_t unit_step{};      // of a Repeat: how far a turn moves the units; 0: it repeats micro-batches
  BlockId block = kNoBlock;     // that a Call runs, or whose locals are made by what ranks exchange in it
  std::uint16_t num_operands{}, unit{};
  std::uint16_t frame{};          // of a block: which saved locals; of an optimizer step: which of step_flops
  std::uint16_t messages = 1;     // a gather is cut into
  std::uint32_t hook_kernels{};   // host work beside the op itself, in kernel launches
  std::uint32_t first_operand{};  // index into RankProgram::operands
  std::uint32_t micro_batch{};    // in a repeat: of its first turn
  std::uint32_t turns{};          // of a Repeat
  Bytes work;  // message of a collective (whole tensor; all to all: a rank's), bytes of a copy, memory traffic of a
               // step and of sums of gradients beside a Call
  bool operator==(const Instruction&) const = default;
};
static_assert(sizeof(Instruction) == 40, "a search writes hundreds of millions of them");

/// Calls, and exchanges between the parts of a block: a reader replays the block's events, whatever the opcode.
inline bool runs_block(const Instruction& i) { return i.block != kNoBlock; }
/// Says of a Repeat whether its turns are layers, not micro-batches.
inline bool repeats_layers(const Instruction& repeat) { return repeat.unit_step != 0; }
/// An instruction of a repeat of layers has at most so many operands.
constexpr std::size_t kMostRepeatedOperands = 24;

/// Net change and highest rise of live bytes over a stretch of program; a monoid under concatenation.
struct Usage {
  std::int64_t net{}, peak{};
  void then(Usage next) {
    peak = peak > net + next.peak ? peak : net + next.peak;
    net += next.net;
  }
};

struct BlockEvent {
  enum Kind : std::uint8_t { Alloc, Free, Run } kind;
  std::uint16_t index;
};  // of a local, or of an op

/// A unit's phase as a function: slots are bound by the call, locals live in a frame between forward and backward.
/// Ranks that share the layer cut it where they exchange something: then it is a chain of blocks.
struct Block {
  std::vector<BlockEvent> events;
  Usage total;
  std::array<Usage, kNumLocalKinds> by_kind;
  Bytes largest;             // of the activations and logits that it makes
  std::uint8_t graph{};      // which LayerGraph of the program
  bool runs_backward{};      // ops index graph.backward, else graph.forward
  Exchange exchange{};       // its one op; None: it computes
  Axis axis{};               // of that
  bool is_beside{};          // on the stream of gathers
  bool goes_with_columns{};  // as of its op (models/layer_graph.h)
  bool joins{};              // waits for the exchanges beside the parts before it
  Bytes message;             // the whole tensor
  BlockId next = kNoBlock;   // of the phase
  std::uint8_t slots{};      // that it uses: bit 0 is the first
};

/// Holds what a block costs on one kind of GPU.
struct BlockCost {
  Seconds device;     // of an exchange: of the products that it can run beside
  Seconds host_tail;  // from when the host begins to launch its kernels to their end, on a device that waits for
                      // nothing else
  Seconds launching;  // of the host
  double flops{};
};

/// Instructions in the order of the program, and what they name.
struct ProgramText {
  std::vector<Operand> operands;
  /// By how much each turn of a repeat of layers moves the buffer id of an operand. As long as the last of these
  /// repeats needs it.
  std::vector<std::uint32_t> operand_steps;
  std::vector<Instruction> instructions;

  std::span<const Operand> operands_of(const Instruction& i) const {
    return {operands.data() + i.first_operand, i.num_operands};
  }
  void clear();
  bool operator==(const ProgramText&) const = default;
};

struct RankProgram : ProgramText {
  std::vector<ProgramBuffer> buffers;
  std::vector<double> step_flops = {0};  // products of optimizer steps, by kind of unit; the first: none
  std::uint32_t num_frames{};
  std::uint16_t first_unit{}, last_unit{};  // [first, last] of the model's units

  /// Index of the operand of that name among those of `i`; i.num_operands where there is none.
  std::size_t find_operand(const Instruction& i, Operand name) const;
  void clear();
  bool operator==(const RankProgram&) const = default;
};

/// Ranks that run the same program on the same kind of GPU.
struct RankClass {
  std::int64_t first_rank{}, num_ranks = 1;
  std::size_t program{};
  std::size_t costs{};  // column of block costs
};

/// Layers that are alike are built one by one, or once, as a repeat.
enum class Layers : std::uint8_t { WrittenOut, Folded };

struct ModelBlocks;  // planner/block.h
struct BuiltAs;      // planner/program_batch.h

/// Tells programs that were built from each other. A copy has none: it may be changed.
class BuildNumber {
 public:
  BuildNumber() = default;
  BuildNumber(const BuildNumber&) {}
  BuildNumber& operator=(const BuildNumber&) {
    value_ = 0;
    return *this;
  }
  /// None that any program had before.
  void renew();
  std::uint64_t value() const { return value_; }  // 0: none

 private:
  std::uint64_t value_ = 0;
};

struct StepProgram {
  Mesh mesh;
  std::vector<RankProgram> programs;
  std::vector<RankClass> classes;
  std::span<const LayerGraph> graphs;
  std::span<const Block> blocks;
  std::shared_ptr<ModelBlocks> made;          // what graphs and blocks are parts of; others may share it
  std::vector<std::vector<BlockCost>> costs;  // [column][block]
  bool has_one_host{};                        // one thread launches the kernels of all classes
  std::size_t num_programs{};                 // storage is reused; these many are valid
  std::shared_ptr<BuiltAs> built_as;          // none: the programs serve one batch
  BuildNumber build;                          // another one where instructions or operands are

  /// Index into `classes`.
  std::size_t class_of(std::int64_t rank) const;
};

/// The same program with every turn of its repeats of layers as instructions of its own.
RankProgram written_out(const RankProgram& program);

/// Every invariant of step programs (section 3 of the design); throws BugError naming the instruction.
void verify(const StepProgram& program);

/// "layer 7 weights, gathered": made when printed.
std::string buffer_name(const ProgramBuffer& buffer, std::int64_t num_layers);
std::string unit_name(std::uint16_t unit, std::int64_t num_layers);

}  // namespace gpuplan
