#include "planner/program_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/narrow.h"
#include "base/work_count.h"
#include "models/optimizers.h"
#include "planner/peaks.h"
#include "planner/program_batch.h"
#include "planner/stage_builder.h"
#include "planner/step_temporaries.h"

namespace gpuplan {
namespace {

RankProgram& new_program(StepProgram& program) {
  if (program.programs.size() == program.num_programs) program.programs.emplace_back();
  return program.programs[program.num_programs++];
}

/// Blocks that no other program and no cache reads.
ModelBlocks& own_blocks(StepProgram& program) {
  if (program.made.use_count() != 1) program.made = std::make_shared<ModelBlocks>();
  return *program.made;
}

/// Bytes of a stage by what they are for; each sums up over units.
struct StageLoad {
  double resident{};  // weights, master copies, optimizer state
  double casts{};     // whole weights as the forward pass reads them
  double gradients{};
  double kept{};       // what forward keeps, on the last stage the logits
  double temporary{};  // what the optimizer needs beside its state
  double evaluated{};  // on the last stage the logits of an evaluation batch
  StageLoad& operator+=(const StageLoad& o) {
    resident += o.resident, casts += o.casts, gradients += o.gradients;
    kept += o.kept, temporary += o.temporary, evaluated += o.evaluated;
    return *this;
  }
};

/// The most that a stage has: in a micro-batch, at the optimizer step, in evaluation, and where the allocator keeps
/// what the micro-batch left, also what the step's temporaries do not find there.
struct StageMost {
  bool keeps_segments;
  std::optional<StepTemporaries> temporaries;
  double operator()(const StageLoad& l) const {
    const double batch = l.resident + l.casts + l.gradients + l.kept, step = l.resident + l.gradients + l.temporary;
    double unplaced = keeps_segments ? l.temporary : 0;
    if (keeps_segments && temporaries)
      unplaced = double(temporaries->unplaced(Bytes{std::int64_t(l.kept)}, Bytes{std::int64_t(l.temporary)}).count);
    return std::max({batch + unplaced, step, l.resident + l.evaluated});
  }
};

/// After so many, few levels are left at which something changes.
constexpr int kBisections = 10;

std::vector<StageLoad> unit_loads(const Job& job, const StepProgram& program, const ModelBlocks& blocks) {
  const std::int64_t L = job.model.num_layers();
  const auto load_of = [&](const StateList& list) {
    const StateSizes z = state_sizes(list, job.numerics, job.recipe(), {});
    return StageLoad{.resident = double((z.trained + z.frozen + z.master + z.state).count),
                     .casts = double(z.trained_gathered.count),
                     .gradients = double(z.full_gradient.count),
                     .temporary = double(z.step_temporary.count)};
  };
  std::vector<StageLoad> out(std::size_t(L + 2));
  const double boundary = double(
      bytes_of(job.model.stream_tokens(job.recipe()) * job.model.spec.stream_width(), job.numerics.residual).count);
  std::vector<StageLoad> per_kind;
  for (std::size_t k = 0; k < job.model.layers.size(); ++k) {
    double kept = boundary;
    const LayerGraph& graph = program.graphs[blocks.kinds[k].graph];
    if (job.recipe().checkpointing != Checkpointing::Full)
      for (const LocalId id : saved_locals(graph)) kept += double(graph.locals[id].bytes().count);
    per_kind.push_back(load_of(job.model.layers[k]));
    per_kind.back().kept += kept;
  }
  for (std::int64_t i = 0; i < L; ++i) out[std::size_t(i + 1)] = per_kind[job.model.weights.order[std::size_t(i)]];
  out.front() = load_of(job.model.before);
  out.back() = load_of(job.model.after);
  if (job.model.has_tied_head && job.strategy.mesh.num_stages() > 1) out.back() += out.front();
  const Usage head = blocks.blocks[blocks.head].total;
  const bool is_split = blocks.head_backward != kNoBlock;
  out.back().kept +=
      double(is_split ? std::max(head.peak, head.net + blocks.blocks[blocks.head_backward].total.peak) : head.peak);
  if (is_evaluated(job.request)) out.back().evaluated += double(evaluated_logits(job).count);
  return out;
}

}  // namespace

std::vector<std::uint16_t> stage_bounds(const Job& job, const StepProgram& program, const ModelBlocks& blocks) {
  const std::int64_t stages = job.strategy.mesh.num_stages();
  const std::vector<StageLoad> load = unit_loads(job, program, blocks);
  const StageMost most{job.framework.state.allocator == AllocatorKind::Caching, step_temporaries(job, program)};
  std::vector<double> capacity;
  for (std::int64_t stage = 0; stage < stages; ++stage)
    capacity.push_back(std::max(1.0, double(job.cluster().gpus[std::size_t(stage)].framework_memory.count)));
  // smallest level such that filling stages in order up to level x capacity places every unit; at least one unit a
  // stage
  // the first stage has the tower, the projector, and the layers that read features of the tower's middle
  const VisionSpec& vision = job.model.spec.vision;
  const std::int64_t images_until =
      vision.is_present() ? 1 + vision.num_units() + std::ssize(vision.deepstack_layers) : 0;
  std::vector<std::uint16_t> bounds;
  double next_level = 0;  // the smallest at which a stage has room for one more unit
  const auto fill = [&](double level) {
    bounds.assign(1, 0);
    next_level = std::numeric_limits<double>::infinity();
    std::size_t next = 0;
    for (std::int64_t s = 0; s < stages; ++s) {
      StageLoad used;
      const double room = level * capacity[std::size_t(s)];
      const std::size_t end = load.size() - std::size_t(stages - 1 - s);
      const auto is_bound = [&](std::size_t unit) { return s == 0 && std::int64_t(unit) < images_until; };
      for (const std::size_t begin = next; next < end; ++next) {
        used += load[next];
        if (next == begin || is_bound(next)) continue;
        const double needed = most(used);
        if (needed <= room) continue;
        next_level = std::min(next_level, needed / capacity[std::size_t(s)]);
        break;
      }
      bounds.push_back(narrow<std::uint16_t>(next));
    }
    return next == load.size();
  };
  double low = 0, high = 1;
  while (!fill(high)) high *= 2;
  for (int i = 0; i < kBisections; ++i) (fill((low + high) / 2) ? high : low) = (low + high) / 2;
  // between two levels at which no stage has room for more, stages are filled alike
  for (bool fits = fill(low); !fits; fits = fill(low))
    low = std::max(next_level, std::nextafter(low, std::numeric_limits<double>::infinity()));
  return bounds;
}

namespace {

void build_stages(StepProgram& program, const Job& job, const ModelBlocks& blocks, Layers layers) {
  const Strategy& strategy = job.strategy;
  const std::int64_t L = job.model.num_layers(), stages = strategy.mesh.num_stages();
  std::vector<std::uint16_t> bounds{0, narrow<std::uint16_t>(L + 2)};
  if (pipeline_row(strategy.schedule)) {
    bounds = pipeline_bounds(L, strategy, job.framework.pipeline.counts_ends);
    GPUPLAN_CHECK(!bounds.empty(), "the layers are divided into the parts of a pipeline");
  } else if (stages > 1) {
    GPUPLAN_CHECK(stages <= L + 2, "a pipeline needs a unit per stage");
    bounds = stage_bounds(job, program, blocks);
  }
  program.num_programs = 0;
  program.build.renew();
  static thread_local SizedState sizes;
  size_state(sizes, job);
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    RankProgram& made = new_program(program);
    std::vector<UnitRange> chunks;  // chunk c of stage s is the part c x stages + s of the model
    for (auto part = std::size_t(stage); part + 1 < bounds.size(); part += std::size_t(stages))
      chunks.push_back({bounds[part], narrow<std::uint16_t>(bounds[part + 1] - 1)});
    const auto builds = [&](Layers as, Walked walked) {
      return StageBuilder(made, job, sizes, as, walked).run(blocks, chunks, stage);
    };
    if (!builds(layers, layers == Layers::Folded ? Walked::Few : Walked::All) && !builds(layers, Walked::All))
      GPUPLAN_CHECK(builds(Layers::WrittenOut, Walked::All),
                    "a program without repeats of layers frees in some of their turns");
    count_work(Work::Instructions, std::ssize(made.instructions));
  }
}

}  // namespace

