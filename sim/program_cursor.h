// Walks a rank's program with its repeats written out, and counts micro-batches.
#pragma once

#include "planner/step_program.h"

namespace gpuplan {

class ProgramCursor {
 public:
  ProgramCursor(const StepProgram& all, const RankProgram& program) : all_(&all), program_(&program) { skip_markers(); }

  bool is_done() const { return at_ >= program_->instructions.size(); }
  std::uint32_t index() const { return at_; }
  std::uint16_t micro_batch() const { return micro_batch_; }
  const Instruction& instruction() const { return program_->instructions[at_]; }
  void advance() {
    ++at_;
    skip_markers();
  }

 private:
  void skip_markers() {
    for (; !is_done(); ++at_) {
      const Instruction& i = instruction();
      if (i.op == OpCode::Repeat) {
        back_ = at_;
        turns_ = i.frame;
      } else if (i.op == OpCode::EndRepeat) {
        if (--turns_ > 0) at_ = back_;
      } else {
        count_micro_batch(i);
        return;
      }
    }
  }

  /// The forward of the stage's first unit begins a micro-batch: the one call there that makes an output.
  void count_micro_batch(const Instruction& i) {
    if (i.op != OpCode::Call || i.unit != program_->first_unit || all_->blocks[i.block].runs_backward) return;
    for (const Operand o : all_->operands_of(*program_, i))
      if ((o & operand::kByCallee) && (o & operand::kWrite)) {
        if (has_begun_) ++micro_batch_;
        has_begun_ = true;
        return;
      }
  }

  const StepProgram* all_;
  const RankProgram* program_;
  std::uint32_t at_{}, back_{}, turns_{};
  std::uint16_t micro_batch_{};
  bool has_begun_{};
};

}  // namespace gpuplan
