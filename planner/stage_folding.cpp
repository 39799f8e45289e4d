// Layers that are built once. A step of the schedule emits what the state of the builder says, and ids of buffers are
// nothing but names to it. When two turns of some layers have emitted the same but for names, and each has left the
// state as the one before, but for names that move by the same amounts, then so does every turn that finds the same
// kinds of layers in the same state: the turns become a repeat, and the state moves on by as many turns.
#include "planner/stage_builder.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {

using namespace operand;

namespace {

/// Folding fewer units, or fewer steps, takes longer than building them.
constexpr std::size_t kFewestUnits = 16, kFewestSkipped = 4, kFewestTurns = 6;

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
  if (!folds_ || in_.strategy.wrap == WrapPolicy::Size) return;
  if (s_.units.size() + cut_.missing < kFewestUnits) return;
  const auto is_like = [&](std::size_t u, std::size_t v) {
    Unit unit = s_.units[u];
    const Unit& other = s_.units[v];
    if (is_embedding(v) || is_head(u) || kind_index(u) != kind_index(v) ||
        unit.group != std::size_t(other.group) + (u - v))
      return false;
    const Group &g = s_.groups[unit.group], &h = s_.groups[other.group];
    unit.group = other.group;
    if (unit.has_experts && other.has_experts) unit.second = other.second;
    return unit == other && g.keeps_after_forward == h.keeps_after_forward && !g.is_root && !h.is_root &&
           (unit_id(u) < in_.model.first_backward) == (unit_id(v) < in_.model.first_backward);
  };
  for (std::size_t u = 0; u < s_.units.size(); ++u) {
    std::uint16_t& label = s_.labels[u];
    label = narrow<std::uint16_t>(u + 1);  // of its own
    for (std::size_t back = 1; back <= std::min(u, kMostPeriod) && label == u + 1; ++back)
      if (is_like(u, u - back)) label = s_.labels[u - back];
    s_.group_labels[s_.units[u].group] = label;
    if (s_.units[u].has_experts) s_.group_labels[s_.units[u].second] = label;
  }
  std::size_t most_alike = (s_.units.size() - 1) / 2;
  for (std::size_t p = 1; p <= kMostPeriod && s_.units.size() > p + most_alike; ++p) {
    std::size_t num_alike = 0;
    for (std::size_t u = p; u < s_.units.size(); ++u) num_alike += s_.labels[u] == s_.labels[u - p];
    if (num_alike > most_alike) most_alike = num_alike, period_ = p;
  }
}

/// The steps from `at` on are looked at: how long a turn of theirs may be, and where they cease to be alike.
void StageBuilder::begin_run(std::size_t at) {
  walk_.period = period_;
  if (at + 1 >= walk_.end) return;
  walk_.direction = slot_at(at + 1) < slot_at(at) ? -1 : 1;
  if (is_over_units() && s_.schedule[at + 1].phase == Phase::Backward) {
    const bool reduces = is_last_micro_batch() || reduces_each_micro_batch();
    walk_.period = std::lcm(period_, reduces ? layers_per_bucket(s_.units[s_.schedule[at + 1].unit]) : 1);
  }
  const std::size_t prefetched = gathers() || engine_.gathers_at_use ? std::size_t(engine_.prefetch_units) : 0;
  walk_.ahead = walk_.period + (is_over_units() ? std::max<std::size_t>(1, prefetched) : 0);
  walk_.run_end = at + period_ + 1;
  const auto follows = [&](std::size_t j) { return slot_at(j) == slot_at(j - 1) + std::size_t(walk_.direction); };
  while (walk_.run_end < walk_.end && label_at(walk_.run_end) == label_at(walk_.run_end - period_) &&
         follows(walk_.run_end))
    ++walk_.run_end;
  // a few turns of many layers: not worthwhile
  const bool is_long = walk_.run_end - at + cut_.missing >= kFewestTurns * walk_.period;
  if (walk_.period > kMostPeriod || (walk_.period > std::max<std::size_t>(2, period_) && !is_long)) walk_.period = 0;
}

