// A shorter stage. Of a long run of layers that are alike only both ends are walked, as far as walks need them to find
// out that turns repeat (stage_folding.cpp): the repeats get the turns of the layers between. Names of buffers move on
// as if all had been walked. Every walk checks that it passes their place in a repeat, and in the state in which all of
// its turns are; else the stage is built anew without a cut.
#include <algorithm>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/narrow.h"
#include "planner/stage_builder.h"

namespace gpuplan {

namespace {

/// Leaving out fewer layers is not worth a cut.
constexpr std::size_t kFewestMissing = 4;

/// Longest run of layers each of which is like the one a period before it.
struct Run {
  std::size_t begin{}, end{};
  std::size_t size() const { return end - begin; }
};
Run longest_run(std::span<const std::uint32_t> alike, std::size_t period) {
  Run longest, run;
  for (std::size_t k = 0; k < alike.size(); ++k) {
    if (k < period || alike[k] != alike[k - period]) run.begin = k < period ? 0 : k - period + 1;
    run.end = k + 1;
    if (run.size() > longest.size()) longest = run;
  }
  return longest;
}

}  // namespace

std::size_t StageBuilder::layers_per_bucket(const Group& g) const {
  const std::int64_t message = g.sizes.reduce_message.count;
  const bool grows = pending_grows_[g.is_of_experts ? 1 : 0];
  if (layout_.shards_weights || copies(g) * ways(g) == 1 || !g.has_gradient() || message == 0 || grows) return 1;
  if (!fills_bucket())
    return std::size_t((std::max<std::int64_t>(1, in_.framework.distributed.ddp_bucket_bytes) + message - 1) / message);
  const auto layers = std::size_t(std::max<std::int64_t>(1, bucket_bytes().count / message));
  return layers * (bucket_rule().overlap_comm ? 2 : 1);
}

std::size_t StageBuilder::layers_per_bucket(const Unit& u) const {
  const std::size_t own = layers_per_bucket(s_.groups[u.group]);
  return u.has_experts ? std::lcm(own, layers_per_bucket(s_.groups[u.second])) : own;
}

/// In s_.alike: what the builder asks of a layer by its place. The rest follows from its kind.
void StageBuilder::mark_alike_layers(const ModelBlocks& blocks) {
  const std::int64_t k = std::max<std::int64_t>(1, recipe().checkpoint_every);
  const bool is_every_k = recipe().checkpointing == Checkpointing::EveryK;
  const std::int64_t num_tower_units = in_.model.spec.vision.num_units();
  const std::int64_t begin = std::max<std::int64_t>(0, first_ - 1);
  const std::int64_t end = std::min<std::int64_t>(in_.model.num_layers(), last_);
  s_.alike.clear();
  for (std::int64_t layer = begin; layer < end; ++layer) {
    std::uint32_t like = narrow<std::uint32_t>(in_.model.weights.order[std::size_t(layer)]) << 4;
    if (blocks.has_windowed && in_.model.spec.has_window(layer - num_tower_units)) like |= 1;
    if (is_every_k && layer % k == 0) like |= 2;
    if (layer + 1 >= in_.model.first_backward) like |= 4;
    if (layer < num_tower_units) like |= 8;
    s_.alike.push_back(like);
  }
}

/// The layers that walks need: some to begin with, two turns that are compared, a third that tells what is ahead of
/// them, and behind the cut as many as the state of a turn is about.
void StageBuilder::choose_cut(const ModelBlocks& blocks) {
  if (!folds_ || !cuts_ || in_.strategy.wrap == WrapPolicy::Size) return;
  mark_alike_layers(blocks);
  if (s_.alike.size() < kFewestMissing) return;
  // else the step goes over a part of the layers at a time
  if (rules_.sub_group_size >= 0 && steps_flat() && z_.trained_elements >= rules_.sub_group_size) return;
  const std::size_t prefetched = gathers() || engine_.gathers_at_use ? std::size_t(engine_.prefetch_units) : 0;
  for (std::size_t period = 1; period <= kMostPeriod; ++period) {
    const Run run = longest_run(s_.alike, period);
    if (run.size() < 4 * period + kFewestMissing) continue;
    const auto kind_of_layer = [&](std::size_t k) { return std::size_t(s_.alike[run.begin + k] >> 4); };
    const auto is_moe = [&](std::size_t k) { return in_.model.weights.kinds[kind_of_layer(k)].is_moe; };
    Group group;
    group.sizes = z_.kinds[kind_of_layer(0)], group.domain = rules_.domain;
    std::size_t in_bucket = layers_per_bucket(group);
    if (has_experts_apart() && is_moe(0)) {
      Group experts;
      experts.is_of_experts = true;
      experts.sizes = z_.experts[kind_of_layer(0)], experts.domain = rules_.experts;
      in_bucket = std::lcm(in_bucket, layers_per_bucket(experts));
    }
    bool is_mixed = false;  // groups of experts would repeat after fewer than those of layers
    for (std::size_t k = 1; has_experts_apart() && k < period; ++k) is_mixed |= is_moe(k) != is_moe(0);
    if (is_mixed) continue;
    const std::size_t turn = std::lcm(period, in_bucket);
    if (turn > kMostPeriod) return;
    const std::size_t ahead = turn + std::max<std::size_t>(1, prefetched);
    const std::size_t front = 2 * turn + ahead + 2;
    std::size_t back = front + (in_bucket > 1 ? turn : 0);
    if (engine_.max_reuse_distance > 0)  // the last ones are kept gathered
      back += std::size_t(engine_.max_reuse_distance / 2 / std::max<std::int64_t>(1, group.sizes.gathered_elements));
    if (run.size() < front + back + std::max(kFewestMissing, turn)) continue;
    const std::size_t first_layer = first_ == 0 ? 1 : 0;  // local
    cut_ = {
        .at = first_layer + run.begin + front, .missing = (run.size() - front - back) / turn * turn, .period = period};
    const auto missing = s_.unit_ids.begin() + std::ptrdiff_t(cut_.at);
    s_.unit_ids.erase(missing, missing + std::ptrdiff_t(cut_.missing));
    return;
  }
}

/// Adds buffers like the last `count` ones, so many times, each time of units so much further.
void StageBuilder::repeat_buffers(std::size_t first, std::size_t count, std::size_t times, std::int64_t unit_step) {
  p_.buffers.resize(first + (times + 1) * count);
  s_.last_use.resize(p_.buffers.size(), kNeverUsed);
  if (count == 0) return;
  // units follow each other without a gap: the last one tells that all of them are in range
  const std::int64_t furthest = p_.buffers[first].unit + std::int64_t(times) * unit_step;
  GPUPLAN_CHECK(furthest >= 0 && furthest <= last_ + 1, "a buffer belongs to no unit");
  ProgramBuffer* to = p_.buffers.data() + first + count;
  for (const ProgramBuffer *from = p_.buffers.data() + first, *end = to + times * count; to != end; ++from, ++to) {
    *to = *from;
    to->unit = std::uint16_t(from->unit + unit_step);  // checked: below `furthest`
  }
}

}  // namespace gpuplan
