// What a virtual machine's host takes of its processors' time: times measured meanwhile are longer than the machine's
// own.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gpuplan {

/// Of all processors since the machine started, in ticks.
struct ProcessorTimes {
  double wanted{};  // that something ran, or was ready to
  double stolen{};  // of that: the host ran something else
};

/// Nullopt where the kernel does not tell. Source: proc(5), /proc/stat: user nice system idle iowait irq softirq steal.
std::optional<ProcessorTimes> read_processor_times(const std::filesystem::path& stat = "/proc/stat");

/// The share of the time wanted between two readings that was stolen; 0 where nothing was wanted or a reading is
/// missing.
double stolen_share(const std::optional<ProcessorTimes>& begin, const std::optional<ProcessorTimes>& end);

/// "the host took 34 % of the processor time that this machine wanted meanwhile: ...", when it is 2 % or more; else
/// empty.
std::string describe_stolen(double share);

}  // namespace gpuplan