std::size_t StageBuilder::slot_at(std::size_t at) const {
  return is_over_units() ? s_.schedule[at].unit : walk_.over == WalkOver::Pending ? s_.pending[walk_.lane][at] : at;
}

std::uint32_t StageBuilder::label_at(std::size_t at) const {
  if (!is_over_units()) {
    const std::size_t group = slot_at(at);
    return s_.group_labels[group] | std::uint32_t{s_.groups[group].is_of_experts} << 16;
  }
  return narrow<std::uint32_t>(int(s_.schedule[at].phase)) << 16 | s_.labels[s_.schedule[at].unit];  // checked
}

inline Group& StageBuilder::group_of(std::size_t slot, std::size_t part) const {
  return s_.groups[!is_over_units() ? slot : part == 0 ? s_.units[slot].group : s_.units[slot].second];
}

inline SlotWords StageBuilder::words_of(std::size_t slot, std::size_t part) const {
  SlotWords out{};
  if (part > 0 && !s_.units[slot].has_experts) return out;
  if (is_over_units() && part == 0) out[0] = s_.x[slot], out[1] = s_.dx[slot], out[2] = s_.host_x[slot];
  const auto words = std::bit_cast<GroupWords>(static_cast<const GroupHandles&>(group_of(slot, part)));
  std::copy(words.begin(), words.end(), out.begin() + 3);
  return out;
}

inline void StageBuilder::set_words(std::size_t slot, std::size_t part, const SlotWords& words) {
  if (part > 0 && !s_.units[slot].has_experts) return;
  if (is_over_units() && part == 0) s_.x[slot] = words[0], s_.dx[slot] = words[1], s_.host_x[slot] = words[2];
  GroupWords group{};
  std::copy_n(words.begin() + 3, group.size(), group.begin());
  static_cast<GroupHandles&>(group_of(slot, part)) = std::bit_cast<GroupHandles>(group);
}

/// Names that do not belong to a layer, and groups whose gradients wait, unless they do so to the end.
template <class Use, class UseGroup>
void StageBuilder::each_common_handle(Use use, UseGroup use_group) {
  for (std::uint32_t* one : {&tokens_, &memory_, &memory_gradient_, &step_gradient_, &step_temporary_}) use(*one);
  for (std::uint32_t& bucket : buckets_) use(bucket);
  for (std::uint32_t& gathered : s_.issued) use(gathered);
  for (auto& held : s_.held)
    for (std::uint32_t& id : held) use(id);
  for (std::size_t k = 0; k < kNumLanes; ++k)
    if (!pending_grows_[k])
      for (std::uint32_t& group : s_.pending[k]) use_group(group);
}

