#include "run/tensor_cut.h"

#include "base/error.h"

namespace gpuplan {

TensorCut cut_of(const PlacedTensor& own, const WeightTensor& whole) {
  TensorCut cut;
  if (own.use == WeightUse::LowRankA)
    cut.cols = whole.in / own.cols;
  else if (own.use == WeightUse::LowRankB)
    cut.rows = whole.out / own.rows;
  else if (whole.role == WeightRole::Linear && whole.in != own.cols)
    cut.cols = whole.in / own.cols;
  else
    cut.rows = whole.elements() / own.elements();
  GPUPLAN_CHECK(own.use != WeightUse::Tensor || own.elements() * cut.rows * cut.cols == whole.elements(),
                "a tensor is shared in equal parts");
  return cut;
}

}  // namespace gpuplan
