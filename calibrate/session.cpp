#include "calibrate/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "calibrate/worker_process.h"

namespace gpuplan {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = WorkerAnswer::Kind;

/// A worker that died is a failed write here, not the end of this process.
class IgnoredBrokenPipes {
 public:
  IgnoredBrokenPipes() {
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~IgnoredBrokenPipes() { sigaction(SIGPIPE, &before_, nullptr); }
  IgnoredBrokenPipes(const IgnoredBrokenPipes&) = delete;
  IgnoredBrokenPipes& operator=(const IgnoredBrokenPipes&) = delete;

 private:
  struct sigaction before_{};
};

/// The workers of one number of ranks, started again when they end.
class WorkerGroup {
 public:
  WorkerGroup(const SessionOptions& options, std::int64_t num_ranks) : options_(options), num_ranks_(num_ranks) {}

  /// Why no worker of this group can be had; empty: `ask` may be called.
  const std::string& unusable() const { return unusable_; }

  /// Waits for a worker that is ready for a probe. Two in a row that end or stall before their first are enough.
  bool make_ready() {
    if (!unusable_.empty()) return false;
    if (worker_ && wait_for(kWorkerReady, nullptr) == Kind::Line) return true;
    if (worker_) ended(Seconds{1});  // it served, and gave up its device: a new one can have it
    if (start() || start()) return true;
    unusable_ = "the worker does not start: " + start_failure_;
    return false;
  }

  /// Requires: ready.
  Sample ask(const Probe& probe) {
    Sample sample{.probe = probe};
    worker_->send(to_json_line(probe));  // one that has ended is found out by its answer
    const Kind answer = wait_for({}, &sample);
    if (answer == Kind::Line) return sample;
    if (answer == Kind::Ended) return {.probe = probe, .failure = "the worker " + ended(Seconds{1})};
    const std::string limit = std::to_string(std::lround(options_.probe_timeout.value));
    return {.probe = probe, .failure = "no result in " + limit + " s; the worker " + ended({})};
  }

 private:
  bool start() {
    try {
      worker_ = std::make_unique<WorkerProcess>(options_.worker(num_ranks_));
    } catch (const EnvError& error) {
      start_failure_ = error.what();
      return false;
    }
    const Kind answer = wait_for(kWorkerReady, nullptr);
    if (answer == Kind::Line) return true;
    start_failure_ = answer == Kind::Ended ? "it " + ended(Seconds{1}) : "it is not ready in time and " + ended({});
    return false;
  }

  /// Ends the worker and says how: "ended with exit code 3: no driver".
  std::string ended(Seconds patience) {
    const std::string how = "ended with " + worker_->stop(patience), words = worker_->last_words();
    worker_.reset();
    return words.empty() ? how : how + ": " + words;
  }

  /// Reads on until `word`, or the sample of `wanted`'s probe; libraries that write other lines to standard output do no harm.
  Kind wait_for(std::string_view word, Sample* wanted) {
    const auto begin = Clock::now();
    for (;;) {
      const Seconds spent{std::chrono::duration<double>(Clock::now() - begin).count()};
      const WorkerAnswer answer = worker_->receive(options_.probe_timeout - spent);
      if (answer.kind != Kind::Line) return answer.kind;
      if (!wanted && answer.line == word) return Kind::Line;
      if (wanted && read_sample(answer.line, *wanted)) return Kind::Line;
    }
  }

  static bool read_sample(const std::string& line, Sample& wanted) {
    try {
      Sample sample = sample_from_json(line, "worker");
      if (sample.probe.key() != wanted.probe.key()) return false;
      wanted = std::move(sample);
      return true;
    } catch (const InputError&) {
      return false;
    }
  }

  const SessionOptions& options_;
  std::int64_t num_ranks_;
  std::unique_ptr<WorkerProcess> worker_;
  std::string unusable_, start_failure_;
};

/// One of the times that a probe is measured, counted from 1.
struct Visit {
  const Probe* probe;
  std::size_t number;
};

/// Time left, from what probes of the same kind took in this session.
class Forecast {
 public:
  void add(const Probe& probe, Seconds time) {
    for (Spent* spent : {&kinds_[kind(probe)], &all_}) spent->time += time, ++spent->num;
  }
  Seconds left(const std::vector<Visit>& remaining) const {
    Seconds left;
    for (const Visit& visit : remaining) {
      const auto found = kinds_.find(kind(*visit.probe));
      left += (found == kinds_.end() ? all_ : found->second).mean();
    }
    return left;
  }

