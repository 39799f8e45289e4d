// Shapes of matrix products: linears of the catalogue's models, adapters, heads and tiny models at many token counts,
// and attention's batched products. Not a grid: pairs of widths and token counts are walked with two irrational steps,
// so that few shapes fill the space and every dimension takes many values.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "calibrate/plan.h"
#include "models/catalogue.h"
#include "models/weights.h"

namespace gpuplan {
namespace {

/// A linear layer: weights [out, in].
struct Linear {
  std::int64_t out{}, in{};
  friend auto operator<=>(const Linear&, const Linear&) = default;
  double weights() const { return double(out) * double(in); }
};

/// Small to large, of different families; their widths span the catalogue's.
constexpr std::array kModels{"smollm2-135m", "qwen2.5-0.5b", "llama-3.2-1b", "tinyllama-1.1b", "qwen2.5-3b",
                             "llama-3.2-3b", "qwen2.5-7b",   "llama-3-8b",   "llama-2-13b",    "llama-3-70b"};
constexpr std::array<std::int64_t, 3> kAdapterRanks{8, 16, 64};
constexpr std::array<std::int64_t, 7> kTinyWidths{64, 96, 128, 192, 256, 384, 512};
constexpr std::array<std::int64_t, 3> kTinyVocabularies{256, 1024, 8192};
constexpr std::array<std::int64_t, 15> kTokens{32,  64,   96,   128,  192,  256,  384,  512,
                                               768, 1024, 1536, 2048, 4096, 8192, 16384};

/// Points in the unit square that stay far from each other, however many are taken.
/// Source: Roberts 2018, "The Unreasonable Effectiveness of Quasirandom Sequences", R2: powers of 1 / 1.3247 (plastic
/// number).
struct Walk {
  double u, v;
  void step() {
    u = std::fmod(u + 0.7548776662466927, 1.0);
    v = std::fmod(v + 0.5698402909980532, 1.0);
  }
};

template <class T>
const T& at_share(const std::vector<T>& values, double share) {
  return values[std::min(values.size() - 1, std::size_t(share * double(values.size())))];
}

/// Smallest first, so that a share of the list is a share of the sizes.
std::vector<Linear> sorted(const std::set<Linear>& linears) {
  std::vector<Linear> list(linears.begin(), linears.end());
  std::stable_sort(list.begin(), list.end(),
                   [](const Linear& a, const Linear& b) { return a.weights() < b.weights(); });
  return list;
}

struct CatalogueLinears {
  std::set<Linear> layers, heads, adapters;
};

/// One adapter on each width, in both directions, ranks in turn.
void add_adapters(std::set<Linear>& adapters, const Linear& linear) {
  const std::int64_t rank = kAdapterRanks[adapters.size() / 2 % kAdapterRanks.size()];
  adapters.insert({rank, linear.in});
  adapters.insert({linear.out, rank});
}

CatalogueLinears catalogue_linears() {
  CatalogueLinears found;
  for (const char* const name : kModels) {
    const ModelSpec model = load_model(name).spec;
    found.heads.insert({model.vocab_size, model.hidden_size});
    for (const LayerKind& kind : list_weights(model).kinds)
      for (const WeightTensor& tensor : kind.tensors)
        if (tensor.role == WeightRole::Linear) found.layers.insert({tensor.out, tensor.in});
  }
  for (const Linear& linear : found.layers) add_adapters(found.adapters, linear);
  return found;
}

std::set<Linear> tiny_linears() {
  std::set<Linear> linears;
  for (const std::int64_t width : kTinyWidths) {
    for (const std::int64_t out : {width, 4 * width}) linears.insert({out, width}), linears.insert({width, out});
    for (const std::int64_t vocabulary : kTinyVocabularies) linears.insert({vocabulary, width});
  }
  return linears;
}

/// Forward, and the two products of backward (base/operation_kinds.h).
GemmShape shape_of(const Linear& linear, std::int64_t tokens, GemmLayout layout) {
  switch (layout) {
    case GemmLayout::Forward: return {tokens, linear.out, linear.in};
    case GemmLayout::InputGradient: return {tokens, linear.in, linear.out};
    case GemmLayout::WeightGradient: return {linear.out, linear.in, tokens};
  }
  return {};
}

/// Products of one format and layout, and what they may take.
struct Series {
  const ProbeLimits& limits;
  GemmType type{};
  GemmLayout layout{};