void build_step_program(StepProgram& program, const Job& job, std::span<const CostModel> columns,
                        std::span<const std::size_t> gpu_column, BlockCache* cache, Layers layers) {
  const Strategy& strategy = job.strategy;
  const std::int64_t stages = strategy.mesh.num_stages(), ranks = strategy.mesh.ranks_per_stage();
  std::shared_ptr<BuiltAs> as = std::exchange(program.built_as, nullptr);
  const std::shared_ptr<const ModelBlocks> called = program.made;
  program.mesh = strategy.mesh;
  program.has_one_host = stages > 1 && job.is_one_process();
  if (cache)
    program.made = cache->blocks_of(job);
  else
    make_blocks(own_blocks(program), job);
  const ModelBlocks& blocks = *program.made;
  program.graphs = blocks.all_graphs(), program.blocks = blocks.all_blocks();
  program.costs.clear();
  for (const CostModel& column : columns)
    program.costs.push_back(cache ? cache->costs_of(program, column) : block_costs(program, column));

  if (as && cache && as->serves(job, layers) && cache->serve_one_program(*called, blocks)) {
    program.built_as = std::move(as);
    set_batch(program, job);
  } else {
    build_stages(program, job, blocks, layers);
    // bounds of stages depend on the batch, and ranks that share a sequence round their parts of it up
    if (cache && stages == 1 && strategy.mesh.within_layers() == Mesh()) {
      if (as.use_count() != 1) as = std::make_shared<BuiltAs>();
      as->set(job, layers);
      program.built_as = std::move(as);
    }
  }
  program.classes.clear();
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t first = stage * ranks;
    const std::size_t column = gpu_column.empty() ? 0 : gpu_column[std::size_t(first)];
    program.classes.push_back(
        {.first_rank = first, .num_ranks = ranks, .program = std::size_t(stage), .costs = column});
  }
}

}  // namespace gpuplan
