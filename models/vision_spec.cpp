#include "models/model_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

/// As many whole merged patches as the budget holds. Source: transformers image_processing_gemma4.py,
/// get_aspect_ratio_preserving_size.
ImageGrid budgeted_grid(const VisionSpec& v, double width, double height) {
  const std::int64_t unit = v.patch_size * v.merge;
  const double scale = std::sqrt(double(v.max_pixels) / (width * height));
  const auto side = [&](double length) { return std::int64_t(length * scale / double(unit)) * unit; };
  const std::int64_t longest = v.max_pixels / unit;
  ImageGrid grid{.width = side(width), .height = side(height)};
  if (grid.height == 0)
    grid.height = unit, grid.width = std::min(std::int64_t(width / height) * unit, longest);
  else if (grid.width == 0)
    grid.width = unit, grid.height = std::min(std::int64_t(height / width) * unit, longest);
  return grid;
}

/// The nearest multiples of a merged patch. Source: transformers image_processing_lfm2_vl_fast.py, _is_image_too_large.
bool is_cut(const VisionSpec& v, double width, double height) {
  const std::int64_t factor = v.patch_size * v.merge;
  const auto side = [&](double x) {
    return std::max(v.patch_size, std::int64_t(std::nearbyint(x / double(factor))) * factor);
  };
  return double(side(width) * side(height)) > v.tolerance * double(v.max_pixels);
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
  double nearest = v.min_tiles > 1 ? std::numeric_limits<double>::infinity() : std::abs(width / height - 1);
  const double tile = double(v.image_size * v.image_size);
  for (std::int64_t count = v.min_tiles; count <= v.max_tiles; ++count)
    for (std::int64_t columns = 1; columns <= count; ++columns) {
      if (count % columns != 0) continue;
      const TileShape shape{columns, count / columns};
      const double distance = std::abs(width / height - shape.ratio());
      if (distance < nearest || (distance == nearest && width * height > 0.5 * tile * double(count)))
        best = shape, nearest = distance;
    }
  return best;
}

/// The size that keeps most of the image, then wastes least. Source: transformers image_processing_utils.py,
/// select_best_resolution.
ImageSide best_pinpoint(const VisionSpec& v, std::int64_t width, std::int64_t height) {
  ImageSide best = v.pinpoints.front();
  std::int64_t most = 0, least_wasted = 0;
  for (const ImageSide& size : v.pinpoints) {
    const double scale = std::min(double(size.width) / double(width), double(size.height) / double(height));
    const std::int64_t kept = std::min(std::int64_t(double(width) * scale) * std::int64_t(double(height) * scale),
                                       width * height),
                       wasted = size.width * size.height - kept;
    if (kept > most || (kept == most && wasted < least_wasted)) best = size, most = kept, least_wasted = wasted;
  }
  return best;
}

/// Tokens of the thumbnail, of the image's patches without its padding, and of a line's end behind each row of them.
/// Source: transformers processing_llava_next.py and processing_llava_onevision.py, _get_unpadded_features.
std::int64_t unpadded_tokens(const VisionSpec& v, ImageSide size, double width, double height) {
  const std::int64_t side = v.image_size / v.patch_size;
  std::int64_t rows = size.height / v.image_size * side, columns = size.width / v.image_size * side;
  const auto shortened = [](std::int64_t padded, double used) {
    const std::int64_t kept = std::int64_t(std::nearbyint(used * 1e7) / 1e7);
    return padded - (padded - kept) / 2 * 2;
  };
  if (width / height > double(columns) / double(rows))
    rows = shortened(rows, height * (double(columns) / width));
  else
    columns = shortened(columns, width * (double(rows) / height));
  const double ratio =
      std::sqrt(double(rows * columns) / double(std::max<std::int64_t>(1, v.feature_limit) * side * side));
  if (v.feature_limit > 0 && ratio > 1.1)
    rows = std::int64_t(double(rows) / ratio), columns = std::int64_t(double(columns) / ratio);
  return side * side + rows * columns + rows;
}

