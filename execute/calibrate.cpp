// gpuplan calibrate: measures this machine, fits the cost model, writes the profile that estimate, simulate and run
// use.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/date.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "calibrate/plan.h"
#include "calibrate/session.h"
#include "calibrate/worker_group.h"
#include "cli/arguments.h"
#include "cli/flag_ranges.h"
#include "cli/output_flags.h"
#include "cluster/cluster_file.h"
#include "cluster/cluster_spec.h"
#include "cluster/cpu_ranks.h"
#include "cluster/profile/profile_store.h"
#include "execute/calibration_progress.h"
#include "execute/commands.h"
#include "fit/make_profile.h"
#include "report/json/answers_json.h"
#include "report/text/profile_text.h"

namespace gpuplan {
namespace {

/// Device and ranks that are measured.
struct Target {
  DeviceKind kind{};
  WorkerFacts facts;
  ClusterSpec cluster;  // of all its devices
};

Target cpu_target() {
  return {.kind = DeviceKind::Cpu,
          .facts = ask_worker(own_program(), DeviceKind::Cpu),
          .cluster = cpu_cluster(1, read_host_facts())};
}

Target gpu_target(ClusterSpec cluster) {
  return {
      .kind = DeviceKind::Cuda, .facts = ask_worker(own_program(), DeviceKind::Cuda), .cluster = std::move(cluster)};
}

/// GPUs where there are some that can be used, and otherwise the reason on standard error.
Target choose_target(const std::string& device, Console& console) {
  for (const DeviceKind kind : kDeviceKinds)
    if (device == to_string(kind)) return kind == DeviceKind::Cpu ? cpu_target() : gpu_target(parse_gpus("local"));
  if (device != "auto") throw InputError("--device", "unknown device '" + device + "'", "auto, cuda or cpu");
  auto gpus = find_local_gpus();  // without a driver no worker need be started
  std::string reason;
  if (const std::string* const none = std::get_if<std::string>(&gpus)) reason = *none;
  if (ClusterSpec* const cluster = std::get_if<ClusterSpec>(&gpus)) try {
      cluster->name = "local";
      return gpu_target(std::move(*cluster));
    } catch (const EnvError& error) { reason = error.what(); }
  console.tell(fmt::format("measuring the CPU, because {}", reason));
  return cpu_target();
}

std::vector<ProbeFamily> asked_families(const CLI::App& app) {
  std::vector<ProbeFamily> out;
  const auto list = given(app, "--only");
  if (!list) return out;
  for (const std::string& name : split(*list, ',')) out.push_back(parse_name<ProbeFamily>(trim(name), "--only"));
  return out;
}

/// 1, 2, 4, … and the most.
std::vector<std::int64_t> rank_counts(std::int64_t most) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n < most; n *= 2) out.push_back(n);
  out.push_back(most);
  return out;
}

std::int64_t most_ranks(const CLI::App& app, const Target& target) {
  constexpr std::int64_t kMostCpuRanks = 4;
  const std::int64_t devices = target.facts.num_devices;
  if (const auto ranks = given_integer(app, "--ranks")) {
    if (target.kind == DeviceKind::Cuda && *ranks > devices)
      throw InputError("--ranks", fmt::format("{} is more than the GPUs of this machine", *ranks),
                       fmt::format("at most {}", devices));
    return *ranks;
  }
  if (target.kind == DeviceKind::Cuda) return devices;
  return target.facts.has_collectives ? std::min(target.facts.device.num_cores, kMostCpuRanks) : 1;
}

/// Samples are of use only to the same machine, libraries and program.
std::string identity_of(const Target& target) {
  return fmt::format("gpuplan {} {}", GPUPLAN_VERSION, to_json_line(target.facts.identity()));
}

MeasuredOn measured_on(const Target& target) {
  const DeviceFacts& device = target.facts.device;
  const GpuSpec& gpu = target.cluster.gpus.front();
  const bool is_cpu = target.kind == DeviceKind::Cpu;
  return {.kind = std::string(to_string(target.kind)),
          .device = device.name,
          .gpu = gpu.id,
          .architecture = device.architecture,
          .fabric = std::string(to_string(is_cpu ? FabricKind::SharedMemory : target.cluster.fabric)),
          .num_devices = target.facts.num_devices,
          .num_cores = device.num_cores,
          .memory = is_cpu ? device.memory : gpu.device_memory,
          .date = today("%F"),
          .versions = device.versions,
          .warnings = device.warnings};
}

/// A journal for each kind of run: a quick or partial one leaves what an interrupted full one has measured alone.
std::filesystem::path journal_path(const CLI::App& app, DeviceKind kind) {
  std::string name = fmt::format("{}-{}", to_string(kind), is_given(app, "--quick") ? "quick" : "full");
  const std::vector<ProbeFamily> asked = asked_families(app);
  for (const ProbeFamily family : std::set(asked.begin(), asked.end())) name += fmt::format("-{}", to_string(family));
  return profile_dir() / "journals" / (name + ".jsonl");
}

