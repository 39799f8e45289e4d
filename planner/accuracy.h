// How far predictions have been from published measurements, as a range around a figure: 8 of 10 measurements of such
// runs lie inside. Written by `gpuplan validate --save-ranges`, read by every command that shows a figure.
#pragma once

#include <array>
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

/// Names what a figure is about; the three tiers of memory, and time.
enum class Figure : std::uint8_t { Tensors, Reserved, Process, StepTime };
constexpr int kNumFigures = 4;
std::string_view to_string(Figure figure);

/// Holds what decides how well a run is predicted.
struct MeasuredKind {
  Method method = Method::Full;
  bool is_pretraining = false;
  bool is_sharded = false;  // states or weights are split between GPUs
  bool has_several_gpus = false;
  bool offloads = false;  // states, weights or activations to the host
  /// Holds what may set the run apart from measured ones: one of kModelKinds, that under its strategy, "DoRA", ….
  std::vector<std::string> traits{};
};

/// Kinds of models beside decoders whose layers all attend and have one MLP.
inline constexpr std::array<std::string_view, 5> kModelKinds{"mixture of experts", "encoder and decoder", "encoder",
                                                             "recurrent layers", "vision tower"};
/// The cell of runs with a trait that nobody measured.
inline constexpr std::string_view kUnlike = "unlike any measured run";

/// Groups of measurements, from the one nearest to the run to all: {"sharded LoRA", "LoRA", "training"}. Memory goes by
/// method and sharding; time by fine-tuning or pre-training, and by where the work is done.
std::vector<std::string> cells_of(Figure figure, const MeasuredKind& kind);
/// Every cell that a run may be in, kinds of models and kUnlike among them.
std::set<std::string> cells_of(Figure figure);

/// measured / predicted between which 8 of 10 measurements of a new source lie.
struct AccuracyRange {
  double low = 1, high = 1;                 // low <= 1 <= high
  std::size_t num_points{}, num_sources{};  // in the cell
  double coverage{};                        // share of a source's points inside the range of the others, sources alike
  double coverage_of_pairs{};               // likewise, with a second source left out
  std::string cell{};                       // "sharded LoRA"
  std::string unmeasured{};                 // trait of the run that no measured one has: "DoRA"
};

/// The ranges of one figure.
struct FigureAccuracy {
  std::vector<AccuracyRange> cells;
  std::vector<std::string> measured_traits;  // sorted
  const AccuracyRange* find(std::string_view cell) const;
};

struct Accuracy {
  std::vector<std::pair<Figure, FigureAccuracy>> figures;
  /// Records that published pre-training runs use and fine-tuning ones do not: full training with them counts as
  /// pre-training.
  std::vector<std::string> pretraining_frameworks;
  const FigureAccuracy* find(Figure figure) const;
  /// The range of the nearest cell with measurements, at least as wide as that of the run's kind of model, and as
  /// kUnlike where it has a trait that nobody measured. Empty where there are no measurements.
  std::optional<AccuracyRange> range(Figure figure, const MeasuredKind& kind) const;
};

nlohmann::ordered_json to_json(const Accuracy& accuracy);
/// Throws InputError naming the file.
Accuracy read_accuracy(const std::filesystem::path& file);
/// The shipped ranges (data/validation/accuracy.json); empty where there are none.
const Accuracy& default_accuracy();

}  // namespace gpuplan