 private:
  struct Spent {
    Seconds time;
    std::int64_t num{};
    Seconds mean() const { return num ? time / double(num) : Seconds{}; }
  };
  static std::pair<ProbeFamily, std::int64_t> kind(const Probe& probe) { return {probe.family, probe.num_ranks}; }
  std::map<std::pair<ProbeFamily, std::int64_t>, Spent> kinds_;
  Spent all_;
};

class Session {
 public:
  Session(const std::vector<Probe>& probes, Journal& journal, const SessionOptions& options)
      : probes_(probes), journal_(journal), options_(options) {
    for (const Sample& sample : journal.samples()) known_[sample.probe.key()].push_back(sample);
    for (auto begin = probes.begin(); begin != probes.end();) {
      const auto end = std::find_if(begin, probes.end(), [&](const Probe& probe) { return probe.num_ranks != begin->num_ranks; });
      bool is_last = false;
      for (std::size_t visit = 1; !std::exchange(is_last, true); ++visit)
        for (auto probe = begin; probe != end; ++probe) {
          const std::size_t wanted = options.is_quick ? 1 : visits_of(probe->family).number;
          if (visit <= wanted) add({&*probe, visit});
          if (visit < wanted) is_last = false;
        }
      begin = end;
    }
    std::reverse(remaining_.begin(), remaining_.end());  // the next one is at the back
    num_all_ = remaining_.size() + num_done_;
  }

  std::vector<Sample> run() {
    const IgnoredBrokenPipes no_signal;
    report(nullptr);
    while (!remaining_.empty()) {
      const Visit next = remaining_.back();
      remaining_.pop_back();
      if (next.number > 1 && !is_worth_more(*next.probe)) continue;
      std::vector<Sample>& visits = known_[next.probe->key()];
      visits.push_back(measure(*next.probe));
      report(&visits.back());
    }
    std::vector<Sample> samples;
    for (const Probe& probe : probes_) samples.push_back(combined(known_.at(probe.key())));
    return samples;
  }

 private:
  void add(const Visit& visit) {
    const auto known = known_.find(visit.probe->key());
    if (known != known_.end() && known->second.size() >= visit.number) ++num_done_;
    else remaining_.push_back(visit);
  }

  bool is_worth_more(const Probe& probe) const {
    const Sample& first = known_.at(probe.key()).front();
    return first.is_ok() && first.median * double(first.num_runs) < visits_of(probe.family).most.value;
  }

  Sample measure(const Probe& probe) {
    if (!group_ || group_ranks_ != probe.num_ranks) {
      group_.reset();  // one group at a time: idle ranks would disturb the others
      group_.emplace(options_, group_ranks_ = probe.num_ranks);
    }
    const auto begin = Clock::now();
    if (!group_->make_ready()) return {.probe = probe, .failure = group_->unusable()};
    Sample sample = group_->ask(probe);
    journal_.add(sample);
    forecast_.add(probe, {std::chrono::duration<double>(Clock::now() - begin).count()});
    return sample;
  }

  void report(const Sample* last) const {
    if (!options_.on_progress) return;
    const Seconds elapsed{std::chrono::duration<double>(Clock::now() - begin_).count()};
    options_.on_progress({.num_done = num_all_ - remaining_.size(), .num_all = num_all_, .elapsed = elapsed,
                          .left = forecast_.left(remaining_), .last = last});
  }

  const std::vector<Probe>& probes_;
  Journal& journal_;
  const SessionOptions& options_;
  Clock::time_point begin_ = Clock::now();
  std::map<std::string, std::vector<Sample>> known_;  // by key, one per visit
  std::vector<Visit> remaining_;
  std::size_t num_done_{}, num_all_{};  // visits: before this session, and all
  std::optional<WorkerGroup> group_;
  std::int64_t group_ranks_{};
  Forecast forecast_;
};

}  // namespace

std::vector<Sample> run_session(const std::vector<Probe>& probes, Journal& journal, const SessionOptions& options) {
  return Session(probes, journal, options).run();
}

}  // namespace gpuplan
