// What `calibrate` found out about a machine, as the profile keeps it; read and written in the same order, so that a
// number has one name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/fields.h"
#include "cluster/profile/collective_curve.h"
#include "cluster/profile/gemm_surface.h"

namespace gpuplan {

/// The machine that was measured; a profile is used for plans on the same hardware.
struct MeasuredOn {
  std::string kind;          // "cpu", "cuda"
  std::string device;        // as the driver or the system calls it
  std::string gpu;           // id in data/gpus; "cpu"
  std::string architecture;  // "sm_90", "avx512_core_amx"
  std::string fabric;        // between devices, as names_of(FabricKind) spells it; "none" for one
  std::int64_t num_devices = 1;
  std::int64_t num_cores{};                                   // SMs of a device, cores of the host
  Bytes memory;                                               // of a device; of the host
  std::string date;                                           // "2026-11-21"
  std::vector<std::pair<std::string, std::string>> versions;  // driver and libraries
  std::vector<std::string> warnings;
};

struct KernelPoint {
  Bytes traffic;
  Seconds time;
};

/// A memory-bound kernel: for large sizes t = launch + least traffic / bandwidth; what caches make of smaller ones is
/// in the curve.
struct KernelRate {
  std::string kernel;  // "copy", "rms-norm", "swiglu", "cross-entropy", "adamw", "nf4-dequantise"
  Dtype dtype{};
  Fitted launch;      // s
  Fitted bandwidth;   // B/s
  Bytes least, most;  // traffic for which it was fitted
  FitQuality quality;
  std::vector<KernelPoint> curve;  // as measured, rising in traffic; empty in profiles before 2026-11-22

  /// Time of one call: between the points ln t is linear in ln traffic, beyond them as the nearest one per byte, but
  /// not below the launch.
  Seconds time(double traffic) const;
};

/// An attention kernel: t = launch + flops / rate; flops of the full square whatever the mask.
struct AttentionRate {
  std::string kernel;  // "flash", "eager"; "backward" of flash
  Dtype dtype{};
  std::int64_t head_size{};
  Fitted launch;  // s
  Fitted rate;    // FLOP/s
  FitQuality quality;
};

/// A number by itself: a latency, the bandwidth of a copy, the slow-down of a product under a collective, bytes of
/// overhead.
struct ScalarFit {
  std::string
      name;  // "dispatch empty-kernel", "dispatch meeting", "copy pinned-to-device", "copy-latency pinned-to-device",
             // "overhead context", "overlap bf16" (time of a product under an all-reduce over its time alone)
  std::string unit;            // "s", "B/s", "B", "" for a ratio
  std::int64_t num_ranks = 1;  // that did this at once
  Fitted value;
  FitQuality quality;
};

/// Size of the all-reduce in "dispatch meeting": latency alone.
inline constexpr Bytes kSyncMessage{1000};

/// Errors of all fits of a kind together on points that they had not seen: |ln(fitted / measured)|.
struct HeldOut {
  std::string what;  // "fp32 GEMM shapes", "message sizes"
  std::int64_t num_points{};
  double median{}, p90{};
};

/// Rates of each of `num_ranks` ranks that work at once: on a CPU they share cores and memory.
struct MeasurementsAtRanks {
  std::int64_t num_ranks = 1;
  std::vector<GemmSurface> gemm;
  std::vector<KernelRate> kernels;
  std::vector<AttentionRate> attention;

  /// The surface for a product: better another layout's of its regime than none, and a wide one than none for a thin
  /// product. nullptr when there is none.
  const GemmSurface* surface_of(GemmType type, GemmLayout layout, GemmRegime regime) const;
};

/// Everything that `calibrate` measured; shared by copies of a profile.
struct Measured {
  MeasuredOn on;
  std::vector<MeasurementsAtRanks> loads;  // rising in ranks
  std::vector<CollectiveCurve> collectives;
  std::vector<ScalarFit> scalars;  // latencies, copies, overheads
  std::vector<HeldOut> held_out;   // of all fits of a kind together
  std::string samples;             // JSON lines, as cluster/profile/probe.h writes them

  /// The load of `num_ranks`, else the nearest measured; nullptr when there is none. Of more ranks than a CPU has
  /// cores, that of as many as there are: those beyond take turns, which short probes do not see.
  const MeasurementsAtRanks* load_of(std::int64_t num_ranks) const;
  /// The curve of a collective among `num_ranks` ranks of a machine, else the one of the nearest number; nullptr when
  /// none.
  const CollectiveCurve* curve_of(CollectiveKind kind, std::int64_t num_ranks) const;
  /// "dispatch meeting" of `num_ranks` ranks at once, else of the nearest number; nullptr when none (calibrations
  /// before 2026-11-23).
  const ScalarFit* sync_latency_of(std::int64_t num_ranks) const;
};

constexpr std::int64_t kProfileSchema = 1;

/// Nothing when the file has no `measured_on`. Problems are noted in `top`.
std::optional<MeasuredOn> read_machine(Fields& top);
std::optional<Measured> read_measured(Fields& top);

/// YAML, ending in a line break.
std::string measured_text(const Measured& measured);

}  // namespace gpuplan
