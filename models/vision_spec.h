// The vision tower of a vision-language model: its blocks, how an image becomes patches, and how patches become tokens
// of the language model's sequence. The tower stands in front of the language model as a second stack of layers.
#pragma once

#include <cstdint>
#include <vector>

namespace gpuplan {

/// Square: every image is resized to image_size x image_size. Grid: to the nearest multiples of a merged patch
/// (Qwen2-VL's smart_resize). Budget: to as many whole merged patches as max_pixels hold. Tiles: cut into squares of
/// image_size, with a thumbnail of the whole beside several. Pinpoints: padded to one of a list of sizes and cut, with
/// a thumbnail. LongestEdge: resized to longest_edge and cut, with a thumbnail. GridOrTiles: as Grid, and where that is
/// larger than `tolerance` times max_pixels as Tiles (the thumbnail counts as one of them).
enum class ImageRule : std::uint8_t { Square, Grid, Budget, Tiles, Pinpoints, LongestEdge, GridOrTiles };

struct ImageSide {
  std::int64_t height{}, width{};
  friend bool operator==(const ImageSide&, const ImageSide&) = default;
};

/// Counts are elements; no layers: a model without a tower.
struct VisionSpec {
  std::int64_t hidden_size{}, num_layers{}, num_heads{}, intermediate_size{};
  std::int64_t patch_size{}, temporal_patch_size = 1;
  std::int64_t merge = 1;                 // an image token is made of merge x merge patches
  std::int64_t learned_positions{};       // rows of a learned position table, else 0
  std::int64_t window{};                  // patches that attend to each other in a windowed block, 0: all of an image
  std::vector<std::int64_t> full_layers;  // blocks without the window
  std::vector<std::int64_t> deepstack_layers;  // blocks whose output also joins the first layers of the language model
  bool has_class_token{}, has_layer_scale{}, is_gated{}, is_rms{}, is_rotary{};
  bool merges_by_mean{};              // of the merged patches; else side by side
  bool is_wrapped{};                  // its blocks are FSDP units (_no_split_modules); else the root holds them
  bool has_branch_norms{};            // RMS norms behind the branches too, and on queries, keys and values (Gemma 4)
  bool standardises{}, is_clipped{};  // tensors that cost nothing: a shift and scale behind it, bounds of its linears
  std::int64_t num_global_layers{};   // last blocks, which are gated (Llama 3.2 Vision)
  std::int64_t feature_layers = 1;    // of how many blocks the outputs go to the projector, side by side
  bool is_attended{};                 // its features are no tokens of the sequence: some layers attend to them

  ImageRule rule{};
  std::int64_t image_size{};                // of a square
  std::int64_t min_pixels{}, max_pixels{};  // of a grid; of a budget the most
  std::int64_t min_tiles = 1, max_tiles = 1;
  double tolerance = 1;
  bool pads_merge{};              // a side that merging does not divide is padded
  std::int64_t projector_size{};  // between the projector's linears, where the family does not say it
  bool has_projector_norm{};
  std::int64_t tiles_together = 1;   // tiles of every image, which attend to each other as one sequence
  std::vector<ImageSide> pinpoints;  // sizes that an image may be padded to
  std::int64_t feature_limit{};      // of a padded image, in tiles; more are interpolated to as many. 0: none
  std::int64_t longest_edge{};

  bool is_present() const { return num_layers > 0; }
  std::int64_t patch_elements() const { return 3 * temporal_patch_size * patch_size * patch_size; }
  bool is_windowed(std::int64_t layer) const;
  bool is_deepstack(std::int64_t layer) const;
  /// The tower's blocks and the projector behind them.
  std::int64_t num_units() const { return is_present() ? num_layers + 1 : 0; }
  friend bool operator==(const VisionSpec&, const VisionSpec&) = default;
};

/// Holds what one image of a size is to the model.
struct ImageGrid {
  std::int64_t width{}, height{};  // as the processor resizes it, of one tile
  std::int64_t tiles = 1;
  std::int64_t positions_per_tile{};  // of the tower's sequence: patches, and the class token
  std::int64_t features{};            // rows that pass the projector, all tiles together
  std::int64_t tokens{};              // of the language model's sequence
  std::int64_t positions() const { return tiles * positions_per_tile; }
};

/// Sizes are pixels of the image before the processor.
ImageGrid image_grid(const VisionSpec& vision, std::int64_t width, std::int64_t height);

}  // namespace gpuplan
