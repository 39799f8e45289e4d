// What a simulation answers: figures that add up, folding, the seed, stragglers, memory, the critical path.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "sim/remedies.h"
#include "sim/simulated.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

const SimOptions kAnalytic{.network = NetworkFidelity::Analytic};

std::vector<std::string> strategies_of(const EstimateRequest& r) {
  std::vector<std::string> out;
  for (const std::string_view name : strategy_names())
    if (is_applicable(r, name)) out.emplace_back(name);
  return out;
}

}  // namespace

TEST_CASE(
    "a rank's time is compute, exposed communication, bubble, waiting for the host, and idle time: nothing twice") {
  for (const Method method : {Method::Full, Method::Qlora}) {
    const EstimateRequest r = request_for("llama-3.2-1b", "4xA6000", method, 2);
    for (const std::string& name : strategies_of(r))
      for (const SimulatedRank& rank : simulated(r, name).simulation.ranks) {
        const Simulation s = simulated(r, name).simulation;
        CAPTURE(name);
        const SimTime sum = rank.compute + rank.exposed_communication + rank.bubble + rank.host_bound + rank.idle;
        CHECK(sum == s.step);
        CHECK(rank.resident >= rank.compute);
        CHECK(rank.resident <= s.step);
      }
  }
}

TEST_CASE("streams run one thing at a time, in program order, and nothing before its cause has ended") {
  for (const char* name : {"fsdp", "zero2", "ddp", "mp"}) {
    const Simulation s = simulated(request_for("llama-3.2-1b", "4xA6000", Method::Full, 3), name).simulation;
    CAPTURE(name);
    std::vector<std::array<SimTime, kNumStreams>> free(s.ranks.size());
    std::vector<std::array<std::uint32_t, kNumStreams>> number(s.ranks.size());
    for (const Span& span : s.spans) {
      SimTime& at = free[span.rank][std::size_t(span.stream)];
      std::uint32_t& last = number[span.rank][std::size_t(span.stream)];
      CHECK(span.begin >= at);
      CHECK(span.number > last);
      at = span.end, last = span.number;
      if (span.cause != Span::kNoSpan) CHECK(s.spans[span.cause].end <= span.end);
    }
  }
}

// pytorch/pytorch#186335: all-gathers and reduce-scatters of FSDP have streams of their own and one communicator
TEST_CASE("a communicator works on one collective at a time, in the order in which they were issued") {
  for (const char* name : {"fsdp", "zero3", "zero1"}) {
    const Simulation s = simulated(request_for("llama-3.2-1b", "8x4090", Method::Full, 2), name).simulation;
    CAPTURE(name);
    std::vector<std::uint32_t> last(s.ranks.size());
    std::vector<SimTime> free(s.ranks.size());
    for (const Span& span : s.spans) {
      if (!span.is_async_kernel) continue;  // not a collective
      CHECK(span.number > last[span.rank]);
      CHECK(span.end - span.active >= free[span.rank]);
      last[span.rank] = span.number, free[span.rank] = span.end;
    }
  }
}

TEST_CASE("the critical path is as long as the step, and no stream is busier than the step is long") {
  const EstimateRequest r = request_for("llama-3.2-1b", "8xH100", Method::Full, 2);
  for (const std::string& name : strategies_of(r)) {
    const Simulation s = simulated(r, name).simulation;
    CAPTURE(name);
    double sum = 0;
    for (const CriticalItem& item : s.critical) sum += item.time.value;
    CHECK(sum == doctest::Approx(s.step_time().value).epsilon(1e-9));
    for (const SimulatedRank& rank : s.ranks)
      for (const SimTime busy : rank.busy) CHECK(busy <= s.step);
  }
}