/// The state after the step at `at` into the next mark, if all the layers that it is about are there.
bool StageBuilder::mark_turn(std::size_t at) {
  const std::size_t slot = slot_at(at);
  const std::size_t num_slots = is_over_units() ? s_.units.size() : s_.groups.size();
  std::size_t behind = walk_.period - 1;
  for (std::size_t b = 0; b < kNumLanes && is_over_units(); ++b)
    for (std::size_t k = 0; k < s_.pending[b].size() && !pending_grows_[b]; ++k) {
      const std::uint32_t index = s_.pending[b][k];
      const auto unit = std::int64_t(local_of(s_.groups[index].unit));
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
  const std::size_t parts = slots_of_each();
  mark.handles.resize(mark.num_slots * parts * kSlotWords);
  for (std::size_t k = 0; k < mark.num_slots; ++k)
    for (std::size_t part = 0; part < parts; ++part) {
      const SlotWords words = words_of(std::size_t(oldest + walk_.direction * std::int64_t(k)), part);
      std::copy(words.begin(), words.end(), mark.handles.data() + (k * parts + part) * words.size());
    }
  const auto keep = [&](std::uint32_t handle) { mark.handles.push_back(handle); };
  each_common_handle(keep, keep);
  std::size_t v = 0;
  for (const std::int64_t value : {std::int64_t(hooks_), std::int64_t(phase_), std::int64_t(s_.issued.size())})
    mark.values[v++] = value;
  mark.grown = {s_.casts.size(), s_.kept.size(), is_over_units() ? 0 : s_.operands.size()};
  for (std::size_t k = 0; k < kNumLanes; ++k) {
    const bool grows = pending_grows_[k];
    mark.values[v++] = grows ? 0 : waiting_[k].count;
    mark.values[v++] = grows ? 0 : std::ssize(s_.pending[k]);
    mark.grown[3 + k] = grows ? s_.pending[k].size() : 0;
  }
  for (const auto& held : s_.held) mark.values[v++] = std::ssize(held);
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
/// in. Those that are missing are among them where the turns end behind the cut, state and all.
TurnsAhead StageBuilder::turns_ahead(std::size_t at, const TurnMark& last, const TurnMark& now) {
  const std::size_t period = walk_.period;
  const std::size_t first = at + walk_.ahead + 1;
  const std::int64_t newest = std::int64_t(now.oldest) + walk_.direction * std::int64_t(now.num_slots - 1);
  if (are_apart(now.oldest, std::size_t(newest))) return {};
  const std::size_t parts = slots_of_each(), in_turn = period * parts;
  std::array<SlotWords, kMostSlots * kMostPeriod> expected, steps;
  for (std::size_t k = 0; k < in_turn; ++k) {
    const std::size_t base = (now.num_slots * parts - in_turn + k) * kSlotWords;
    for (std::size_t w = 0; w < kSlotWords; ++w) {
      expected[k][w] = now.handles[base + w];
      steps[k][w] = now.handles[base + w] - last.handles[base + w];
    }
  }
  is_cut_wrong_ |= cut_.missing % period != 0;
  const auto missing = narrow<std::uint32_t>(cut_.missing / period);
  const auto move = [&](std::size_t from, std::size_t to, std::uint32_t by) {
    for (std::size_t k = from; k < to; ++k)
      for (std::size_t w = 0; w < kSlotWords; ++w) expected[k][w] += by * steps[k][w];
  };
  const auto is_as_expected = [&](std::size_t slot, std::size_t k) {
    for (std::size_t part = 0; part < parts; ++part)
      if (words_of(slot, part) != expected[k * parts + part]) return false;
    return true;
  };
  std::size_t count = 0, k = 0;
  std::optional<std::size_t> before_cut;  // turns that end there
  for (; first + count < walk_.run_end; ++count) {
    const auto slot = std::size_t(newest + walk_.direction * std::int64_t(count + 1));
    if (!before_cut && are_apart(now.oldest, slot)) {
      before_cut = count / period;
      move(0, in_turn, missing);
    }
    move(k * parts, (k + 1) * parts, 1);
    if (!is_as_expected(slot, k)) break;
    k = k + 1 == period ? 0 : k + 1;
  }
  const auto turns = narrow<std::uint32_t>(count / period);
  if (!before_cut) return {turns, 0};
  const std::int64_t oldest = std::int64_t(now.oldest) + walk_.direction * std::int64_t(turns * period);
  if (turns > 0 && are_apart(now.oldest, std::size_t(oldest))) return {turns, missing};
  return {narrow<std::uint32_t>(*before_cut), 0};
}

/// The text of the two turns becomes that of a repeat of them and `turns` more.
void StageBuilder::repeat_text(const TurnMark& before, const TurnMark& last, const TurnMark& now, std::uint32_t turns,
                               int unit_step) {
  repeat_buffers(last.buffers, now.buffers - last.buffers, turns, unit_step);
  if (now.instructions == last.instructions) return;
  const std::size_t num_operands = now.operands - last.operands;
  p_.operand_steps.resize(before.operands, 0);
  for (std::size_t k = last.operands; k < now.operands; ++k)
    p_.operand_steps.push_back(p_.operands[k] - p_.operands[k - num_operands]);
  s_.moving.clear();
  for (std::size_t k = before.operands; k < last.operands; ++k)
    if (!p_.buffers[id(p_.operands[k])].is_persistent)
      s_.moving.push_back({id(p_.operands[k]), p_.operand_steps[k], narrow<std::uint32_t>(k)});
  std::uint32_t* const last_use = s_.last_use.data();
  for (std::uint32_t turn = 1; turn <= turns + 1; ++turn)
    for (MovingOperand& m : s_.moving) last_use[m.buffer += m.step] = m.operand;
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

/// The state after so many more turns.
void StageBuilder::move_state(const TurnMark& last, const TurnMark& now, TurnsAhead turns) {
  const std::size_t period = walk_.period, parts = slots_of_each(), in_turn = period * parts;
  std::int64_t slot = std::int64_t(now.oldest) + walk_.direction * std::int64_t(period);
  const auto words_at = [](const TurnMark& mark, std::size_t k) {
    SlotWords words;
    std::copy_n(mark.handles.begin() + std::ptrdiff_t(k * kSlotWords), kSlotWords, words.begin());
    return words;
  };
  // of the oldest layers of a turn, which it is done with
  std::array<SlotWords, kMostSlots * kMostPeriod> words, steps;
  for (std::size_t k = 0; k < in_turn; ++k) {
    words[k] = words_at(now, k);
    const SlotWords then = words_at(last, k);
    for (std::size_t w = 0; w < kSlotWords; ++w) steps[k][w] = words[k][w] - then[w];
  }
  bool is_behind = turns.missing == 0;
  for (std::uint32_t turn = 1; turn < turns.walked; ++turn)
    for (std::size_t k = 0; k < period; ++k, slot += walk_.direction) {
      if (!is_behind && are_apart(now.oldest, std::size_t(slot))) {
        is_behind = true;
        for (std::size_t of = 0; of < in_turn; ++of)
          for (std::size_t w = 0; w < kSlotWords; ++w) words[of][w] += turns.missing * steps[of][w];
      }
      for (std::size_t part = 0; part < parts; ++part) {
        SlotWords& moving = words[k * parts + part];
        for (std::size_t w = 0; w < kSlotWords; ++w) moving[w] += steps[k * parts + part][w];
        set_words(std::size_t(slot), part, moving);
      }
    }
  for (std::size_t k = 0; k < now.num_slots; ++k, slot += walk_.direction)
    for (std::size_t part = 0; part < parts; ++part) {
      SlotWords end = words_at(now, k * parts + part);
      const SlotWords then = words_at(last, k * parts + part);
      for (std::size_t w = 0; w < kSlotWords; ++w) end[w] = moved(then[w], end[w], turns.all());
      set_words(std::size_t(slot), part, end);
    }
  std::size_t h = now.num_slots * parts * kSlotWords;
  each_common_handle([&](std::uint32_t& handle) { handle = moved(last.handles[h], now.handles[h], turns.all()), ++h; },
                     [&](std::uint32_t& group) { group = moved(last.handles[h], now.handles[h], turns.walked), ++h; });
  const std::array lists{&s_.casts, &s_.kept, &s_.operands, &s_.pending[0], &s_.pending[1]};
  for (std::size_t l = 0; l < lists.size(); ++l) {
    const std::size_t count = now.grown[l] - last.grown[l];
    const std::uint32_t more = l >= 3 ? turns.walked : turns.all();
    for (std::uint32_t turn = 1; turn <= more && count > 0; ++turn)
      for (std::size_t k = last.grown[l]; k < now.grown[l]; ++k)
        lists[l]->push_back(moved((*lists[l])[k - count], (*lists[l])[k], turn));
  }
}

/// After the step `at` of the walk: how many steps the program has without being built.
std::size_t StageBuilder::fold_turns(std::size_t at) {
  if (period_ == 0) return 0;
  const std::size_t folded = fold_here(at), next = at + folded + 1;
  if (next < walk_.end) is_cut_wrong_ |= are_apart(slot_at(next - 1), slot_at(next));
  return folded;
}

std::size_t StageBuilder::fold_here(std::size_t at) {
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
  const TurnsAhead turns = turns_ahead(at, last, now);
  if (turns.all() * p < kFewestSkipped) return 0;
  repeat_text(before, last, now, turns.all(), walk_.direction * narrow<int>(p));
  move_state(last, now, turns);
  walk_.num_marks = 0;
  return turns.walked * p;
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
