// The optimizer's temporaries beside the segments that activations left: which of them the caching allocator can place.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "planner/job.h"
#include "planner/step_program.h"

namespace gpuplan {

/// The optimizer's temporaries, one per trained tensor, by size, and the largest activation beside them.
struct StepTemporaries {
  std::map<Bytes, Bytes, std::greater<>> of_size;  // bytes of all that have it, in the whole model
  Bytes total, largest_activation;

  /// Those that find no place where activations were, `activations` bytes in all. `own`: bytes of all temporaries that
  /// a rank has at once; a stage has its part of each size. A temporary fits a segment that is as large. With more work
  /// the largest activation grows past temporaries one by one, and each would make what is needed fall by all of its
  /// size. To keep what is needed from falling, a temporary of size T that has found its place counts until all
  /// activations A have grown by as many bytes since it did. With the largest activation L growing in proportion to A,
  /// it found its place at A T / L. What is needed, A + unplaced, then never falls while A grows. (Where a part of A
  /// does not grow with L, as with a loss in chunks and longer sequences, it falls by up to 0.3 %.)
  Bytes unplaced(Bytes activations, Bytes own) const;
};

/// Nothing where the optimizer steps flat parameters (FSDP1, ZeRO): they are larger than all activations.
std::optional<StepTemporaries> step_temporaries(const Job& job, const StepProgram& program);

}  // namespace gpuplan
