#include "planner/step_program.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {

void BuildNumber::renew() {
  static std::atomic<std::uint64_t> last{0};
  value_ = ++last;
}

void ProgramText::clear() {
  operands.clear();
  operand_steps.clear();
  instructions.clear();
}

void RankProgram::clear() {
  ProgramText::clear();
  buffers.clear();
  step_flops.assign(1, 0.0);
  num_frames = 0;
}

RankProgram written_out(const RankProgram& program) {
  RankProgram out = program;
  out.instructions.clear(), out.operands.clear(), out.operand_steps.clear();
  const auto copy = [&](const Instruction& i, std::int64_t turn, std::int64_t unit_step) {
    Instruction& made = out.instructions.emplace_back(i);
    made.first_operand = narrow<std::uint32_t>(out.operands.size());
    made.unit = narrow<std::uint16_t>(i.unit + turn * unit_step);
    if (runs_block(i)) made.frame = narrow<std::uint16_t>(i.frame + turn * unit_step);
    for (std::size_t k = i.first_operand; k < std::size_t(i.first_operand) + i.num_operands; ++k)
      out.operands.push_back(program.operands[k] +
                             (turn > 0 ? narrow<std::uint32_t>(turn) * program.operand_steps[k] : 0u));
  };
  const std::vector<Instruction>& all = program.instructions;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (all[k].op != OpCode::Repeat || !repeats_layers(all[k])) {
      copy(all[k], 0, 0);
      continue;
    }
    const std::size_t first = k + 1;
    for (std::uint32_t turn = 0; turn < all[first - 1].turns; ++turn)
      for (k = first; all[k].op != OpCode::EndRepeat; ++k) copy(all[k], turn, all[first - 1].unit_step);
  }
  return out;
}

std::size_t RankProgram::find_operand(const Instruction& i, Operand name) const {
  const auto all = operands_of(i);
  return std::size_t(std::find_if(all.begin(), all.end(), [&](Operand o) { return operand::name(o) == name; }) -
                     all.begin());
}

std::size_t StepProgram::class_of(std::int64_t rank) const {
  for (std::size_t k = 0; k < classes.size(); ++k)
    if (rank >= classes[k].first_rank && rank < classes[k].first_rank + classes[k].num_ranks) return k;
  throw BugError("a rank belongs to no class");
}

std::string_view to_string(Category category) {
  static constexpr std::array<std::string_view, std::size_t(kNumCategories)> kNames{
      "weights", "adapters",      "gradients", "master",  "optimizer", "activations",
      "logits",  "communication", "workspace", "context", "nccl",      "allocator"};
  return kNames[std::size_t(category)];
}

std::string_view in_words(Category category) {
  switch (category) {
    case Category::Master: return "fp32 master weights";
    case Category::Communication: return "buckets and gathers";
    case Category::Workspace: return "engine and kernels";
    case Category::Context: return "CUDA context";
    case Category::Nccl: return "NCCL's buffers";
    case Category::Allocator: return "allocator's cache";
    default: return to_string(category);
  }
}

OpCode op_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::None: return OpCode::Call;
    case Exchange::AllReduce: return OpCode::AllReduce;
    case Exchange::AllGather: return OpCode::AllGather;
    case Exchange::ReduceScatter: return OpCode::ReduceScatter;
    case Exchange::AllToAll: return OpCode::AllToAll;
  }
  return OpCode::Call;
}

bool is_collective(OpCode op) {
  return op == OpCode::AllGather || op == OpCode::ReduceScatter || op == OpCode::AllReduce || op == OpCode::AllToAll;
}

std::string_view to_string(OpCode op) {
  static constexpr std::array<std::string_view, std::size_t(OpCode::Count)> kNames{
      "call",     "all-gather", "reduce-scatter", "all-reduce",     "all-to-all", "send",    "recv",   "copy-in",
      "copy-out", "cast",       "gradient-norm",  "optimizer-step", "load-batch", "release", "repeat", "end-repeat"};
  return kNames[std::size_t(op)];
}

std::string_view to_string(BufferRole role) {
  static constexpr std::array<std::string_view, std::size_t(BufferRole::Count)> kNames{"",
                                                                                       "trained weights",
                                                                                       "frozen weights",
                                                                                       "adapters",
                                                                                       "gathered weights",
                                                                                       "weight shard",
                                                                                       "gradient",
                                                                                       "unsharded gradient",
                                                                                       "reduce input",
                                                                                       "bucket",
                                                                                       "master weights",
                                                                                       "optimizer state",
                                                                                       "fp32 gradient copy",
                                                                                       "flat gradient",
                                                                                       "optimizer temporary",
                                                                                       "batch",
                                                                                       "boundary",
                                                                                       "activation gradient",
                                                                                       "encoder output",
                                                                                       "encoder gradient",
                                                                                       "16-bit weights",
                                                                                       "kept by checkpointing",
                                                                                       "constants",
                                                                                       "what comes beside"};
  return kNames[std::size_t(role)];
}

std::string unit_name(std::uint16_t unit, std::int64_t num_layers) {
  if (unit == 0) return "embedding";
  if (unit > num_layers) return "head";
  return fmt::format("layer {}", unit - 1);
}

std::string buffer_name(const ProgramBuffer& buffer, std::int64_t num_layers) {
  return fmt::format("{} {}", unit_name(buffer.unit, num_layers), to_string(buffer.role));
}

}  // namespace gpuplan
