// Layers that are built once. A step of the schedule emits what the state of the builder says, and ids of buffers are
// nothing but names to it. When two turns of some layers have emitted the same but for names, and each has left the
// state as the one before, but for names that move by the same amounts, then so does every turn that finds the same
// kinds of layers in the same state: the turns become a repeat, and the state moves on by as many turns.
#include "planner/stage_builder.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {

using namespace operand;

namespace {

/// Folding fewer units, or fewer steps, takes longer than building them.
constexpr std::size_t kFewestUnits = 16, kFewestSkipped = 4;

/// `turns` after `now`, which came a turn after `before`.
std::uint32_t moved(std::uint32_t before, std::uint32_t now, std::uint32_t turns) {
  return now + turns * (now - before);
}

/// Each of `now` has moved as far as the one of `last` had, and what was none still is.
bool move_alike(std::span<const std::uint32_t> before, std::span<const std::uint32_t> last,
                std::span<const std::uint32_t> now) {
  const auto differ = [&](std::size_t k) {
    return ((now[k] - last[k]) ^ (last[k] - before[k])) | ((before[k] == 0) != (now[k] == 0) ? 1U : 0U);
  };
  std::size_t k = 0;
  for (; k + kSlotWords <= now.size(); k += kSlotWords) {
    std::uint32_t of_slot = 0;
    for (std::size_t w = 0; w < kSlotWords; ++w) of_slot |= differ(k + w);
    if (of_slot != 0) return false;
  }
  for (; k < now.size(); ++k)
    if (differ(k) != 0) return false;
  return true;
}

}  // namespace

/// Units get the same label when the builder treats them alike; `period_`: after so many, most are alike again.
void StageBuilder::label_units() {
  s_.labels.assign(s_.units.size(), 0);
  s_.group_labels.assign(s_.groups.size(), 0);
  period_ = 0;
  if (!folds_ || s_.units.size() < kFewestUnits || in_.strategy.wrap == WrapPolicy::Size) return;
  const auto is_like = [&](std::size_t u, std::size_t v) {
    Unit unit = s_.units[u];
    const Unit& other = s_.units[v];
    if (is_embedding(v) || is_head(u) || kind_index(u) != kind_index(v) ||
        unit.group != std::size_t(other.group) + (u - v))
      return false;
    const Group &g = s_.groups[unit.group], &h = s_.groups[other.group];
    unit.group = other.group;
    return unit == other && g.keeps_after_forward == h.keeps_after_forward && !g.is_root && !h.is_root &&
           (unit_id(u) < in_.model.first_backward) == (unit_id(v) < in_.model.first_backward);
  };
  for (std::size_t u = 0; u < s_.units.size(); ++u) {
    std::uint16_t& label = s_.labels[u];
    label = narrow<std::uint16_t>(u + 1);  // of its own
    for (std::size_t back = 1; back <= std::min(u, kMostPeriod) && label == u + 1; ++back)
      if (is_like(u, u - back)) label = s_.labels[u - back];
    s_.group_labels[s_.units[u].group] = label;
  }
  for (std::size_t p = 1; p <= kMostPeriod && period_ == 0; ++p) {
    std::size_t num_alike = 0;
    for (std::size_t u = p; u < s_.units.size(); ++u) num_alike += s_.labels[u] == s_.labels[u - p];
    if (2 * num_alike >= s_.units.size()) period_ = p;
  }
}

std::size_t StageBuilder::layers_per_bucket(const Group& g) const {
  const std::int64_t message = g.sizes.reduce_message.count;
  if (layout_.shards_weights || copies(g) * ways(g) == 1 || !g.has_gradient() || message == 0 ||
      !(is_last_micro_batch() || reduces_each_micro_batch()))
    return 1;
  if (fills_bucket()) return std::size_t(std::max<std::int64_t>(1, bucket_bytes().count / message));
  return std::size_t((std::max<std::int64_t>(1, in_.framework.distributed.ddp_bucket_bytes) + message - 1) / message);
}

