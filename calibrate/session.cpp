#include "calibrate/session.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/child_process.h"
#include "base/error.h"
#include "calibrate/worker_group.h"

namespace gpuplan {
namespace {

using Clock = std::chrono::steady_clock;

/// A probe with all that was measured of it.
struct Entry {
  const Probe* probe;
  std::vector<Sample> visits;

  bool has_failed() const { return !visits.empty() && !visits.front().is_ok(); }
  bool is_long() const {
    return !visits.empty() && visits.front().median * double(visits.front().num_runs) >= kLongVisit.value;
  }
};

/// Time of a visit, from those to probes of the same kind in this session.
class Forecast {
 public:
  void add(const Probe& probe, Seconds time) {
    for (Spent* spent : {&kinds_[kind(probe)], &all_}) spent->time += time, ++spent->num;
  }
  Seconds of(const Probe& probe) const {
    const auto found = kinds_.find(kind(probe));
    return (found == kinds_.end() ? all_ : found->second).mean();
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
      : journal_(journal),
        options_(options) {
    for (const Probe& probe : probes) {
      places_.emplace(probe.key(), entries_.size());
      entries_.push_back({.probe = &probe, .visits = {}});
    }
    for (const Sample& sample : journal.samples())
      if (const auto place = places_.find(sample.probe.key()); place != places_.end())
        entries_[place->second].visits.push_back(sample);
  }

  std::vector<Sample> run() {
    const SignalHandlers ignored(SIG_IGN, {SIGPIPE});  // a worker that died is a failed write
    report(nullptr);
    for (auto begin = entries_.begin(); begin != entries_.end();) {
      const auto end = std::find_if(begin, entries_.end(),
                                    [&](const Entry& e) { return e.probe->num_ranks != begin->probe->num_ranks; });
      run_group({begin, end});
      begin = end;
    }
    std::vector<Sample> samples;
    for (const Entry& entry : entries_) samples.push_back(combined(entry.visits));
    return samples;
  }

 private:
  std::size_t visits_left(const Entry& entry) const {
    const bool once =
        options_.is_quick || entry.has_failed() || entry.is_long() || entry.probe->family == ProbeFamily::Overhead;
    const std::size_t wanted = once ? 1 : kNumVisits;
    return wanted - std::min(wanted, entry.visits.size());
  }

  /// Round by round, so that the visits to one probe are minutes apart.
  void run_group(std::span<Entry> entries) {
    for (std::size_t round = 0; round < kNumVisits; ++round)
      for (Entry& entry : entries) {
        if (entry.visits.size() > round || visits_left(entry) == 0) continue;
        entry.visits.push_back(measure(*entry.probe));
        report(&entry.visits.back());
      }
  }

  Sample measure(const Probe& probe) {
    if (!group_ || group_ranks_ != probe.num_ranks) {
      group_.reset();  // one group at a time: idle ranks would disturb the others
      group_ranks_ = probe.num_ranks;
      group_.emplace([this, ranks = probe.num_ranks] { return options_.worker(ranks); }, options_.probe_timeout);
    }
    const auto begin = Clock::now();
    if (!group_->make_ready()) return {.probe = probe, .failure = group_->unusable()};
    Sample sample = group_->ask(probe);
    journal_.add(sample);
    forecast_.add(probe, since(begin));
    return sample;
  }

  static Seconds since(Clock::time_point begin) {
    return {std::chrono::duration<double>(Clock::now() - begin).count()};
  }

  void report(const Sample* last) const {
    if (!options_.on_progress) return;
    Progress now{.num_done = 0, .num_all = 0, .elapsed = since(begin_), .left = {}, .last = last};
    for (const Entry& entry : entries_) {
      const std::size_t left = visits_left(entry);
      now.num_done += entry.visits.size();
      now.num_all += entry.visits.size() + left;
      now.left += forecast_.of(*entry.probe) * double(left);
    }
    options_.on_progress(now);
  }

  Journal& journal_;
  const SessionOptions& options_;
  Clock::time_point begin_ = Clock::now();
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> places_;  // of entries, by key
  std::optional<WorkerGroup> group_;
  std::int64_t group_ranks_{};
  Forecast forecast_;
};

}  // namespace

std::vector<Sample> run_session(const std::vector<Probe>& probes, Journal& journal, const SessionOptions& options) {
  return Session(probes, journal, options).run();
}

}  // namespace gpuplan
