// Laws that hold for every simulated step, whatever the strategy and the machine.
#include <doctest/doctest.h>

#include <cmath>

#include <fmt/format.h>

#include "sim/simulated.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

constexpr const char* kMachines[] = {"4xA6000", "8x4090", "16xA100", "3xH100"};
constexpr const char* kStrategies[] = {"ddp", "zero1", "zero2", "fsdp-grad-op", "fsdp", "zero3", "hsdp", "mp"};

template <class Check>
void each_plan(Check check) {
  for (const char* gpus : kMachines)
    for (const Method method : {Method::Full, Method::Lora}) {
      const EstimateRequest r = request_for("llama-3.2-1b", gpus, method, 2);
      for (const char* name : kStrategies) {
        if (!is_applicable(r, name)) continue;
        CAPTURE(fmt::format("{} {} method {}", gpus, name, int(method)));
        check(simulated(r, name));
      }
    }
}

}  // namespace

TEST_CASE("every rank sends what the ring formulas say: (n - 1) / n of a gather, twice that of an all-reduce") {
  each_plan([](const SimulatedPlan& plan) {
    Bytes most;
    for (const SimulatedRank& rank : plan.simulation.ranks) most = std::max(most, rank.sent);
    // estimate's figure is of the class that sends most; trees send the mean of their ranks, integers round per
    // instruction
    const double formula = double(plan.estimate.communication.count);
    CHECK(double(most.count) == doctest::Approx(formula).epsilon(1e-3));
  });
}

TEST_CASE("no link carries more than its capacity, and no stream or link is busy longer than the step") {
  each_plan([](const SimulatedPlan& plan) {
    for (const LinkUseSummary& link : plan.simulation.links) {
      CHECK(link.utilisation <= 1 + 1e-9);
      CHECK(link.busy <= 1 + 1e-9);
      CHECK(link.utilisation <= link.busy + 1e-9);
    }
    for (const SimulatedRank& rank : plan.simulation.ranks)
      for (const SimTime busy : rank.busy) CHECK(busy <= plan.simulation.step);
  });
}

TEST_CASE("with links that cost nothing data parallelism takes as long as one GPU") {
  EstimateRequest alone = request_for("llama-3.2-1b", "A6000", Method::Lora, 3),
                  many = request_for("llama-3.2-1b", "4xA6000", Method::Lora, 3);
  many.cluster.intra.latency = {};
  many.cluster.intra.bandwidth = many.cluster.intra.all_reduce_bandwidth = BytesPerSec{1e18};
  const double one = simulated(alone, "single", {}, 0).simulation.step_time().value;
  const double four = simulated(many, "ddp", {.network = NetworkFidelity::Analytic}, 0).simulation.step_time().value;
  CHECK(four == doctest::Approx(one).epsilon(2e-3));  // NCCL's own latencies and the launches of the collectives remain
}

TEST_CASE("more bandwidth never makes a step longer, a slower rank never a shorter one") {
  for (const char* name : {"ddp", "fsdp", "zero3"}) {
    CAPTURE(name);
    EstimateRequest r = request_for("llama-3.2-1b", "4x4090", Method::Full, 2);
    double before = 1e9;
    for (const double gb_s : {2.0, 5.0, 20.0, 100.0}) {
      r.cluster.intra.bandwidth = r.cluster.intra.all_reduce_bandwidth = BytesPerSec{gb_s * 1e9};
      const double step = simulated(r, name, {.network = NetworkFidelity::Analytic}).simulation.step_time().value;
      CHECK(step <= before * (1 + 1e-9));
      before = step;
    }
    before = 0;
    for (const double factor : {1.0, 1.2, 2.0}) {
      const double step = simulated(r, name, {.stragglers = {{1, factor}}}).simulation.step_time().value;
      CHECK(step >= before);
      before = step;
    }
  }
}

TEST_CASE("cards of two kinds run at their own speed, and the faster ones wait") {
  const EstimateRequest r = request_for("llama-3.2-1b", "2x4090,2x3090", Method::Lora);
  const Simulation s = simulated(r, "ddp").simulation;
  REQUIRE(s.ranks.size() == 4);
  CHECK(s.ranks[0].compute < s.ranks[2].compute);
  CHECK(s.ranks[0].compute == s.ranks[1].compute);
  const EstimateRequest slow = request_for("llama-3.2-1b", "4x3090", Method::Lora);
  CHECK(s.step_time().value == doctest::Approx(simulated(slow, "ddp").simulation.step_time().value).epsilon(0.02));
}