void report_failures(const std::vector<Sample>& samples, Console& console) {
  std::size_t failed = 0;
  for (const Sample& sample : samples) {
    if (sample.is_ok()) continue;
    ++failed;
    console.tell(fmt::format("probe failed: {}: {}", sample.probe.key(), sample.failure));
  }
  if (failed == samples.size()) throw EnvError("no probe gave a figure, so there is no profile");
}

/// "12 % of the probes gave other times ...", where it is worth telling; else empty.
std::string describe_changes(const std::vector<Sample>& samples) {
  constexpr double kWorthTelling = 0.05;
  const auto changed = std::count_if(samples.begin(), samples.end(), [](const Sample& s) { return !s.repeats; });
  if (double(changed) <= kWorthTelling * double(samples.size())) return {};
  return fmt::format(
      "{} of {} probes gave times from one visit to the next that differ by more than their intervals: "
      "the speed of this machine changes",
      changed, samples.size());
}

/// `warnings`: what the profile says of the machine beside its samples; a note on samples that differ is added.
std::vector<Sample> measure(const CLI::App& app, const Target& target, Journal& journal, Console& console,
                            std::vector<std::string>& warnings) {
  const bool is_quick = is_given(app, "--quick");
  const ProbeScope scope{
      .is_quick = is_quick, .only = asked_families(app), .rank_counts = rank_counts(most_ranks(app, target))};
  const std::vector<Probe> probes = plan_probes(target.facts.device, scope);
  CalibrationProgress progress(console);
  progress.start(target.facts, probes.size(), journal.samples().size());
  const SessionOptions options{
      .is_quick = is_quick,
      .worker = [&](std::int64_t num_ranks) { return worker_command(own_program(), target.kind, num_ranks, is_quick); },
      .on_progress = [&](const Progress& now) { progress.show(now); },
  };
  std::vector<Sample> samples = run_session(probes, journal, options);
  progress.finish();
  if (const std::string note = describe_changes(samples); !note.empty()) {
    warnings.push_back(note);
    console.tell(note);
  }
  return samples;
}

/// Runs before anything is measured.
void check_output(const CLI::App& app) {
  const auto file = given(app, "--output");
  if (is_given(app, "--only") && !file)
    throw InputError("--only", "gives a profile that lacks the rest", "name a file for it with --output");
  if (file && *file != "-") require_writable(*file);
}

}  // namespace

void setup_calibrate(CLI::App& app) {
  add_flag(app, "--device", "auto|cuda|cpu", "what to measure. Default auto: the GPUs of this machine, else its CPU");
  add_flag(app, "--quick", "", "about 30 seconds instead of minutes; wider intervals");
  add_flag(app, "--only", "LIST", "of gemm, attention, memory, dispatch, copy, overhead, nccl, overlap. Default all");
  add_flag(app, "--ranks", "N", "measure up to N ranks at once. Default: all GPUs; on a CPU one per core, at most 4");
  add_flag(app, "--output", "FILE", "write the profile here. Default: a file of its own in the profile folder");
  add_force_flag(app);
  add_flag(app, "--fresh", "", "forget what an interrupted calibration has measured");
  add_flag(app, "--json", "", "the profile as JSON, in base units");
}

int run_calibrate(const CLI::App& app, Console& console) {
  asked_families(app);  // wrong input is told before anything is opened
  check_output(app);
  const Target target = choose_target(given(app, "--device").value_or("auto"), console);
  make_folders(profile_dir() / "journals");
  const FileLock alone(profile_dir() / "journals" / fmt::format("{}.lock", to_string(target.kind)),
                       kOtherCalibration);  // two would measure each other
  Journal journal(journal_path(app, target.kind), identity_of(target),
                  is_given(app, "--fresh") ? JournalStart::Anew : JournalStart::Resume);
  MeasuredOn on = measured_on(target);
  const std::vector<Sample> samples = measure(app, target, journal, console, on.warnings);
  report_failures(samples, console);

  const std::string id = fmt::format("{}-{}", target.cluster.gpus.front().id, today("%Y%m%d-%H%M%S"));
  const std::string text = profile_text(make_profile(id, samples, on, target.cluster));
  const std::filesystem::path file = given(app, "--output").value_or((profile_dir() / (id + ".yaml")).string());
  const Profile profile =
      parse_profile(text, file);  // before it is there for others: what cannot be read back must not be
  write_output(file.string(), text, console, "");
  if (target.kind == DeviceKind::Cuda) {
    make_folders(profile_dir() / "clusters");
    write_file_atomically(profile_dir() / "clusters" / (id + ".yaml"), cluster_file_text(target.cluster));
  }
  journal.remove();
  console.print(is_given(app, "--json") ? json_text(profile_json(profile)) : profile_summary(profile, console.screen));
  if (file != "-") console.tell(fmt::format("the profile is in {}", file.string()));
  return 0;
}

}  // namespace gpuplan
