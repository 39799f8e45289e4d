#include "run/step_trace.h"

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

using namespace operand;

class Tracer {
 public:
  Tracer(const StepProgram& all, const RankProgram& program)
      : all_(all),
        p_(program),
        alive_(program.buffers.size(), -1),
        frames_(program.num_frames) {}

  StepTrace run() {
    walk(p_, [this](const ProgramCursor& at) { step(at); });
    return std::move(trace_);
  }

 private:
  std::int32_t begin(Bytes bytes, Category category, MemorySpace space) {
    GPUPLAN_CHECK(space == MemorySpace::Device || space == MemorySpace::Host,
                  "a native step works in memory of the device and the host");
    trace_.lifetimes.push_back({bytes, clock_, clock_});
    trace_.categories.push_back(category);
    trace_.spaces.push_back(space);
    ++clock_;
    return narrow<std::int32_t>(trace_.lifetimes.size() - 1);
  }
  void end(std::int32_t& lifetime) {
    if (lifetime < 0) return;
    trace_.lifetimes[std::size_t(lifetime)].end = clock_++;
    lifetime = -1;
  }

  Piece piece(std::uint32_t buffer) const { return {buffer, p_.buffers[buffer].is_persistent ? -1 : alive_[buffer]}; }

  void step(const ProgramCursor& at) {
    const Instruction& i = at.instruction();
    const auto operands = p_.operands_of(i);
    for (const Operand o : operands)
      if (o & kAllocates) {
        const ProgramBuffer& b = p_.buffers[id(o)];
        alive_[id(o)] = begin(b.bytes, b.category, b.space);
      }
    StepTask task{.instruction = at.index(), .micro_batch = at.micro_batch(), .operands = {}, .locals = {}};
    if (runs_block(i)) call(i, task);
    for (const Operand o : operands) task.operands.push_back(is_callees(o) ? task.locals[slot(o)] : piece(id(o)));
    if (i.op != OpCode::Release) trace_.tasks.push_back(std::move(task));
    for (const Operand o : operands)
      if (o & kFrees) end(alive_[id(o)]);
  }

  /// The block's events: slots are the program's buffers, other locals live in the frame.
  void call(const Instruction& i, StepTask& task) {
    const Block& block = all_.blocks[i.block];
    const LayerGraph& graph = all_.graphs[block.graph];
    auto& frame = frames_[i.frame];
    frame.resize(graph.locals.size(), -1);
    std::array<std::uint32_t, kNumSlots> bound{};
    for (const Operand o : p_.operands_of(i))
      if (slot(o) != kNoLocal) bound[slot(o)] = id(o);
    task.locals.resize(graph.locals.size());
    const auto note = [&](LocalId local) {
      if (local < kNumSlots) {
        if (bound[local]) task.locals[local] = piece(bound[local]);
      } else if (frame[local] >= 0) {
        task.locals[local] = {0, frame[local]};
      }
    };
    for (LocalId local = 0; local < graph.locals.size(); ++local) note(local);
    for (const BlockEvent& e : block.events) {
      if (e.kind == BlockEvent::Run) continue;
      const LocalId local = e.index;
      GPUPLAN_CHECK(local >= kNumSlots || bound[local], "a block uses a slot that the call does not bind");
      std::int32_t& life = local < kNumSlots ? alive_[bound[local]] : frame[local];
      if (e.kind == BlockEvent::Alloc) {
        const Category category =
            local < kNumSlots ? p_.buffers[bound[local]].category : category_of(graph.locals[local].kind);
        life = begin(graph.locals[local].bytes(), category, MemorySpace::Device);
        note(local);
      } else {
        end(life);
      }
    }
  }

  const StepProgram& all_;
  const RankProgram& p_;
  StepTrace trace_;
  std::vector<std::int32_t> alive_;                // lifetime of each buffer, -1: none
  std::vector<std::vector<std::int32_t>> frames_;  // of each frame's locals
  std::uint32_t clock_ = 0;
};

}  // namespace

StepTrace trace_step(const StepProgram& all, const RankProgram& program) { return Tracer(all, program).run(); }

}  // namespace gpuplan
