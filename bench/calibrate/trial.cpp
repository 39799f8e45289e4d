// A calibration without the command: plans, runs and tells the time of each family. For work on the design of probes.
//   calibrate_trial SAMPLES.jsonl RANKS[,RANKS] [quick] [family,…]       samples are appended as the session's journal
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>

#include <fmt/format.h>

#include "base/names.h"
#include "calibrate/session.h"
#include "device/backend.h"

using namespace gpuplan;

namespace {

WorkerCommand worker(std::int64_t num_ranks, bool is_quick) {
  std::vector<std::string> words{"/proc/self/exe"};
  words[0] = std::filesystem::read_symlink("/proc/self/exe");
  if (num_ranks > 1) {
    const std::vector<std::string> mpi{"mpirun", "--allow-run-as-root",    "--oversubscribe", "--bind-to", "none",
                                       "-np",    std::to_string(num_ranks)};
    words.insert(words.begin(), mpi.begin(), mpi.end());
  }
  words.insert(words.end(), {"--serve", std::to_string(num_ranks), is_quick ? "quick" : "full"});
  return {words};
}

int run(int argc, char** argv) {
  if (argc > 3 && std::string_view(argv[1]) == "--serve")
    return serve_probes(DeviceKind::Cpu, std::stoi(argv[2]), std::string_view(argv[3]) == "quick", std::cin, std::cout);
  const std::string journal_path = argv[1];
  ProbeScope scope{.rank_counts = {}};
  for (const std::string& count : split(argv[2], ',')) scope.rank_counts.push_back(std::stoi(count));
  for (int i = 3; i < argc; ++i) {
    if (std::string_view(argv[i]) == "quick") {
      scope.is_quick = true;
      continue;
    }
    for (const std::string& name : split(argv[i], ','))
      for (int family = 0; family < 8; ++family)
        if (to_string(ProbeFamily(family)) == name) scope.only.push_back(ProbeFamily(family));
  }
  const auto probes = plan_probes(device_backend(DeviceKind::Cpu).open({})->facts(), scope);
  Journal journal(journal_path, "{}");
  std::map<std::string, std::pair<int, double>> spent;
  double last = 0;
  int num_failed = 0, num_wide = 0;
  const auto progress = [&](const Progress& at) {
    if (!at.last) return;
    auto& [count, time] = spent[fmt::format("ranks={} {}", at.last->probe.num_ranks, to_string(at.last->probe.family))];
    ++count, time += at.elapsed.value - last;
    last = at.elapsed.value;
    num_failed += !at.last->is_ok(), num_wide += !at.last->is_converged;
    if (!at.last->is_ok()) fmt::print("{}: {}\n", at.last->probe.key(), at.last->failure);
  };
  run_session(probes, journal,
              {.kind = DeviceKind::Cpu,
               .is_quick = scope.is_quick,
               .probe_timeout{60},
               .worker = [&](std::int64_t n) { return worker(n, scope.is_quick); },
               .on_progress = progress});
  for (const auto& [name, row] : spent) fmt::print("{:24} {:4} probes {:7.1f} s\n", name, row.first, row.second);
  fmt::print("{} probes, {:.1f} s, {} failed, {} not converged\n", probes.size(), last, num_failed, num_wide);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 3;
  }
}
