#include "models/weights.h"

#include <algorithm>

namespace gpuplan {
namespace {

std::int64_t sum(const std::vector<WeightTensor>& tensors) {
  std::int64_t elements = 0;
  for (const WeightTensor& tensor : tensors) elements += tensor.elements();
  return elements;
}

}  // namespace

std::int64_t WeightTensor::elements() const {
  std::int64_t product = copies;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::int64_t LayerKind::elements() const { return sum(tensors); }

std::int64_t ModelWeights::num_of_kind(std::size_t kind) const { return std::count(order.begin(), order.end(), kind); }

std::int64_t ModelWeights::before_elements() const { return sum(before); }
std::int64_t ModelWeights::after_elements() const { return sum(after); }

std::int64_t ModelWeights::total_elements() const {
  std::int64_t elements = before_elements() + after_elements();
  for (std::size_t k = 0; k < kinds.size(); ++k) elements += num_of_kind(k) * kinds[k].elements();
  return elements;
}

std::int64_t ModelWeights::part_elements(ModelPart part) const {
  std::int64_t elements = 0;
  const auto add = [&](const std::vector<WeightTensor>& tensors, std::int64_t times) {
    for (const WeightTensor& tensor : tensors)
      if (tensor.part == part) elements += times * tensor.elements();
  };
  add(before, 1), add(after, 1);
  for (std::size_t k = 0; k < kinds.size(); ++k) add(kinds[k].tensors, num_of_kind(k));
  return elements;
}

std::int64_t ModelWeights::active_elements(const MoeSpec& moe) const {
  std::int64_t elements = total_elements();
  for (std::size_t k = 0; k < kinds.size(); ++k)
    for (const WeightTensor& tensor : kinds[k].tensors)
      if (tensor.is_routed)
        elements -= num_of_kind(k) * (tensor.elements() / moe.num_experts) * (moe.num_experts - moe.experts_per_token);
  return elements;
}

}  // namespace gpuplan
