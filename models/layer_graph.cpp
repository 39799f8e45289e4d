#include "models/layer_graph.h"

#include <string_view>

namespace gpuplan {

void LayerGraph::clear() {
  locals.clear();
  locals.resize(kNumSlots);
  forward.clear();
  backward.clear();
  software = {};
}

std::string dims_text(const Local& local) {
  static constexpr std::array<std::string_view, std::size_t(Dim::Count)> kNames{
      "Batch", "Seq",   "Keys",   "Hidden",  "QHeads", "KvHeads", "HeadDim", "QWidth", "KvWidth",
      "Ffn",   "Vocab", "Latent", "Experts", "Rank",   "Chunk",   "Rows",    "Cols"};
  std::string text = "[";
  for (Dim dim : local.dims) {
    if (dim == Dim::Count) break;
    if (text.size() > 1) text += ", ";
    text += kNames[std::size_t(dim)];
  }
  return text + "]";
}

std::string_view to_string(OpKind kind) {
  static constexpr std::array<std::string_view, std::size_t(OpKind::Count)> kNames{
      "embed",          "norm",       "linear",        "low-rank",      "dequantise",
      "cast",           "rope",       "repeat-kv",     "attention",     "softmax",
      "batched-matmul", "activation", "multiply",      "swiglu",        "add",
      "scale",          "dropout",    "copy",          "cross-entropy", "convolution",
      "scan",           "exchange",   "largest logit", "label's logit", "sum of exponentials"};
  return kNames[std::size_t(kind)];
}

}  // namespace gpuplan
