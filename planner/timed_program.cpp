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
  kinds.clear(), examples.clear(), streams.clear();
  turns.assign(1, {});
  touches.clear(), lasting.clear(), awaited.clear();
  micro_batches = 1;
}

namespace {

using namespace operand;

class Resolver {
 public:
  Resolver(TimedProgram& out, const RankProgram& program) : out_(out), p_(program) { kind_at_.fill(kNoKind); }

  void run() {
    out_.clear();
    // not more than the program has, and one in the place of all that are left out of an instruction
    out_.text.operands.resize(p_.operands.size());
    out_.text.operand_steps.resize(p_.operands.size());
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
    out_.text.operands.resize(num_operands_);
    out_.text.operand_steps.resize(num_operands_);
  }

 private:
  static std::uint8_t bit(StreamId stream) { return std::uint8_t(1U << unsigned(stream)); }  // of eight

  /// Roles whose buffers more than one stream uses, and streams whose allocations may wait for another stream.
  void look_for_shared_roles() {
    constexpr std::size_t kNumRoles = std::size_t(BufferRole::Count);
    std::array<std::uint8_t, kNumRoles> used_on{}, freed_on{};
    std::uint8_t has_work = bit(StreamId::Compute);
    const ProgramBuffer* const buffers = p_.buffers.data();
    std::uint8_t* const used = used_on.data();
    for (const Instruction& i : p_.instructions) {
      const std::uint8_t stream = i.op < OpCode::Release ? bit(i.stream) : std::uint8_t{0};
      has_work |= stream;
      const Operand* const first = p_.operands.data() + i.first_operand;
      for (const Operand* o = first; o != first + i.num_operands; ++o) {
        const ProgramBuffer& b = buffers[id(*o)];
        if (*o & (kRead | kWrite)) used[std::size_t(b.role)] |= stream;
        if (*o & kFrees) freed_on[std::size_t(b.role)] |= bit(b.home);
      }
    }
    for (int s = 0; s < kNumStreams; ++s)
      if (has_work & bit(StreamId(s))) out_.streams.push_back(StreamId(s));
    for (std::size_t role = 0; role < kNumRoles; ++role) {
      is_shared_[role] = (used_on[role] & (used_on[role] - 1)) != 0;
      if (is_shared_[role]) gated_ |= freed_on[role];
    }
  }

  /// False: nothing of it is left.
  bool add(const Instruction& i, std::uint32_t index) {
    const std::size_t first = num_operands_;
    Operand* const operands = out_.text.operands.data();
    std::uint32_t* const steps = out_.text.operand_steps.data();
    const ProgramBuffer* const buffers = p_.buffers.data();
    bool allocates = false;
    for (std::size_t k = i.first_operand, end = k + i.num_operands; k < end; ++k) {
      const Operand o = p_.operands.data()[k];
      if (is_shared_[std::size_t(buffers[id(o)].role)]) {
        operands[num_operands_] = o;
        steps[num_operands_++] = k < p_.operand_steps.size() ? p_.operand_steps.data()[k] : 0;
      } else {
        allocates |= (o & kAllocates) != 0;
      }
    }
    // an allocation waits for the users of what its pool freed, whoever uses the new buffer
    if (allocates && i.op < OpCode::Release && !runs_block(i) && (gated_ & bit(i.stream))) {
      operands[num_operands_] = kAllocates;
      steps[num_operands_++] = 0;
    }
    if (i.op == OpCode::Release && num_operands_ == first) return false;
    Instruction& made = out_.text.instructions.emplace_back(i);
    made.first_operand = narrow<std::uint32_t>(first);
    made.num_operands = narrow<std::uint16_t>(num_operands_ - first);
    out_.kinds.push_back(i.op < OpCode::Release ? kind_of(i, index) : std::uint16_t{0});
    return true;
  }

