#include "calibrate/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "calibrate/machine_state.h"
#include "calibrate/worker_group.h"

namespace gpuplan {
namespace {

using Clock = std::chrono::steady_clock;

/// A sample between two readings of the pilots: `reading` counts those before it.
struct Visit {
  Sample sample;
  std::size_t reading;
};

/// A probe with all that was measured of it.
struct Entry {
  const Probe* probe;
  std::vector<Visit> visits;
  std::size_t num_good = 0;  // visits in the state that is measured, as far as is known

  bool has_failed() const { return !visits.empty() && !visits.front().sample.is_ok(); }
  bool is_long() const {
    const Sample& first = visits.front().sample;
    return first.median * double(first.num_runs) >= visits_of(probe->family).longest.value;
  }
};

/// What the pilots said with one number of ranks, and what follows from it.
class Pilots {
 public:
  explicit Pilots(std::vector<Probe> probes) : probes_(std::move(probes)) {}

  const std::vector<Probe>& probes() const { return probes_; }
  bool are(const Probe& probe) const {
    return std::any_of(probes_.begin(), probes_.end(), [&](const Probe& p) { return p.key() == probe.key(); });
  }
  /// The pilots' samples follow each other, in their order, unless a session was killed between two.
  void add(const Sample& sample) {
    if (sample.probe.key() == probes_.front().key()) open_.clear(), is_open_ = true;
    if (!is_open_) return;
    open_.push_back(sample.is_ok() ? sample.median : 0);
    if (open_.size() < probes_.size()) return;
    readings_.push_back({open_.front(), open_.back()});
    num_failed_ = readings_.back().is_whole() ? 0 : num_failed_ + 1;
    is_open_ = false;
  }
  /// They fail or hang, each time for as long as a probe may: the group goes on without.
  bool are_given_up() const { return num_failed_ >= 2; }
  std::size_t num_readings() const { return readings_.size(); }

  void find() {
    states_ = find_states(readings_);
    if (!states_.empty()) measured_ = state_to_measure(states_);
  }
  const std::vector<MachineState>& states() const { return states_; }
  std::size_t measured() const { return measured_; }
  double share() const { return states_.empty() ? 1 : states_[measured_].share; }
  /// It was measured in the state that counts. Without pilots, or states, every visit was.
  bool is_good(const Visit& visit) const {
    if (!visit.sample.is_ok()) return false;
    if (states_.empty() || has_no_pilots(visit)) return true;
    return visit.reading > 0 && is_between(states_[measured_], readings_[visit.reading - 1], after(visit));
  }
  /// What it gave, at the speed of that state where it computes. Requires: is_good.
  Sample at_one_speed(const Visit& visit) const {
    Sample sample = visit.sample;
    if (states_.empty() || has_no_pilots(visit) || sample.probe.flops() == 0) return sample;
    const double factor = to_speed_of(states_[measured_], readings_[visit.reading - 1], after(visit));
    for (double* time : {&sample.median, &sample.low, &sample.high}) *time *= factor;
    return sample;
  }

 private:
  bool has_no_pilots(const Visit& visit) const { return are_given_up() && visit.reading == readings_.size(); }
  /// The last visits of a session may have none.
  const PilotReading& after(const Visit& visit) const {
    return readings_[std::min(visit.reading, readings_.size() - 1)];
  }

  std::vector<Probe> probes_;
  std::vector<double> open_;
  bool is_open_ = false;
  int num_failed_ = 0;  // readings, the last ones
  std::vector<PilotReading> readings_;
  std::vector<MachineState> states_;
  std::size_t measured_ = 0;
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
    for (const auto group : groups()) {
      const std::int64_t num_ranks = group.front().probe->num_ranks;
      pilots_.try_emplace(num_ranks,
                          options.is_quick || !options.pilots ? std::vector<Probe>{} : options.pilots(num_ranks));
    }
    for (const Sample& sample : journal.samples()) note(sample);
  }

  std::vector<Sample> run() {
    const IgnoredBrokenPipes no_signal;
    for (const auto group : groups()) judge(group, pilots_.at(group.front().probe->num_ranks));
    report(nullptr);
    for (const auto group : groups()) run_group(group);
    std::vector<Sample> samples;
    for (const Entry& entry : entries_) samples.push_back(result_of(entry));
    return samples;
  }

 private:
  /// Probes that follow each other with the same number of ranks.
  std::vector<std::span<Entry>> groups() {
    std::vector<std::span<Entry>> out;
    for (auto begin = entries_.begin(); begin != entries_.end();) {
      const auto end = std::find_if(begin, entries_.end(),
                                    [&](const Entry& e) { return e.probe->num_ranks != begin->probe->num_ranks; });
      out.emplace_back(begin, end);
      begin = end;
    }
    return out;
  }

