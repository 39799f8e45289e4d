#include "diagnose/predicted_parts.h"

#include <algorithm>

#include "planner/instruction_cost.h"
#include "planner/job_metrics.h"
#include "planner/program_builder.h"
#include "planner/program_walk.h"
#include "planner/step_inputs.h"
#include "sim/simulation.h"

namespace gpuplan {
namespace {

KernelClass class_of(const LayerOp& op) {
  switch (op.cost) {
    case CostClass::Gemm:
    case CostClass::BatchedGemm: return KernelClass::Gemm;  // eager attention's products too
    case CostClass::FlashAttention:
    case CostClass::CudnnAttention:
    case CostClass::Flash3Attention: return KernelClass::Attention;
    case CostClass::Scan: return KernelClass::Scan;
    case CostClass::Dequantise:
    case CostClass::DequantiseGptq: return KernelClass::Dequantise;
    case CostClass::Memory: break;
  }
  return KernelClass::Memory;
}

StepPhase phase_of(const Instruction& i, const StepProgram& program) {
  if (i.phase == Phase::OptimizerStep || i.op == OpCode::OptimizerStep || i.op == OpCode::GradientNorm)
    return StepPhase::Optimizer;
  const bool is_backward = i.op == OpCode::Call && program.blocks[i.block].runs_backward;
  return i.phase == Phase::Recompute || i.phase == Phase::Backward || is_backward ? StepPhase::Backward
                                                                                  : StepPhase::Forward;
}

/// Seconds by class and by phase, of a rank's program.
struct WorkSums {
  std::array<double, kNumKernelClasses> classes{};
  std::array<double, kNumStepPhases> phases{};

  friend WorkSums operator-(WorkSums a, const WorkSums& b) {
    for (std::size_t i = 0; i < a.classes.size(); ++i) a.classes[i] -= b.classes[i];
    for (std::size_t i = 0; i < a.phases.size(); ++i) a.phases[i] -= b.phases[i];
    return a;
  }
  friend WorkSums operator*(std::int64_t times, WorkSums a) {
    for (double& c : a.classes) c *= double(times);
    for (double& p : a.phases) p *= double(times);
    return a;
  }
  WorkSums& operator+=(const WorkSums& o) {
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i] += o.classes[i];
    for (std::size_t i = 0; i < phases.size(); ++i) phases[i] += o.phases[i];
    return *this;
  }
};

class WorkOfProgram {
 public:
  WorkOfProgram(const StepProgram& program, const StepColumns& columns, const CommModel& comm)
      : program_(program),
        columns_(columns),
        comm_(comm) {}

  WorkSums of(std::size_t rank_class) const {
    const RankProgram& rank = program_.programs[program_.classes[rank_class].program];
    RepeatedSum<WorkSums> sum;
    walk(
        rank, [&](const ProgramCursor& at) { add(sum.total, rank, at.instruction()); }, sum);
    return sum.total;
  }

 private:
  void add(WorkSums& to, const RankProgram& rank, const Instruction& i) const {
    const CostModel& model = columns_.models.front();
    const auto count = [&](KernelClass c, double seconds) {
      to.classes[std::size_t(c)] += seconds;
      to.phases[std::size_t(phase_of(i, program_))] += seconds;
    };
    if (i.op != OpCode::Call) {
      const double work = cost_of(program_, rank, i, 0, model, comm_).work.value;
      if (work > 0 && i.stream != StreamId::Host)
        count(i.op == OpCode::Cast ? KernelClass::Memory : KernelClass::Optimizer, work);
      return;
    }
    const Block& block = program_.blocks[i.block];
    if (block.exchange != Exchange::None) return;
    const LayerGraph& graph = program_.graphs[block.graph];
    const auto& ops = block.runs_backward ? graph.backward : graph.forward;
    for (const BlockEvent& event : block.events)
      if (event.kind == BlockEvent::Run)
        count(class_of(ops[event.index]), model.op_time(ops[event.index], graph.software).value);
  }

  const StepProgram& program_;
  const StepColumns& columns_;
  const CommModel& comm_;
};

KernelClass class_of(Activity activity) {
  switch (activity) {
    case Activity::AllGather: return KernelClass::AllGather;
    case Activity::ReduceScatter: return KernelClass::ReduceScatter;
    case Activity::AllReduce: return KernelClass::AllReduce;
    case Activity::AllToAll:  // NCCL's are sends and receives
    case Activity::SendRecv: return KernelClass::SendRecv;
    case Activity::CopyIn:
    case Activity::CopyOut: return KernelClass::Copy;
    default: return KernelClass::Count;
  }
}

}  // namespace

StepParts predicted_parts(const Job& job) {
  StepParts out;
  const Job timed = average_job(job);
  const StepColumns columns = make_columns(timed);
  const CommModel comm = make_step_comm(timed);
  StepProgram program;
  build_step_program(program, timed, columns.models, columns.of_rank);
  const WorkSums work = WorkOfProgram(program, columns, comm).of(program.class_of(0));
  for (std::size_t p = 0; p < out.phases.size(); ++p) out.phases[p] = Seconds{work.phases[p]};
  for (std::size_t c = 0; c < out.classes.size(); ++c) out.classes[c] = Seconds{work.classes[c]};

  const Simulation simulation = simulate_plan(job, {.network = NetworkFidelity::Analytic}).simulation;
  for (const Span& span : simulation.spans)
    if (const KernelClass is = class_of(span.activity); span.rank == 0 && is != KernelClass::Count)
      out.classes[std::size_t(is)] += (span.end - span.begin).seconds();
  for (int c = int(KernelClass::AllReduce); c < kNumKernelClasses; ++c)
    out.communication += out.classes[std::size_t(c)];
  out.step = simulation.step_time();
  out.compute = simulation.compute * out.step;
  out.exposed = simulation.exposed_communication + simulation.bubble;
  out.overlap = std::max(Seconds{}, out.communication - out.exposed);
  out.idle = std::max(Seconds{}, out.step - out.compute - out.exposed);
  return out;
}

}  // namespace gpuplan
