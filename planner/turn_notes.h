// A forward pass need not run every turn of a repeat of layers. While every comparison of two moments goes as it went
// before, a turn is an affine function of the clocks. Then two turns that have moved every clock alike are followed by
// turns that do the same, for as long as no comparison turns: one whose slack shrinks by d in a turn lasts slack / d
// turns.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace gpuplan {

/// Values that are appended turn by turn; storage is kept.
template <class Value>
class NoteList {
 public:
  void clear() { size_ = 0; }
  [[gnu::always_inline]] void add(Value value) {
    if (size_ == capacity_) [[unlikely]]
      grow();
    values_.get()[size_++] = value;
  }
  std::size_t size() const { return size_; }
  const Value* data() const { return values_.get(); }

 private:
  [[gnu::noinline]] void grow() {
    auto wider = std::make_unique<Value[]>(2 * size_ + 256);
    std::copy_n(values_.get(), size_, wider.get());
    values_ = std::move(wider), capacity_ = 2 * size_ + 256;
  }

  std::unique_ptr<Value[]> values_;
  std::size_t size_ = 0, capacity_ = 0;
};

/// Comparisons and moments of the latest turns. Nothing is noted outside of a repeat of layers, and of its first turn
/// no comparisons.
class TurnNotes {
 public:
  void begin_repeat() {
    is_in_repeat_ = true, has_comparisons_ = false;
    num_turns_ = 0;
    now().clear();
  }
  void end_repeat() { is_in_repeat_ = has_comparisons_ = false; }
  bool is_in_repeat() const { return is_in_repeat_; }
  bool has_comparisons() const { return has_comparisons_; }

  /// Notes a comparison of two moments, or lengths, by their difference.
  void compare(double slack) {
    if (has_comparisons_) now().slacks.add(slack);
  }
  /// Clocks: each moves by as much in every turn, while turns are alike. `give(note)` notes each of them.
  template <class Give>
  void note_clocks(Give give) {
    NoteList<double>& clocks = now().clocks;
    give([&](double moment) { clocks.add(moment); });
  }
  /// Says when an instruction ends.
  void finish(double moment) { now().finishes.add(moment); }
  /// Until when an instruction waits for its operands, or (a Release) a pool for what is freed.
  void wait(double until) { now().waits.add(until); }

  /// After a turn: so many of the `left` ones that come, going by comparisons alone, are like it. `scale`: of the
  /// moments, below whose rounding nothing is told apart.
  std::uint32_t num_alike(std::uint32_t left, double scale) const;
  /// Makes room for the next turn.
  void next_turn() {
    ++num_turns_;
    latest_ = latest_ + 1 == turns_.size() ? 0 : latest_ + 1;
    has_comparisons_ = true;
    now().clear();
  }
  /// Turns that come in no rhythm are not worth more notes.
  bool is_worthwhile() const { return num_turns_ < 6; }
  /// The latest turn moved it so far.
  double clock_step(std::size_t k) const { return turn(0).clocks.data()[k] - turn(1).clocks.data()[k]; }
  double finish_step(std::size_t k) const { return turn(0).finishes.data()[k] - turn(1).finishes.data()[k]; }
  double wait_step(std::size_t k) const { return turn(0).waits.data()[k] - turn(1).waits.data()[k]; }
  double last_wait(std::size_t k) const { return turn(0).waits.data()[k]; }
  double last_finish(std::size_t k) const { return turn(0).finishes.data()[k]; }

 private:
  struct Turn {
    NoteList<double> slacks, clocks, finishes, waits;
    void clear() { slacks.clear(), clocks.clear(), finishes.clear(), waits.clear(); }
  };
  Turn& now() { return turns_[latest_]; }
  const Turn& turn(std::size_t back) const { return turns_[latest_ >= back ? latest_ - back : latest_ + 3 - back]; }

  std::array<Turn, 3> turns_;  // the latest, in a ring
  std::size_t latest_{};
  std::size_t num_turns_{};  // of this repeat, before this one
  bool is_in_repeat_{}, has_comparisons_{};
};

}  // namespace gpuplan