  struct Need {
    std::size_t good, most;  // visits: in the state that is measured, and in all
  };
  Need need_of(const Entry& entry) const {
    if (options_.is_quick || entry.has_failed()) return {1, 1};
    const Visits visits = visits_of(entry.probe->family);
    const bool has_pilots = !pilots_.at(entry.probe->num_ranks).probes().empty();
    const std::size_t good = !entry.visits.empty() && entry.is_long() ? 1 : visits.good;
    return {good, has_pilots ? 4 * good : good};
  }
  bool wants_visit(const Entry& entry) const {
    const Need need = need_of(entry);
    return entry.visits.size() < need.most && entry.num_good < need.good;
  }

  /// Pass by pass, so that visits to one probe are minutes apart.
  void run_group(std::span<Entry> entries) {
    Pilots& pilots = pilots_.at(entries.front().probe->num_ranks);
    for (bool is_done = false; !is_done;) {
      is_done = true;
      judge(entries, pilots);
      for (Entry& entry : entries) {
        if (!wants_visit(entry)) continue;
        if (is_done)
          read(pilots);
        else
          read_when_due(pilots);
        visit(entry);
        is_done = false;
      }
      if (!is_done) read(pilots);  // the end of the last visit
    }
    if (options_.on_states && pilots.states().size() > 1)
      options_.on_states(entries.front().probe->num_ranks, pilots.states(), pilots.measured());
  }

  /// Which state is measured may change as more of the machine is seen.
  static void judge(std::span<Entry> entries, Pilots& pilots) {
    pilots.find();
    for (Entry& entry : entries)
      entry.num_good = std::size_t(
          std::count_if(entry.visits.begin(), entry.visits.end(), [&](const Visit& v) { return pilots.is_good(v); }));
  }

  void visit(Entry& entry) {
    const Sample sample = measure(*entry.probe);
    const Pilots& pilots = pilots_.at(entry.probe->num_ranks);
    entry.visits.push_back({sample, pilots.num_readings()});
    entry.num_good += pilots.is_good(entry.visits.back());
    report(&entry.visits.back().sample);
  }

  void read_when_due(Pilots& pilots) {
    if (since(last_reading_) > options_.pilot_period) read(pilots);
  }
  void read(Pilots& pilots) {
    if (pilots.are_given_up()) return;
    for (const Probe& probe : pilots.probes()) pilots.add(measure(probe));
    last_reading_ = Clock::now();
  }

  void note(const Sample& sample) {
    const auto group = pilots_.find(sample.probe.num_ranks);
    if (group == pilots_.end()) return;
    if (group->second.are(sample.probe)) return group->second.add(sample);
    if (const auto place = places_.find(sample.probe.key()); place != places_.end())
      entries_[place->second].visits.push_back({sample, group->second.num_readings()});
  }

  Sample result_of(const Entry& entry) const {
    const Pilots& pilots = pilots_.at(entry.probe->num_ranks);
    std::vector<Sample> all, good;
    for (const Visit& visit : entry.visits) {
      all.push_back(visit.sample);
      if (pilots.is_good(visit)) good.push_back(pilots.at_one_speed(visit));
    }
    return combined(good.empty() ? all : good);
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
    if (places_.contains(probe.key())) forecast_.add(probe, since(begin));
    return sample;
  }

  static Seconds since(Clock::time_point begin) {
    return {std::chrono::duration<double>(Clock::now() - begin).count()};
  }

  /// Visits that a probe will probably take yet: the machine is in the right state for a share of the time.
  std::size_t visits_left(const Entry& entry) const {
    if (!wants_visit(entry)) return 0;
    const Need need = need_of(entry);
    const double likely = std::ceil(double(need.good - entry.num_good) / pilots_.at(entry.probe->num_ranks).share());
    return std::min(need.most - entry.visits.size(), std::size_t(likely));
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
  Clock::time_point begin_ = Clock::now(), last_reading_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> places_;  // of entries, by key
  std::map<std::int64_t, Pilots> pilots_;      // by number of ranks
  std::optional<WorkerGroup> group_;
  std::int64_t group_ranks_{};
  Forecast forecast_;
};

}  // namespace

std::vector<Sample> run_session(const std::vector<Probe>& probes, Journal& journal, const SessionOptions& options) {
  return Session(probes, journal, options).run();
}

}  // namespace gpuplan