/// Squares of an image whose longer side is resized to longest_edge, the shorter one rounded up. Source: transformers
/// image_processing_idefics3.py, resize, resize_for_vision_encoder, split_image.
std::int64_t num_edge_tiles(const VisionSpec& v, double width, double height) {
  const double longer = std::max(width, height), shorter = std::min(width, height);
  const auto even = [](std::int64_t x) { return std::max<std::int64_t>(1, x + x % 2); };
  const auto squares = [&](std::int64_t x) { return (x + v.image_size - 1) / v.image_size; };
  const std::int64_t resized = even(std::int64_t(double(v.longest_edge) * shorter / longer));
  const std::int64_t along = squares(v.longest_edge);
  const double ratio = double(resized) / double(v.longest_edge);
  return along * std::max<std::int64_t>(1, squares(std::int64_t(double(along * v.image_size) * ratio)));
}

std::int64_t rounded_up(std::int64_t x, std::int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

bool contains(const std::vector<std::int64_t>& layers, std::int64_t layer) {
  return std::find(layers.begin(), layers.end(), layer) != layers.end();
}

}  // namespace

bool VisionSpec::is_windowed(std::int64_t layer) const { return window > 0 && !contains(full_layers, layer); }
bool VisionSpec::is_deepstack(std::int64_t layer) const { return contains(deepstack_layers, layer); }

ImageGrid image_grid(const VisionSpec& v, std::int64_t width, std::int64_t height) {
  if (!v.is_present()) return {.positions_per_tile = 0, .tokens = 0};
  ImageGrid grid{.width = v.image_size, .height = v.image_size};
  const double wide = double(width), high = double(height);
  ImageSide pinpoint;
  std::int64_t tiles = 1;
  switch (v.rule) {
    case ImageRule::Square: break;
    case ImageRule::Grid: grid = resized_grid(v, wide, high); break;
    case ImageRule::Budget: grid = budgeted_grid(v, wide, high); break;
    case ImageRule::Tiles: tiles = tile_shape(v, wide, high).count(); break;
    case ImageRule::GridOrTiles:
      if (is_cut(v, wide, high))
        tiles = tile_shape(v, wide, high).count();
      else
        grid = resized_grid(v, wide, high);
      break;
    case ImageRule::LongestEdge: tiles = num_edge_tiles(v, wide, high); break;
    case ImageRule::Pinpoints:
      pinpoint = best_pinpoint(v, width, height);
      tiles = pinpoint.height / v.image_size * (pinpoint.width / v.image_size);
      break;
  }
  if (tiles > 1 || v.rule == ImageRule::Pinpoints) grid.tiles = tiles + 1;
  const std::int64_t columns = grid.width / v.patch_size, rows = grid.height / v.patch_size;
  grid.positions_per_tile = columns * rows + (v.has_class_token ? 1 : 0);
  const auto merged = [&](std::int64_t side) { return (side + (v.pads_merge ? v.merge - 1 : 0)) / v.merge; };
  grid.features = grid.tokens = grid.tiles * merged(columns) * merged(rows);
  if (v.rule == ImageRule::Budget) grid.positions_per_tile = v.max_pixels / (v.patch_size * v.patch_size);  // padded
  if (v.rule == ImageRule::Pinpoints) grid.tokens = unpadded_tokens(v, pinpoint, wide, high);
  if (v.is_attended) {  // the class tokens stay; each tile is padded to a multiple of 8
    grid.features = v.tiles_together * grid.positions_per_tile;
    grid.positions_per_tile = v.tiles_together * rounded_up(grid.positions_per_tile, 8);
    grid.tokens = 0;
  }
  return grid;
}

ModelSpec global_of(const ModelSpec& model) {
  ModelSpec m = model;
  if (!m.global.is_present()) return m;
  m.head_dim = m.global.head_dim;
  m.num_key_value_heads = m.global.num_key_value_heads;
  return m;
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
  if (!v.has_branch_norms) return m;
  m.norm = NormKind::GemmaRmsNorm;
  m.norm_placement = NormPlacement::Sandwich;
  m.qk_norm = QkNorm::PerHead;
  m.has_value_norm = true;
  m.activation = "gelu_tanh";
  return m;
}

}  // namespace gpuplan
