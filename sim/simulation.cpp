#include "sim/simulation.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/unit_text.h"
#include "base/work_count.h"
#include "cluster/topology_builder.h"
#include "planner/job_metrics.h"
#include "planner/pipeline_schedule.h"
#include "planner/program_builder.h"
#include "planner/program_walk.h"
#include "sim/critical_path.h"
#include "sim/engine.h"
#include "sim/folding.h"
#include "sim/lowering.h"
#include "sim/rank_figures.h"
#include "sim/tree.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMemoryPoints = 2000, kMemoryRanks = 16;
constexpr double kWorthListing = 0.005;  // share of the step in which a link is in use

void check_options(const SimInput& input, const SimOptions& options) {
  if (options.jitter < 0 || options.jitter > 1)
    throw InputError("--jitter", fmt::format("{:g} is not a relative deviation", options.jitter),
                     "use 0 to 1, e.g. 0.02");
  for (const auto& [rank, factor] : options.stragglers)
    if (rank < 0 || rank >= input.program.mesh.world() || !(factor > 0))
      throw InputError("--straggler", fmt::format("rank {} times {:g} makes no sense here", rank, factor),
                       fmt::format("ranks are 0 to {}, factors above 0", input.program.mesh.world() - 1));
}

/// The cost of the rings along each axis.
using RingCosts = std::array<RingCost, kNumAxes>;

bool has_other_transfers(const SimInput& input) {
  const auto moves = [](const Instruction& i) {
    return i.op == OpCode::CopyIn || i.op == OpCode::CopyOut || i.op == OpCode::Send;
  };
  const auto& programs = input.program.programs;
  return std::any_of(
      programs.begin(), programs.begin() + std::ptrdiff_t(input.program.num_programs),
      [&](const RankProgram& p) { return std::any_of(p.instructions.begin(), p.instructions.end(), moves); });
}

RingCosts ring_costs(const SimInput& input, const Communicators& communicators, Network& network) {
  RingCosts out{};
  if (has_other_transfers(input)) {
    out.fill(RingCost::Messages);
    return out;
  }
  for (std::uint32_t c = 0; c < communicators.all.size(); ++c) {
    RingCost& cost = out[std::size_t(communicators.all[c].axis)];
    cost = std::max(cost, network.ring_cost(c));
  }
  return out;
}

/// The cost in tasks of the messages of a rank's part in a collective. In a ring it sends one in every step; in trees
/// one or two in each, whose end shares the links anew among those around it.
std::uint64_t tasks_of_messages(const Instruction& i, const SimInput& input, const SimOptions& options,
                                const RingCosts& costs, std::size_t num_simulated) {
  // That take as long as a task. Where ranks are in step, the messages of a ring end together.
  constexpr std::uint64_t kMessagesInStep = 28, kMessagesOutOfStep = 16, kFlowsPerTask = 32, kStepsPerTask = 2048;
  const bool is_in_step = options.jitter <= 0 && options.stragglers.empty();
  const std::int64_t members = input.program.mesh.ways(i.axis);
  if (members <= 1) return 0;
  const CollectiveKind kind = collective_of(i.op);
  const std::int64_t pieces = std::max<std::int64_t>(1, i.messages);
  if (input.comm.choose(kind, i.axis, {i.work.count / pieces}).algorithm != Algorithm::Ring) {
    const auto flows =
        std::uint64_t(2 * num_trees(members, input.comm.axes[std::size_t(i.axis)].group.shape.ranks_per_node()));
    return std::min(std::uint64_t(std::min(std::size_t(members), num_simulated) / kFlowsPerTask), flows);
  }
  const auto steps = std::uint64_t(ring_steps(kind, members) * pieces);
  switch (costs[std::size_t(i.axis)]) {
    case RingCost::Closed: return std::uint64_t(pieces) / kMessagesOutOfStep;
    case RingCost::Stepped: return steps / kStepsPerTask;
    case RingCost::Messages: break;
  }
  return steps / (is_in_step ? kMessagesInStep : kMessagesOutOfStep);
}

/// Kernels, copies and collectives of a rank, with the messages where `costs` says what they cost. A rank has its
/// memory even where it has little to do.
std::uint64_t tasks_of(const RankProgram& program, const SimInput& input, const SimOptions& options,
                       const RingCosts* costs, std::size_t num_simulated) {
  constexpr std::uint64_t kLeastTasks = 100;
  RepeatedSum<std::int64_t> tasks;
  walk(
      program,
      [&](const ProgramCursor& at) {
        const Instruction& i = at.instruction();
        ++tasks.total;
        if (costs && is_collective(i.op))
          tasks.total += std::int64_t(tasks_of_messages(i, input, options, *costs, num_simulated));
      },
      tasks);
  return std::max(std::uint64_t(tasks.total), kLeastTasks);
}

