#include "run/given_weights.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/narrow.h"
#include "models/checkpoint.h"
#include "models/training_method.h"
#include "run/saved_model.h"

namespace gpuplan {
namespace {

/// A tensor that the plan has no adapter for would be lost without a word.
void require_all_used(const NativeJob& job, const TensorFiles& adapter, const std::filesystem::path& folder) {
  std::set<std::string> known;
  for (std::uint16_t unit = 0; unit <= job.head_unit(); ++unit)
    for (const PlacedTensor& t : job.layout_of(unit).trained) known.insert(saved_name(job, unit, t));
  for (const auto& [name, tensor] : adapter.all())
    if (!known.contains(name))
      throw InputError(folder.string(), fmt::format("tensor '{}' belongs to no adapter of this model", name),
                       "is it of another base model?");
}

/// A stored copy of a tied head that differs from the embedding is the head of another model.
void require_tied(const MappedTensor& head, const MappedTensor& embedding) {
  constexpr std::int64_t kCompared = std::int64_t(1) << 20;  // elements
  bool is_same = head.shape == embedding.shape;
  const std::int64_t count = std::ssize(head.data) / size_of(head.dtype);
  std::vector<float> a, b;
  for (std::int64_t begin = 0; is_same && begin < count; begin += kCompared) {
    const std::int64_t end = std::min(count, begin + kCompared);
    a.resize(std::size_t(end - begin)), b.resize(a.size());
    read_elements(head, begin, end, a.data(), Dtype::F32);
    read_elements(embedding, begin, end, b.data(), Dtype::F32);
    is_same = std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
  if (!is_same)
    throw InputError(
        head.file,
        fmt::format("'{}' and '{}' differ, but config.json says that they are tied", head.name, embedding.name),
        "set tie_word_embeddings to false in config.json, or give weights of the same model");
}

/// A tensor that the model lacks would be left out without a word. Those that it has are asked for when they are read.
void require_no_others(const NativeJob& job, const TensorFiles& weights, const std::filesystem::path& folder) {
  std::set<std::string> known;
  if (has_own_head(job.recipe())) known.insert("lm_head.weight");  // another one stands in its place
  for (std::uint16_t unit = 0; unit <= job.head_unit(); ++unit)
    for (std::size_t t = 0; t < job.weights_of(unit).size(); ++t)
      known.insert(job.tensor_name(unit, narrow<std::uint16_t>(t)));
  std::vector<std::string> others;
  for (const auto& [name, tensor] : weights.all())
    if (!known.contains(name) && extra_meaning(name, job.model.spec).empty())
      others.push_back(fmt::format("'{}' [{}]", name, fmt::join(tensor.shape, ", ")));
  if (others.empty()) return;
  const std::string more = others.size() == 1 ? "" : fmt::format(" and {} more tensors", others.size() - 1);
  throw InputError(folder.string(),
                   fmt::format("the weights hold {}{}, which the model of config.json does not have", others[0], more),
                   "config.json must be of the same model: its layers, its biases, whether it ties its embeddings");
}

}  // namespace

std::unique_ptr<WeightSource> given_weights(const NativeJob& job, const RankPlace& place, const TrainingOptions& o) {
  auto source = random_weights(o.seed);
  if (!o.is_random) {
    auto weights = std::make_shared<TensorFiles>(o.model_folder);
    require_no_others(job, *weights, o.model_folder);
    const MappedTensor* const head = job.model.spec.tie_word_embeddings ? weights->find("lm_head.weight") : nullptr;
    const MappedTensor* const embedding = weights->find(job.tensor_name(0, 0));
    if (place.rank == 0 && head && embedding) require_tied(*head, *embedding);
    source = file_weights(std::move(weights), has_own_head(job.recipe()), std::move(source));
  }
  if (!o.adapter) return source;
  GPUPLAN_CHECK(job.recipe().is_adapter(), "an adapter is given for full fine-tuning");
  auto adapter = std::make_shared<TensorFiles>(*o.adapter / "adapter_model.safetensors");
  require_all_used(job, *adapter, *o.adapter);
  return adapter_weights(std::move(adapter), std::move(source));
}

}  // namespace gpuplan
