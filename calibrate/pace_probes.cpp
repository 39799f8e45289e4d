#include "calibrate/pace_probes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/processor.h"
#include "calibrate/probes/rotation.h"
#include "calibrate/runner.h"
#include "calibrate/sampler.h"
#include "calibrate/worker_group.h"

namespace gpuplan {
namespace {

using namespace literals;

constexpr int kRounds = 3;  // so that one moment of the host does not decide
constexpr int kMostRounds = 9;
constexpr double kFar = 1.1;  // times longer; calm readings differ by less
constexpr auto kPause = std::chrono::milliseconds(200);
constexpr Seconds kPatience{10};  // with the first probe that hangs

const Sample* find(const std::vector<Sample>& samples, const Probe& probe) {
  const auto found =
      std::find_if(samples.begin(), samples.end(), [&](const Sample& s) { return s.probe.key() == probe.key(); });
  return found == samples.end() || !found->is_ok() || found->median <= 0 ? nullptr : &*found;
}

/// What each probe gave, visit by visit.
class Readings {
 public:
  Readings(const PaceQuestion& question, const std::function<Sample(const Probe&)>& ask)
      : question_(question),
        ask_(ask),
        visits_(question.probes.size()) {}

  /// One visit to each. Throws EnvError.
  void add_round() {
    for (std::size_t i = 0; i < visits_.size(); ++i) {
      const Probe& probe = question_.probes[i].probe;
      visits_[i].push_back(ask_(probe));
      if (const Sample& sample = visits_[i].back(); !sample.is_ok())
        throw EnvError(fmt::format("{}: {}", probe.key(), sample.failure));
    }
  }
  MachinePace pace() const {
    std::vector<Sample> now;
    for (const auto& list : visits_) now.push_back(combined(list));
    return pace_between(question_, now);
  }

 private:
  const PaceQuestion& question_;
  const std::function<Sample(const Probe&)>& ask_;
  std::vector<std::vector<Sample>> visits_;
};

/// Of all ranks of the group. Throws EnvError on all of them.
MachinePace read_pace_of_group(const PaceQuestion& question, Device& device, Communicator* ranks) {
  ProbeBench bench{.device = device, .ranks = ranks, .peers = {&device}, .rule = sampling_rule(true)};
  const std::function<Sample(const Probe&)> ask = [&](const Probe& probe) {
    bool is_lost = false;
    return run_probe(probe, bench, is_lost);
  };
  Readings readings(question, ask);
  for (int round = 0; round < kRounds; ++round) readings.add_round();
  return readings.pace();
}

/// No burst makes a machine faster: what is faster than it was has a state of its own, and that may last for an hour.
bool is_far(const MachinePace& pace) {
  return std::any_of(kPaceFields.begin(), kPaceFields.end(), [&](const PaceField& f) { return pace.*f.member > kFar; });
}

}  // namespace

std::vector<PaceProbe> pace_probes(DeviceKind kind, std::int64_t num_ranks) {
  if (kind != DeviceKind::Cpu) return {};
  std::vector<PaceProbe> out;
  const auto product = [&](double MachinePace::*pace, GemmLayout layout, GemmShape shape) {
    out.push_back({pace,
                   {.family = ProbeFamily::Gemm,
                    .num_ranks = num_ranks,
                    .type = GemmType::F32,
                    .layout = layout,
                    .shape = shape}});
  };
  const auto kernel = [&](MemoryKernel which, std::int64_t rows, std::int64_t width) {
    out.push_back(
        {&MachinePace::memory,
         {.family = ProbeFamily::Memory, .num_ranks = num_ranks, .kernel = which, .rows = rows, .width = width}});
  };
  const auto message = [&](double MachinePace::*pace, CollectiveKind which, Bytes bytes) {
    out.push_back({pace,
                   {.family = ProbeFamily::Collective,
                    .num_ranks = num_ranks,
                    .collective = which,
                    .scope = RankScope::All,
                    .group_ranks = num_ranks,
                    .bytes = bytes}});
  };
  for (const GemmLayout layout : kGemmLayouts) product(&MachinePace::products, layout, {512, 448, 320});
  product(&MachinePace::thin_products, GemmLayout::Forward, {512, 8, 448});
  product(&MachinePace::thin_products, GemmLayout::Forward, {512, 448, 8});
  product(&MachinePace::thin_products, GemmLayout::WeightGradient, {448, 8, 512});
  kernel(MemoryKernel::Copy, 512, 512);
  kernel(MemoryKernel::SwiGlu, 512, 512);
  out.push_back({&MachinePace::attention,
                 {.family = ProbeFamily::Attention,
                  .num_ranks = num_ranks,
                  .shape{.m = 256, .n = 256, .k = 64, .batch = 8},
                  .attention = AttentionWork::Flash,
                  .dtype = Dtype::F32}});
  if (num_ranks == 1) return out;
  message(&MachinePace::messages, CollectiveKind::AllReduce, {1024});
  message(&MachinePace::messages, CollectiveKind::AllGather, 16_KiB);
  message(&MachinePace::transfers, CollectiveKind::AllGather, 1_MiB);
  message(&MachinePace::transfers, CollectiveKind::ReduceScatter, 1_MiB);
  return out;
}

MachinePace pace_between(const PaceQuestion& question, const std::vector<Sample>& now) {
  MachinePace pace = question.otherwise;
  for (const PaceField& field : kPaceFields) {
    double sum = 0;
    int count = 0;
    for (const PaceProbe& p : question.probes) {
      const Sample *before = find(question.then, p.probe), *after = find(now, p.probe);
      if (p.kind == field.member && before && after) sum += std::log(after->median / before->median), ++count;
    }
    if (count > 0) pace.*field.member = std::clamp(std::exp(sum / count), 1 / kMostPace, kMostPace);
  }
  return pace;
}

std::optional<std::vector<Sample>> samples_of(const std::vector<PaceProbe>& probes, const Profile& profile) {
  if (!profile.measured) return std::nullopt;
  std::set<std::string> wanted;  // a sample's line begins with its probe
  for (const PaceProbe& p : probes) wanted.insert(to_json_line(p.probe));
  std::vector<Sample> out;
  std::istringstream lines(profile.measured->samples);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kBegin = R"({"probe":)";
    if (!line.starts_with(kBegin)) continue;
    const std::size_t end = line.find('}');
    if (end != std::string::npos && wanted.contains(line.substr(kBegin.size(), end + 1 - kBegin.size())))
      out.push_back(sample_from_json(line, profile.id));
  }
  if (2 * out.size() <= probes.size()) return std::nullopt;
  return out;
}

