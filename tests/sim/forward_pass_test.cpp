// The event run against the forward pass: without shared links both are the same max-plus semantics.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "measured_machine.h"
#include "sim/simulated.h"

using namespace gpuplan;
using namespace gpuplan::test;

TEST_CASE("the event run on analytic links equals the forward pass for every strategy") {
  for (const char* gpus : {"4xA6000", "8xH100", "16xA100", "2x4090"})
    for (const Method method : {Method::Full, Method::Lora, Method::Qlora})
      for (const std::int64_t accumulation : {1, 2, 5})
        for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full}) {
          EstimateRequest r = request_for("llama-3.2-1b", gpus, method, accumulation);
          r.recipe.checkpointing = checkpointing;
          for (const std::string_view name : strategy_names()) {
            if (!is_applicable(r, name)) continue;
            const SimulatedPlan plan = simulated(r, name, {.network = NetworkFidelity::Analytic}, 0);
            const double forward = plan.estimate.time.step.value, events = plan.simulation.step_time().value;
            CAPTURE(fmt::format("{} {} method {} accumulation {} checkpointing {}", gpus, name, int(method),
                                accumulation, int(checkpointing)));
            CHECK(events == doctest::Approx(forward).epsilon(1e-4));
          }
        }
}

TEST_CASE("models that are divided: the event run equals the forward pass") {
  struct Case {
    const char *gpus, *strategy;
    std::int64_t tp, pp, chunks, accumulation;
  };
  for (const Case& c :
       {Case{"8xH100", "zero1", 2, 1, 1, 3}, Case{"8xH100", "ddp", 4, 1, 1, 1}, Case{"8xH100", "single", 8, 1, 1, 2},
        Case{"16xA100", "zero1", 8, 1, 1, 2}, Case{"8xH100", "zero1", 1, 4, 1, 8}, Case{"8xH100", "ddp", 1, 2, 2, 4},
        Case{"8xH100", "zero1", 2, 2, 4, 6}, Case{"16xA100", "zero1", 2, 4, 2, 8}})
    for (const Method method : {Method::Full, Method::Lora}) {
      EstimateRequest r = request_for("llama-3.2-1b", c.gpus, method, c.accumulation);
      r.recipe.framework = std::string("megatron");
      r.options.tp = c.tp, r.options.splits_sequence = c.tp > 1;
      r.options.pp = c.pp, r.options.virtual_stages = c.chunks;
      CAPTURE(fmt::format("{} {} tp {} pp {} x {}, method {}", c.gpus, c.strategy, c.tp, c.pp, c.chunks, int(method)));
      REQUIRE(is_applicable(r, c.strategy));
      const SimulatedPlan plan = simulated(r, c.strategy, {.network = NetworkFidelity::Analytic}, 0);
      CHECK(plan.simulation.step_time().value == doctest::Approx(plan.estimate.time.step.value).epsilon(5e-3));
    }
}

TEST_CASE("layers and experts that are shared: the same on analytic links, and near it where exchanges share links") {
  // Megatron's exchanges along the sequence run beside the experts', which compute waits for (docs/simulation.md).
  struct Case {
    const char *model, *strategy;
    std::int64_t tp, ep, accumulation;
    Checkpointing checkpointing;
  };
  for (const Case& c : {Case{"deepseek-v2-lite", "zero1", 4, 8, 4, Checkpointing::None},
                        Case{"deepseek-v2-lite", "ddp", 2, 8, 1, Checkpointing::None},
                        Case{"deepseek-v2-lite", "zero1", 4, 8, 2, Checkpointing::Full},
                        Case{"qwen3-30b-a3b", "zero1", 4, 4, 2, Checkpointing::None}}) {
    EstimateRequest r = request_for(c.model, "8xH100", Method::Lora, c.accumulation);
    r.recipe.framework = std::string("megatron");
    r.recipe.checkpointing = c.checkpointing;
    r.options.tp = c.tp, r.options.ep = c.ep, r.options.splits_sequence = true;
    CAPTURE(fmt::format("{} {} tp {} ep {}", c.model, c.strategy, c.tp, c.ep));
    REQUIRE(is_applicable(r, c.strategy));
    const auto step = [&](NetworkFidelity network) {
      const SimulatedPlan plan = simulated(r, c.strategy, {.network = network}, 0);
      return plan.simulation.step_time().value / plan.estimate.time.step.value;
    };
    CHECK(step(NetworkFidelity::Analytic) == doctest::Approx(1).epsilon(0.025));
    CHECK(step(NetworkFidelity::Flow) > 0.99);
    CHECK(step(NetworkFidelity::Flow) < 1.03);
  }
}