void check_size(const SimInput& input, const SimOptions& options, const Folding& folding, const RingCosts* costs) {
  std::vector<std::optional<std::uint64_t>> of_program(input.program.programs.size());
  std::uint64_t num = 0;
  for (const std::int64_t rank : folding.ranks) {
    const std::size_t program = input.program.classes[input.program.class_of(rank)].program;
    if (!of_program[program])
      of_program[program] = tasks_of(input.program.programs[program], input, options, costs, folding.ranks.size());
    num += *of_program[program];
  }
  if (num > options.most_tasks)
    throw InputError(
        folding.is_folded() || input.job.recipe().grad_accum > 1 ? "--grad-accum" : "",
        fmt::format("{} micro-batches make a step of {} kernels, copies and messages on {} simulated GPU{}",
                    format_count(input.job.recipe().grad_accum), format_count(std::int64_t(num)), folding.ranks.size(),
                    folding.ranks.size() == 1 ? "" : "s"),
        fmt::format("{} can be simulated{}; fewer micro-batches or GPUs show the same{}",
                    format_count(std::int64_t(options.most_tasks)),
                    options.most_tasks < kMostTasks ? " for each step that is asked for" : "",
                    options.network == NetworkFidelity::Flow ? ", and --network analytic has no messages" : ""));
}

std::string rank_name(const StepProgram& program, std::int64_t rank, std::int64_t stage) {
  return program.mesh.num_stages() > 1 ? fmt::format("GPU {} (stage {})", rank, stage) : fmt::format("GPU {}", rank);
}

std::vector<std::vector<std::uint32_t>> spans_of_ranks(const Simulation& s) {
  std::vector<std::vector<std::uint32_t>> out(s.ranks.size());
  for (std::size_t k = 0; k < s.spans.size(); ++k) out[s.spans[k].rank].push_back(narrow<std::uint32_t>(k));
  return out;
}

/// Two ranks that differ in nothing but their place.
bool are_alike(const SimInput& input, const SimOptions& options, const SimulatedRank& a, const SimulatedRank& b) {
  const auto& column = input.columns.own_of_rank;
  return a.rank_class == b.rank_class && column[std::size_t(a.rank)] == column[std::size_t(b.rank)] &&
         straggler_factor(options, a.rank) == straggler_factor(options, b.rank);
}

void find_alike(Simulation& s, const SimInput& input, const SimOptions& options) {
  std::vector<std::uint32_t> firsts;
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
    s.ranks[r].alike = r;
    if (options.jitter > 0) continue;
    const auto first = std::find_if(firsts.begin(), firsts.end(), [&](std::uint32_t other) {
      return are_alike(input, options, s.ranks[other], s.ranks[r]);
    });
    if (first == firsts.end())
      firsts.push_back(r);
    else
      s.ranks[r].alike = *first;
  }
}

/// Figures of every rank from its spans; the memory curve for the first few, where spans are kept.
void measure(Simulation& s, const SimInput& input, bool keeps_spans) {
  auto by_rank = spans_of_ranks(s);
  for (std::size_t r = 0; r < s.ranks.size(); ++r) {
    SimulatedRank& rank = s.ranks[r];
    measure_rank(rank, s.spans, by_rank[r], s.step);
    const RankClass& rank_class = input.program.classes[rank.rank_class];
    rank.peak = replay(input.program, rank_class).tensors;
    if (!keeps_spans || r >= kMemoryRanks) continue;
    std::ranges::sort(by_rank[r],
                      [&](std::uint32_t a, std::uint32_t b) { return s.spans[a].number < s.spans[b].number; });
    rank.memory =
        memory_timeline(input.program, input.program.programs[rank_class.program], s.spans, by_rank[r], kMemoryPoints);
  }
}

