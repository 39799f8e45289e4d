#include "golden/simulation_fixture.h"

#include <fmt/format.h>

namespace gpuplan::testing {
namespace {

constexpr SimTime ms(std::int64_t n) { return {n * 1'000'000'000}; }
constexpr Bytes kMessage{8'000'000};

Span span(std::uint32_t rank, StreamId stream, Activity activity, std::int64_t begin, std::int64_t end,
          std::uint32_t cause, std::uint16_t unit) {
  return {.begin = ms(begin),
          .end = ms(end),
          .rank = rank,
          .cause = cause,
          .stream = stream,
          .activity = activity,
          .unit = unit,
          .bytes = activity == Activity::SendRecv ? kMessage : Bytes{},
          .active = ms(end - begin)};
}

std::vector<Span> pipeline_spans() {
  using enum Activity;
  constexpr std::uint32_t kNone = Span::kNoSpan;
  return {span(0, StreamId::Compute, Forward, 0, 20, kNone, 1),  // 0
          span(0, StreamId::Send, SendRecv, 20, 25, 0, 1),       // 1
          span(1, StreamId::Recv, SendRecv, 20, 25, 1, 2),       // 2
          span(1, StreamId::Compute, Forward, 25, 35, 2, 2),     // 3
          span(1, StreamId::Compute, Head, 35, 40, 3, 3),        // 4
          span(1, StreamId::Compute, Backward, 40, 65, 4, 2),    // 5
          span(1, StreamId::Send, SendRecv, 65, 70, 5, 2),       // 6
          span(0, StreamId::Recv, SendRecv, 65, 70, 6, 1),       // 7
          span(0, StreamId::Compute, Recompute, 70, 80, 7, 1),   // 8
          span(1, StreamId::Compute, Optimizer, 70, 80, 5, 2),   // 9
          span(0, StreamId::Compute, Backward, 80, 100, 8, 1)};  // 10
}

SimulatedRank stage(std::int64_t rank, std::int64_t compute, std::int64_t bubble) {
  SimulatedRank r{.rank = rank, .stage = rank, .name = fmt::format("GPU {} (stage {})", rank, rank)};
  r.busy[std::size_t(StreamId::Compute)] = r.compute = ms(compute);
  r.busy[std::size_t(StreamId::Send)] = r.busy[std::size_t(StreamId::Recv)] = ms(5);
  r.resident = ms(compute + 10);
  r.exposed_communication = ms(10);
  r.bubble = ms(bubble);
  r.idle = ms(100 - compute - 10 - bubble);
  r.sent = kMessage;
  constexpr std::int64_t kWeights = 3'000'000'000;
  for (const auto& [time, live] :
       {std::pair{0, 4'000'000'000}, {20, 9'000'000'000}, {80, 12'000'000'000}, {100, 4'000'000'000}}) {
    MemoryPoint point{.time = ms(time), .live = {live}};
    point.by_category[std::size_t(Category::Weights)] = {kWeights};
    point.by_category[std::size_t(Category::Activations)] = {live - kWeights};
    r.memory.push_back(point);
  }
  r.peak = {12'000'000'000};
  return r;
}

void add_figures(Simulation& s) {
  s.resident = 0.6;
  s.compute = 0.5;
  s.exposed_communication = {0.010};
  s.bubble = {0.035};
  s.idle = {0.005};
  s.num_events = 42;
  s.network = NetworkFidelity::Analytic;
}

SimulatedPlan plan_of(Simulation simulation, std::int64_t num_gpus, double tokens_per_second) {
  SimulatedPlan plan;
  plan.estimate.strategy.name = "mp";
  plan.estimate.fit = Fit::Yes;
  plan.estimate.tiers = {.tensors = {12'000'000'000},
                         .reserved = {13'000'000'000},
                         .process = {14'000'000'000},
                         .needed = {13'000'000'000},
                         .capacity = {25'000'000'000},
                         .usable = {24'000'000'000}};
  plan.estimate.num_gpus_used = num_gpus;
  plan.simulation = std::move(simulation);
  plan.tokens_per_second = tokens_per_second;
  plan.tokens_per_second_per_gpu = tokens_per_second / double(num_gpus);
  plan.mfu = 0.25;
  plan.hfu = 0.3125;
  plan.steps_per_epoch = 1000;
  plan.epoch = plan.total = {100};
  plan.cost_usd = 0.5;
  return plan;
}

Simulation figures_only(const Simulation& simulation) {
  Simulation s = simulation;
  s.spans.clear();
  s.messages.clear();
  s.critical_path.clear();
  return s;
}

}  // namespace

SimulationAnswer small_simulation() {
  SimulationAnswer a;
  a.request.model.name = "tiny";
  a.request.cluster.name = "2xT4";
  a.request.cluster.gpus.add({.id = "t4", .name = "T4", .framework_memory = {15'000'000'000}}, 2);
  a.request.cluster.gpus_per_node = 2;
  a.result.model.weights.order.resize(2);
  a.result.model.parameters = a.result.model.trainable = 1'000'000;
  Simulation s{.step = ms(100), .ranks = {stage(0, 50, 35), stage(1, 50, 35)}, .spans = pipeline_spans()};
  s.messages = {{1, 2}, {6, 7}};
  s.critical_path = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10};
  s.critical = {{.what = "backward", .activity = Activity::Backward, .time = {0.045}, .share = 0.45},
                {.what = "messages between stages",
                 .activity = Activity::SendRecv,
                 .time = {0.010},
                 .share = 0.1,
                 .remedy = "NVLink would give 1.1x"}};
  add_figures(s);
  a.scaling = {plan_of(figures_only(s), 1, 1000), plan_of(figures_only(s), 2, 1500)};
  a.comparison = {plan_of(figures_only(s), 2, 1500)};
  a.comparison.push_back(plan_of(figures_only(s), 2, 3000));
  a.comparison.back().estimate.strategy.name = "ddp";
  a.comparison.back().estimate.fit = Fit::No;
  a.plan = plan_of(std::move(s), 2, 1500);
  a.assumptions = {"a step made by hand"};
  a.command = "gpuplan simulate --model tiny --gpus 2xT4";
  return a;
}

SimulationAnswer hostile_simulation() {
  SimulationAnswer a = small_simulation();
  const std::string evil = "<b>&\"'</script><script>document.title='stolen'</script><!--";
  a.request.model.name = a.command = evil;
  a.assumptions = {evil};
  for (SimulatedRank& rank : a.plan.simulation.ranks) rank.name = evil;
  a.plan.simulation.critical[0].what = a.plan.simulation.critical[0].remedy = evil;
  a.plan.estimate.fit = Fit::No;
  a.plan.estimate.why_not_yes = a.comparison[0].label = evil;
  return a;
}

SimulationAnswer large_simulation(std::size_t num_spans) {
  SimulationAnswer a = small_simulation();
  Simulation& s = a.plan.simulation;
  s.ranks.resize(1);
  s.spans.clear();
  s.messages.clear();
  s.critical_path.clear();
  const std::int64_t length = s.step.ps / std::int64_t(num_spans);
  for (std::size_t i = 0; i < num_spans; ++i) {
    const bool is_gather = i % 4 == 3;
    Span one{.begin = {std::int64_t(i) * length},
             .end = {std::int64_t(i + 1) * length},
             .cause = i == 0 ? Span::kNoSpan : std::uint32_t(i - 1),
             .stream = is_gather ? StreamId::Gather : StreamId::Compute,
             .activity = is_gather     ? Activity::AllGather
                         : i % 20 < 10 ? Activity::Forward
                                       : Activity::Backward,
             .active = {length}};
    s.spans.push_back(one);
  }
  return a;
}

}  // namespace gpuplan::testing
