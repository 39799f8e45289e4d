// How long a matrix product takes, as fitted to measured ones: a roofline whose compute side loses to unfilled waves of tiles
// and to short dimensions. `calibrate` fits it, the profile keeps it, planner/cost asks it.
#pragma once

#include <cstdint>

#include "base/gemm_kind.h"
#include "base/units.h"

namespace gpuplan {

/// [m, n, k] of a product, and how many of them in one call.
struct GemmShape {
  std::int64_t m{}, n{}, k{}, batch = 1;
};

/// Of measured shapes, inclusive.
struct GemmRange {
  GemmShape least, most;
  bool contains(const GemmShape& shape) const;
};

/// How far a fit is off: |ln(fitted / measured)| over the points it was made from, and over points it had not seen.
struct FitQuality {
  std::int64_t num_points{}, num_outliers{};
  double median_error{}, p90_error{};
  double held_out_median{}, held_out_p90{};  // cross-validation
};

/// A fitted number with its 95 % interval.
struct Fitted {
  double value{}, low{}, high{};
};

/// t = launch + max(C, M) + exposed x min(C, M)
///   C = 2 m n k batch / rate x wave x (1 + m_half / m) (1 + n_half / n) (1 + k_half / k)      compute
///   M = bytes / bandwidth                                                                     every operand once
///   wave = 1 + wave_loss (ceil(w) / w - 1),  w = ceil(m / tile_m) ceil(n / tile_n) batch s / num_units
///   s: k split over idle units, at most k / 512 parts, as long as w < 1
/// `..._half`: the size at which a dimension costs half the rate: prologue and epilogue of tiles, packing on CPUs.
/// Source: roofline Williams 2009; waves: NVIDIA Matrix Multiplication Background User's Guide.
struct GemmSurface {
  GemmType type{};
  GemmLayout layout{};
  bool is_batched = false;         // batch > 1: attention's products, fitted on their own
  Fitted rate;                     // FLOP/s
  Fitted bandwidth;                // B/s
  Fitted launch;                   // s
  Fitted m_half, n_half, k_half;   // elements
  Fitted wave_loss, exposed;       // shares
  std::int64_t tile_m = 128, tile_n = 128, num_units = 1;
  GemmRange range;
  FitQuality quality;

  Seconds time(const GemmShape& shape) const;
};

}  // namespace gpuplan