/// Means over the real ranks.
void sum_up(Simulation& s) {
  double ranks = 0;
  const double step = std::max(1e-12, s.step.seconds().value);
  for (const SimulatedRank& r : s.ranks) {
    const double n = double(r.stands_for);
    ranks += n;
    s.resident += n * r.resident.seconds().value / step;
    s.compute += n * r.compute.seconds().value / step;
    s.exposed_communication += n * r.exposed_communication.seconds();
    s.bubble += n * r.bubble.seconds();
    s.host_bound += n * r.host_bound.seconds();
    s.idle += n * r.idle.seconds();
    s.executed_flops += n * r.flops;
  }
  for (double* mean : {&s.resident, &s.compute, &s.exposed_communication.value, &s.bubble.value, &s.host_bound.value,
                       &s.idle.value, &s.executed_flops})
    *mean /= ranks;
}

/// Links worth listing, busiest first.
std::vector<LinkUseSummary> sum_links(const Network& network, const Topology& topology, SimTime step) {
  std::vector<LinkUseSummary> out;
  const double seconds = std::max(1e-12, step.seconds().value);
  const std::span<const LinkLoad> loads = network.link_loads();
  for (std::uint32_t link = 0; link < loads.size(); ++link) {
    const LinkLoad& load = loads[link];
    if (load.busy.seconds().value < kWorthListing * seconds) continue;
    out.push_back({.link = link,
                   .busy = std::min(1.0, load.busy.seconds().value / seconds),
                   .utilisation = load.carried / (topology.link(link).capacity.value * seconds)});
  }
  std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.utilisation > b.utilisation; });
  return out;
}

}  // namespace

NetworkFidelity network_fidelity(const std::string& text) {
  if (text == "flow") return NetworkFidelity::Flow;
  if (text == "analytic") return NetworkFidelity::Analytic;
  throw InputError("--network", fmt::format("'{}' is no fidelity", text),
                   did_you_mean(text, {"flow", "analytic"}, "flow or analytic"));
}

Simulation simulate(const SimInput& input, const SimOptions& options) {
  check_options(input, options);
  const Folding folding = fold_ranks(input, options);
  check_size(input, options, folding, nullptr);
  Simulation out;
  out.network = options.network;
  out.is_folded = folding.is_folded();
  if (options.network == NetworkFidelity::Flow)
    out.topology = build_topology(input.job.request.cluster, input.job.profile, folding.topology);
  const Communicators communicators = make_communicators(input, folding, out.topology ? &*out.topology : nullptr);
  EventQueue queue;
  const std::unique_ptr<Network> network = out.topology
                                               ? make_flow_network(communicators.all, input.comm, *out.topology, queue)
                                               : make_analytic_network(communicators.all, input.comm, queue);
  if (out.topology) {
    const RingCosts costs = ring_costs(input, communicators, *network);
    check_size(input, options, folding, &costs);
  }
  EngineResult result = run_engine(input, options, folding, communicators, *network, queue);
  out.step = result.step;
  out.spans = std::move(result.spans);
  out.messages = std::move(result.messages);
  out.num_events = result.num_events;
  count_work(Work::Events, std::int64_t(out.num_events));
  for (std::size_t r = 0; r < folding.ranks.size(); ++r) {
    const std::int64_t stage = folding.ranks[r] / input.program.mesh.ranks_per_stage();
    out.ranks.push_back({.rank = folding.ranks[r],
                         .stands_for = folding.stands_for[r],
                         .stage = stage,
                         .rank_class = input.program.class_of(folding.ranks[r]),
                         .name = rank_name(input.program, folding.ranks[r], stage),
                         .flops = result.flops[r],
                         .sent = network->bytes_sent(folding.ranks[r])});
  }
  if (out.topology) out.links = sum_links(*network, *out.topology, out.step);
  find_alike(out, input, options);
  measure(out, input, options.records_spans);
  sum_up(out);
  out.critical_path = find_critical_path(out.spans);
  out.critical = describe_critical_path(out, input, options);
  if (!options.records_spans) {
    out.spans = {};
    out.messages = {};
    out.critical_path = {};
  }
  return out;
}

