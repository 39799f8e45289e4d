#include "sim/critical_words.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "cluster/fabric.h"
#include "planner/changes.h"

namespace gpuplan {
namespace {

constexpr double kWorthNaming = 0.005;  // share of the step

/// What kind of way a route takes.
std::string way_of(const Topology& topology, const Route& route) {
  bool memory = false, network = false, switched = false, socket = false, nvlink = false;
  for (const LinkUse& use : route) {
    const TopologyLink& link = topology.link(use.link);
    memory |= link.kind == LinkKind::Memory;
    network |= link.kind == LinkKind::Network;
    socket |= link.kind == LinkKind::Socket;
    nvlink |= link.kind == LinkKind::NvLink;
    switched |= topology.vertex(topology.target(use.link)).kind == VertexKind::PcieSwitch;
  }
  if (network) return "over the network";
  if (memory) return "through host memory";
  if (nvlink) return "over NVLink";
  return socket ? "over PCIe and the link between the sockets" : switched ? "over a PCIe switch" : "over PCIe";
}

double narrowest(const Topology& topology, const Route& route) {
  double rate = 0;
  for (const LinkUse& use : route) {
    if (use.weight <= 0) continue;
    const double here = topology.link(use.link).capacity.value / use.weight;
    rate = rate == 0 ? here : std::min(rate, here);
  }
  return rate;
}

std::string what_moves(Activity activity, const Recipe& recipe) {
  switch (activity) {
    case Activity::AllGather:
      return recipe.is_adapter() ? "all-gather of the (frozen) weights" : "all-gather of weights";
    case Activity::ReduceScatter: return "reduce-scatter of gradients";
    case Activity::AllReduce: return "all-reduce of gradients";
    default: return std::string(to_string(activity));
  }
}

std::string what_of(const CriticalPart& part, const Simulation& s, const SimInput& input) {
  if (part.is_host) return "the GPU waits for the host to launch the next kernel";
  const Span& span = s.spans[part.longest];
  const Topology* const topology = s.topology ? &*s.topology : nullptr;
  const RankProgram& program = input.program.programs[input.program.classes[s.ranks[span.rank].rank_class].program];
  switch (part.activity) {
    case Activity::AllGather:
    case Activity::ReduceScatter:
    case Activity::AllReduce:
      return fmt::format("waits for the {} {}", what_moves(part.activity, input.job.request.recipe),
                         describe_bottleneck(input, topology, program.instructions[span.instruction].axis));
    case Activity::SendRecv:
      return fmt::format("activations and gradients move {}", describe_bottleneck(input, topology, Axis::Pp));
    case Activity::CopyIn: return "copies from the host to the GPU";
    case Activity::CopyOut: return "copies from the GPU to the host";
    case Activity::HostOptimizer: return "the optimizer steps on the CPU";
    case Activity::Optimizer: return "the optimizer steps";
    case Activity::Cast: return "casts and copies on the GPU";
    default: return fmt::format("{} is computed", to_string(part.activity));
  }
}

}  // namespace

std::string describe_bottleneck(const SimInput& input, const Topology* topology, Axis axis) {
  const Mesh& mesh = input.program.mesh;
  const ClusterSpec& cluster = input.job.request.cluster;
  const AxisLink& link = input.comm.axes[std::size_t(axis)];
  if (!topology) return link.crosses_nodes ? "over the network" : fmt::format("over {}", cluster.fabric_text);
  const std::int64_t stride = mesh.stride(axis), ways = mesh.ways(axis), per_node = cluster.gpus_per_node;
  std::string text;
  double least = 0;
  std::int64_t looked_at = 0;
  for (std::int64_t from = 0; from + stride < stride * ways && looked_at < 2 * per_node; from += stride, ++looked_at) {
    const std::int64_t to = from + stride;
    const Route route = axis == Axis::Pp ? topology->route(from, to)
                                         : topology->ring_route(from, to, link.group.shape.ranks_per_node(), ways);
    const double rate = narrowest(*topology, route);
    if (least != 0 && rate >= least) continue;
    least = rate;
    text = fmt::format("between GPU {} and GPU {} {}", from, to, way_of(*topology, route));
  }
  return text;
}

std::vector<CriticalItem> describe_critical_path(const Simulation& s, const SimInput& input) {
  std::vector<CriticalItem> out;
  const double step = std::max(1e-12, s.step.seconds().value);
  CriticalItem rest{.what = "everything else", .time = {}, .remedy = {}};
  for (const CriticalPart& part : sum_critical_path(s.spans, s.critical_path)) {
    const double share = part.time.value / step;
    if (share < kWorthNaming) {
      rest.time += part.time;
      rest.share += share;
      continue;
    }
    out.push_back({.what = what_of(part, s, input),
                   .activity = part.activity,
                   .is_host = part.is_host,
                   .time = part.time,
                   .share = share,
                   .remedy = {}});
  }
  if (rest.time.value > 0) out.push_back(rest);
  return out;
}

namespace {

constexpr double kWorthTrying = 0.1;  // share of the step that an item needs
constexpr double kLeastGain = 1.05;   // gain

/// The change that shortens what an item of the critical path waits for; nothing when it is not useful here.
std::optional<Suggested> remedy_for(const CriticalItem& item, const EstimateRequest& r) {
  if (item.is_host) return suggest(r, Purpose::ShortenStep, "compile");
  switch (item.activity) {
    case Activity::AllGather:
    case Activity::ReduceScatter:
    case Activity::AllReduce:
    case Activity::SendRecv: return suggest(r, Purpose::ShortenStep, r.cluster.num_nodes() > 1 ? "nic" : "nvlink");
    case Activity::Recompute: return suggest(r, Purpose::LeaveOut, "checkpointing");
    case Activity::HostOptimizer: return suggest(r, Purpose::ShortenStep, "grad-accum");
    default: return {};
  }
}

struct Tried {
  double tokens_per_second{};
  bool fits{};
};

Tried simulate_variant(const Variant& variant, const FrameworkConvention& framework, const std::string& strategy) {
  const EstimateRequest& r = variant.request;
  const TrainedModel model = prepare(r.model, r.recipe, framework);
  const SimulatedPlan plan =
      simulate_plan(Job(r, model, framework, variant.profile, make_strategy(strategy, r.cluster, r.options)),
                    {.network = NetworkFidelity::Analytic, .records_spans = false});
  return {plan.tokens_per_second, plan.estimate.fits};
}

}  // namespace

void add_remedies(SimulatedPlan& plan, const EstimateRequest& r, const FrameworkConvention& framework,
                  const Profile& profile) {
  const std::string& strategy = plan.estimate.strategy.name;
  const Variant as_it_is{r, profile};
  std::optional<Tried> now;
  for (CriticalItem& item : plan.simulation.critical) {
    if (item.share < kWorthTrying) continue;
    const std::optional<Suggested> remedy = remedy_for(item, r);
    if (!remedy) continue;
    if (!now) now = simulate_variant(as_it_is, framework, strategy);
    const Tried then = simulate_variant(changed(as_it_is, {&remedy->setting, 1}), framework, strategy);
    const double gain = then.tokens_per_second / now->tokens_per_second;
    const bool fits_no_more = plan.estimate.fits && !then.fits;
    if (gain < kLeastGain || fits_no_more) continue;
    item.remedy = fmt::format("{} would give {:.1f}x", describe(remedy->setting), gain);
  }
}

}  // namespace gpuplan