/// The steps from `at` on are looked at: how long a turn of theirs may be, and where they cease to be alike.
void StageBuilder::begin_run(std::size_t at) {
  walk_.period = period_;
  if (at + 1 >= walk_.end) return;
  walk_.direction = slot_at(at + 1) < slot_at(at) ? -1 : 1;
  if (is_over_units() && s_.schedule[at + 1].phase == Phase::Backward) {
    const std::size_t layers = layers_per_bucket(s_.groups[s_.units[s_.schedule[at + 1].unit].group]);
    walk_.period = std::lcm(period_, layers * (buckets_[1] ? 2 : 1));  // two buckets take turns
  }
  const std::size_t prefetched = gathers() ? std::size_t(engine_.prefetch_units) : 0;
  walk_.ahead = walk_.period + (is_over_units() ? std::max<std::size_t>(1, prefetched) : 0);
  walk_.run_end = at + period_ + 1;
  const auto follows = [&](std::size_t j) { return slot_at(j) == slot_at(j - 1) + std::size_t(walk_.direction); };
  while (walk_.run_end < walk_.end && label_at(walk_.run_end) == label_at(walk_.run_end - period_) &&
         follows(walk_.run_end))
    ++walk_.run_end;
  if (walk_.period > std::max<std::size_t>(2, period_)) walk_.period = 0;  // buckets of many layers: not worthwhile
}

std::size_t StageBuilder::slot_at(std::size_t at) const { return is_over_units() ? s_.schedule[at].unit : at; }

std::uint32_t StageBuilder::label_at(std::size_t at) const {
  if (!is_over_units()) return s_.group_labels[at];
  return narrow<std::uint32_t>(int(s_.schedule[at].phase)) << 16 | s_.labels[s_.schedule[at].unit];  // checked
}

inline SlotWords StageBuilder::words_of(std::size_t slot) const {
  SlotWords out{};
  if (is_over_units()) out[0] = s_.x[slot], out[1] = s_.dx[slot], out[2] = s_.host_x[slot];
  const GroupHandles& group = s_.groups[is_over_units() ? s_.units[slot].group : slot];
  const auto words = std::bit_cast<GroupWords>(group);
  std::copy(words.begin(), words.end(), out.begin() + 3);
  return out;
}

inline void StageBuilder::set_words(std::size_t slot, const SlotWords& words) {
  if (is_over_units()) s_.x[slot] = words[0], s_.dx[slot] = words[1], s_.host_x[slot] = words[2];
  GroupWords group{};
  std::copy_n(words.begin() + 3, group.size(), group.begin());
  static_cast<GroupHandles&>(s_.groups[is_over_units() ? s_.units[slot].group : slot]) =
      std::bit_cast<GroupHandles>(group);
}

/// Names that do not belong to a layer.
template <class Use>
void StageBuilder::each_common_handle(Use use) {
  for (std::uint32_t* one : {&tokens_, &memory_, &memory_gradient_, &step_gradient_, &step_temporary_}) use(*one);
  for (std::uint32_t& bucket : buckets_) use(bucket);
  for (std::uint32_t& index : s_.pending) use(index);
  for (std::uint32_t& gathered : s_.issued) use(gathered);
  for (auto& held : s_.held)
    for (std::uint32_t& id : held) use(id);
}

