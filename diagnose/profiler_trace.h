// A trace of PyTorch's profiler (Kineto: Chrome's JSON, packed or not), read in one pass: of 200 MB of text, what a
// step is made of in a few MB.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <string>
#include <vector>

#include "diagnose/profiler_names.h"

namespace gpuplan {

/// Times in nanoseconds of the trace's clock.
struct TraceSpan {
  std::int64_t begin{}, end{};
};

/// Work on a device: a kernel, a copy or a fill.
struct DeviceWork {
  TraceSpan span;
  std::uint32_t correlation{};  // of its launch; 0: none
  std::uint8_t device{};
  KernelClass kind{};
};

/// A launch by the host.
struct KernelLaunch {
  std::int64_t begin{};
  std::uint32_t correlation{}, thread{};  // thread: an index
};

/// Something that a thread of the host does.
struct ThreadSpan {
  TraceSpan span;
  std::uint32_t thread{};
};

/// An operation of the host, which matters where no device works.
struct HostOp {
  TraceSpan span;
  std::uint32_t thread{};
  KernelClass kind{};
};

struct ProfilerTrace {
  std::string device_name;             // of the first GPU; empty: not said
  std::int64_t world_size = 0;         // 0: not said
  std::vector<DeviceWork> work;        // as the file orders them
  std::vector<KernelLaunch> launches;  // sorted by correlation
  std::vector<TraceSpan> steps;        // the profiler's (ProfilerStep#N)
  std::vector<ThreadSpan> backward, optimizer, loader;
  std::vector<HostOp> ops;  // empty where a device works
  std::uint64_t num_events = 0;

  bool is_of_cpu() const { return work.empty(); }
};

/// Throws InputError naming `where`: no JSON, no trace, cut off.
ProfilerTrace read_profiler_trace(std::istream& in, const std::string& where);
ProfilerTrace read_profiler_trace(const std::filesystem::path& file);

}  // namespace gpuplan