MachinePace settled_pace(const PaceQuestion& question, const std::function<Sample(const Probe&)>& ask,
                         const std::function<void()>& pause) {
  Readings readings(question, ask);
  for (int round = 1;; ++round) {
    readings.add_round();
    if (round < kRounds) continue;
    const MachinePace pace = readings.pace();
    if (round == kMostRounds || !is_far(pace)) return pace;
    pause();
  }
}

MachinePace read_pace(const PaceQuestion& question, const WorkerCommand& command) {
  const IgnoredBrokenPipes no_signal;
  WorkerGroup group([&] { return command; }, kPatience);
  const auto ask = [&](const Probe& probe) {
    if (!group.make_ready()) throw EnvError(group.unusable());
    return group.ask(probe);
  };
  return settled_pace(question, ask, [] { std::this_thread::sleep_for(kPause); });
}

std::optional<MachinePace> read_pace_here(const PaceQuestion& question, Device& device, Communicator* ranks) {
  const std::int64_t num_asking = question.probes.front().probe.num_ranks, num_ranks = ranks ? ranks->size() : 1;
  if (num_asking == num_ranks) return read_pace_of_group(question, device, ranks);
  const bool asks = ranks->rank() < num_asking;
  const auto group = ranks->split(asks ? 0 : -1);
  const auto wake_others = [&] { ranks->max_host(0); };
  if (!asks) return wake_others(), std::nullopt;
  bind_to_share_of_cores(ranks->rank(), num_asking);
  try {
    const MachinePace pace = read_pace_of_group(question, device, num_asking > 1 ? group.get() : nullptr);
    wake_others();
    return pace;
  } catch (const EnvError&) {
    wake_others();
    throw;
  }
}

PaceQuestion on_fewer_ranks(PaceQuestion question, const MachinePace& before) {
  std::erase_if(question.probes, [](const PaceProbe& p) { return p.probe.family == ProbeFamily::Collective; });
  question.otherwise.messages = before.messages;
  question.otherwise.transfers = before.transfers;
  return question;
}

}  // namespace gpuplan