/// The state after the step at `at` into the next mark, if all the layers that it is about are there.
bool StageBuilder::mark_turn(std::size_t at) {
  const std::size_t slot = slot_at(at);
  const std::size_t num_slots = is_over_units() ? s_.units.size() : s_.groups.size();
  std::size_t behind = walk_.period - 1;
  if (is_over_units())
    for (const std::uint32_t index : s_.pending) {
      const std::int64_t unit = std::int64_t(s_.groups[index].unit) - first_;
      const std::int64_t distance = walk_.direction * (std::int64_t(slot) - unit);
      if (distance < 0) return false;
      behind = std::max(behind, walk_.period + std::size_t(distance));
    }
  const std::int64_t oldest = std::int64_t(slot) - walk_.direction * std::int64_t(behind);
  const std::int64_t newest = std::int64_t(slot) + walk_.direction * std::int64_t(walk_.ahead);
  if (std::min(oldest, newest) < 0 || std::max(oldest, newest) >= std::int64_t(num_slots)) return false;
  TurnMark& mark = s_.marks[walk_.num_marks % s_.marks.size()];
  mark.instructions = p_.instructions.size(), mark.operands = p_.operands.size(), mark.buffers = p_.buffers.size();
  mark.oldest = std::size_t(oldest);
  mark.num_slots = behind + walk_.ahead + 1;
  mark.handles.resize(mark.num_slots * kSlotWords);
  for (std::size_t k = 0; k < mark.num_slots; ++k) {
    const SlotWords words = words_of(std::size_t(oldest + walk_.direction * std::int64_t(k)));
    std::copy(words.begin(), words.end(), mark.handles.data() + k * words.size());
  }
  each_common_handle([&](std::uint32_t handle) { mark.handles.push_back(handle); });
  mark.values = {std::int64_t(hooks_), waiting_.count, std::int64_t(phase_), std::ssize(s_.pending),
                 std::ssize(s_.issued)};
  for (std::size_t k = 0; k < s_.held.size(); ++k) mark.values[5 + k] = std::ssize(s_.held[k]);
  mark.grown = {s_.casts.size(), s_.kept.size(), is_over_units() ? 0 : s_.operands.size()};
  ++walk_.num_marks;
  return true;
}

/// The text from `last` to `now` is that from `before` to `last`, `unit_step` units further.
bool StageBuilder::emits_alike(const TurnMark& before, const TurnMark& last, const TurnMark& now, int unit_step) const {
  const std::size_t count = now.instructions - last.instructions;
  if (count != last.instructions - before.instructions ||
      now.operands - last.operands != last.operands - before.operands ||
      now.buffers - last.buffers != last.buffers - before.buffers)
    return false;
  for (std::size_t k = 0; k < count; ++k) {
    Instruction i = p_.instructions[before.instructions + k];
    i.unit = narrow<std::uint16_t>(i.unit + unit_step);
    if (runs_block(i)) i.frame = narrow<std::uint16_t>(i.frame + unit_step);
    i.first_operand += narrow<std::uint32_t>(last.operands - before.operands);
    if (i != p_.instructions[last.instructions + k] || i.num_operands > kMostRepeatedOperands) return false;
  }
  for (std::size_t k = last.operands; k < now.operands; ++k) {
    const Operand o = p_.operands[k], then = p_.operands[k - (last.operands - before.operands)];
    const ProgramBuffer &b = p_.buffers[id(o)], &c = p_.buffers[id(then)];
    // a turn may use what one before it made: of another kind of layer
    if ((o & ~kIdMask) != (then & ~kIdMask) || b.bytes != c.bytes || b.category != c.category || b.space != c.space ||
        b.home != c.home || b.is_persistent != c.is_persistent)
      return false;
  }
  for (std::size_t k = last.buffers; k < now.buffers; ++k) {
    ProgramBuffer b = p_.buffers[k - (now.buffers - last.buffers)];
    b.unit = narrow<std::uint16_t>(b.unit + unit_step);
    if (b != p_.buffers[k]) return false;
  }
  return true;
}

bool StageBuilder::is_turn(const TurnMark& before, const TurnMark& last, const TurnMark& now) const {
  for (std::size_t k = 0; k < now.grown.size(); ++k)
    if (now.grown[k] - last.grown[k] != last.grown[k] - before.grown[k] || now.grown[k] < last.grown[k]) return false;
  return before.values == last.values && last.values == now.values && before.handles.size() == now.handles.size() &&
         last.handles.size() == now.handles.size() && move_alike(before.handles, last.handles, now.handles) &&
         emits_alike(before, last, now, walk_.direction * narrow<int>(walk_.period));
}

