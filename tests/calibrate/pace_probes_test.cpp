// The pace of a machine from probes then and now.
#include "calibrate/pace_probes.h"

#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>

#include <doctest/doctest.h>

#include "base/error.h"
#include "calibrate/plan.h"
#include "fake_device.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

std::vector<Sample> samples(const std::vector<PaceProbe>& probes, double seconds) {
  std::vector<Sample> out;
  for (const PaceProbe& p : probes) out.push_back({.probe = p.probe, .median = seconds});
  return out;
}

Profile profile_of(const std::vector<Sample>& samples) {
  Profile profile;
  Measured measured;
  measured.samples = "not a sample\n";
  for (const Sample& sample : samples) measured.samples += to_json_line(sample) + "\n";
  profile.measured = std::make_shared<Measured>(measured);
  return profile;
}

}  // namespace

TEST_CASE("every kind of work has probes, collectives those of several ranks alone; a calibration measures them all") {
  const DeviceFacts facts{
      .kind = DeviceKind::Cpu, .memory_free = Bytes{8'000'000'000}, .num_cores = 2, .gemm_types = {GemmType::F32}};
  for (const std::int64_t ranks : {1, 2}) {
    const auto probes = pace_probes(DeviceKind::Cpu, ranks);
    for (const PaceField& field : kPaceFields) {
      const bool is_of_several = field.member == &MachinePace::messages || field.member == &MachinePace::transfers;
      const bool has =
          std::any_of(probes.begin(), probes.end(), [&](const PaceProbe& p) { return p.kind == field.member; });
      CHECK_MESSAGE(has == (ranks > 1 || !is_of_several), field.name);
    }
    for (const bool is_quick : {false, true}) {
      std::multiset<std::string> planned;
      for (const Probe& probe : plan_probes(facts, {.is_quick = is_quick, .rank_counts = {ranks}}))
        planned.insert(probe.key());
      for (const PaceProbe& p : probes) CHECK_MESSAGE(planned.count(p.probe.key()) == 1, p.probe.key());
    }
  }
  CHECK(pace_probes(DeviceKind::Cuda, 1).empty());
}

TEST_CASE("a kind's pace is the mean ratio of its probes; a probe without a figure says nothing") {
  const auto probes = pace_probes(DeviceKind::Cpu, 2);
  const auto then = samples(probes, 1e-3);
  auto now = samples(probes, 1.1e-3);
  double factor = 1;
  for (std::size_t i = 0; i < probes.size(); ++i)
    if (probes[i].kind == &MachinePace::products) now[i].median = 1e-3 * (factor *= 2);  // 2, 4, 8
  for (std::size_t i = 0; i < probes.size(); ++i)
    if (probes[i].kind == &MachinePace::attention) now[i].failure = "no result in 20 s";
  const MachinePace pace = pace_between({probes, then}, now);
  CHECK(pace.products == doctest::Approx(4));
  CHECK(pace.memory == doctest::Approx(1.1));
  CHECK(pace.attention == 1);
}

TEST_CASE("a profile knows the probes' figures, unless it is older or of another number of ranks") {
  const auto probes = pace_probes(DeviceKind::Cpu, 2);
  const auto known = samples_of(probes, profile_of(samples(probes, 2e-3)));
  REQUIRE(known);
  CHECK(known->size() == probes.size());
  CHECK(pace_between({probes, *known}, samples(probes, 2e-3)).is_as_calibrated());
  CHECK_FALSE(samples_of(probes, profile_of(samples(pace_probes(DeviceKind::Cpu, 1), 2e-3))));
  CHECK_FALSE(samples_of(probes, Profile{}));
}

TEST_CASE("a burst passes while probes are asked again; what lasts is the machine's pace") {
  const auto probes = pace_probes(DeviceKind::Cpu, 2);
  const auto then = samples(probes, 1e-3);
  const auto settled = [&](auto seconds_in_round, int& num_pauses) {
    std::size_t num_asked = 0;
    num_pauses = 0;
    const auto ask = [&](const Probe& probe) {
      return Sample{.probe = probe, .median = seconds_in_round(num_asked++ / probes.size())};
    };
    return settled_pace({probes, then}, ask, [&] { ++num_pauses; });
  };
  int num_pauses = 0;
  CHECK(settled([](std::size_t) { return 1.05e-3; }, num_pauses).products == doctest::Approx(1.05));
  CHECK(num_pauses == 0);
  CHECK(settled([](std::size_t round) { return round < 3 ? 2e-3 : 1e-3; }, num_pauses).products == doctest::Approx(1));
  CHECK(num_pauses == 4);  // when four of seven were calm
  CHECK(settled([](std::size_t round) { return round == 1 ? 2e-3 : 1e-3; }, num_pauses).is_as_calibrated());
  CHECK(num_pauses == 0);
  CHECK(settled([](std::size_t) { return 1.5e-3; }, num_pauses).memory == doctest::Approx(1.5));
  CHECK(num_pauses == 6);
  CHECK(settled([](std::size_t) { return 0.5e-3; }, num_pauses).memory == doctest::Approx(0.5));
  CHECK(num_pauses == 0);  // no burst makes a machine faster
  const auto fails = [](const Probe& probe) { return Sample{.probe = probe, .failure = "no result in 10 s"}; };
  CHECK_THROWS_WITH_AS(settled_pace({probes, then}, fails, [] {}), doctest::Contains("no result in 10 s"), EnvError);
}

namespace {

/// Small ones: fake devices compute slowly.
std::vector<PaceProbe> small_probes(std::int64_t num_ranks) {
  std::vector<PaceProbe> out{
      {&MachinePace::memory, {.family = ProbeFamily::Memory, .num_ranks = num_ranks, .rows = 5, .width = 128}}};
  if (num_ranks > 1)
    out.push_back({&MachinePace::messages,
                   {.family = ProbeFamily::Collective,
                    .num_ranks = num_ranks,
                    .collective = CollectiveKind::AllReduce,
                    .group_ranks = num_ranks,
                    .bytes{1024}}});
  return out;
}

/// What each of `num_ranks` fake ranks gets of probes that `num_asking` of them ask; nullopt: nothing, and a text where
/// it throws.
std::vector<std::variant<std::optional<MachinePace>, std::string>> paces_here(std::int64_t num_asking, int num_ranks,
                                                                              const FakeTruth& truth = {}) {
  const auto probes = small_probes(num_asking);
  const PaceQuestion question{probes, samples(probes, 1e-6)};
  const auto group = std::make_shared<FakeGroup>(num_ranks);
  std::vector<std::variant<std::optional<MachinePace>, std::string>> out(static_cast<std::size_t>(num_ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < num_ranks; ++rank)
    threads.emplace_back([&, rank] {
      FakeDevice device(truth, std::uint64_t(rank) + 1);
      FakeCommunicator ranks(group, rank, device);
      try {
        out[std::size_t(rank)] = read_pace_here(question, device, num_ranks > 1 ? &ranks : nullptr);
      } catch (const EnvError& error) { out[std::size_t(rank)] = std::string(error.what()); }
    });
  threads.clear();
  return out;
}

}  // namespace

TEST_CASE("ranks ask themselves after their work: as many as the probes are of, and the others wait") {
  for (const auto& [num_asking, num_ranks] : {std::pair{1, 1}, {2, 2}, {2, 4}}) {
    const auto paces = paces_here(num_asking, num_ranks);
    const auto& first = std::get<0>(paces.front());
    REQUIRE(first);
    CHECK(first->memory > 1);
    CHECK((first->messages > 1) == (num_asking > 1));
    for (int rank = 1; rank < num_ranks; ++rank) {
      const auto& other = std::get<0>(paces[std::size_t(rank)]);
      REQUIRE(other.has_value() == (rank < num_asking));
      if (other) CHECK(to_string(*other) == to_string(*first));
    }
  }
}

TEST_CASE("some of more ranks ask for no collectives, whose pace is what it was before") {
  const auto probes = pace_probes(DeviceKind::Cpu, 2);
  const PaceQuestion question =
      on_fewer_ranks({probes, samples(probes, 1e-3)}, {.memory = 3, .messages = 1.5, .transfers = 0.5});
  for (const PaceProbe& p : question.probes) CHECK(p.probe.family != ProbeFamily::Collective);
  CHECK(question.probes.size() + 4 == probes.size());
  const MachinePace pace = pace_between(question, samples(question.probes, 2e-3));
  CHECK(to_string(pace) ==
        to_string(MachinePace{
            .products = 2, .thin_products = 2, .attention = 2, .memory = 2, .messages = 1.5, .transfers = 0.5}));
}

TEST_CASE("a probe that fails after the work fails on those that ask, and nobody waits for ever") {
  const auto paces = paces_here(2, 3, {.is_wrong = true});
  for (const int rank : {0, 1}) CHECK(std::get<1>(paces[std::size_t(rank)]).find("wrong result") != std::string::npos);
  CHECK_FALSE(std::get<0>(paces[2]));
}

TEST_CASE("workers that do not start are said") {
  CHECK_THROWS_WITH_AS(read_pace({pace_probes(DeviceKind::Cpu, 1), {}}, {{"/no/such/program"}}),
                       doctest::Contains("does not start"), EnvError);
}