  std::uint16_t kind_of(const Instruction& i, std::uint32_t index) {
    const bool is_copy = i.op == OpCode::CopyIn || i.op == OpCode::CopyOut;
    const bool is_nvme = (is_copy || i.op == OpCode::OptimizerStep) && uses_nvme(p_, i);
    // what moves activations takes another time in another batch
    const auto place =
        std::uint8_t((is_nvme ? 1 : 0) + (is_copy && moves_activations(p_, i) ? 2 : 0));  // checked: two bits
    const std::uint64_t mixed = (std::uint64_t(i.work.count) + 31 * std::uint64_t(i.op) + 977 * std::uint64_t(i.block) +
                                 7919 * i.hook_kernels + std::uint64_t(place)) *
                                0x9e3779b97f4a7c15U;
    const auto is_it = [&](std::uint16_t kind) {
      const Instruction& k = p_.instructions[out_.examples[kind].instruction];
      return k.op == i.op && k.work == i.work && k.block == i.block && k.stream == i.stream && k.axis == i.axis &&
             k.messages == i.messages && (i.op != OpCode::OptimizerStep || k.frame == i.frame) &&
             k.hook_kernels == i.hook_kernels && out_.examples[kind].place == place;
    };
    std::uint16_t& latest = kind_at_[mixed >> 58];  // of those whose hashes begin alike
    if (latest != kNoKind && is_it(latest)) return latest;
    for (std::size_t kind = 0; kind < hashes_.size(); ++kind)
      if (hashes_[kind] == mixed && is_it(std::uint16_t(kind)))  // checked: as many as examples
        return latest = std::uint16_t(kind);                     // checked: the same
    latest = narrow<std::uint16_t>(out_.examples.size());
    out_.examples.push_back({index, place});
    hashes_.push_back(mixed);
    return latest;
  }

  void add_turns(std::span<const Instruction> turn) {
    std::uint32_t instruction = 0, work = 0;
    const std::size_t first = out_.touches.size();
    makes_.clear(), frees_.clear();
    for (const Instruction& i : turn) {
      for (std::size_t k = i.first_operand, end = k + i.num_operands; k < end; ++k) {
        const Operand o = out_.text.operands.data()[k];
        if (id(o) == 0) continue;
        const TimedProgram::Touch& touch =
            out_.touches.emplace_back(TimedProgram::Touch{o, out_.text.operand_steps.data()[k], instruction, work});
        if (o & kAllocates) makes_.push_back(touch);
        if (o & kFrees) frees_.push_back(touch);
      }
      ++instruction;
      work += i.op != OpCode::Release;
    }
    for (std::size_t k = first; k < out_.touches.size(); ++k) {
      const TimedProgram::Touch& t = out_.touches[k];
      const auto frees = [&](const TimedProgram::Touch& other) { return is_soon_after(other, t); };
      const auto makes = [&](const TimedProgram::Touch& other) { return is_soon_after(t, other); };
      if ((t.operand & (kRead | kWrite)) && std::none_of(frees_.begin(), frees_.end(), frees))
        out_.lasting.push_back(t);
      if (t.step != 0 && std::none_of(makes_.begin(), makes_.end(), makes)) out_.awaited.push_back(t);
    }
    out_.turns.push_back({out_.touches.size(), out_.lasting.size(), out_.awaited.size()});
  }

  /// `later` names the buffer of `touch`, in the same turn or one of the next.
  static bool is_soon_after(const TimedProgram::Touch& later, const TimedProgram::Touch& touch) {
    static_assert(kMostTurnsOfUse == 3);
    const std::uint32_t apart = id(touch.operand) - id(later.operand), step = later.step;
    return step == touch.step && (apart == 0 || apart == step || apart == 2 * step || apart == 3 * step);
  }

  static constexpr std::uint16_t kNoKind = 0xffff;

  TimedProgram& out_;
  const RankProgram& p_;
  std::array<bool, std::size_t(BufferRole::Count)> is_shared_{};
  std::uint8_t gated_{};  // streams
  std::size_t num_operands_ = 0;
  std::vector<TimedProgram::Touch> makes_, frees_;  // of a turn
  std::array<std::uint16_t, 64> kind_at_{};
  std::vector<std::uint64_t> hashes_;  // [kind]
};

}  // namespace

namespace {

/// Another batch has other turns of micro-batches, in the same places: of a program there is one repeat of them at
/// most.
void set_turns(TimedProgram& out, const RankProgram& program) {
  const auto repeats_micro_batches = [](const Instruction& i) { return i.op == OpCode::Repeat && !repeats_layers(i); };
  const auto from = std::ranges::find_if(program.instructions, repeats_micro_batches);
  const auto to = std::ranges::find_if(out.text.instructions, repeats_micro_batches);
  if (from != program.instructions.end() && to != out.text.instructions.end())
    to->turns = out.micro_batches = from->turns;
}

}  // namespace

void resolve(TimedStep& out, const StepProgram& program) {
  const bool is_known = out.build != 0 && out.build == program.build.value();
  if (!is_known) {
    out.build = program.build.value();
    out.passes.clear();
    if (out.programs.size() < program.num_programs) out.programs.resize(program.num_programs);
    for (std::size_t k = 0; k < program.num_programs; ++k) Resolver(out.programs[k], program.programs[k]).run();
  }
  for (std::size_t k = 0; k < program.num_programs; ++k) set_turns(out.programs[k], program.programs[k]);
}

}  // namespace gpuplan