/// Counts the further turns that find layers of the same kinds, in the state that the layers of these turns were found
/// in.
std::size_t StageBuilder::num_turns_ahead(std::size_t at, const TurnMark& last, const TurnMark& now) {
  const std::size_t period = walk_.period;
  const std::size_t first = at + walk_.ahead + 1;
  const std::int64_t newest = std::int64_t(now.oldest) + walk_.direction * std::int64_t(now.num_slots - 1);
  std::array<SlotWords, kMostPeriod> expected, steps;
  for (std::size_t k = 0; k < period; ++k) {
    const std::size_t base = (now.num_slots - period + k) * kSlotWords;
    for (std::size_t w = 0; w < kSlotWords; ++w) {
      expected[k][w] = now.handles[base + w];
      steps[k][w] = now.handles[base + w] - last.handles[base + w];
    }
  }
  std::size_t count = 0, k = 0;
  for (; first + count < walk_.run_end; ++count) {
    for (std::size_t w = 0; w < kSlotWords; ++w) expected[k][w] += steps[k][w];
    if (words_of(std::size_t(newest + walk_.direction * std::int64_t(count + 1))) != expected[k]) break;
    k = k + 1 == period ? 0 : k + 1;
  }
  return count / period;
}

/// The text of the two turns becomes that of a repeat of them and `turns` more.
void StageBuilder::repeat_text(const TurnMark& before, const TurnMark& last, const TurnMark& now, std::uint32_t turns,
                               int unit_step) {
  const std::size_t num_made = now.buffers - last.buffers;
  p_.buffers.reserve(now.buffers + turns * num_made);
  for (std::size_t turn = 1; turn <= turns; ++turn)
    for (std::size_t k = last.buffers; k < now.buffers; ++k) {
      ProgramBuffer& b = p_.buffers.emplace_back(p_.buffers[k]);
      b.unit = narrow<std::uint16_t>(b.unit + std::int64_t(turn) * unit_step);
    }
  s_.last_use.resize(p_.buffers.size(), kNeverUsed);
  if (now.instructions == last.instructions) return;
  const std::size_t num_operands = now.operands - last.operands;
  p_.operand_steps.resize(before.operands, 0);
  for (std::size_t k = last.operands; k < now.operands; ++k)
    p_.operand_steps.push_back(p_.operands[k] - p_.operands[k - num_operands]);
  for (std::uint32_t turn = 1; turn <= turns + 1; ++turn)
    for (std::size_t k = before.operands; k < last.operands; ++k)
      s_.last_use[id(p_.operands[k] + turn * p_.operand_steps[k])] = narrow<std::uint32_t>(k);
  p_.operands.resize(last.operands);
  Instruction repeat{
      .op = OpCode::Repeat, .stream = StreamId::Compute, .phase = phase_, .unit_step = narrow<std::int8_t>(unit_step)};
  repeat.unit = first_;
  repeat.micro_batch = micro_batch_;
  repeat.first_operand = narrow<std::uint32_t>(before.operands);
  repeat.turns = turns + 2;
  p_.instructions.resize(last.instructions);
  p_.instructions.insert(p_.instructions.begin() + std::ptrdiff_t(before.instructions), repeat);
  repeat.op = OpCode::EndRepeat;
  repeat.first_operand = narrow<std::uint32_t>(last.operands);
  p_.instructions.push_back(repeat);
}

