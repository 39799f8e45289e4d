#include "planner/timed_program.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/narrow.h"
#include "planner/instruction_cost.h"
#include "planner/program_batch.h"

namespace gpuplan {

void TimedProgram::clear() {
  text.clear();
  kinds.clear(), examples.clear();
  turns.assign(1, {});
  touches.clear(), lasting.clear(), awaited.clear();
}

namespace {

using namespace operand;

class Resolver {
 public:
  Resolver(TimedProgram& out, const RankProgram& program) : out_(out), p_(program) { kind_at_.fill(kNoKind); }

  void run() {
    out_.clear();
    look_for_shared_roles();
    std::size_t repeat = 0;  // of layers: behind it in the text
    for (std::uint32_t k = 0; k < p_.instructions.size(); ++k) {
      const Instruction& i = p_.instructions[k];
      if (!add(i, k)) continue;
      if (i.op == OpCode::Repeat && repeats_layers(i)) {
        repeat = out_.kinds.size();
        out_.kinds.back() = narrow<std::uint16_t>(out_.turns.size());
      }
      if (i.op == OpCode::EndRepeat && repeat > 0) {
        const std::span<const Instruction> turn(out_.text.instructions);
        add_turns(turn.subspan(repeat, turn.size() - 1 - repeat));
        repeat = 0;
      }
    }
  }

 private:
  static std::uint8_t bit(StreamId stream) { return std::uint8_t(1U << unsigned(stream)); }  // of eight

  /// Roles whose buffers more than one stream uses, and streams whose allocations may wait for another stream.
  void look_for_shared_roles() {
    constexpr std::size_t kNumRoles = std::size_t(BufferRole::Count);
    std::array<std::uint8_t, kNumRoles> used_on{}, freed_on{};
    for (const Instruction& i : p_.instructions)
      for (const Operand o : p_.operands_of(i)) {
        const ProgramBuffer& b = p_.buffers[id(o)];
        if (i.op != OpCode::Release && (o & (kRead | kWrite))) used_on[std::size_t(b.role)] |= bit(i.stream);
        if (o & kFrees) freed_on[std::size_t(b.role)] |= bit(b.home);
      }
    for (std::size_t role = 0; role < kNumRoles; ++role) {
      is_shared_[role] = (used_on[role] & (used_on[role] - 1)) != 0;
      if (is_shared_[role]) gated_ |= freed_on[role];
    }
  }

  /// False: nothing of it is left.
  bool add(const Instruction& i, std::uint32_t index) {
    const auto first = narrow<std::uint32_t>(out_.text.operands.size());
    const auto push = [&](Operand o, std::uint32_t step) {
      out_.text.operands.push_back(o);
      out_.text.operand_steps.push_back(step);
    };
    bool allocates = false;
    for (std::size_t k = i.first_operand; k < std::size_t(i.first_operand) + i.num_operands; ++k) {
      const Operand o = p_.operands[k];
      if (is_shared_[std::size_t(p_.buffers[id(o)].role)])
        push(o, k < p_.operand_steps.size() ? p_.operand_steps[k] : 0);
      else
        allocates |= (o & kAllocates) != 0;
    }
    // an allocation waits for the users of what its pool freed, whoever uses the new buffer
    if (allocates && i.op < OpCode::Release && i.op != OpCode::Call && (gated_ & bit(i.stream))) push(kAllocates, 0);
    const std::size_t count = out_.text.operands.size() - first;
    if (i.op == OpCode::Release && count == 0) return false;
    Instruction& made = out_.text.instructions.emplace_back(i);
    made.first_operand = first;
    made.num_operands = narrow<std::uint16_t>(count);
    out_.kinds.push_back(i.op < OpCode::Release ? kind_of(i, index) : std::uint16_t{0});
    return true;
  }

