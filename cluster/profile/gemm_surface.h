// How long a matrix product takes, as fitted to measured ones: a roofline whose compute side loses to unfilled waves of
// tiles, to short dimensions, to caches and to misaligned rows. `calibrate` fits it, the profile keeps it, planner/cost
// asks it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/name_table.h"
#include "base/operation_kinds.h"
#include "base/units.h"
#include "cluster/profile/fitted.h"
#include "cluster/profile/local_correction.h"

namespace gpuplan {

/// [m, n, k] of a product, and how many of them in one call.
struct GemmShape {
  std::int64_t m{}, n{}, k{}, batch = 1;
};

CorrectionSizes correction_sizes(const GemmShape& shape);

/// Products that libraries multiply in different ways. Thin: one dimension of at most kThinGemm, as adapters and few
/// tokens have; the thinnest decides (n before k before m). Batched: attention's products.
enum class GemmRegime : std::uint8_t { Wide, ThinM, ThinN, ThinK, Batched };
inline constexpr std::int64_t kThinGemm = 64;
GemmRegime regime_of(const GemmShape& shape);
NameTable<GemmRegime> names_of(GemmRegime);  // "wide", "thin-m", "thin-n", "thin-k", "batched"

/// Range of measured shapes, inclusive.
struct GemmRange {
  GemmShape least, most;
  bool contains(const GemmShape& shape) const;
};

/// t = (launch + max(C, M) + exposed x min(C, M)) x e^correction
///   C = 2 m n k batch / rate x wave x (1 + m_half / m) (1 + n_half / n) (1 + k_half / k) x caches x rows      compute
///   M = bytes / bandwidth x (1 + memory_loss / (1 + (cache / bytes)^4))                    every operand and the
///   result once
///     from a cache that holds them all, or from behind it: what an adapter adds to has just been written
///   wave = 1 + wave_loss (ceil(w) / v - 1),  w = ceil(m / tile_m) ceil(n / tile_n) batch s / num_units
///     v: the same without rounding up, so what edge tiles waste counts too
///     s: k split over idle units, at most k / 512 parts, as long as w < 1
///     a tile shrinks to the power of two that covers a thinner product, not below 16: libraries have kernels for those
///   caches = (1 + depth_loss k / (k + k_depth)) / (1 + depth_loss) x (1 + spill_loss W / (W + 1 MB)) / (1 +
///   spill_loss)
///     panels of a deep product leave the nearest cache, large products (W bytes each) the private one. 1 for large
///     products, so `rate` is what those reach
///   rows = (1 + tail_loss, when k is no multiple of 16) (1 + ragged_loss, for each of A and B whose rows are not whole
///          64-byte lines) (1 + stride_loss, when rows of B are a multiple of 2 KiB apart and so share cache sets, and
///          again when those of C are a multiple of 4 KiB apart and so share pages' places)
/// `..._half`: the size at which a dimension costs half the rate: prologue and epilogue of tiles, packing on CPUs.
/// Results are in the operands' dtype (bf16 for fp8).
/// Source: roofline Williams 2009; waves: NVIDIA Matrix Multiplication Background User's Guide; cache sets and
/// alignment: Intel Optimization Reference Manual; the sizes 1 MB, 16, 64 B, 2 and 4 KiB chosen by cross-validation on
/// oneDNN 2.6.
struct GemmSurface {
  GemmType type{};
  GemmLayout layout{};
  GemmRegime regime{};                                     // of the products it was fitted to
  Fitted rate;                                             // FLOP/s
  Fitted bandwidth;                                        // B/s
  Fitted launch;                                           // s
  Fitted m_half, n_half, k_half;                           // elements
  Fitted wave_loss, exposed;                               // shares
  Fitted depth_loss, k_depth;                              // share; elements
  Fitted spill_loss, tail_loss, ragged_loss, stride_loss;  // shares
  Fitted memory_loss, cache;                               // share; bytes
  std::int64_t tile_m = 128, tile_n = 128, num_units = 1;
  LocalCorrection correction;
  GemmRange range;
  FitQuality quality;

  Seconds time(const GemmShape& shape) const;
};

/// The fitted numbers of a surface, for everyone who lists, writes or fits them.
struct GemmParameter {
  std::string_view name;
  FitUnit unit{};
  Fitted GemmSurface::*member;
  bool is_in_all_profiles = true;  // else those of earlier versions lack it, and mean its default
};
inline constexpr std::array kGemmParameters{
    GemmParameter{"rate", FitUnit::FlopRate, &GemmSurface::rate},
    GemmParameter{"bandwidth", FitUnit::ByteRate, &GemmSurface::bandwidth},
    GemmParameter{"launch", FitUnit::Time, &GemmSurface::launch},
    GemmParameter{"m_half", FitUnit::Plain, &GemmSurface::m_half},
    GemmParameter{"n_half", FitUnit::Plain, &GemmSurface::n_half},
    GemmParameter{"k_half", FitUnit::Plain, &GemmSurface::k_half},
    GemmParameter{"wave_loss", FitUnit::Plain, &GemmSurface::wave_loss},
    GemmParameter{"exposed", FitUnit::Plain, &GemmSurface::exposed},
    GemmParameter{"depth_loss", FitUnit::Plain, &GemmSurface::depth_loss},
    GemmParameter{"k_depth", FitUnit::Plain, &GemmSurface::k_depth},
    GemmParameter{"spill_loss", FitUnit::Plain, &GemmSurface::spill_loss},
    GemmParameter{"tail_loss", FitUnit::Plain, &GemmSurface::tail_loss},
    GemmParameter{"ragged_loss", FitUnit::Plain, &GemmSurface::ragged_loss},
    GemmParameter{"stride_loss", FitUnit::Plain, &GemmSurface::stride_loss},
    GemmParameter{"memory_loss", FitUnit::Plain, &GemmSurface::memory_loss, false},
    GemmParameter{"cache", FitUnit::ByteCount, &GemmSurface::cache, false},
};

}  // namespace gpuplan
