// States of a machine, from readings of pilots.
#include "calibrate/machine_state.h"

#include <algorithm>
#include <array>
#include <random>

#include <doctest/doctest.h>

#include "calibrate/plan.h"

using namespace gpuplan;

namespace {

/// `count` readings around `center`, each time within `noise` of it.
void add(std::vector<PilotReading>& readings, int count, const PilotReading& center, double noise, std::mt19937& draw) {
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  for (int i = 0; i < count; ++i) readings.push_back({center.meeting * factor(draw), center.work * factor(draw)});
}

}  // namespace

TEST_CASE("states are found with their shares, the most frequent first; failed readings and lone ones belong to none") {
  std::mt19937 draw(1);
  std::vector<PilotReading> readings(5);  // a pilot failed
  add(readings, 60, {7e-6, 240e-6}, 0.04, draw);
  add(readings, 30, {11e-6, 270e-6}, 0.04, draw);
  add(readings, 4, {17e-6, 240e-6}, 0.04, draw);
  add(readings, 1, {50e-6, 240e-6}, 0, draw);
  std::shuffle(readings.begin(), readings.end(), draw);
  const auto states = find_states(readings);
  REQUIRE(states.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(states[i].share == doctest::Approx(std::array{0.6, 0.3, 0.04}[i]));
  CHECK(states[0].center.meeting == doctest::Approx(7e-6).epsilon(0.02));
  CHECK(states[1].center.work == doctest::Approx(270e-6).epsilon(0.02));
  CHECK(states[2].center.meeting == doctest::Approx(17e-6).epsilon(0.04));
  CHECK(find_states({}).empty());
}

TEST_CASE(
    "a reading is in a state where cores meet as they do there; what lies between two of them is scaled to the state's "
    "speed") {
  const MachineState state{{1, 2}, 1};
  CHECK(is_in(state, {1.1, 3}));
  CHECK_FALSE(is_in(state, {1.2, 2}));
  CHECK_FALSE(is_in(state, {}));
  CHECK(is_between(state, {1.1, 2.5}, {0.95, 2.6}));
  CHECK_FALSE(is_between(state, {1.1, 2.5}, {1.1, 2.9}));  // the speed changed
  CHECK_FALSE(is_between(state, {1.1, 2.5}, {1.5, 2.5}));
  CHECK_FALSE(is_between(state, {}, {1, 2}));
  CHECK(to_speed_of(state, {1, 4}, {1, 4}) == doctest::Approx(0.5));
  CHECK(to_speed_of(state, {1, 1}, {1, 4}) == doctest::Approx(1));
}

TEST_CASE(
    "measured is the state whose cores meet fastest of those that are frequent, however little more frequent another "
    "one is") {
  CHECK(state_to_measure(std::vector<MachineState>{{{1.0, 1}, 0.5}, {{0.4, 1}, 0.45}, {{0.1, 1}, 0.05}}) == 1);
  CHECK(state_to_measure(std::vector<MachineState>{{{0.4, 1}, 0.5}, {{1.0, 1}, 0.45}}) == 0);
  CHECK(state_to_measure(std::vector<MachineState>{{{1.0, 1}, 0.8}, {{0.4, 1}, 0.2}}) == 0);
  CHECK(state_to_measure(std::vector<MachineState>{{{1.0, 1}, 0.2}, {{0.4, 1}, 0.1}}) == 0);  // none is frequent
}

TEST_CASE("pilots are no probes of a plan, and GPUs have none") {
  const DeviceFacts facts{.kind = DeviceKind::Cpu,
                          .memory{std::int64_t(64) << 30},
                          .memory_free{std::int64_t(64) << 30},
                          .num_cores = 4,
                          .gemm_types = {GemmType::F32, GemmType::BF16}};
  const auto planned = plan_probes(facts, {.rank_counts = {1, 2, 4}});
  REQUIRE(planned.size() > 1000);
  for (const std::int64_t num_ranks : {1, 2, 4}) {
    const auto pilots = pilot_probes(DeviceKind::Cpu, num_ranks);
    CHECK(pilots.size() == 2);
    for (const Probe& pilot : pilots) {
      CHECK(pilot.num_ranks == num_ranks);
      CHECK(std::none_of(planned.begin(), planned.end(), [&](const Probe& p) { return p.key() == pilot.key(); }));
    }
  }
  CHECK(pilot_probes(DeviceKind::Cuda, 2).empty());
}

TEST_CASE("states in words: those that hold for a while, and which is measured") {
  const std::vector<MachineState> states{{{1.33e-6, 1}, 0.6}, {{0.46e-6, 1}, 0.36}, {{2e-6, 1}, 0.04}};
  CHECK(describe_states(2, states, 1) ==
        "with 2 ranks this machine changed between states, as virtual machines do: an all-reduce of 1000 bytes took "
        "1.33 us for 60 % of the time; "
        "0.46 us for 36 % of the time, which is what the profile is of");
  CHECK(describe_states(1, states, 0).starts_with("with 1 rank this"));
  CHECK(describe_states(2, std::vector<MachineState>{{{1, 1}, 0.97}, {{2, 1}, 0.03}}, 0).empty());
}
