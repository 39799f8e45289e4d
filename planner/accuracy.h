// How far predictions have been from published measurements, as a range around a figure: 8 of 10 measurements of such
// runs lie inside. Written by `gpuplan validate --save-ranges`, read by every command that shows a figure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
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

/// What decides how well a run is predicted.
struct MeasuredKind {
  Method method = Method::Full;
  bool is_pretraining = false;
  bool is_sharded = false;  // states or weights are split between GPUs
  bool has_several_gpus = false;
  bool offloads = false;  // states, weights or activations to the host
};

/// Groups of measurements, from the one nearest to the run to all: {"sharded LoRA", "LoRA", "training"}. Memory goes by
/// method and sharding; time by fine-tuning or pre-training, and by where the work is done.
std::vector<std::string> cells_of(Figure figure, const MeasuredKind& kind);
/// All that a run of any kind may be in.
std::set<std::string> cells_of(Figure figure);

/// measured / predicted between which 8 of 10 measurements lie, sources counted alike.
struct AccuracyRange {
  double low = 1, high = 1;                 // low <= 1 <= high
  std::size_t num_points{}, num_sources{};  // in the cell
  double tail{};                            // share cut off at either end of the ratios
  double widening = 1;                      // of the logarithm of both ends, where no tail sufficed
  double coverage{};                        // share of the points inside the range that the other sources give
  std::string cell;                         // "sharded LoRA"
};

/// The ranges of one figure.
struct FigureAccuracy {
  std::vector<AccuracyRange> cells;
  const AccuracyRange* find(std::string_view cell) const;
};

struct Accuracy {
  std::vector<std::pair<Figure, FigureAccuracy>> figures;
  /// Records that published pre-training runs use and fine-tuning ones do not: full training with them counts as
  /// pre-training.
  std::vector<std::string> pretraining_frameworks;
  const FigureAccuracy* find(Figure figure) const;
  /// Of the nearest cell with measurements; empty where there are none.
  std::optional<AccuracyRange> range(Figure figure, const MeasuredKind& kind) const;
};

nlohmann::ordered_json to_json(const Accuracy& accuracy);
/// Throws InputError naming the file.
Accuracy read_accuracy(const std::filesystem::path& file);
/// The shipped ranges (data/validation/accuracy.json); empty where there are none.
const Accuracy& default_accuracy();

}  // namespace gpuplan