TEST_CASE("memory over time has the peak of the memory replay and ends where it began") {
  struct Asked {
    const char* gpus;
    Method method;
    std::int64_t micro_batches;  // of the last, memory changes a million times
  };
  for (const Asked& asked : {Asked{"4xA6000", Method::Full, 3}, Asked{"4xA6000", Method::Lora, 3},
                             Asked{"4xA6000", Method::Qlora, 3}, Asked{"1xA6000", Method::Lora, 600}}) {
    const EstimateRequest r = request_for("llama-3.2-1b", asked.gpus, asked.method, asked.micro_batches);
    for (const std::string& name : strategies_of(r)) {
      const Simulation s = simulated(r, name).simulation;
      CAPTURE(name);
      for (const SimulatedRank& rank : s.ranks) {
        const auto highest =
            std::max_element(rank.memory.begin(), rank.memory.end(),
                             [](const MemoryPoint& a, const MemoryPoint& b) { return a.live < b.live; });
        CHECK(highest->live == rank.peak);
        CHECK(rank.memory.front().live == rank.memory.back().live);
        CHECK(std::is_sorted(rank.memory.begin(), rank.memory.end(),
                             [](const MemoryPoint& a, const MemoryPoint& b) { return a.time < b.time; }));
        CHECK(rank.memory.back().time <= s.step);
        CHECK(std::ranges::all_of(rank.memory, [](const MemoryPoint& p) {
          return std::accumulate(p.by_category.begin(), p.by_category.end(), Bytes{}) == p.live;
        }));
      }
    }
  }
}