TEST_CASE(
    "micro-batches that the forward pass and a simulation without spans skip take what the event run gives them") {
  for (const char* gpus : {"4xA6000", "2x4090,2x3090"})
    for (const std::string_view name : strategy_names()) {
      const EstimateRequest r = request_for("smollm2-135m", gpus, Method::Full, 100);
      if (!is_applicable(r, name)) continue;
      CAPTURE(fmt::format("{} {}", gpus, name));
      SimOptions options{.network = NetworkFidelity::Analytic};
      const SimulatedPlan full = simulated(r, name, options, 0);
      options.records_spans = false;
      const SimulatedPlan brief = simulated(r, name, options, 0);
      const double step = full.simulation.step_time().value;
      // On unlike GPUs the forward pass does not let the fast ones wait for the slow ones' collectives.
      CHECK(full.estimate.time.step.value == doctest::Approx(step).epsilon(r.cluster.is_mixed() ? 5e-3 : 1e-4));
      CHECK(brief.simulation.step_time().value == doctest::Approx(step).epsilon(1e-4));
      CHECK(brief.simulation.executed_flops == doctest::Approx(full.simulation.executed_flops).epsilon(1e-9));
      CHECK(brief.simulation.compute == doctest::Approx(full.simulation.compute).epsilon(1e-3));
      // Where one host launches hardly faster than the GPUs compute, it is ahead of them after 32 micro-batches only in
      // part: what waits for it then is not told apart from the bubble as in the whole run.
      const auto waits = [](const Simulation& s) { return (s.bubble + s.host_bound + s.idle).value; };
      CHECK(waits(brief.simulation) == doctest::Approx(waits(full.simulation)).epsilon(1e-3));
      CHECK(brief.simulation.bubble.value == doctest::Approx(full.simulation.bubble.value).epsilon(0.25));
    }
}

TEST_CASE("the event run equals the forward pass with hand-overs too, and only what communicates has them") {
  EstimateRequest r = request_for("llama-3.2-1b", "2xH100");
  r.cluster.fabric = FabricKind::NvSwitch;
  for (const std::string_view name : strategy_names()) {
    if (!is_applicable(r, name)) continue;
    const auto steps = [&](double meeting) {
      Profile profile = default_profile(r.cluster.gpus.front());
      Measured measured = two_devices("h100-sxm", "nvswitch");
      if (meeting > 0)
        measured.scalars.push_back(
            {.name = "dispatch meeting", .unit = "s", .num_ranks = 2, .value = exactly(meeting)});
      profile.measured = std::make_shared<Measured>(measured);
      profile.overlap_slowdown = 0;
      const SimulatedPlan plan = simulated(r, name, profile, {.network = NetworkFidelity::Analytic});
      return std::pair(plan.estimate.time.step.value, plan.simulation.step_time().value);
    };
    const auto [forward, events] = steps(5e-3);
    const auto [without, events_without] = steps(0);
    CAPTURE(name);
    CHECK(events == doctest::Approx(forward).epsilon(1e-4));
    CHECK(events_without == doctest::Approx(without).epsilon(1e-4));
    if (name == "ddp") CHECK(forward > without + 4e-3);
    if (name == "mp" || name == "single") CHECK(forward == without);
  }
}

TEST_CASE("gathers that run far ahead of the compute beside them slow it in the forward pass as in the event run") {
  struct Case {
    const char *model, *gpus;
    std::int64_t micro_batch;
    Checkpointing checkpointing;
  };
  for (const Case& c : {Case{"mixtral-8x7b", "8x4090", 4, Checkpointing::Selective},
                        Case{"llama2-13b", "8xA100", 2, Checkpointing::None}}) {  // of many launches each
    CAPTURE(c.model);
    EstimateRequest r = request_for(c.model, c.gpus, Method::Qlora);
    r.recipe.micro_batch = c.micro_batch;
    r.recipe.checkpointing = c.checkpointing;
    const SimulatedPlan plan = simulated(r, "fsdp-grad-op", {.network = NetworkFidelity::Analytic}, 0);
    CHECK(plan.simulation.step_time().value == doctest::Approx(plan.estimate.time.step.value).epsilon(5e-3));
  }
}

TEST_CASE("where nothing is shared, flows take what the forward pass says, within 2 %") {
  for (const char* gpus : {"4xA6000", "2x4090", "8xH100", "16xA100"})
    for (const char* name : {"ddp", "zero1", "zero2", "mp"}) {  // one transfer at a time
      const SimulatedPlan plan = simulated(request_for("llama-3.2-1b", gpus, Method::Full, 2), name, {}, 0);
      CAPTURE(fmt::format("{} {}", gpus, name));
      CHECK(plan.simulation.network == NetworkFidelity::Flow);
      CHECK(plan.simulation.step_time().value == doctest::Approx(plan.estimate.time.step.value).epsilon(0.02));
    }
}

TEST_CASE("gathers beside reduces share their links: the forward pass says what flows take, within 5 %") {
  for (const char* gpus : {"4xA6000", "2x4090", "8xH100", "16xA100"})
    for (const char* name : {"fsdp", "zero3"}) {
      const SimulatedPlan plan = simulated(request_for("llama-3.2-1b", gpus, Method::Full, 2), name, {}, 0);
      CAPTURE(fmt::format("{} {}", gpus, name));
      CHECK(plan.simulation.step_time().value == doctest::Approx(plan.estimate.time.step.value).epsilon(0.05));
    }
}
