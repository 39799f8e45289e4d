#include "models/model_spec.h"

#include <algorithm>
#include <cmath>

namespace gpuplan {
namespace {

/// The nearest multiples of a merged patch, scaled where the area leaves the bounds. Source: transformers
/// image_processing_qwen2_vl.py, smart_resize.
std::int64_t grid_side(double side, double scale, std::int64_t factor, double (*rounded)(double)) {
  return std::max(factor, std::int64_t(rounded(side * scale / double(factor))) * factor);
}

ImageGrid resized_grid(const VisionSpec& v, double width, double height) {
  const std::int64_t factor = v.patch_size * v.merge;
  ImageGrid grid;
  const auto resize = [&](double scale, double (*rounded)(double)) {
    grid.width = grid_side(width, scale, factor, rounded);
    grid.height = grid_side(height, scale, factor, rounded);
  };
  resize(1, [](double x) { return std::nearbyint(x); });
  if (grid.width * grid.height > v.max_pixels)
    resize(std::sqrt(double(v.max_pixels) / (width * height)), [](double x) { return std::floor(x); });
  else if (grid.width * grid.height < v.min_pixels)
    resize(std::sqrt(double(v.min_pixels) / (width * height)), [](double x) { return std::ceil(x); });
  return grid;
}

struct TileShape {
  std::int64_t columns, rows;
  double ratio() const { return double(columns) / double(rows); }
  std::int64_t count() const { return columns * rows; }
};

/// The arrangement of at most max_tiles whose ratio is nearest; of equal ones a larger one only where the image has
/// more than half its area. Source: transformers image_processing_got_ocr2.py, get_optimal_tiled_canvas.
TileShape tile_shape(const VisionSpec& v, double width, double height) {
  TileShape best{1, 1};
  double nearest = std::abs(width / height - 1);
  const double tile = double(v.image_size * v.image_size);
  for (std::int64_t count = 1; count <= v.max_tiles; ++count)
    for (std::int64_t columns = 1; columns <= count; ++columns) {
      if (count % columns != 0) continue;
      const TileShape shape{columns, count / columns};
      const double distance = std::abs(width / height - shape.ratio());
      if (distance < nearest || (distance == nearest && width * height > 0.5 * tile * double(count)))
        best = shape, nearest = distance;
    }
  return best;
}

bool contains(const std::vector<std::int64_t>& layers, std::int64_t layer) {
  return std::find(layers.begin(), layers.end(), layer) != layers.end();
}

}  // namespace

bool VisionSpec::is_windowed(std::int64_t layer) const { return window > 0 && !contains(full_layers, layer); }
bool VisionSpec::is_deepstack(std::int64_t layer) const { return contains(deepstack_layers, layer); }

ImageGrid image_grid(const VisionSpec& v, std::int64_t width, std::int64_t height) {
  if (!v.is_present()) return {.positions_per_tile = 0, .tokens = 0};
  ImageGrid grid{.width = v.image_size, .height = v.image_size};
  if (v.rule == ImageRule::Grid) grid = resized_grid(v, double(width), double(height));
  if (v.rule == ImageRule::Tiles) {
    const std::int64_t tiles = tile_shape(v, double(width), double(height)).count();
    grid.tiles = tiles == 1 ? 1 : tiles + 1;
  }
  const std::int64_t columns = grid.width / v.patch_size, rows = grid.height / v.patch_size;
  grid.positions_per_tile = columns * rows + (v.has_class_token ? 1 : 0);
  grid.tokens = grid.tiles * (columns / v.merge) * (rows / v.merge);
  return grid;
}

ModelSpec tower_of(const VisionSpec& v) {
  ModelSpec m;
  m.hidden_size = v.hidden_size;
  m.num_hidden_layers = v.num_layers;
  m.num_attention_heads = m.num_key_value_heads = v.num_heads;
  m.head_dim = v.num_heads > 0 ? v.hidden_size / v.num_heads : 0;
  m.intermediate_size = v.intermediate_size;
  m.learned_positions = v.learned_positions;
  m.norm = v.is_rms ? NormKind::RmsNorm : NormKind::LayerNorm;
  m.mlp = v.is_gated ? MlpKind::Gated : MlpKind::Plain;
  m.position = v.is_rotary ? PositionKind::Rope : PositionKind::Learned;
  m.activation = v.is_gated ? "silu" : "gelu";
  m.is_causal = false;
  return m;
}

}  // namespace gpuplan
