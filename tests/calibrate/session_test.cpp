// Sessions with worker processes that crash, hang, lose their device, talk nonsense or are killed together with the
// session.
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/names.h"
#include "calibrate/session.h"
#include "scratch_folder.h"

using namespace gpuplan;
using gpuplan::test::ScratchFolder;

namespace {

const std::string kWorker = GPUPLAN_FAKE_WORKER;

// As tests/fake_worker/fake_worker.cpp understands the width.
enum Act : std::int64_t { Good, Crash, Hang, Lost, Babble, Exit, Deaf, Slow };

Probe probe(std::int64_t number, Act act, std::int64_t num_ranks = 1) {
  return {.family = ProbeFamily::Memory, .num_ranks = num_ranks, .rows = number, .width = act};
}

struct Bench {
  ScratchFolder folder;
  std::filesystem::path log = folder.write("log", ""), journal_path = folder.path() / "journal";
  std::vector<std::int64_t> started;  // groups, by number of ranks
  std::vector<std::size_t> progress;
  Seconds probe_timeout{300};  // a test of hangs shortens it

  SessionOptions options() {
    return {.probe_timeout = probe_timeout,
            .worker =
                [this](std::int64_t num_ranks) {
                  started.push_back(num_ranks);
                  return WorkerCommand{{kWorker, "serve", log.string()}};
                },
            .on_progress = [this](const Progress& at) { progress.push_back(at.num_done); }};
  }
  std::vector<Sample> run(const std::vector<Probe>& probes) {
    Journal journal(journal_path, "h");
    return run_session(probes, journal, options());
  }
  std::vector<std::string> measured() const {
    auto lines = split(read_file(log), '\n');
    lines.pop_back();
    return lines;
  }
};

/// No worker holds its lock on the log any more. Waits a moment: the end of a session is noticed, not foreseen.
bool are_workers_gone(const std::filesystem::path& log) {
  const int file = open(log.c_str(), O_RDONLY | O_CLOEXEC);
  bool is_free = false;
  for (int i = 0; i < 12'000 && !is_free; ++i) {
    is_free = flock(file, LOCK_EX | LOCK_NB) == 0;
    if (!is_free) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  close(file);
  return is_free;
}

}  // namespace

TEST_CASE("samples come in the order of the probes, and progress after each") {
  Bench bench;
  const auto samples = bench.run({probe(1, Good), probe(2, Good), probe(3, Good, 2)});
  REQUIRE(samples.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK((samples[i].is_ok() && samples[i].probe.rows == std::int64_t(i) + 1));
  CHECK(bench.progress == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(bench.started == std::vector<std::int64_t>{1, 2});
  CHECK(are_workers_gone(bench.log));
}

TEST_CASE(
    "short probes are measured three times, after all others of as many ranks, and give the median and the widest "
    "interval") {
  const auto message = [](std::int64_t bytes, std::int64_t num_ranks) {
    return Probe{
        .family = ProbeFamily::Collective, .num_ranks = num_ranks, .group_ranks = num_ranks, .bytes = Bytes{bytes}};
  };
  const Probe product{.family = ProbeFamily::Gemm, .shape = {8, 8, 8}};
  const std::vector<Probe> probes{message(1, 1), probe(1, Good), message(2, 1), product, message(3, 2)};
  Bench bench;
  const auto samples = bench.run(probes);
  REQUIRE(samples.size() == 5);
  CHECK(samples[0].median == doctest::Approx(4e-3));  // of 1, 4 and 7 ms
  CHECK(samples[0].low == doctest::Approx(1e-3));
  CHECK(samples[0].high == doctest::Approx(7e-3));
  CHECK(samples[0].num_runs == 21);
  CHECK(samples[1].num_runs == 7);  // seven runs of a second
  CHECK(samples[3].median == doctest::Approx(6e-3));
  CHECK(samples[4].median == doctest::Approx(2e-3));  // another group of workers
  CHECK(bench.measured().size() == 3 * 3 + 1 + 3);
  CHECK(bench.started == std::vector<std::int64_t>{1, 2});
  CHECK(std::is_sorted(bench.progress.begin(), bench.progress.end()));
  CHECK(bench.progress.back() == 13);

  bench.run(probes);  // nothing is left to measure
  CHECK(bench.measured().size() == 13);
  SessionOptions quick = bench.options();
  quick.is_quick = true;
  Journal journal(bench.folder.path() / "another", "h");
  for (const Sample& s : run_session(probes, journal, quick)) CHECK(s.num_runs == 7);
}

TEST_CASE("figures of several visits: failures count only where nothing else is") {
  const Sample good{.median = 2, .low = 1, .high = 3, .num_runs = 6, .num_outliers = 1}, failed{.failure = "lost"};
  CHECK(combined({failed, good, failed}).median == 2);
  CHECK(combined({failed, failed}).failure == "lost");
  const Sample two = combined({good, {.median = 4, .low = 3.5, .high = 5, .num_runs = 6, .is_converged = false}});
  CHECK(two.median == 3);
  CHECK(two.low == 1);
  CHECK(two.high == 5);
  CHECK_FALSE(two.is_converged);
  CHECK(two.num_outliers == 1);
}

TEST_CASE("visits whose intervals have nothing in common are said not to repeat") {
  const Sample first{.median = 2, .low = 1, .high = 3}, second{.median = 3.5, .low = 3, .high = 4},
      third{.median = 5, .low = 4.5, .high = 6}, failed{.failure = "lost"};
  CHECK(combined({first, second, failed}).repeats);
  CHECK_FALSE(combined({first, second, third}).repeats);
}

TEST_CASE("a crash costs one probe: its failure says how and quotes the worker's last words") {
  Bench bench;
  const auto samples = bench.run({probe(1, Good), probe(2, Crash), probe(3, Good), probe(4, Exit), probe(5, Good)});
  CHECK(samples[1].failure.starts_with("the worker ended with signal 6 "));
  CHECK(samples[1].failure.ends_with(": about to crash"));
  CHECK(samples[3].failure == "the worker ended with exit code 7: no more");
  for (const std::size_t i : {0, 2, 4}) CHECK(samples[i].is_ok());
  CHECK(bench.started.size() == 3);
}

TEST_CASE("a hang costs one probe and its time, even when the worker does not hear") {
  for (const Act act : {Hang, Deaf}) {
    Bench bench;
    bench.probe_timeout = Seconds{4};
    const auto samples = bench.run({probe(1, act), probe(2, Good)});
    CHECK(samples[0].failure.starts_with("no result in 4 s; the worker ended with signal "));
    CHECK(samples[1].is_ok());
    CHECK(are_workers_gone(bench.log));
  }
}

TEST_CASE("a worker that lost its device is replaced, and nobody else is blamed") {
  Bench bench;
  const auto samples = bench.run({probe(1, Lost), probe(2, Good), probe(3, Lost), probe(4, Good)});
  CHECK(samples[0].failure == "device lost");
  CHECK(samples[2].failure == "device lost");
  CHECK(samples[1].is_ok());
  CHECK(samples[3].is_ok());
  CHECK(bench.started.size() == 3);
}

TEST_CASE("lines of libraries on standard output do no harm") {
  Bench bench;
  CHECK(bench.run({probe(1, Babble), probe(2, Good)})[0].is_ok());
}

TEST_CASE("a worker that does not start fails its probes with the reason, and a later session tries again") {
  Bench bench;
  const std::vector<Probe> probes{probe(1, Good), probe(2, Good), probe(3, Good, 2)};
  int num_starts = 0;
  {
    SessionOptions options = bench.options();
    options.worker = [&](std::int64_t num_ranks) {
      num_starts += num_ranks == 2;
      return num_ranks == 2 ? WorkerCommand{{kWorker, "nonsense", "x"}}
                            : WorkerCommand{{kWorker, "serve", bench.log.string()}};
    };
    Journal journal(bench.journal_path, "h");
    const auto samples = run_session(probes, journal, options);
    CHECK(samples[1].is_ok());
    CHECK(samples[2].failure == "the worker does not start: it ended with exit code 9: no such device");
    CHECK(num_starts == 2);
  }
  CHECK(bench.run(probes)[2].is_ok());
  CHECK(bench.measured().size() == 3);
}

TEST_CASE("a program that is not there is a reason as well") {
  Bench bench;
  SessionOptions options = bench.options();
  options.worker = [](std::int64_t) { return WorkerCommand{{"/no/such/mpirun"}}; };
  Journal journal(bench.journal_path, "h");
  const auto samples = run_session({probe(1, Good)}, journal, options);
  CHECK(samples[0].failure.find("cannot start /no/such/mpirun: No such file") != std::string::npos);
}

TEST_CASE("what the journal holds is not measured again, failures included") {
  Bench bench;
  bench.run({probe(1, Good), probe(2, Exit)});
  const auto samples = bench.run({probe(1, Good), probe(2, Exit), probe(3, Good)});
  CHECK(samples[1].failure.find("exit code 7") != std::string::npos);
  CHECK(bench.measured().size() == 2);
  CHECK(bench.started.size() == 2);
}

TEST_CASE("kill -9 at any moment: nothing measured is lost or measured twice, and no worker stays behind") {
  Bench bench;
  constexpr int kProbes = 40;
  std::mt19937_64 random(5);
  std::set<std::string> kept;  // in the journal when a session was killed
  std::size_t num_logged = 0;
  int num_kills = 0;
  double window_ms = 200;  // grows until a session measures something: a slow machine needs longer to start one
  for (bool is_done = false; !is_done;) {
    REQUIRE(num_kills < 200);
    const pid_t session = fork();
    if (session == 0) {
      execl(kWorker.c_str(), kWorker.c_str(), "session", bench.journal_path.c_str(), bench.log.c_str(),
            std::to_string(kProbes).c_str(), nullptr);
      _exit(127);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + random() % std::uint64_t(window_ms)));
    kill(session, SIGKILL);
    int status = 0;
    waitpid(session, &status, 0);
    is_done = WIFEXITED(status);
    if (is_done) CHECK(WEXITSTATUS(status) == 0);
    num_kills += !is_done;
    REQUIRE(are_workers_gone(bench.log));
    const auto measured = bench.measured();
    for (; num_logged < measured.size(); ++num_logged)  // what this session did
      CHECK_MESSAGE(!kept.contains(measured[num_logged]), measured[num_logged], " was measured twice");
    const Journal journal(bench.journal_path, "{\"machine\":\"fake\"}");
    std::set<std::string> now;
    for (const Sample& sample : journal.samples()) CHECK(now.insert(sample.probe.key()).second);
    for (const std::string& key : kept) CHECK_MESSAGE(now.contains(key), key, " was lost");
    if (now.size() == kept.size()) window_ms *= 1.25;
    kept = now;
  }
  CHECK(kept.size() == kProbes);
  CHECK(num_kills >= 2);
}
