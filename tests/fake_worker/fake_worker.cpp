// A worker that measures nothing, and a session that can be killed: how tests/calibrate/session_test.cpp tries crashes
// and kills.
//   fake_worker serve LOG [RANKS]        probes in, samples out; what it "measures" is decided by the probe's width
//   (below) fake_worker session JOURNAL LOG N    a session of N probes with itself as worker fake_worker
//   calibrate-worker …       facts, as the environment's FAKE_FACTS says
// Each probe that is measured is a line in LOG; each live worker holds a shared lock on it.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "calibrate/session.h"
#include "calibrate/worker.h"

using namespace gpuplan;

namespace {

enum Act : std::int64_t { Good, Crash, Hang, Lost, Noise, Exit, Deaf, Slow };

int open_log(const char* path) {
  const int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  flock(log, LOCK_SH);
  return log;
}

int serve(const char* log_path) {
  const int log = open_log(log_path);
  int num_timed = 0;  // products and messages: each takes a millisecond longer than the one before
  std::string line;
  while (std::cout << kWorkerReady << std::endl, std::getline(std::cin, line)) {
    const Probe probe = probe_from_json(line, "standard input");
    if (probe.width == Crash) std::cerr << "about to crash\n\n", std::raise(SIGABRT);
    if (probe.width == Exit) std::cerr << "no more\n", std::exit(7);
    if (probe.width == Deaf) std::signal(SIGTERM, SIG_IGN);
    if (probe.width == Hang || probe.width == Deaf) std::this_thread::sleep_for(std::chrono::hours(1));
    if (probe.width == Noise) std::cout << "a library talks\n{\"and\": \"in JSON\"}\n";
    if (probe.width == Slow) std::this_thread::sleep_for(std::chrono::milliseconds(15));
    const std::string measured = probe.key() + "\n";
    if (write(log, measured.data(), measured.size()) < 0) return 1;
    const bool is_timed = probe.family == ProbeFamily::Gemm || probe.family == ProbeFamily::Collective;
    const double time = is_timed ? 1e-3 * double(++num_timed) : 1;
    Sample sample{.probe = probe, .median = time, .low = time, .high = time, .num_runs = 7};
    if (probe.width == Lost) sample.failure = "device lost";
    std::cout << to_json_line(sample) << std::endl;
    if (probe.width == Lost) return kWorkerLost;
  }
  return 0;
}

int session(const char* self, const char* journal_path, const char* log, int num_probes) {
  std::vector<Probe> probes;
  for (int i = 0; i < num_probes; ++i)
    probes.push_back({.family = ProbeFamily::Memory, .num_ranks = 1 + i / 20, .rows = i, .width = Slow});
  Journal journal(journal_path, "{\"machine\":\"fake\"}");
  run_session(probes, journal, {.probe_timeout{300}, .worker = [&](std::int64_t) {
                                  return WorkerCommand{{self, "serve", log}};
                                }});
  return 0;
}

/// `facts`: what is written, after what a library says; none: an hour's silence.
int tell_facts(const char* facts) {
  if (!facts) return std::this_thread::sleep_for(std::chrono::hours(1)), 0;
  std::cout << "a library talks\n" << facts << std::endl;
  std::cerr << "gpuplan: no such device: 7\n";
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "serve") return serve(argv[2]);
  if (mode == "session" && argc == 5) return session(argv[0], argv[2], argv[3], std::stoi(argv[4]));
  if (mode == "calibrate-worker") return tell_facts(std::getenv("FAKE_FACTS"));
  std::cerr << "no such device\n";
  return 9;
}
