// How far predictions have been from published measurements, as a range around a figure: 8 of 10 measurements lie
// inside. Written by `gpuplan validate --save-ranges`, read by every command that shows a figure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/recipe.h"

namespace gpuplan {

/// What a figure is about; the three tiers of memory, and time.
enum class Figure : std::uint8_t { Tensors, Reserved, Process, StepTime };
constexpr int kNumFigures = 4;
std::string_view to_string(Figure figure);

/// measured / predicted of 10 % and 90 % of the measurements, widened until sources that were left out are covered too.
struct AccuracyRange {
  double low = 1, high = 1;  // low <= 1 <= high
  std::size_t num_points{}, num_sources{};
  double tail{};        // share cut off at either end of the ratios
  double widening = 1;  // of the logarithm of both ends, where no tail sufficed
  double coverage{};    // share of the points inside the range that the other sources give
};

/// The ranges of one figure: for a method where enough was measured, else for all.
struct FigureAccuracy {
  AccuracyRange all;
  std::vector<std::pair<Method, AccuracyRange>> by_method;
  double coverage{};  // share of the points inside the range that the other sources give, each by its method's
  const AccuracyRange& of(Method method) const;
};

struct Accuracy {
  std::vector<std::pair<Figure, FigureAccuracy>> figures;
  const FigureAccuracy* find(Figure figure) const;
  /// Empty where nothing comparable was measured.
  std::optional<AccuracyRange> range(Figure figure, Method method) const;
};

nlohmann::ordered_json to_json(const Accuracy& accuracy);
/// Throws InputError naming the file.
Accuracy read_accuracy(const std::filesystem::path& file);
/// The shipped ranges (data/validation/accuracy.json); empty where there are none.
const Accuracy& default_accuracy();

}  // namespace gpuplan
