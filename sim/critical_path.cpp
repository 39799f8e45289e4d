#include "sim/critical_path.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/narrow.h"
#include "cluster/cluster_spec.h"

namespace gpuplan {

std::vector<std::uint32_t> find_critical_path(const std::vector<Span>& spans) {
  std::vector<std::uint32_t> path;
  if (spans.empty()) return path;
  const auto last =
      std::max_element(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.end < b.end; });
  for (std::uint32_t at = narrow<std::uint32_t>(last - spans.begin()); at != Span::kNoSpan; at = spans[at].cause)
    path.push_back(at);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<CriticalPart> sum_critical_path(const std::vector<Span>& spans, const std::vector<std::uint32_t>& path,
                                            std::span<const double> slowness) {
  std::vector<CriticalPart> parts;
  const auto add_to = [&](Activity activity, Axis axis, bool is_host, std::optional<std::uint32_t> straggler,
                          Seconds time, std::uint32_t span) {
    auto at = std::find_if(parts.begin(), parts.end(), [&](const CriticalPart& p) {
      return p.straggler == straggler && p.is_host == is_host &&
             (is_host || straggler || (p.activity == activity && p.axis == axis));
    });
    if (at == parts.end())
      at = parts.insert(parts.end(),
                        {.activity = activity, .axis = axis, .is_host = is_host, .straggler = straggler, .time = {}});
    at->time += time;
    const auto length = [&](std::uint32_t s) { return spans[s].end - spans[s].begin; };
    if (at->longest == Span::kNoSpan || length(span) > length(at->longest)) at->longest = span;
  };
  const auto add = [&](Activity activity, bool is_host, SimTime time, std::uint32_t k) {
    if (time <= SimTime{}) return;
    const Span& span = spans[k];
    const double factor = is_host || slowness.empty() || is_communication(span.activity) ? 1 : slowness[span.rank];
    const Seconds usual = time.seconds() * (1 / std::max(1.0, factor));
    add_to(activity, span.axis, is_host, {}, usual, k);
    if (factor > 1) add_to(activity, span.axis, false, span.rank, time.seconds() - usual, k);
  };
  SimTime reached;
  for (const std::uint32_t k : path) {
    const Span& s = spans[k];
    const SimTime begin = std::max(reached, std::min(s.begin, s.end));
    add(s.activity, true, begin - reached, k);  // before the first span, and before what the host launched late
    const SimTime works = std::max(begin, s.end);
    const bool has_gaps = s.stream == StreamId::Compute && !s.is_async_kernel;  // those of a layer's ranks are in line
    const SimTime active = has_gaps ? std::min(s.active, works - begin) : works - begin;
    add(s.activity, false, active, k);
    add(s.activity, true, works - begin - active, k);
    reached = works;
  }
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.time > b.time; });
  return parts;
}

namespace {

constexpr double kWorthAnItem = 0.005;  // share of the step

/// Gives what kind of way a route takes.
std::string way_of(const Topology& topology, const Route& route) {
  bool memory = false, network = false, switched = false, socket = false, nvlink = false, infinity = false;
  for (const LinkUse& use : route) {
    const TopologyLink& link = topology.link(use.link);
    memory |= link.kind == LinkKind::Memory;
    network |= link.kind == LinkKind::Network;
    socket |= link.kind == LinkKind::Socket;
    nvlink |= link.kind == LinkKind::NvLink;
    infinity |= link.kind == LinkKind::InfinityFabric;
    switched |= topology.vertex(topology.target(use.link)).kind == VertexKind::PcieSwitch;
  }
  if (network) return "over the network";
  if (memory) return "through host memory";
  if (nvlink) return "over NVLink";
  if (infinity) return "over Infinity Fabric";
  return socket ? "over PCIe and the link between the sockets" : switched ? "over a PCIe switch" : "over PCIe";
}

/// Ranks that share each layer exchange what flows through it; the others weights and gradients.
std::string what_moves(Activity activity, Axis axis, const Recipe& recipe) {
  const AxisRow* const row = axis == Axis::None ? nullptr : &kAxes[std::size_t(axis) - 1];
  if (row && row->divides_layer && activity != Activity::AllToAll)
    return fmt::format("{} of activations along {}", to_string(activity), row->name);
  switch (activity) {
    case Activity::AllGather:
      return recipe.is_adapter() ? "all-gather of the (frozen) weights" : "all-gather of weights";
    case Activity::ReduceScatter: return "reduce-scatter of gradients";
    case Activity::AllReduce: return "all-reduce of gradients";
    case Activity::AllToAll: return "tokens on their way to experts and back";
    default: return std::string(to_string(activity));
  }
}

std::string what_of(const CriticalPart& part, const Simulation& s, const SimInput& input,
                    std::span<const double> slowness) {
  if (part.is_host) return "the GPU waits for the host to launch the next kernel";
  const Span& span = s.spans[part.longest];
  if (part.straggler)
    return fmt::format("the others wait for {}, whose compute takes {:g} times as long", s.ranks[span.rank].name,
                       slowness[span.rank]);
  const Topology* const topology = s.topology ? &*s.topology : nullptr;
  const Axis axis = part.axis;
  switch (part.activity) {
    case Activity::AllGather:
    case Activity::ReduceScatter:
    case Activity::AllReduce:
    case Activity::AllToAll:
      return fmt::format("waits for the {} {}", what_moves(part.activity, axis, input.job.request.recipe),
                         describe_bottleneck(input, topology, axis));
    case Activity::SendRecv:
      return fmt::format("activations and gradients move {}", describe_bottleneck(input, topology, axis));
    case Activity::CopyIn: return "copies from the host to the GPU";
    case Activity::CopyOut: return "copies from the GPU to the host";
    case Activity::HostOptimizer: return "the optimizer steps on the CPU";
    case Activity::Optimizer: return "the optimizer steps";
    case Activity::Cast: return "casts and copies on the GPU";
    default: return fmt::format("{} is computed", to_string(part.activity));
  }
}

}  // namespace

