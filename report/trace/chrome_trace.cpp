#include "report/trace/chrome_trace.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/text/activity_look.h"

namespace gpuplan {
namespace {

/// Text as a JSON string, quotes included; bytes that are no UTF-8 are replaced.
std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Microseconds with all digits: no rounding on the way from the clock to the page.
std::string microseconds(SimTime time) { return fmt::format("{}.{:06}", time.ps / 1'000'000, time.ps % 1'000'000); }

/// An event as text, and where it is sorted: by time, what encloses before what is enclosed, then order of writing.
struct TraceEvent {
  SimTime time;
  int rank_in_moment{};
  std::string text;
};

class Trace {
 public:
  explicit Trace(const SimulationAnswer& answer)
      : simulation_(answer.plan.simulation),
        num_layers_(answer.result.model.num_layers()) {
    is_critical_.resize(simulation_.spans.size());
    for (const std::uint32_t i : simulation_.critical_path) is_critical_[i] = true;
  }

  std::string text() {
    add_names();
    for (std::size_t i = 0; i < simulation_.spans.size(); ++i) add_span(i);
    for (std::size_t i = 0; i < simulation_.messages.size(); ++i) add_message(i);
    for (std::size_t rank = 0; rank < simulation_.ranks.size(); ++rank) add_memory(rank);
    std::ranges::stable_sort(events_, [](const TraceEvent& a, const TraceEvent& b) {
      return std::tie(a.time, a.rank_in_moment) < std::tie(b.time, b.rank_in_moment);
    });
    std::string out = names_;
    for (const TraceEvent& event : events_) out += ",\n" + event.text;
    return out;
  }

 private:
  void add_name(const char* kind, std::size_t rank, int stream, const std::string& arguments) {
    names_ += fmt::format(R"({}{{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", names_.empty() ? "" : ",\n",
                          kind, rank, stream, arguments);
  }

  void add_names() {
    for (std::size_t r = 0; r < simulation_.ranks.size(); ++r) {
      const SimulatedRank& rank = simulation_.ranks[r];
      add_name("process_name", r, 0, fmt::format(R"("name":{})", json_string(rank.name)));
      add_name("process_sort_index", r, 0, fmt::format(R"("sort_index":{})", rank.rank));
      if (rank.stands_for > 1)
        add_name("process_labels", r, 0, fmt::format(R"("labels":"stands for {} GPUs")", rank.stands_for));
      for (int s = 0; s < kNumStreams; ++s) {
        if (rank.busy[std::size_t(s)].ps == 0) continue;
        add_name("thread_name", r, s, fmt::format(R"("name":"{}")", name_of(StreamId(s))));
        add_name("thread_sort_index", r, s, fmt::format(R"("sort_index":{})", s));
      }
    }
  }

  std::string cause_of(const Span& span) const {
    if (span.waits_for_host) return "host";
    if (span.cause == Span::kNoSpan) return "start";
    const Span& cause = simulation_.spans[span.cause];
    return fmt::format("{}: {} ({})", simulation_.ranks[cause.rank].name, span_name(cause, num_layers_),
                       name_of(cause.stream));
  }

  void add_span(std::size_t index) {
    const Span& span = simulation_.spans[index];
    std::string arguments =
        fmt::format(R"("unit":{},"micro_batch":{},"begins_after":{})", json_string(unit_name(span.unit, num_layers_)),
                    span.micro_batch, json_string(cause_of(span)));
    if (const WorkingPart part = working_part(span); part.end - part.begin < span.end - span.begin)
      arguments += fmt::format(R"(,"waits_us":{})", microseconds(span.end - span.begin - (part.end - part.begin)));
    if (span.bytes.count > 0) arguments += fmt::format(R"(,"bytes":{})", span.bytes.count);
    if (is_critical_[index]) arguments += R"(,"on_critical_path":true)";
    events_.push_back(
        {span.begin, 0,
         fmt::format(R"({{"ph":"X","name":{},"cat":"{}","ts":{},"dur":{},"pid":{},"tid":{},"args":{{{}}}}})",
                     json_string(span_name(span, num_layers_)), to_string(span.activity), microseconds(span.begin),
                     microseconds(span.end - span.begin), span.rank, int(span.stream), arguments)});
  }

  /// An arrow from the begin of the send to the moment from which the receive could run with it.
  void add_message(std::size_t index) {
    const Message& message = simulation_.messages[index];
    const Span &sender = simulation_.spans[message.sender], &receiver = simulation_.spans[message.receiver];
    add_flow("s", "", index, sender, sender.begin);
    add_flow("f", R"("bp":"e",)", index, receiver, std::max(sender.begin, receiver.begin));
  }

  void add_flow(const char* phase, const char* binding, std::size_t id, const Span& span, SimTime time) {
    events_.push_back(
        {time, *phase == 's' ? 1 : 2,
         fmt::format(R"({{"ph":"{}",{}"name":"message","cat":"message","id":{},"ts":{},"pid":{},"tid":{}}})", phase,
                     binding, id, microseconds(time), span.rank, int(span.stream))});
  }

  void add_memory(std::size_t rank) {
    for (const MemoryPoint& point : simulation_.ranks[rank].memory)
      events_.push_back({point.time, 3,
                         fmt::format(R"({{"ph":"C","name":"tensors","ts":{},"pid":{},"args":{{"bytes":{}}}}})",
                                     microseconds(point.time), rank, point.live.count)});
  }

  const Simulation& simulation_;
  std::int64_t num_layers_;
  std::vector<bool> is_critical_;
  std::string names_;
  std::vector<TraceEvent> events_;
};

std::string metadata(const SimulationAnswer& answer) {
  const Simulation& s = answer.plan.simulation;
  return nlohmann::ordered_json{{"gpuplan_version", GPUPLAN_VERSION},
                                {"model", answer.request.model.name},
                                {"strategy", answer.plan.estimate.strategy.name},
                                {"cluster", answer.request.cluster.name},
                                {"num_gpus", answer.plan.estimate.num_gpus_used},
                                {"network", s.network == NetworkFidelity::Flow ? "flow" : "analytic"},
                                {"folded", s.is_folded},
                                {"seed", answer.options.seed},
                                {"jitter", answer.options.jitter},
                                {"step_picoseconds", s.step.ps}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string chrome_trace(const SimulationAnswer& answer) {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n", metadata(answer),
                     Trace(answer).text());
}

}  // namespace gpuplan