  /// The place of a kind in the table is that of the latest one of its hash: another of the same kind may be in two.
  std::uint16_t kind_of(const Instruction& i, std::uint32_t index) {
    const bool is_copy = i.op == OpCode::CopyIn || i.op == OpCode::CopyOut;
    const bool is_nvme = (is_copy || i.op == OpCode::OptimizerStep) && uses_nvme(p_, i);
    // what moves activations takes another time in another batch
    const int place = (is_nvme ? 1 : 0) + (is_copy && moves_activations(p_, i) ? 2 : 0);
    const std::uint64_t mixed = (std::uint64_t(i.work.count) + 31 * std::uint64_t(i.op) + 977 * std::uint64_t(i.block) +
                                 7919 * i.hook_kernels + std::uint64_t(place)) *
                                0x9e3779b97f4a7c15U;
    std::uint16_t& known = kind_at_[mixed >> 58];
    if (known != kNoKind) {
      const Instruction& k = p_.instructions[out_.examples[known]];
      if (k.op == i.op && k.work == i.work && k.block == i.block && k.stream == i.stream && k.axis == i.axis &&
          k.messages == i.messages && k.hook_kernels == i.hook_kernels && places_[known] == place)
        return known;
    }
    known = narrow<std::uint16_t>(out_.examples.size());
    out_.examples.push_back(index);
    places_.push_back(place);
    return known;
  }

  void add_turns(std::span<const Instruction> turn) {
    std::uint32_t instruction = 0, work = 0;
    const std::size_t first = out_.touches.size();
    for (const Instruction& i : turn) {
      for (std::size_t k = i.first_operand; k < std::size_t(i.first_operand) + i.num_operands; ++k)
        if (id(out_.text.operands[k]) != 0)
          out_.touches.push_back({out_.text.operands[k], out_.text.operand_steps[k], instruction, work});
      ++instruction;
      work += i.op != OpCode::Release;
    }
    const std::span<const TimedProgram::Touch> all(out_.touches.begin() + std::ptrdiff_t(first), out_.touches.end());
    for (const TimedProgram::Touch& t : all) {
      const auto is_freed_by = [&](const TimedProgram::Touch& other) {
        return (other.operand & kFrees) && is_soon_after(other, t);
      };
      const auto is_made_by = [&](const TimedProgram::Touch& other) {
        return (other.operand & kAllocates) && is_soon_after(t, other);
      };
      if ((t.operand & (kRead | kWrite)) && std::none_of(all.begin(), all.end(), is_freed_by))
        out_.lasting.push_back(t);
      if (t.step != 0 && std::none_of(all.begin(), all.end(), is_made_by)) out_.awaited.push_back(t);
    }
    out_.turns.push_back({out_.touches.size(), out_.lasting.size(), out_.awaited.size()});
  }

  /// `later` names the buffer of `touch`, in the same turn or one of the next.
  static bool is_soon_after(const TimedProgram::Touch& later, const TimedProgram::Touch& touch) {
    if (later.step != touch.step) return false;
    const std::uint32_t apart = id(touch.operand) - id(later.operand);
    for (std::uint32_t turns = 0; turns <= kMostTurnsOfUse; ++turns)
      if (apart == turns * later.step) return true;
    return false;
  }

  static constexpr std::uint16_t kNoKind = 0xffff;

  TimedProgram& out_;
  const RankProgram& p_;
  std::array<bool, std::size_t(BufferRole::Count)> is_shared_{};
  std::uint8_t gated_{};  // streams
  std::array<std::uint16_t, 64> kind_at_{};
  std::vector<int> places_;
};

}  // namespace

void resolve(TimedStep& out, const StepProgram& program) {
  if (out.build != 0 && out.build == program.build.value()) return;
  out.build = program.build.value();
  if (out.programs.size() < program.num_programs) out.programs.resize(program.num_programs);
  for (std::size_t k = 0; k < program.num_programs; ++k) Resolver(out.programs[k], program.programs[k]).run();
}

}  // namespace gpuplan
