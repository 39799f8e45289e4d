#include "planner/pipeline_schedule.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

Visit visit(bool is_backward, std::int64_t chunk, std::int64_t micro_batch) {
  return {is_backward, narrow<std::uint16_t>(chunk), narrow<std::uint32_t>(micro_batch)};
}

/// All forward, then all backward. Source: Huang et al. 2019 (arXiv 1811.06965).
std::vector<Visit> gpipe(const PipelinePlace& p) {
  std::vector<Visit> out;
  for (const bool is_backward : {false, true})
    for (std::int64_t i = 0; i < p.micro_batches; ++i) out.push_back(visit(is_backward, 0, i));
  return out;
}

/// The visits of one direction in order: groups of as many micro-batches as there are stages go through one chunk after
/// the other. Source: NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py (get_schedule_table).
std::vector<Visit> chunk_by_chunk(const PipelinePlace& p, bool is_backward) {
  std::vector<Visit> out;
  for (std::int64_t begin = 0; begin < p.micro_batches; begin += p.stages)
    for (std::int64_t c = 0; c < p.chunks; ++c)
      for (std::int64_t i = begin; i < std::min(begin + p.stages, p.micro_batches); ++i)
        out.push_back(visit(is_backward, is_backward ? p.chunks - 1 - c : c, i));
  return out;
}

/// After a warm-up, one forward and one backward in turn. Earlier stages warm up longer: until what they sent comes
/// back. Source: the same file (get_pp_rank_microbatches); Narayanan et al. 2021 (arXiv 2104.04473).
std::vector<Visit> one_forward_one_backward(const PipelinePlace& p) {
  const std::vector<Visit> forward = chunk_by_chunk(p, false), backward = chunk_by_chunk(p, true);
  const std::int64_t behind = p.stages - p.stage - 1;
  const auto warm_up = std::size_t(
      std::min<std::int64_t>(p.chunks == 1 ? behind : 2 * behind + (p.chunks - 1) * p.stages, std::ssize(forward)));
  std::vector<Visit> out(forward.begin(), forward.begin() + std::ptrdiff_t(warm_up));
  for (std::size_t i = 0; i < forward.size(); ++i) {
    if (warm_up + i < forward.size()) out.push_back(forward[warm_up + i]);
    out.push_back(backward[i]);
  }
  return out;
}

constexpr std::array kRows{PipelineRow{Schedule::GPipe, "gpipe", false, true, gpipe},
                           PipelineRow{Schedule::OneFOneB, "1f1b", false, false, one_forward_one_backward},
                           PipelineRow{Schedule::Interleaved, "interleaved", true, false, one_forward_one_backward}};

}  // namespace

std::span<const PipelineRow> pipeline_schedules() { return kRows; }

const PipelineRow* pipeline_row(Schedule schedule) {
  const auto row = std::ranges::find(kRows, schedule, &PipelineRow::schedule);
  return row == kRows.end() ? nullptr : &*row;
}

Schedule parse_schedule(std::string_view text, std::string_view where) {
  const auto row = std::ranges::find(kRows, text, &PipelineRow::name);
  if (row == kRows.end())
    throw InputError(std::string(where), fmt::format("unknown schedule '{}'", text), "1f1b, interleaved or gpipe");
  return row->schedule;
}

StageLayers parse_stage_layers(std::string_view text, std::string_view where) {
  StageLayers out;
  for (const std::string& part : split(text, ','))
    out.push_back(parse_integer(trim(part), where, 0, kMostLayersOfStage));
  return out;
}

std::string to_string(const StageLayers& layers) { return fmt::format("{}", fmt::join(layers, ",")); }

namespace {

/// Layers of each stage, none of them 0. Empty: they do not make `layers`.
StageLayers shared_out(StageLayers stages, std::int64_t layers) {
  const auto is_too_much = [](std::int64_t n) { return n < 0 || n > kMostLayersOfStage; };  // as a file may have it
  if (std::ranges::any_of(stages, is_too_much)) return {};
  const std::int64_t sharing = std::ranges::count(stages, 0),
                     rest = layers - std::accumulate(stages.begin(), stages.end(), std::int64_t{});
  if (sharing == 0 ? rest != 0 : rest < sharing || rest % sharing != 0) return {};
  for (std::int64_t& stage : stages)
    if (stage == 0) stage = rest / sharing;
  return stages;
}

}  // namespace

std::vector<std::uint16_t> pipeline_bounds(std::int64_t layers, const Strategy& strategy, bool counts_ends) {
  const std::int64_t units = layers + 2, chunks = strategy.chunks, stages = strategy.mesh.num_stages();
  const bool is_even = strategy.stage_layers.empty();
  std::vector<std::uint16_t> bounds{0};
  const auto add = [&](std::int64_t bound) { bounds.push_back(narrow<std::uint16_t>(bound)); };
  if (is_even && layers % (stages * chunks) != 0) {
    if (!counts_ends || units % (stages * chunks) != 0) return {};
    while (bounds.size() <= std::size_t(stages * chunks)) add(bounds.back() + units / (stages * chunks));
    return bounds;
  }
  const StageLayers each = shared_out(is_even ? StageLayers(std::size_t(stages), 0) : strategy.stage_layers, layers);
  if (std::ssize(each) != stages || std::ranges::any_of(each, [&](std::int64_t n) { return n < 1 || n % chunks != 0; }))
    return {};
  std::int64_t next = 1;
  for (std::int64_t part = 0; part < stages * chunks; ++part) add(next += each[std::size_t(part % stages)] / chunks);
  ++bounds.back();  // the head
  return bounds;
}

std::int64_t most_in_flight(std::span<const Visit> visits) {
  std::map<std::uint16_t, std::int64_t> open;
  std::int64_t most = 0;
  for (const Visit& v : visits) most = std::max(most, open[v.chunk] += v.is_backward ? -1 : 1);
  return most;
}

}  // namespace gpuplan