namespace {

/// Steps of so many micro-batches show what each more of them takes; in fewer, a host that launches hardly faster than
/// the GPUs compute is still getting ahead of them.
constexpr std::int64_t kFewMicroBatches = 24, kShownMicroBatches = 32;

Simulation simulate_shorter(Job job, std::int64_t num_micro_batches, const StepColumns& columns,
                            const SimOptions& options) {
  job.request.recipe.grad_accum = num_micro_batches;
  const bool is_average = padded_length(job.recipe(), job.request.dataset) != job.recipe().seq_len;
  const Job timed = is_average ? average_job(job) : job;
  StepProgram program;
  build_step_program(program, timed, columns.models, columns.of_rank);
  return simulate({.job = job, .program = program, .columns = columns, .comm = make_step_comm(job)}, options);
}

/// `shorter` and `longer` are alike but for the last micro-batches of `longer`, and each of `more` takes what one of
/// these does. Ranks, links and the critical path stay those of the longer one.
Simulation with_more(const Simulation& shorter, Simulation longer, std::int64_t more) {
  const double times = double(more) / double(kShownMicroBatches - kFewMicroBatches);
  const Simulation shown = longer;
  const auto grown = [&](auto before, auto now) { return now + times * (now - before); };
  longer.step = to_sim_time(grown(shorter.step_time(), shown.step_time()));
  const Seconds step = longer.step_time();
  for (double Simulation::*share : {&Simulation::resident, &Simulation::compute})
    longer.*share = grown(shorter.*share * shorter.step_time(), shown.*share * shown.step_time()) / step;
  for (Seconds Simulation::*time :
       {&Simulation::exposed_communication, &Simulation::bubble, &Simulation::host_bound, &Simulation::idle})
    longer.*time = std::max(Seconds{}, grown(shorter.*time, shown.*time));
  longer.executed_flops = grown(shorter.executed_flops, shown.executed_flops);
  return longer;
}

/// Without spans, the micro-batches of a long accumulation need not all be simulated.
Simulation simulate_figures(const Job& job, const StepColumns& columns, const SimOptions& options) {
  const std::int64_t more = job.recipe().grad_accum - kShownMicroBatches;
  return with_more(simulate_shorter(job, kFewMicroBatches, columns, options),
                   simulate_shorter(job, kShownMicroBatches, columns, options), more);
}

/// Phases beside the pass with gradients (planner/phases.h) come one after the other and are timed by the forward pass:
/// spans and links stay those of the pass with gradients. `phases`: as estimated, that with gradients first.
void add_side_phases(Simulation& s, const StepTime& side, std::span<const PhaseFigures> phases) {
  const Seconds alone = s.step_time();
  s.side_compute = side.compute, s.side_exposed = side.exposed;
  for (const PhaseFigures& phase : phases.subspan(std::min<std::size_t>(1, phases.size())))
    if (const Seconds time = phase.time.step - phase.beside; !phase.is_before_training && time.value > 0)
      s.critical.push_back({.what = phase.name, .is_phase = true, .time = time});
  const SimTime longer = to_sim_time(alone + side.step);
  s.side = longer - s.step;
  s.step = longer;
  s.compute = (s.compute * alone + side.compute) / s.step_time();
  s.resident = (s.resident * alone + side.compute) / s.step_time();
  s.exposed_communication += side.exposed;
  s.executed_flops += side.flops;
  for (CriticalItem& item : s.critical) item.share = item.time / s.step_time();
  std::ranges::stable_sort(s.critical, std::greater{}, &CriticalItem::time);
}

}  // namespace

SimulatedPlan simulate_plan(const Job& job, const SimOptions& options) {
  StepProgram program;
  SimulatedPlan plan;
  plan.estimate = estimate_strategy(job, program);
  for (RankProgram& folded : program.programs) folded = written_out(folded);  // every layer has spans of its own
  const StepColumns columns = make_columns(job);
  const Job filled = filled_job(job);
  const bool is_long = !options.records_spans && options.jitter <= 0 && !pipeline_row(job.strategy.schedule) &&
                       filled.recipe().grad_accum > 2 * kShownMicroBatches;
  plan.simulation =
      is_long ? simulate_figures(filled, columns, options)
              : simulate({.job = job, .program = program, .columns = columns, .comm = make_step_comm(job)}, options);
  if (!job.recipe().objective.method.is_usual())
    add_side_phases(plan.simulation, side_time(job, columns, plan.simulation.step_time()), plan.estimate.phases);
  const Seconds step = plan.simulation.step_time();
  const FlopsPerSec peak = total_peak(columns);
  const double num_gpus = double(plan.estimate.num_gpus_used);
  const JobMetrics figures = job_metrics(job, step, peak, time_before_training(job, columns));
  plan.tokens_per_second = figures.tokens_per_second;
  plan.tokens_per_second_per_gpu = figures.tokens_per_second / num_gpus;
  plan.mfu = figures.mfu;
  plan.hfu = plan.simulation.executed_flops * num_gpus / (step.value * peak.value);
  plan.steps_per_epoch = figures.steps_per_epoch;
  plan.epoch = figures.epoch, plan.total = figures.total;
  plan.cost_usd = figures.cost_usd;
  return plan;
}

}  // namespace gpuplan
