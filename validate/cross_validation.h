// data/validation/cross_validated.json: what the program predicts for a point when the fitted constants come from the
// other sources only. Written by scripts/fit_speed.py --cross-validate --write.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "validate/judge.h"

namespace gpuplan {

struct CrossValidation {
  std::string command, date;
  /// The ratio of that prediction to the shipped one, by id; of speed points as times. A point that is not listed was
  /// not fitted.
  std::map<std::string, double> ratios;
};

/// Throws InputError naming the file.
CrossValidation read_cross_validation(const std::filesystem::path& file);
/// The shipped one; empty where there is none.
CrossValidation read_cross_validation();

/// The results as a fit without each point's source would have them. Verdicts and tiers stay those of the shipped
/// constants.
std::vector<PointResult> not_seen(std::vector<PointResult> results, const CrossValidation& validation);

}  // namespace gpuplan