TEST_CASE("micro-batches beyond 65,536 have numbers of their own") {
  EstimateRequest r = request_for((data_dir() / "demo").string(), "1xA6000", Method::Full, 66'000);
  r.recipe.seq_len = 64;
  const Simulation s = simulated(r, "single", kAnalytic).simulation;
  std::uint32_t last = 0;
  for (const Span& span : s.spans) last = std::max(last, span.micro_batch);
  CHECK(last == 65'999);
}

TEST_CASE("ranks that behave alike are simulated once, with the result of simulating all of them") {
  for (const char* gpus : {"8xH100", "16xA100", "64xH100", "16x4090"})
    for (const char* name : {"ddp", "zero2", "fsdp", "hsdp"}) {
      EstimateRequest r = request_for("llama-3.2-1b", gpus, Method::Full, 2);
      if (std::string_view(name) == "hsdp") r.options.shard_size = 8;
      if (!is_applicable(r, name)) continue;
      const Simulation folded = simulated(r, name).simulation, full = simulated(r, name, {.folds = false}).simulation;
      CAPTURE(fmt::format("{} {}", gpus, name));
      CHECK(std::int64_t(full.ranks.size()) == r.cluster.num_gpus());
      if (folded.is_folded) CHECK(folded.ranks.size() < full.ranks.size());
      CHECK(folded.step_time().value ==
            doctest::Approx(full.step_time().value).epsilon(1e-6));  // rings to the picosecond, trees nearly
      CHECK(folded.exposed_communication.value == doctest::Approx(full.exposed_communication.value).epsilon(1e-6));
      CHECK(folded.resident == doctest::Approx(full.resident).epsilon(1e-6));
    }
}

TEST_CASE("the same input gives the same spans; the seed moves the jitter; jitter only costs time where ranks wait") {
  const EstimateRequest r = request_for("llama-3.2-1b", "4xA6000", Method::Full, 2);
  const auto run = [&](std::uint64_t seed, double jitter) {
    return simulated(r, "fsdp", {.seed = seed, .jitter = jitter}).simulation;
  };
  const Simulation a = run(1, 0.05), b = run(1, 0.05), c = run(2, 0.05), calm = run(1, 0);
  REQUIRE(a.spans.size() == b.spans.size());
  for (std::size_t k = 0; k < a.spans.size(); ++k)
    CHECK((a.spans[k].begin == b.spans[k].begin && a.spans[k].end == b.spans[k].end));
  CHECK(a.step != c.step);
  CHECK(a.step > calm.step);
  CHECK(a.step_time().value < 1.1 * calm.step_time().value);
}

TEST_CASE("one slow rank makes all of them wait") {
  const EstimateRequest r = request_for("llama-3.2-1b", "4xA6000", Method::Lora);
  const Simulation even = simulated(r, "ddp").simulation;
  const Simulation slow = simulated(r, "ddp", {.stragglers = {{2, 1.5}}}).simulation;
  CHECK(slow.step_time().value > 1.3 * even.step_time().value);
  CHECK(slow.ranks[2].exposed_communication < slow.ranks[0].exposed_communication);
  const auto added = std::ranges::find_if(slow.critical, &CriticalItem::is_straggler);
  REQUIRE(added != slow.critical.end());
  CHECK(added->what == "the others wait for GPU 2, whose compute takes 1.5 times as long");
  CHECK(added->time.value == doctest::Approx(slow.step_time().value - even.step_time().value).epsilon(0.05));
  CHECK(std::ranges::is_sorted(slow.critical.begin(), slow.critical.end() - 1, std::greater{}, &CriticalItem::time));
  double sum = 0;
  for (const CriticalItem& item : slow.critical) sum += item.time.value;
  CHECK(sum == doctest::Approx(slow.step_time().value).epsilon(1e-9));
  CHECK_THROWS_AS(simulated(r, "ddp", {.stragglers = {{4, 1.5}}}), InputError);
  CHECK_THROWS_AS(simulated(r, "ddp", {.jitter = 2}), InputError);
}

TEST_CASE("naive model parallelism keeps one GPU busy at a time") {
  const Simulation s = simulated(request_for("llama-3.2-1b", "4xA6000", Method::Lora, 4), "mp").simulation;
  CHECK(s.ranks.size() == 4);
  CHECK(s.compute < 0.26);
  CHECK(s.compute > 0.20);
  CHECK(s.messages.size() == 3 * 2 * 4);
  CHECK(s.bubble.value > 0.6 * s.step_time().value);
}

TEST_CASE("ranks beyond the cores of the host share them") {
  EstimateRequest r = request_for("smollm2-135m", "4xcpu");
  r.cluster.host_cores = 2;
  const double shared = simulated(r, "mp", kAnalytic).simulation.step_time().value;
  r.cluster.host_cores = 4;  // as many cores as ranks: a rank never gets more than its own
  const double own = simulated(r, "mp", kAnalytic).simulation.step_time().value;
  CHECK(own == doctest::Approx(2 * shared).epsilon(0.1));  // one stage at a time has the host to itself
}

TEST_CASE("where backward waits for its own reductions, letting it run on is named before other hardware") {
  EstimateRequest r = request_for("llama-3.2-1b", "4x4090", Method::Full);  // fits well with a second bucket too
  r.recipe.framework = "llama-factory";
  SimulatedPlan plan = simulated(r, "zero2");
  REQUIRE(!plan.simulation.critical.empty());
  CHECK(plan.simulation.critical.front().activity == Activity::AllReduce);
  add_remedies(plan, r, *r.recipe.framework, default_profile(r.cluster.gpus.front()));
  CHECK(plan.simulation.critical.front().remedy.starts_with("--overlap-comm on would give "));
}

TEST_CASE("a remedy that needs more memory is named only where the plan then fits well, as estimate judges it") {
  EstimateRequest r = request_for("llama3-8b", "1x4090", Method::Qlora);
  r.recipe.quant.kind = BaseQuant::Nf4;
  r.recipe.checkpointing = Checkpointing::Full;
  const auto names_checkpointing = [](const SimulatedPlan& plan) {
    return std::any_of(plan.simulation.critical.begin(), plan.simulation.critical.end(), [](const CriticalItem& item) {
      return item.remedy.find("--checkpointing none") != std::string::npos;
    });
  };
  std::set<Fit> seen;
  for (std::int64_t seq = 256; seq <= 8192; seq += 256) {
    r.recipe.seq_len = seq;
    SimulatedPlan plan = simulated(r, "single");
    if (!plan.estimate.fits_well()) break;
    add_remedies(plan, r, *r.recipe.framework, default_profile(r.cluster.gpus.front()));
    EstimateRequest without = r;
    without.recipe.checkpointing = Checkpointing::None;
    const StrategyEstimate then = simulated(without, "single").estimate;
    seen.insert(then.fit);
    CAPTURE(seq);
    CHECK(names_checkpointing(plan) == then.fits_well());
  }
  CHECK((*seen.begin() < Fit::Tight && seen.contains(Fit::Tight) && seen.contains(Fit::Yes)));
}

TEST_CASE("where the step waits for slow links, the remedy is tried and named") {
  const EstimateRequest r = request_for("llama3-8b", "4x4090", Method::Lora);
  SimulatedPlan plan = simulated(r, "fsdp");
  REQUIRE(!plan.simulation.critical.empty());
  CHECK(plan.simulation.critical.front().activity == Activity::AllGather);
  CHECK(plan.simulation.critical.front().what.find("through host memory") != std::string::npos);
  add_remedies(plan, r, *r.recipe.framework, default_profile(r.cluster.gpus.front()));
  CHECK(plan.simulation.critical.front().remedy.starts_with("NVLink (600 GB/s) would give "));
}

TEST_CASE("a straggler among 1,024 GPUs: nobody else uses the links of its rings, so that they cost no messages") {
  EstimateRequest r = request_for("smollm2-135m", "1024xH100", Method::Full);
  const SimulatedPlan alike = simulated(r, "fsdp");
  const SimulatedPlan slow = simulated(r, "fsdp", {.stragglers = {{3, 1.2}}});
  CHECK(slow.simulation.ranks.size() == 1024);
  CHECK(slow.simulation.step > alike.simulation.step);
  // 1,023 messages of every rank in every collective would be two events each
  CHECK(slow.simulation.num_events < 1024 * 1024);
  CHECK(slow.simulation.ranks[3].alike == 3);
  CHECK(slow.simulation.ranks[4].alike == 0);
}

TEST_CASE("sharding within groups of one machine: the links say what the estimate says") {
  for (const char* gpus : {"8xMI300X", "8xA6000", "4x4090", "8xV100", "8xA100"}) {
    CAPTURE(gpus);
    const SimulatedPlan plan = simulated(request_for("llama-3.2-1b", gpus, Method::Full), "hsdp");
    CHECK(plan.simulation.step_time() / plan.estimate.time.step == doctest::Approx(1).epsilon(0.01));
  }
}

TEST_CASE("what the step waits for has a remedy, or says why there is none; slow links are named by their ends") {
  for (const auto& [gpus, strategy] :
       {std::pair{"1xH100", "single"}, {"4x4090", "fsdp"}, {"16xA100", "ddp"}, {"8xH100", "fsdp"}, {"2xA6000", "mp"}}) {
    CAPTURE(gpus);
    const EstimateRequest r = request_for("llama-3.2-1b", gpus);
    SimulatedPlan plan = simulated(r, strategy);
    add_remedies(plan, r, *r.recipe.framework, default_profile(r.cluster.gpus.front()));
    const auto& items = plan.simulation.critical;
    CHECK(std::any_of(items.begin(), items.end(), [](const CriticalItem& item) { return !item.remedy.empty(); }));
    for (const CriticalItem& item : items)
      if (item.activity == Activity::AllGather && item.share > 0.01)
        CHECK(item.what.find("slowest between ") != std::string::npos);
  }
  SimulatedPlan slow = simulated(request_for("llama-3.2-1b", "4xH100"), "fsdp", {.stragglers = {{2, 3}}});
  const EstimateRequest r = request_for("llama-3.2-1b", "4xH100");
  add_remedies(slow, r, *r.recipe.framework, default_profile(r.cluster.gpus.front()));
  CHECK(slow.simulation.critical.front().remedy == "a GPU as fast as the others would save this");
}
