// How a machine works now beside how it did when it was calibrated. A virtual machine's cores change places and a GPU's
// clock drops when it is hot: the fits of a profile stay right in shape, and each kind of work takes a factor longer or
// shorter (docs/calibration.md).
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace gpuplan {

/// Time now over time at calibration, by kind of work: 1.1 takes a tenth longer.
struct MachinePace {
  double products = 1;       // wide and batched matrix products
  double thin_products = 1;  // of adapters and few rows
  double attention = 1;
  double memory = 1;     // kernels bound by memory, optimizer steps
  double messages = 1;   // latency of collectives
  double transfers = 1;  // what their bytes take

  bool is_as_calibrated() const;
};

struct PaceField {
  std::string_view name;  // as in --pace products=1.1,memory=0.9
  double MachinePace::*member;
};
inline constexpr std::array kPaceFields{
    PaceField{"products", &MachinePace::products},   PaceField{"thin-products", &MachinePace::thin_products},
    PaceField{"attention", &MachinePace::attention}, PaceField{"memory", &MachinePace::memory},
    PaceField{"messages", &MachinePace::messages},   PaceField{"transfers", &MachinePace::transfers}};
constexpr double kMostPace = 100;  // and 1 / 100 at least

/// By kind of work the geometric mean: of a time between two readings, when the machine changed from one to the other.
MachinePace mean_of(const MachinePace& a, const MachinePace& b);
/// How much a machine changed from one reading to the other: the largest factor of a kind that computes, less 1. Memory
/// and messages do not count: two readings of a calm machine differ by a tenth in them.
double change_between(const MachinePace& a, const MachinePace& b);
constexpr double kHeldStill =
    0.1;  // up to here it did not change: states of a machine that we saw are 30 % apart, readings within one 5 %

/// Of "products=1.1,memory=0.9", or "calibrated"; what is not named is 1. Throws InputError naming `where`, with the
/// nearest name.
MachinePace parse_pace(std::string_view text, std::string_view where);
/// The same text, four digits each; "calibrated" when all are 1.
std::string to_string(const MachinePace& pace);
/// "matrix products 8 % slower, memory 1.9 times as fast", for people: what is off by 2 % or more; empty when nothing
/// is.
std::string describe(const MachinePace& pace);

}  // namespace gpuplan