/// The state after `turns` more turns.
void StageBuilder::move_state(const TurnMark& last, const TurnMark& now, std::uint32_t turns) {
  const std::size_t period = walk_.period;
  std::int64_t slot = std::int64_t(now.oldest) + walk_.direction * std::int64_t(period);
  const auto words_at = [](const TurnMark& mark, std::size_t k) {
    SlotWords words;
    std::copy_n(mark.handles.begin() + std::ptrdiff_t(k * kSlotWords), kSlotWords, words.begin());
    return words;
  };
  std::array<SlotWords, kMostPeriod> words, steps;  // of the oldest layers of a turn, which it is done with
  for (std::size_t k = 0; k < period; ++k) {
    words[k] = words_at(now, k);
    const SlotWords then = words_at(last, k);
    for (std::size_t w = 0; w < kSlotWords; ++w) steps[k][w] = words[k][w] - then[w];
  }
  for (std::uint32_t turn = 1; turn < turns; ++turn)
    for (std::size_t k = 0; k < period; ++k, slot += walk_.direction) {
      for (std::size_t w = 0; w < kSlotWords; ++w) words[k][w] += steps[k][w];
      set_words(std::size_t(slot), words[k]);
    }
  for (std::size_t k = 0; k < now.num_slots; ++k, slot += walk_.direction) {
    SlotWords end = words_at(now, k);
    const SlotWords then = words_at(last, k);
    for (std::size_t w = 0; w < kSlotWords; ++w) end[w] = moved(then[w], end[w], turns);
    set_words(std::size_t(slot), end);
  }
  std::size_t h = now.num_slots * kSlotWords;
  each_common_handle([&](std::uint32_t& handle) { handle = moved(last.handles[h], now.handles[h], turns), ++h; });
  const std::array lists{&s_.casts, &s_.kept, &s_.operands};
  for (std::size_t l = 0; l < lists.size(); ++l) {
    const std::size_t count = now.grown[l] - last.grown[l];
    for (std::uint32_t turn = 1; turn <= turns && count > 0; ++turn)
      for (std::size_t k = last.grown[l]; k < now.grown[l]; ++k)
        lists[l]->push_back(moved((*lists[l])[k - count], (*lists[l])[k], turn));
  }
}

std::size_t StageBuilder::fold_turns(std::size_t at) {
  if (period_ == 0) return 0;
  if (walk_.num_marks == 0 && at + period_ >= walk_.run_end) begin_run(at);
  if (walk_.period == 0 || at + walk_.ahead + 2 * walk_.period >= walk_.run_end || !mark_turn(at)) {
    walk_.num_marks = 0;
    return 0;
  }
  const auto mark = [&](std::size_t back) -> const TurnMark& {
    return s_.marks[(walk_.num_marks - 1 - back) % s_.marks.size()];
  };
  const std::size_t p = walk_.period;
  if (walk_.num_marks <= 2 * p) return 0;
  const TurnMark &now = mark(0), &last = mark(p), &before = mark(2 * p);
  if (!is_turn(before, last, now)) return 0;
  const std::size_t turns = num_turns_ahead(at, last, now);
  if (turns * p < kFewestSkipped) return 0;
  const auto count = narrow<std::uint32_t>(turns);
  repeat_text(before, last, now, count, walk_.direction * narrow<int>(p));
  move_state(last, now, count);
  walk_.num_marks = 0;
  return turns * p;
}

/// A buffer that is freed in one turn of a repeat has to be in all of them.
bool StageBuilder::frees_in_all_turns(std::span<const std::uint32_t> num_freed) const {
  std::uint32_t turns = 0;
  for (const Instruction& i : p_.instructions) {
    if (i.op == OpCode::Repeat && repeats_layers(i)) turns = i.turns;
    if (i.op == OpCode::EndRepeat) turns = 0;
    if (turns == 0) continue;
    for (std::size_t k = i.first_operand; k < std::size_t(i.first_operand) + i.num_operands; ++k)
      if ((p_.operands[k] & kFrees) && num_freed[k] != turns) return false;
  }
  return true;
}

}  // namespace gpuplan
