// How long a collective takes on a machine, as fitted to measured messages: alpha + S / B per range of sizes, for what
// the library does there (algorithm, protocol). `calibrate` fits it, the profile keeps it, planner/comm_model asks it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/name_table.h"
#include "base/operation_kinds.h"
#include "base/units.h"
#include "cluster/profile/fitted.h"
#include "cluster/profile/local_correction.h"

namespace gpuplan {

/// Ranks of a machine that take part.
enum class RankScope : std::uint8_t { All, Pair };
NameTable<RankScope> names_of(RankScope);  // "all", "pair"

/// alpha + S / bandwidth for messages of `from` bytes and more. S: the whole tensor.
struct CurveSegment {
  Bytes from;
  Fitted alpha;      // s
  Fitted bandwidth;  // B/s, algbw as nccl-tests defines it
};

inline CorrectionSizes correction_sizes(Bytes message) { return {message.count, 1, 1, 1}; }

struct CollectiveCurve {
  CollectiveKind kind{};
  std::int64_t num_ranks = 2;
  RankScope scope{};
  std::vector<CurveSegment>
      segments;                // rising; each was fitted with its neighbours' end points, so that they nearly meet
  LocalCorrection correction;  // on top of them
  Bytes least, most;           // measured sizes
  FitQuality quality;

  /// Requires: at least one segment. Smaller messages than any get the first.
  const CurveSegment& segment(Bytes message) const;
  /// The segments never fall with size: where they do not meet, the earlier one's end is the least. Libraries may, and
  /// so may the correction.
  Seconds time(Bytes message) const;
  /// busbw of a message, as nccl-tests defines it.
  BytesPerSec bus_bandwidth(Bytes message) const;
  bool contains(Bytes message) const { return message >= least && message <= most; }
};

}  // namespace gpuplan
