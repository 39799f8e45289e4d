#include "diagnose/profiler_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_stream.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

/// The event that is being read.
struct TraceEvent {
  std::string name, category, thread;
  bool is_complete = false;          // ph X
  double begin = -1, duration = -1;  // us
  std::int64_t process = 0, correlation = 0, device = -1;
};

/// Takes the events of one file as the parser meets them.
class TraceReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  ProfilerTrace take() {
    if (!trace_.work.empty()) trace_.ops = {};
    std::ranges::sort(trace_.launches, {}, &KernelLaunch::correlation);
    std::ranges::sort(trace_.steps, {}, &TraceSpan::begin);
    return std::move(trace_);
  }
  bool has_events() const { return has_events_; }
  const std::string& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t v) override { return number(double(v)); }
  bool number_unsigned(std::uint64_t v) override { return number(double(v)); }
  bool number_float(double v, const std::string&) override { return number(v); }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override {
    // of profilers without Kineto the list of events is the whole file
    const bool is_list = depth_ == 0 || (depth_ == 1 && key_ == "traceEvents" && !is_in_events_);
    ++depth_;
    if (!is_list) return true;
    is_in_events_ = true;
    has_events_ = depth_ == 2;
    event_depth_ = depth_ + 1;
    return true;
  }
  bool end_array() override {
    if (depth_-- == event_depth_ - 1) is_in_events_ = false;
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    if (is_in_event()) event_ = {};
    if (is_below_event()) is_in_args_ = key_ == "args";
    return true;
  }
  bool end_object() override {
    if (is_below_event()) is_in_args_ = false;
    if (is_in_event()) take_event();
    --depth_;
    return true;
  }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool string(std::string& text) override;
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception&) override {
    error_ = fmt::format("is no JSON at byte {}", at);
    return false;
  }

 private:
  bool is_in_event() const { return is_in_events_ && depth_ == event_depth_; }
  bool is_below_event() const { return is_in_events_ && depth_ == event_depth_ + 1; }
  bool number(double value);
  void take_event();
  void take_work(EventKind kind, TraceSpan span);
  void take_host(EventKind kind, TraceSpan span);
  std::uint32_t thread_index() {
    return threads_.emplace(fmt::format("{}/{}", event_.process, event_.thread), narrow<std::uint32_t>(threads_.size()))
        .first->second;
  }
  /// Classes by name are looked up once: a trace has few names.
  template <KernelClass Find(std::string_view)>
  KernelClass class_of(std::unordered_map<std::string, KernelClass>& known) {
    const auto found = known.find(event_.name);
    if (found != known.end()) return found->second;
    return known[event_.name] = Find(event_.name);
  }

  ProfilerTrace trace_;
  TraceEvent event_;
  std::string key_, error_;
  int depth_ = 0, event_depth_ = 0;
  bool is_in_events_ = false, is_in_args_ = false, has_events_ = false;
  std::map<std::string, std::uint32_t> threads_;
  std::unordered_map<std::string, KernelClass> kernels_, ops_;
};

bool TraceReader::string(std::string& text) {
  if (is_in_event()) {
    if (key_ == "name") event_.name = std::move(text);
    // without Kineto the process says what other events have as their category
    if (key_ == "cat" || (key_ == "pid" && event_.category.empty())) event_.category = std::move(text);
    if (key_ == "ph") event_.is_complete = text == "X";
    if (key_ == "tid") event_.thread = std::move(text);
  } else if (!is_in_events_ && key_ == "name" && depth_ == 3 && trace_.device_name.empty()) {
    trace_.device_name = std::move(text);  // deviceProperties
  }
  return true;
}

bool TraceReader::number(double value) {
  if (is_in_event()) {
    if (key_ == "ts") event_.begin = value;
    if (key_ == "dur") event_.duration = value;
    if (key_ == "pid") event_.process = std::llround(std::clamp(value, -1e15, 1e15));
    if (key_ == "tid") event_.thread = fmt::format("{}", value);
  } else if (is_in_args_ && is_below_event()) {
    if (key_ == "correlation") event_.correlation = std::llround(std::clamp(value, 0., 4e9));
    if (key_ == "device") event_.device = std::llround(std::clamp(value, -1., 255.));
  } else if (!is_in_events_ && depth_ == 2 && key_ == "world_size") {
    trace_.world_size = std::llround(std::clamp(value, 0., 1e9));
  }
  return true;
}

void TraceReader::take_event() {
  ++trace_.num_events;
  constexpr double kLatest = 9e15;  // us: what 64 bits of nanoseconds hold
  if (!event_.is_complete || event_.begin < 0 || event_.duration < 0 || event_.begin > kLatest ||
      event_.duration > 1e12)
    return;
  has_events_ = true;
  const TraceSpan span{std::llround(event_.begin * 1e3), std::llround((event_.begin + event_.duration) * 1e3)};
  switch (const EventKind kind = kind_of_category(event_.category)) {
    case EventKind::Kernel:
    case EventKind::Copy:
    case EventKind::Fill: return take_work(kind, span);
    case EventKind::Launch:
      if (event_.correlation > 0)
        trace_.launches.push_back({span.begin, std::uint32_t(event_.correlation), thread_index()});
      return;
    case EventKind::Op:
    case EventKind::Note: return take_host(kind, span);
    case EventKind::Other: return;
  }
}

void TraceReader::take_work(EventKind kind, TraceSpan span) {
  const bool is_between =
      event_.name.find("HtoD") != std::string::npos || event_.name.find("DtoH") != std::string::npos;
  const KernelClass is = kind == EventKind::Kernel               ? class_of<class_of_kernel>(kernels_)
                         : kind == EventKind::Copy && is_between ? KernelClass::Copy
                                                                 : KernelClass::Memory;
  const std::int64_t device = event_.device >= 0 ? event_.device : event_.process;
  trace_.work.push_back(
      {span, std::uint32_t(event_.correlation), std::uint8_t(std::clamp<std::int64_t>(device, 0, 255)), is});
}

void TraceReader::take_host(EventKind kind, TraceSpan span) {
  switch (framed_by(event_.name)) {
    case FramedPart::Step: return trace_.steps.push_back(span);
    case FramedPart::Optimizer: return trace_.optimizer.push_back({span, thread_index()});
    case FramedPart::Backward: return trace_.backward.push_back({span, thread_index()});
    case FramedPart::Loader: return trace_.loader.push_back({span, thread_index()});
    case FramedPart::None: break;
  }
  if (kind == EventKind::Note) return;
  const KernelClass is = class_of<class_of_op>(ops_);
  if (is != KernelClass::Count) trace_.ops.push_back({span, thread_index(), is});
}

}  // namespace

ProfilerTrace read_profiler_trace(std::istream& in, const std::string& where) {
  constexpr const char* kHint =
      "torch.profiler's export_chrome_trace() and tensorboard_trace_handler() write such files";
  TraceReader reader;
  const bool is_json = nlohmann::json::sax_parse(in, &reader, nlohmann::json::input_format_t::json, /*strict=*/false);
  if (!is_json) throw InputError(where, reader.error().empty() ? "is no JSON" : reader.error(), kHint);
  if (!reader.has_events()) throw InputError(where, "has no traceEvents", kHint);
  return reader.take();
}

ProfilerTrace read_profiler_trace(const std::filesystem::path& file) {
  const auto in = open_stream(file);
  return read_profiler_trace(*in, file.string());
}

}  // namespace gpuplan
