// The fields of the answers of `gpuplan simulate` and `gpuplan topology`, listed once: report/json/estimate_fields.h.
#pragma once

#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/archive.h"
#include "report/answers.h"
#include "report/json/common_fields.h"
#include "report/json/phase_fields.h"
#include "report/text/activity_look.h"
#include "report/text/simulation_facts.h"
#include "report/text/topology_text.h"

namespace gpuplan {

/// Holds what is known of a plan that can be used. Epochs are known only where the data set is.
template <class Archive>
void list_simulated(Archive& f, const SimulatedPlan& plan) {
  const Simulation& s = plan.simulation;
  const auto of_data = [&](Seconds time) { return plan.steps_per_epoch > 0 ? std::optional(time) : std::nullopt; };
  f("num_gpus", plan.estimate.num_gpus_used);
  f("fits", plan.estimate.fits());
  f("does_not_fit_because", text_or_null(plan.estimate.why_not_yes));
  f("step_seconds", s.step_time());
  f("tokens_per_second", plan.tokens_per_second);
  f("tokens_per_second_per_gpu", plan.tokens_per_second_per_gpu);
  f("mfu", plan.mfu, "a share");
  f("hfu", plan.hfu, "a share, recompute included");
  f.object("gpu_utilization", [&](auto& inner) {
    inner("resident", s.resident, "share of the step with any kernel on the GPU");
    inner("compute", s.compute);
  });
  f("exposed_communication_seconds", s.exposed_communication, "mean over GPUs, as the three below");
  f("bubble_seconds", s.bubble);
  f("host_bound_seconds", s.host_bound);
  f("idle_seconds", s.idle);
  f("flops_per_gpu", s.executed_flops);
  f("peak_bytes", plan.estimate.tiers.process);
  f("needed_bytes", plan.estimate.tiers.needed, "peak_bytes when the allocator gives back its cache");
  f("usable_bytes", plan.estimate.tiers.usable);
  f("steps_per_epoch", plan.steps_per_epoch);
  f("epoch_seconds", of_data(plan.epoch));
  f("total_seconds", of_data(plan.total));
  f("cost_usd", plan.cost_usd);
}

/// One of the plans beside the one that is looked at.
template <class Archive>
void list_fields(Archive& f, const SimulatedPlan& plan) {
  f("strategy", plan.estimate.strategy.name);
  f.all_if(plan.estimate.not_applicable.empty(), [&](auto& inner) { list_simulated(inner, plan); });
  f.optional("label", plan.label, "what sets it apart");
  f("not_applicable", text_or_null(plan.estimate.not_applicable), "a reason; then there are no figures");
}

template <class Archive>
void list_fields(Archive& f, const CriticalItem& item) {
  f("what", item.what);
  f("activity", std::string(item.is_host ? "host" : item.is_phase ? "phase" : to_string(item.activity)));
  f("seconds", item.time);
  f("share", item.share, "of the step");
  f("remedy", text_or_null(item.remedy));
}

template <class Archive>
void list_fields(Archive& f, const SimulatedRank& rank) {
  std::vector<std::pair<std::string, Seconds>> busy;
  for (int s = 0; s < kNumStreams; ++s)
    if (const SimTime time = rank.busy[std::size_t(s)]; time.ps > 0)
      busy.emplace_back(name_of(StreamId(s)), time.seconds());
  f("name", rank.name);
  f("rank", rank.rank);
  f("stands_for", rank.stands_for, "ranks that behave alike");
  f.named("busy_seconds", busy, "by stream");
  f("resident_seconds", rank.resident.seconds());
  f("compute_seconds", rank.compute.seconds());
  f("exposed_communication_seconds", rank.exposed_communication.seconds());
  f("bubble_seconds", rank.bubble.seconds());
  f("host_bound_seconds", rank.host_bound.seconds());
  f("idle_seconds", rank.idle.seconds());
  f("flops", rank.flops);
  f("sent_bytes", rank.sent);
  f("tensors_bytes", rank.peak);
}

template <class Archive>
void list_simulation(Archive& f, const SimulationAnswer& answer) {
  const Simulation& s = answer.plan.simulation;
  f("gpuplan_version", std::string(GPUPLAN_VERSION));
  f.object("model", [&](auto& inner) { list_model_name(inner, answer.request.model); });
  f("strategy", answer.plan.estimate.strategy.name);
  list_simulated(f, answer.plan);
  f("phases", answer.plan.estimate.phases,
    "of a method that compares answers or writes them, as estimated; else empty");
  f("critical_path", s.critical);
  f("streams", s.ranks);
  f.objects("links", s.links, [&](auto& inner, const LinkUseSummary& link) {
    inner("link", link_name(s, link.link));
    inner("busy", link.busy, "share of the step in which anything uses it");
    inner("utilization", link.utilisation, "of its capacity");
  });
  f("network", std::string(s.network == NetworkFidelity::Flow ? "flow" : "analytic"));
  f("folded", s.is_folded, "ranks that behave alike were simulated once");
  f("seed", answer.options.seed);
  f("jitter", answer.options.jitter);
  f.objects("stragglers", answer.options.stragglers, [](auto& inner, const std::pair<std::int64_t, double>& slow) {
    inner("rank", slow.first);
    inner("factor", slow.second);
  });
  f("num_events", s.num_events);
  f("comparison", answer.comparison);
  f.objects("scaling", answer.scaling, [&](auto& inner, const SimulatedPlan& plan) {
    list_fields(inner, plan);
    inner("efficiency", scaling_efficiency(plan, answer.scaling.empty() ? plan : answer.scaling.front()),
          "tokens per second and GPU, over those of the first row");
  });
  f("assumptions", answer.assumptions);
  f.object("profile", [&](auto& inner) { list_profile_used(inner, answer.result.profile); });
}

template <class Archive>
void list_link(Archive& f, const Topology& topology, std::uint32_t id) {
  const TopologyLink link = id < topology.num_links() ? topology.link(id) : TopologyLink{};
  f("from", id < topology.num_links() ? topology.source(id) : 0);
  f("to", id < topology.num_links() ? topology.target(id) : 0);
  f("kind", std::string(to_string(link.kind)));
  f("bandwidth_bytes_per_second", link.capacity);
  f("latency_seconds", link.latency);
  f("source", link.source);
}

template <class Archive>
void list_vertex(Archive& f, const Topology& topology, std::uint32_t id) {
  const TopologyVertex vertex = id < topology.num_vertices() ? topology.vertex(id) : TopologyVertex{};
  f("kind", std::string(to_string(vertex.kind)));
  f("node", vertex.node);
  f("index", vertex.index);
  f("name", vertex.name);
}

template <class Archive>
void list_topology(Archive& f, const TopologyAnswer& answer) {
  const Topology& topology = answer.topology;
  const auto ids = [](std::size_t count) {
    std::vector<std::uint32_t> all(count);
    std::iota(all.begin(), all.end(), 0U);
    return all;
  };
  const Route route = answer.pair ? topology.route(answer.pair->first, answer.pair->second) : Route{};
  const RouteRate rate = answer.pair ? rate_of(topology, route) : RouteRate{};
  std::vector<std::string> assumptions = answer.cluster.assumptions;
  assumptions.insert(assumptions.end(), topology.assumptions.begin(), topology.assumptions.end());
  f("cluster", answer.cluster.name);
  f("num_gpus", answer.cluster.num_gpus());
  f("num_nodes", answer.cluster.num_nodes());
  f("fabric", answer.cluster.fabric_text);
  f("has_peer_to_peer", topology.has_peer_to_peer, "over PCIe");
  f("is_rank_symmetric", topology.is_rank_symmetric, "every GPU of a machine sees the same");
  f.objects("vertices", ids(topology.num_vertices()),
            [&](auto& inner, std::uint32_t id) { list_vertex(inner, topology, id); });
  f.objects("links", ids(topology.num_links()), [&](auto& inner, std::uint32_t id) { list_link(inner, topology, id); });
  f.optional_object("route", answer.pair.has_value(), [&](auto& inner) {
    inner.objects("links", route, [](auto& one, const LinkUse& use) {
      one("link", use.link);
      one("bytes_per_byte", use.weight);
    });
    inner("bandwidth_bytes_per_second", rate.rate);
    inner("bottleneck", rate.bottleneck, "a link");
  });
  f("assumptions", assumptions);
}

}  // namespace gpuplan
