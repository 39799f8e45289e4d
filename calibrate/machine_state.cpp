#include "calibrate/machine_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "calibrate/statistics.h"
#include "cluster/profile/measured.h"

namespace gpuplan {
namespace {

constexpr double kSameMeeting = 0.15, kSameSpeed = 0.08;     // |ln| of one time over another
constexpr double kOftenEnough = 0.25, kWorthTelling = 0.05;  // share of the time

// of the pilots
constexpr std::int64_t kMeetingWidth = 104, kWorkWidth = 376;

bool is_near(double a, double b, double tolerance) { return std::abs(std::log(a / b)) < tolerance; }

MachineState state_of(const std::vector<PilotReading>& members, double share) {
  std::vector<double> meeting, work;
  for (const PilotReading& reading : members) meeting.push_back(reading.meeting), work.push_back(reading.work);
  return {.center = {quantile(meeting, 0.5), quantile(work, 0.5)}, .share = share};
}

/// Those that are near the reading which most are near: a stretch [begin, end) of what is sorted by meeting.
std::pair<std::size_t, std::size_t> densest(const std::vector<PilotReading>& sorted) {
  std::pair<std::size_t, std::size_t> best{0, 0};
  std::size_t begin = 0, end = 0;
  for (const PilotReading& center : sorted) {
    const MachineState candidate{center, 0};
    while (!is_in(candidate, sorted[begin])) ++begin;
    end = std::max(end, begin);
    while (end < sorted.size() && is_in(candidate, sorted[end])) ++end;
    if (end - begin > best.second - best.first) best = {begin, end};
  }
  return best;
}

}  // namespace

std::vector<Probe> pilot_probes(DeviceKind kind, std::int64_t num_ranks) {
  if (kind != DeviceKind::Cpu) return {};
  const auto product = [&](std::int64_t width) {
    return Probe{
        .family = ProbeFamily::Gemm, .num_ranks = num_ranks, .type = GemmType::F32, .shape = {width, width, width}};
  };
  return {num_ranks > 1 ? all_reduce_probe(num_ranks, kMeetingMessage, Dtype::F32) : product(kMeetingWidth),
          product(kWorkWidth)};
}

bool is_in(const MachineState& state, const PilotReading& reading) {
  return reading.is_whole() && is_near(reading.meeting, state.center.meeting, kSameMeeting);
}

std::vector<MachineState> find_states(std::span<const PilotReading> readings) {
  std::vector<PilotReading> left;
  std::copy_if(readings.begin(), readings.end(), std::back_inserter(left),
               [](const PilotReading& r) { return r.is_whole(); });
  std::sort(left.begin(), left.end(),
            [](const PilotReading& a, const PilotReading& b) { return a.meeting < b.meeting; });
  std::vector<MachineState> states;
  while (!left.empty()) {
    const auto [begin, end] = densest(left);
    if (end - begin < 2) break;
    const auto first = left.begin() + std::ptrdiff_t(begin), last = left.begin() + std::ptrdiff_t(end);
    states.push_back(state_of({first, last}, double(end - begin) / double(readings.size())));
    left.erase(first, last);
  }
  return states;
}

std::size_t state_to_measure(std::span<const MachineState> states) {
  std::size_t best = 0;  // the most frequent
  for (std::size_t i = 1; i < states.size(); ++i)
    if (states[i].share >= kOftenEnough && states[i].center.meeting < states[best].center.meeting) best = i;
  return best;
}

bool is_between(const MachineState& state, const PilotReading& before, const PilotReading& after) {
  return is_in(state, before) && is_in(state, after) && is_near(before.work, after.work, kSameSpeed);
}

double to_speed_of(const MachineState& state, const PilotReading& before, const PilotReading& after) {
  return state.center.work / std::sqrt(before.work * after.work);
}

std::string describe_states(std::int64_t num_ranks, std::span<const MachineState> states, std::size_t measured) {
  std::vector<std::string> each;
  for (std::size_t i = 0; i < states.size(); ++i)
    if (states[i].share >= kWorthTelling || i == measured)
      each.push_back(fmt::format("{:.2f} us for {:.0f} % of the time{}", 1e6 * states[i].center.meeting,
                                 100 * states[i].share, i == measured ? ", which is what the profile is of" : ""));
  if (each.size() < 2) return {};
  return fmt::format("with {} this machine changed between states, as virtual machines do: {} took {}",
                     num_ranks == 1 ? "1 rank" : fmt::format("{} ranks", num_ranks),
                     num_ranks == 1 ? fmt::format("a product of {0} x {0} x {0}", kMeetingWidth)
                                    : fmt::format("an all-reduce of {} bytes", kMeetingMessage.count),
                     fmt::join(each, "; "));
}

}  // namespace gpuplan
