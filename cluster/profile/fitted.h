// A number that was fitted to measurements, and how good a fit is. Every measured part of a profile is made of these.
#pragma once

#include <cstdint>

namespace gpuplan {

/// Errors of a fit: |ln(fitted / measured)| over the points it was made from, and over points it had not seen.
struct FitQuality {
  std::int64_t num_points{}, num_outliers{};
  double median_error{}, p90_error{};
  double held_out_median{}, held_out_p90{};  // cross-validation
};

/// A fitted number with its 95 % interval.
struct Fitted {
  double value{}, low{}, high{};
};

/// Unit of a fitted number, in base units.
enum class FitUnit : std::uint8_t { FlopRate, ByteRate, Time, ByteCount, Plain };

}  // namespace gpuplan
