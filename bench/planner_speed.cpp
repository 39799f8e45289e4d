// How many complete plans (blocks + program + replay + forward-pass time, nothing cached between plans) one core makes
// per second for a 32-layer model, beside a straightforward per-layer loop that adds up one strategy's formulas.
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

template <class F>
double microseconds(F f, int repetitions) {
  f();
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < repetitions; ++i) f();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / repetitions);
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
  const char* strategy;
  Method method;
  Checkpointing checkpointing;
  std::int64_t micro_batches;
};

}  // namespace

int main() {
  const ModelSpec spec = load_model("llama-3-8b").spec;
  const ClusterSpec cluster = parse_gpus("8xA100");
  const Profile profile = default_profile("a100-sxm-80gb");
  const FrameworkConvention& framework = find_framework("hf-trainer");
  std::printf("%-42s %10s %12s %12s %8s\n", "plan of a 32-layer model", "us", "plans/s", "naive us", "ratio");
  for (const Row row : {Row{"ddp, LoRA", "ddp", Method::Lora, Checkpointing::None, 1},
                        Row{"fsdp, LoRA", "fsdp", Method::Lora, Checkpointing::None, 1},
                        Row{"fsdp, LoRA, checkpointing", "fsdp", Method::Lora, Checkpointing::Full, 1},
                        Row{"ddp, full", "ddp", Method::Full, Checkpointing::None, 1},
                        Row{"zero2, full, 8 micro-batches", "zero2", Method::Full, Checkpointing::None, 8},
                        Row{"fsdp, full, 8 micro-batches", "fsdp", Method::Full, Checkpointing::None, 8},
                        Row{"mp, LoRA (8 stages)", "mp", Method::Lora, Checkpointing::None, 1}}) {
    Recipe r;
    r.method = row.method;
    r.checkpointing = row.checkpointing;
    r.grad_accum = row.micro_batches;
    const TrainedModel model = prepare(spec, r, framework);
    const Strategy strategy = make_strategy(row.strategy, cluster, {});
    const Job job({.model = spec, .recipe = r, .dataset = {}, .cluster = cluster, .options = {}}, model, framework,
                  profile, strategy);
    const std::vector<CostModel> columns{
        make_cost_model(cluster.gpus.front(), profile, {.dtype = job.numerics.compute})};
    const CommModel comm = make_comm_model(cluster, profile, strategy.mesh);
    StepProgram program;
    volatile double sink = 0;
    const double plan = microseconds(
        [&] {
          build_step_program(program, job, columns);
          for (const RankClass& c : program.classes) sink = sink + double(replay(program, c).tensors.count);
          sink = sink + forward_pass(program, columns, comm).step.value;
        },
        300);
    const double naive = microseconds([&] { sink = sink + naive_plan(model, r, cluster.num_gpus()); }, 2000);
    std::printf("%-42s %10.1f %12.0f %12.2f %8.1f\n", row.name, plan, 1e6 / plan, naive, plan / naive);
  }
}
