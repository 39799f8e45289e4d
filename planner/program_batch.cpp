#include "planner/program_batch.h"

#include <algorithm>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

/// One micro-batch, a first and a last one, or others between them.
std::int64_t shape_of(std::int64_t grad_accum) { return std::min<std::int64_t>(grad_accum, 3); }

/// Bytes of one micro batch as those of another.
Bytes scaled(Bytes bytes, std::int64_t from, std::int64_t to) {
  GPUPLAN_CHECK(bytes.count % from == 0, "bytes of activations are not proportional to the micro batch");
  return Bytes{bytes.count / from * to};
}

void set_micro_batch(RankProgram& p, std::span<const Block> blocks, std::int64_t from, std::int64_t to) {
  for (ProgramBuffer& b : p.buffers)
    if (b.category == Category::Activations) b.bytes = scaled(b.bytes, from, to);
  for (Instruction& i : p.instructions)
    if (runs_block(i) && i.op != OpCode::Call)
      i.work = blocks[i.block].message;
    else if (moves_activations(p, i))
      i.work = scaled(i.work, from, to);
}

void set_grad_accum(RankProgram& p, std::int64_t from, std::int64_t to) {
  const auto last = narrow<std::uint32_t>(from - 1), now = narrow<std::uint32_t>(to - 1);
  for (Instruction& i : p.instructions) {
    if (i.op == OpCode::Repeat && !repeats_layers(i)) i.turns = narrow<std::uint32_t>(to - 2);
    if (i.micro_batch == last && last > 1) i.micro_batch = now;
  }
}

}  // namespace

bool moves_activations(const RankProgram& p, const Instruction& i) {
  const bool moves = i.op == OpCode::Send || i.op == OpCode::Recv || i.op == OpCode::CopyIn || i.op == OpCode::CopyOut;
  return moves && i.num_operands > 0 &&
         p.buffers[operand::id(p.operands_of(i).front())].category == Category::Activations;
}

bool BuiltAs::serves(const Job& job, Layers as) const {
  return layers == as && shape_of(grad_accum) == shape_of(job.recipe().grad_accum) &&
         ddp_bucket_bytes == job.framework.distributed.ddp_bucket_bytes && optimizer == job.recipe().optimizer &&
         offload == job.recipe().offload && strategy == job.strategy && engine == job.engine();
}

void BuiltAs::set(const Job& job, Layers as) {
  micro_batch = job.recipe().micro_batch, grad_accum = job.recipe().grad_accum;
  strategy = job.strategy, engine = job.engine();
  ddp_bucket_bytes = job.framework.distributed.ddp_bucket_bytes;
  optimizer = job.recipe().optimizer, offload = job.recipe().offload;
  layers = as;
}

void set_batch(StepProgram& program, const Job& job) {
  const BuiltAs was = *program.built_as;
  const std::int64_t micro_batch = job.recipe().micro_batch, grad_accum = job.recipe().grad_accum;
  for (std::size_t k = 0; k < program.num_programs; ++k) {
    if (was.micro_batch != micro_batch)
      set_micro_batch(program.programs[k], program.blocks, was.micro_batch, micro_batch);
    if (was.grad_accum != grad_accum) set_grad_accum(program.programs[k], was.grad_accum, grad_accum);
  }
  if (program.built_as.use_count() != 1) program.built_as = std::make_shared<BuiltAs>(was);
  program.built_as->micro_batch = micro_batch, program.built_as->grad_accum = grad_accum;
}

}  // namespace gpuplan
