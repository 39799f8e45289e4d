#include "models/weights.h"

namespace gpuplan {
namespace {

std::int64_t sum(const std::vector<WeightTensor>& tensors) {
  std::int64_t elements = 0;
  for (const WeightTensor& tensor : tensors) elements += tensor.elements();
  return elements;
}

}  // namespace

std::int64_t WeightTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::int64_t ModelWeights::layer_elements() const { return sum(layer); }
std::int64_t ModelWeights::before_elements() const { return sum(before); }
std::int64_t ModelWeights::after_elements() const { return sum(after); }

}  // namespace gpuplan