namespace {

/// The link that holds up the messages of an axis most when all its groups run at once, and the route of one of them.
struct Slowest {
  std::optional<std::uint32_t> link;
  Route route;
};

/// Looks at two machines: all are alike.
Slowest slowest_link(const SimInput& input, const Topology& topology, Axis axis) {
  const Mesh& mesh = input.program.mesh;
  const GroupShape& shape = input.comm.axes[std::size_t(axis)].group.shape;
  const std::int64_t stride = mesh.stride(axis), ways = mesh.ways(axis);
  std::vector<double> loads(topology.num_links());
  std::vector<Route> routes;
  for (std::int64_t rank = 0; rank < std::min(mesh.world(), 2 * topology.gpus_per_node()); ++rank) {
    const std::int64_t place = mesh.place(rank, axis), first = rank - place * stride;
    if (is_pipeline(axis) && place + 1 == ways) continue;
    const std::int64_t next = first + (place + 1) % ways * stride;
    std::vector<std::int64_t> members;
    for (std::int64_t i = 0; i < std::min(ways, 2 * topology.gpus_per_node()); ++i)
      members.push_back(first + i * stride);
    routes.push_back(is_pipeline(axis) ? topology.route(rank, next)
                                       : topology.ring_route(rank, next, shape.ranks_per_node(), shape.size, members));
    for (const LinkUse& use : routes.back()) loads[use.link] += use.weight;
  }
  Slowest out;
  double least = 0;
  for (std::uint32_t link = 0; link < loads.size(); ++link) {
    if (loads[link] <= 0) continue;
    const double rate = topology.link(link).capacity.value / loads[link];
    if (out.link && rate >= least * (1 - 1e-9)) continue;  // of links that are alike, the first
    least = rate;
    out.link = link;
  }
  for (const Route& route : routes)
    if (std::any_of(route.begin(), route.end(), [&](const LinkUse& use) { return use.link == out.link; })) {
      out.route = route;
      break;
    }
  return out;
}

}  // namespace

std::string describe_bottleneck(const SimInput& input, const Topology* topology, Axis axis) {
  if (!topology) {
    const bool crosses = input.comm.axes[std::size_t(axis)].crosses_nodes;
    return crosses ? "over the network" : fmt::format("over {}", input.job.request.cluster.fabric_text);
  }
  const Slowest slowest = slowest_link(input, *topology, axis);
  if (!slowest.link) return "inside a GPU";
  return fmt::format("{}, slowest between {} and {} ({:.3g} GB/s)", way_of(*topology, slowest.route),
                     topology->vertex(topology->source(*slowest.link)).name,
                     topology->vertex(topology->target(*slowest.link)).name,
                     topology->link(*slowest.link).capacity.value / 1e9);
}

std::vector<CriticalItem> describe_critical_path(const Simulation& s, const SimInput& input,
                                                 const SimOptions& options) {
  std::vector<double> slowness;
  if (!options.stragglers.empty())
    for (const SimulatedRank& rank : s.ranks) slowness.push_back(straggler_factor(options, rank.rank));
  std::vector<CriticalItem> out;
  const double step = std::max(1e-12, s.step.seconds().value);
  CriticalItem rest{.what = "everything else", .time = {}, .remedy = {}};
  for (const CriticalPart& part : sum_critical_path(s.spans, s.critical_path, slowness)) {
    const double share = part.time.value / step;
    if (share < kWorthAnItem) {
      rest.time += part.time;
      rest.share += share;
      continue;
    }
    out.push_back({.what = what_of(part, s, input, slowness),
                   .activity = part.activity,
                   .is_host = part.is_host,
                   .is_straggler = part.straggler.has_value(),
                   .time = part.time,
                   .share = share,
                   .remedy = {}});
  }
  if (rest.time.value > 0) out.push_back(rest);
  return out;
}

}  // namespace gpuplan
