// How many complete plans (blocks + program + replay + forward-pass time) one core makes per second for a 32-layer
// model. Each row has 32 plans, all different: 8 micro batches on 2, 4, 8 and 16 GPUs; "all strategies" has each of
// them under every strategy that it allows.
//   cold     everything is made anew for each plan
//   search   blocks, their costs and programs that differ in their batch alone are kept as `gpuplan plan` keeps them
//            (planner/block_cache.h, planner/program_batch.h), from an empty cache
//   unfolded the same with every layer of the program written out
// Beside it a straightforward per-layer loop that adds up one strategy's formulas. Jobs are resolved beforehand.
//   build/release/bench/bench_planner_speed
#include <chrono>
#include <cstdio>
#include <string>

#include "models/catalogue.h"
#include "planner/program_builder.h"
#include "planner/strategy_estimate.h"

using namespace gpuplan;
using Clock = std::chrono::steady_clock;

namespace {

/// Of one pass; the best of many short ones, so that a busy machine says the same.
template <class F>
double microseconds(F pass) {
  pass();
  double best = 1e9;
  for (int round = 0; round < 200; ++round) {
    const auto begin = Clock::now();
    pass();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return best;
}

/// What a spreadsheet planner does: a loop over layers and tensors, bytes and FLOPs by formula, no schedule, no peak in
/// time.
double naive_plan(const TrainedModel& model, const Recipe& r, std::int64_t ranks) {
  double bytes = 0, seconds = 0;
  const double tokens = double(r.tokens());
  for (std::int64_t layer = 0; layer < model.spec.num_hidden_layers; ++layer) {
    for (const StateTensor& t : model.layers.front()) {
      bytes += double(t.elements()) * (is_trained(t.kind) ? 16.0 : 2.0) / double(ranks);
      seconds += 4 * tokens * double(t.elements()) / 1e14;
    }
    bytes += tokens * double(model.spec.hidden_size) * (r.checkpointing == Checkpointing::None ? 54 : 2);
  }
  return bytes + 16 * tokens * double(model.spec.vocab_size) + seconds;
}

struct Row {
  const char* name;
  const char* strategy;  // empty: all
  Method method;
  Checkpointing checkpointing;
  std::int64_t micro_batches;
  const char* trainer = "hf-trainer";
  StrategyOptions options{};
};

/// The same layers and micro-batches whole and divided: a plan with tp and pp costs at most four times one without.
constexpr const char* kTrainer = "megatron";
const Row kMegatron{"megatron zero1, full, 8 micro-batches", "zero1", Method::Full, Checkpointing::None, 8, kTrainer};
Row divided(const char* name, const StrategyOptions& options) {
  Row row = kMegatron;
  row.name = name, row.options = options;
  return row;
}

/// A question with all that is resolved before its plan is made.
struct Prepared {
  Job job;
  CostModel device;
  CommModel comm;
};

std::vector<Prepared> prepare_plans(const Row& row, const ModelSpec& spec) {
  const Profile profile = default_profile("a100-sxm-80gb");
  const FrameworkConvention& framework = find_framework(row.trainer);
  std::vector<Prepared> out;
  for (const char* gpus : {"2xA100", "4xA100", "8xA100", "16xA100"})
    for (const std::string_view name : strategy_names()) {
      if (*row.strategy && name != row.strategy) continue;
      for (const std::int64_t micro_batch : {1, 2, 3, 4, 6, 8, 12, 16}) {
        Recipe r;
        r.framework = std::string(row.trainer);
        r.method = row.method;
        r.checkpointing = row.checkpointing;
        r.grad_accum = row.micro_batches;
        r.micro_batch = micro_batch;
        const ClusterSpec cluster = parse_gpus(gpus);
        if (cluster.num_gpus() % (row.options.tp * row.options.pp) != 0) continue;
        const Strategy strategy = make_strategy(name, cluster, row.options);
        if (!why_not_applicable(strategy, cluster, r, spec).empty()) continue;
        Job job({.model = spec, .recipe = r, .dataset = {}, .cluster = cluster, .options = row.options},
                prepare(spec, r, framework), framework, profile, strategy);
        const CostModel device = make_cost_model(cluster.gpus.front(), profile, {.dtype = job.numerics.compute});
        const CommModel comm = make_comm_model(cluster, profile, strategy.mesh);
        out.push_back({std::move(job), device, comm});
      }
    }
  return out;
}

/// Memory and time of one plan, added up so that nothing is left out.
double make_plan(StepProgram& program, const Prepared& plan, BlockCache* cache, Layers layers = Layers::Folded) {
  build_step_program(program, plan.job, {&plan.device, 1}, {}, cache, layers);
  double sum = 0;
  for (const RankClass& c : program.classes) sum += double(replay(program, c).tensors.count);
  return sum + forward_pass(program, {&plan.device, 1}, plan.comm).step.value;
}

}  // namespace

int main() {
  const ModelSpec spec = load_model("llama-3-8b").spec;
  std::printf("%-36s %6s %9s %9s %12s %12s %12s %9s %9s\n", "plans of a 32-layer model", "plans", "cold us",
              "search us", "unfolded us", "cold/s", "search/s", "naive us", "search/naive");
  for (const Row& row :
       {Row{"ddp, LoRA", "ddp", Method::Lora, Checkpointing::None, 1},
        Row{"fsdp, LoRA", "fsdp", Method::Lora, Checkpointing::None, 1},
        Row{"fsdp, LoRA, checkpointing", "fsdp", Method::Lora, Checkpointing::Full, 1},
        Row{"all strategies, LoRA", "", Method::Lora, Checkpointing::None, 1},
        Row{"ddp, full", "ddp", Method::Full, Checkpointing::None, 1},
        Row{"zero2, full, 8 micro-batches", "zero2", Method::Full, Checkpointing::None, 8},
        Row{"fsdp, full, 8 micro-batches", "fsdp", Method::Full, Checkpointing::None, 8},
        Row{"mp, LoRA (2 to 16 stages)", "mp", Method::Lora, Checkpointing::None, 1}, kMegatron,
        divided("tp 2", {.tp = 2, .splits_sequence = true}), divided("pp 4", {.pp = 4}),
        divided("tp 2, pp 4", {.tp = 2, .splits_sequence = true, .pp = 4}),
        divided("tp 2, pp 4 of two chunks", {.tp = 2, .splits_sequence = true, .pp = 4, .virtual_stages = 2})}) {
    const std::vector<Prepared> plans = prepare_plans(row, spec);
    const double count = double(plans.size());
    StepProgram program;
    volatile double sink = 0;
    const double cold = microseconds([&] {
                          for (const Prepared& plan : plans) sink = sink + make_plan(program, plan, nullptr);
                        }) /
                        count;
    const auto searching = [&](Layers layers) {
      return microseconds([&] {
               BlockCache cache;
               for (const Prepared& plan : plans) sink = sink + make_plan(program, plan, &cache, layers);
             }) /
             count;
    };
    const double searched = searching(Layers::Folded), unfolded = searching(Layers::WrittenOut);
    const double naive = microseconds([&] {
                           for (const Prepared& plan : plans)
                             sink = sink + naive_plan(plan.job.model, plan.job.recipe(), plan.job.cluster().num_gpus());
                         }) /
                         count;
    std::printf("%-36s %6.0f %9.1f %9.1f %12.1f %12.0f %12.0f %9.2f %9.1f\n", row.name, count, cold, searched, unfolded,
                1e6 / cold, 1e6 / searched, naive, searched / naive);
  }
}