  Probe probe(const GemmShape& shape) const {
    return {.family = ProbeFamily::Gemm, .num_ranks = limits.num_ranks, .type = type, .layout = layout, .shape = shape};
  }
  bool fits(const GemmShape& shape, double more = 1) const {
    const Probe asked = probe(shape);
    if (type == GemmType::F8 && !fits_fp8(shape)) return false;
    return asked.flops() <= more * limits.most_flops(type) && asked.traffic() <= limits.most_operands();
  }
  /// cuBLASLt's fp8 kernels take rows of whole 16 bytes.
  static bool fits_fp8(const GemmShape& s) { return s.batch == 1 && s.m % 16 == 0 && s.n % 16 == 0 && s.k % 16 == 0; }
  Walk start() const { return {0.5 + 0.31 * double(layout), 0.5 + 0.17 * double(type) + 0.23 * double(layout)}; }
};

void add_new(std::vector<Probe>& probes, const Probe& probe) {
  const auto is_same = [&](const Probe& other) { return other.key() == probe.key(); };
  if (std::none_of(probes.begin(), probes.end(), is_same)) probes.push_back(probe);
}

std::vector<std::int64_t> allowed_tokens(const Linear& linear, const Series& series) {
  std::vector<std::int64_t> allowed;
  for (const std::int64_t tokens : kTokens)
    if (series.fits(shape_of(linear, tokens, series.layout))) allowed.push_back(tokens);
  return allowed;
}

std::vector<Probe> linear_probes(const std::vector<Linear>& linears, std::int64_t num_probes, const Series& series) {
  std::vector<Linear> usable;
  std::copy_if(linears.begin(), linears.end(), std::back_inserter(usable),
               [&](const Linear& linear) { return !allowed_tokens(linear, series).empty(); });
  std::vector<Probe> probes;
  Walk walk = series.start();
  for (std::int64_t i = 0; i < num_probes && !usable.empty(); ++i, walk.step()) {
    const Linear& linear = at_share(usable, walk.u);
    add_new(probes, series.probe(shape_of(linear, at_share(allowed_tokens(linear, series), walk.v), series.layout)));
  }
  return probes;
}

/// Products with one thin dimension: what adapters and few tokens give, and more of them than the catalogue's linears
/// hold, as libraries treat each kind in its own way.
std::vector<Probe> thin_probes(GemmRegime regime, std::int64_t num_probes, const Series& series) {
  const std::vector<std::int64_t> widths{96,   128,  192,  256,  384,  512,  576,  768,  896,  1024,
                                         1536, 2048, 2560, 3072, 3584, 4096, 5120, 5632, 8192, 14336};
  constexpr std::array<std::int64_t, 4> kThin{16, 8, 64, 32};
  std::vector<Probe> probes;
  Walk walk = series.start();
  for (std::int64_t i = 0; i < 4 * num_probes && std::ssize(probes) < num_probes; ++i, walk.step()) {
    const std::int64_t thin = kThin[std::size_t(i) % kThin.size()], one = at_share(widths, walk.u),
                       other = at_share(widths, walk.v);
    const GemmShape shape = regime == GemmRegime::ThinM   ? GemmShape{thin, one, other}
                            : regime == GemmRegime::ThinN ? GemmShape{one, thin, other}
                                                          : GemmShape{one, other, thin};
    if (series.fits(shape)) add_new(probes, series.probe(shape));
  }
  return probes;
}

/// One large product, where the rate is at its best: the fit's anchor.
std::vector<Probe> anchor(const Series& series) {
  constexpr Linear kLarge{4096, 4096};
  constexpr double kMore = 3;
  for (auto tokens = kTokens.rbegin(); tokens != kTokens.rend(); ++tokens) {
    const GemmShape shape = shape_of(kLarge, *tokens, series.layout);
    if (*tokens <= 4096 && series.fits(shape, kMore)) return {series.probe(shape)};
  }
  return {};
}

/// Attention without a kernel of its own: scores = q k^T, p v, and their gradients, a product per head.
GemmShape attention_shape(std::int64_t length, std::int64_t head_size, std::int64_t heads, GemmLayout layout) {
  if (layout == GemmLayout::Forward) return {length, length, head_size, heads};
  return {length, head_size, length, heads};
}

std::vector<Probe> batched_probes(std::int64_t num_probes, const Series& series) {
  const std::vector<std::int64_t> lengths{64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096};
  const std::vector<std::int64_t> head_counts{2, 4, 8, 9, 14, 16, 32, 64};
  const std::vector<std::int64_t> head_sizes{64, 128, 32, 64};
  std::vector<Probe> probes;
  Walk walk = series.start();
  for (std::int64_t i = 0; i < 4 * num_probes && std::ssize(probes) < num_probes; ++i, walk.step()) {
    const std::int64_t head_size = head_sizes[std::size_t(i) % head_sizes.size()];
    const GemmShape shape =
        attention_shape(at_share(lengths, walk.v), head_size, at_share(head_counts, walk.u), series.layout);
    if (series.fits(shape)) add_new(probes, series.probe(shape));
  }
  return probes;
}

}  // namespace

std::vector<Probe> gemm_design(const ProbeLimits& limits) {
  const CatalogueLinears found = catalogue_linears();
  const auto layers = sorted(found.layers), heads = sorted(found.heads), adapters = sorted(found.adapters),
             tiny = sorted(tiny_linears());
  // CPU libraries switch methods by shape in ways that no form follows: twice as many shapes leave a third less error.
  const auto most = [&](std::int64_t full, std::int64_t quick) {
    return limits.pick(limits.is_cpu() ? 2 * full : full, quick);
  };
  std::vector<std::vector<Probe>> all;
  for (const GemmType type : limits.facts.gemm_types)
    for (const GemmLayout layout : kGemmLayouts) {
      if (type == GemmType::F8 && layout != GemmLayout::Forward)
        continue;  // before sm_100 fp8 kernels take this layout alone
      const Series series{limits, type, layout};
      std::vector<Probe> list = limits.is_quick ? std::vector<Probe>{} : anchor(series);
      const auto rest = interleave(
          {linear_probes(layers, most(32, 6), series), linear_probes(tiny, most(14, 3), series),
           linear_probes(adapters, most(9, 2), series), linear_probes(heads, most(4, 1), series),
           batched_probes(most(16, 4), series), thin_probes(GemmRegime::ThinM, most(20, 2), series),
           thin_probes(GemmRegime::ThinN, most(20, 2), series), thin_probes(GemmRegime::ThinK, most(26, 2), series)});
      for (const Probe& probe : rest) add_new(list, probe);
      all.push_back(std::move(list));
    }
  return interleave(all);
}

}  // namespace gpuplan
