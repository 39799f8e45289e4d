#include "cluster/profile/gemm_surface.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpuplan {
namespace {

constexpr std::array kRegimes{
    NameRow<GemmRegime>{"wide", GemmRegime::Wide}, NameRow<GemmRegime>{"thin-m", GemmRegime::ThinM},
    NameRow<GemmRegime>{"thin-n", GemmRegime::ThinN}, NameRow<GemmRegime>{"thin-k", GemmRegime::ThinK},
    NameRow<GemmRegime>{"batched", GemmRegime::Batched}};

constexpr std::int64_t kSmallestTile = 16;  // rows or columns of the smallest kernels
constexpr std::int64_t kSplitDepth = 512;   // least k of a part when k is split
constexpr std::int64_t kTailDepth = 16;     // k of one step of a vector or matrix unit
constexpr Bytes kCacheLine{64}, kSetStride{2048}, kPage{4096};
constexpr Bytes kPrivateCache{1'000'000};

Dtype output_dtype(GemmType type) { return type == GemmType::F8 ? Dtype::BF16 : operand_dtype(type); }

/// Least traffic of one product of the batch.
Bytes bytes_of_one(GemmType type, const GemmShape& s) {
  return bytes_of(s.m * s.k + s.k * s.n, operand_dtype(type)) + bytes_of(s.m * s.n, output_dtype(type));
}

std::int64_t tile_for(std::int64_t size, std::int64_t tile) {
  const auto covering = std::int64_t(std::bit_ceil(std::uint64_t(std::max(size, kSmallestTile))));
  return std::min(tile, covering);
}

double wave(const GemmSurface& f, const GemmShape& s) {
  const std::int64_t tile_m = tile_for(s.m, f.tile_m), tile_n = tile_for(s.n, f.tile_n);
  const auto tiles = double(ceil_div(s.m, tile_m) * ceil_div(s.n, tile_n) * s.batch);
  const double exact = double(s.m) / double(tile_m) * double(s.n) / double(tile_n) * double(s.batch);
  const auto units = double(f.num_units);
  const double parts = std::clamp(std::floor(units / tiles), 1.0, std::max(1.0, double(s.k / kSplitDepth)));
  return 1 + f.wave_loss.value * (std::ceil(tiles * parts / units) / (exact * parts / units) - 1);
}

double short_dimensions(const GemmSurface& f, const GemmShape& s) {
  return (1 + f.m_half.value / double(s.m)) * (1 + f.n_half.value / double(s.n)) * (1 + f.k_half.value / double(s.k));
}

double caches(const GemmSurface& f, const GemmShape& s) {
  const double depth = double(s.k) / (double(s.k) + f.k_depth.value);
  const auto size = double(bytes_of_one(f.type, s).count);
  const double spilled = size / (size + double(kPrivateCache.count));
  return (1 + f.depth_loss.value * depth) / (1 + f.depth_loss.value) * (1 + f.spill_loss.value * spilled) /
         (1 + f.spill_loss.value);
}

double rows(const GemmSurface& f, const GemmShape& s) {
  const Dtype dtype = operand_dtype(f.type);
  const Bytes row_a = bytes_of(f.layout == GemmLayout::WeightGradient ? s.m : s.k, dtype);
  const Bytes row_b = bytes_of(f.layout == GemmLayout::Forward ? s.k : s.n, dtype);
  const auto is_multiple = [](Bytes row, Bytes of) { return row.count % of.count == 0; };
  double factor = s.k % kTailDepth == 0 ? 1 : 1 + f.tail_loss.value;
  for (const Bytes row : {row_a, row_b})
    if (!is_multiple(row, kCacheLine)) factor *= 1 + f.ragged_loss.value;
  if (is_multiple(row_b, kSetStride)) factor *= 1 + f.stride_loss.value;
  if (is_multiple(bytes_of(s.n, output_dtype(f.type)), kPage)) factor *= 1 + f.stride_loss.value;
  return factor;
}

}  // namespace

bool GemmRange::contains(const GemmShape& s) const {
  const auto within = [](std::int64_t low, std::int64_t value, std::int64_t high) {
    return value >= low && value <= high;
  };
  return within(least.m, s.m, most.m) && within(least.n, s.n, most.n) && within(least.k, s.k, most.k) &&
         within(least.batch, s.batch, most.batch);
}

Seconds GemmSurface::time(const GemmShape& s) const {
  if (s.m <= 0 || s.n <= 0 || s.k <= 0 || s.batch <= 0) return {};
  const double flops = 2.0 * double(s.m) * double(s.n) * double(s.k) * double(s.batch);
  const double compute =
      flops / rate.value * wave(*this, s) * short_dimensions(*this, s) * caches(*this, s) * rows(*this, s);
  const auto bytes = double((bytes_of_one(type, s) * s.batch).count);
  const double memory = bytes / bandwidth.value * (1 + memory_loss.value / (1 + std::pow(cache.value / bytes, 4)));
  const double form = launch.value + std::max(compute, memory) + exposed.value * std::min(compute, memory);
  return {form * std::exp(correction.at(correction_sizes(s)))};
}

CorrectionSizes correction_sizes(const GemmShape& s) { return {s.m, s.n, s.k, s.batch}; }

GemmRegime regime_of(const GemmShape& s) {
  if (s.batch > 1) return GemmRegime::Batched;
  const std::int64_t thinnest = std::min({s.m, s.n, s.k});
  if (thinnest > kThinGemm) return GemmRegime::Wide;
  return thinnest == s.n ? GemmRegime::ThinN : thinnest == s.k ? GemmRegime::ThinK : GemmRegime::ThinM;
}

NameTable<GemmRegime> names_of(GemmRegime) { return {"kind of product", kRegimes}; }

}  // namespace gpuplan
