#include "calibrate/machine_state.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "calibrate/statistics.h"

namespace gpuplan {
namespace {

constexpr double kSameState = 0.12;   // |ln| of a pilot over the state's
constexpr double kOftenEnough = 0.25;  // share of the time

MachineState state_of(const std::vector<PilotReading>& members, double share) {
  MachineState state{.center = {}, .share = share};
  for (std::size_t pilot = 0; pilot < members.front().size(); ++pilot) {
    std::vector<double> times;
    for (const PilotReading& reading : members) times.push_back(reading[pilot]);
    state.center.push_back(quantile(times, 0.5));
  }
  return state;
}

/// Those that are near the reading which most are near.
std::vector<PilotReading> densest(const std::vector<PilotReading>& readings) {
  MachineState best;
  std::int64_t most = 0;
  for (const PilotReading& center : readings) {
    const MachineState candidate{center, 0};
    const auto count = std::count_if(readings.begin(), readings.end(), [&](const PilotReading& other) { return is_in(candidate, other); });
    if (count > most) most = count, best = candidate;
  }
  std::vector<PilotReading> members;
  std::copy_if(readings.begin(), readings.end(), std::back_inserter(members), [&](const PilotReading& other) { return is_in(best, other); });
  return members;
}

}  // namespace

std::vector<Probe> pilot_probes(DeviceKind kind, std::int64_t num_ranks) {
  if (kind != DeviceKind::Cpu) return {};
  const auto product = [&](std::int64_t width) { return Probe{.family = ProbeFamily::Gemm, .num_ranks = num_ranks, .type = GemmType::F32, .shape = {width, width, width}}; };
  const Probe message{.family = ProbeFamily::Collective, .num_ranks = num_ranks, .collective = CollectiveKind::AllReduce, .scope = RankScope::All,
                      .group_ranks = num_ranks, .bytes = Bytes{1000}};
  return {num_ranks > 1 ? message : product(104), product(376)};
}

bool is_in(const MachineState& state, const PilotReading& reading) {
  return std::equal(state.center.begin(), state.center.end(), reading.begin(), reading.end(),
                    [](double a, double b) { return std::abs(std::log(b / a)) < kSameState; });
}

std::vector<MachineState> find_states(std::span<const PilotReading> readings) {
  std::vector<PilotReading> left;
  std::copy_if(readings.begin(), readings.end(), std::back_inserter(left), [](const PilotReading& r) { return !r.empty(); });
  std::vector<MachineState> states;
  while (!left.empty()) {
    const std::vector<PilotReading> members = densest(left);
    if (members.size() < 2) break;
    states.push_back(state_of(members, double(members.size()) / double(readings.size())));
    std::erase_if(left, [&](const PilotReading& r) { return std::find(members.begin(), members.end(), r) != members.end(); });
  }
  return states;
}

std::size_t state_to_measure(std::span<const MachineState> states) {
  std::size_t best = 0;  // the most frequent
  for (std::size_t i = 1; i < states.size(); ++i)
    if (states[i].share >= kOftenEnough && states[i].center.front() < states[best].center.front()) best = i;
  return best;
}

std::string describe_states(std::int64_t num_ranks, std::span<const MachineState> states, std::size_t measured) {
  std::vector<std::string> shares, times;
  for (const MachineState& state : states) {
    shares.push_back(fmt::format("{:.0f} %", 100 * state.share));
    times.push_back(fmt::format("{:.2f} us", 1e6 * state.center.front()));
  }
  return fmt::format("with {} rank{} the machine changed between {} states, held {} of the time: {} takes {} there; what is in the profile is of the {}",
                     num_ranks, num_ranks == 1 ? "" : "s", states.size(), fmt::join(shares, ", "),
                     num_ranks == 1 ? "a product of 104 x 104 x 104" : "an all-reduce of 1,000 bytes", fmt::join(times, ", "),
                     measured == 0 ? "first" : fmt::format("one with {}", times[measured]));
}

}  // namespace gpuplan
