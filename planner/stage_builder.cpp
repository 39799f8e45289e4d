// Buffers and instructions of a stage, and the order of its parts.
#include "planner/stage_builder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/narrow.h"
#include "planner/unit_layout.h"

namespace gpuplan {

using namespace operand;

StageScratch& stage_scratch() {
  static thread_local StageScratch scratch;
  return scratch;
}

std::uint32_t StageBuilder::add(Category category, BufferRole role, std::uint16_t unit, Bytes bytes, bool persistent,
                                MemorySpace space) {
  ProgramBuffer& b = p_.buffers.emplace_back();
  b.bytes = bytes;
  b.category = category;
  b.role = role;
  b.unit = unit;
  b.space = space;
  b.is_persistent = b.is_allocated = persistent;
  s_.last_use.push_back(kNeverUsed);
  return narrow<std::uint32_t>(p_.buffers.size() - 1);
}

Instruction& StageBuilder::emit(OpCode op, StreamId stream, Axis axis, std::uint16_t unit,
                                std::span<const Operand> operands, Bytes work) {
  Instruction& i = p_.instructions.emplace_back();
  i.op = op;
  i.stream = stream;
  i.axis = axis;
  i.phase = phase_;
  i.micro_batch = micro_batch_;
  i.unit = unit;
  i.first_operand = narrow<std::uint32_t>(p_.operands.size());
  i.work = work;
  if (op == OpCode::Call) i.hook_kernels = std::exchange(hooks_, 0u);
  p_.operands.insert(p_.operands.end(), operands.begin(), operands.end());
  Operand* const first = p_.operands.data() + i.first_operand;
  Operand* next = first;
  ProgramBuffer* const buffers = p_.buffers.data();
  std::uint32_t* const last_use = s_.last_use.data();
  std::uint32_t at = i.first_operand;
  for (Operand o : operands) {
    if (id(o) == 0) continue;
    ProgramBuffer& b = buffers[id(o)];
    if (!b.is_allocated) {
      b.is_allocated = true;
      b.home = stream;
      if (!is_callees(o)) o |= kAllocates;
    }
    last_use[id(o)] = at++;
    *next++ = o;
  }
  i.num_operands = narrow<std::uint16_t>(at - i.first_operand);
  p_.operands.resize(at);
  return i;
}

/// Frees follow from use: the last operand that names a buffer frees it, unless a callee does.
bool StageBuilder::finish() {
  GPUPLAN_CHECK(p_.buffers.size() <= kIdMask, "a program has more buffers than operands can name");
  s_.num_freed.assign(p_.operand_steps.size(), 0);
  const ProgramBuffer* const buffers = p_.buffers.data();
  const std::uint32_t* const last_use = s_.last_use.data();
  Operand* const operands = p_.operands.data();
  std::uint32_t* const num_freed = s_.num_freed.data();
  for (std::size_t b = 0, count = p_.buffers.size(), num_repeated = s_.num_freed.size(); b < count; ++b) {
    const std::uint32_t last = last_use[b];
    if (last == kNeverUsed || buffers[b].is_persistent || is_callees(operands[last])) continue;
    operands[last] |= kFrees;
    if (last < num_repeated) ++num_freed[last];
  }
  return frees_in_all_turns(s_.num_freed);
}

/// An asynchronous operation holds its inputs until the next one of its stream is issued (a window of one).
void StageBuilder::drain(StreamId stream, std::uint16_t unit) {
  auto& held = s_.held[std::size_t(stream)];
  if (held.empty()) return;
  s_.operands.assign(held.begin(), held.end());
  emit(OpCode::Release, StreamId::Compute, Axis::None, unit, s_.operands);
  held.clear();
}

void StageBuilder::add_constants() {
  add(Category::Workspace, BufferRole::Constants, first_, constants_layout(in_.model.spec, recipe().seq_len).size,
      true);
}

void StageBuilder::make_units(const ModelBlocks& blocks) {
  const std::int64_t k = std::max<std::int64_t>(1, recipe().checkpoint_every);
  const TrainedModel& model = in_.model;
  const Bytes boundary = bytes_of(model.stream_tokens(recipe()) * model.spec.stream_width(), n_.residual);
  const std::int64_t positions = recipe().rows() * model.positions_per_row(recipe());
  const Bytes tower_boundary = bytes_of(positions * model.tower.hidden_size, n_.residual);
  const Bytes of_images = bytes_of(recipe().rows() * model.memory_elements_per_row(recipe()), n_.residual);
  const std::int64_t num_tower_units = model.spec.vision.num_units();
  s_.units.assign(s_.unit_ids.size(), {});
  for (std::size_t i = 0; i < s_.units.size(); ++i) {
    Unit& u = s_.units[i];
    const std::int64_t layer = std::int64_t(unit_id(i)) - 1;
    const bool is_windowed = blocks.has_windowed && model.spec.has_window(layer - num_tower_units);
    u.input = layer < num_tower_units ? tower_boundary : boundary;
    u.output = layer + 1 < num_tower_units ? tower_boundary : boundary;
    u.memory = num_tower_units > 0 ? of_images : boundary;
    u.is_checkpointed = recipe().checkpointing != Checkpointing::None &&
                        (recipe().checkpointing != Checkpointing::EveryK || layer % k == 0);
    if (!is_embedding(i) && !is_head(i)) {
      const KindBlocks& kind = blocks.kinds[kind_index(i)];
      const bool may_slide = kind_of(i).part == ModelPart::Language;
      u.blocks = is_windowed && may_slide ? kind.windowed : kind.full;
      u.keeps_input = kind.keeps_input;
      u.makes_dx = kind.makes_dx;
      const LayerKind& layer_kind = kind_of(i);
      const bool is_encoder_end =
          layer_kind.is_bridge && (layer_kind.part == ModelPart::Language || model.spec.vision.is_attended);
      u.makes_memory = layer_kind.makes_deepstack || is_encoder_end;
      u.reads_memory =
          layer_kind.has_cross_attention || layer_kind.reads_deepstack || attends_to_images(layer_kind.mixer);
      u.is_checkpointed &= !layer_kind.is_bridge && kind.runs_backward;
    }
    if (is_embedding(i)) u.whole = blocks.embedding, u.whole_backward = blocks.embedding_backward;
    if (is_head(i))
      u.whole = blocks.head, u.whole_backward = blocks.head_backward, u.keeps_input = blocks.head_keeps_input;
  }
}

/// Micro-batches between the first and the last are alike.
void StageBuilder::run_micro_batches() {
  const std::int64_t m = recipe().grad_accum;
  micro_batch(0);
  if (m > 2) {
    emit(OpCode::Repeat, StreamId::Compute, Axis::None, first_, {}).turns = narrow<std::uint32_t>(m - 2);
    micro_batch(1);
    emit(OpCode::EndRepeat, StreamId::Compute, Axis::None, first_, {});
  }
  if (m > 1) micro_batch(m - 1);
}

bool StageBuilder::run(const ModelBlocks& blocks, std::span<const UnitRange> chunks, std::int64_t stage) {
  first_ = chunks.front().first, last_ = chunks.back().last;
  blocks_ = &blocks;
  p_.clear();
  p_.first_unit = first_, p_.last_unit = last_;
  p_.buffers.emplace_back();  // id 0 stands for "no operand"
  s_.last_use.assign(1, kNeverUsed);
  for (auto& held : s_.held) held.clear();
  for (auto& pending : s_.pending) pending.clear();
  s_.casts.clear();
  s_.issued.clear();
  s_.kept.clear();
  for (auto* list : {&s_.places, &s_.held_to_end, &s_.outputs}) list->clear();
  s_.unit_ids.clear();
  for (const UnitRange& c : chunks)
    for (std::uint16_t unit = c.first; unit <= c.last; ++unit) s_.unit_ids.push_back(unit);
  trained_category_ = recipe().is_adapter() ? Category::Adapters : Category::Weights;
  const PipelineRow* const row = pipeline_row(in_.strategy.schedule);
  is_pipeline_ = row != nullptr;
  folds_ = folds_ && (!row || chunks.size() == 1);
  for (std::size_t k = 0; k < kNumLanes; ++k)
    pending_grows_[k] =
        keeps_gathered() || (waits_for_bucket(k) &&
                             (fills_bucket() ? z_.messages[k].all + z_.messages[k].largest <= bucket_bytes()
                                             : z_.messages[k].all < Bytes{in_.framework.distributed.ddp_bucket_bytes}));
  if (chunks.size() == 1) choose_cut(blocks);
  make_units(blocks);
  make_groups();
  if (is_cut_wrong_) return false;
  if (in_.framework.state.has_step_constants) add_constants();
  s_.x.assign(s_.units.size() + 1, 0);
  s_.dx.assign(s_.units.size() + 1, 0);
  s_.host_x.assign(s_.units.size() + 1, 0);
  s_.chunks.clear();
  s_.schedule.clear();
  for (const UnitRange& c : chunks) {
    const auto first = narrow<std::uint16_t>(s_.chunks.empty() ? 0 : s_.chunks.back().last + 1);
    add_chunk(first, narrow<std::uint16_t>(first + (c.last - c.first) - narrow<int>(cut_.missing)));
  }
  label_units();
  if (row)
    run_visits(*row, stage);
  else
    run_micro_batches();
  p_.num_frames = narrow<std::uint32_t>(num_slots_ * (s_.units.size() + cut_.missing));
  phase_ = Phase::OptimizerStep;
  step_all();
  release_all(s_.held_to_end);
  return finish() && !is_cut_wrong_;
}

}  // namespace gpuplan
