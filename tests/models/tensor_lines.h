// Tensors as lines: "self_attn.q_proj.weight [4096, 4096]".
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/weights.h"

namespace gpuplan::test {

using Lines = std::vector<std::string>;

inline Lines lines_of(const std::vector<WeightTensor>& tensors) {
  Lines lines;
  for (const WeightTensor& tensor : tensors) {
    const std::string copies = tensor.copies > 1 ? fmt::format("{} x ", tensor.copies) : "";
    lines.push_back(fmt::format("{} {}[{}]", tensor.name, copies, fmt::join(tensor.shape, ", ")));
  }
  return lines;
}

}  // namespace gpuplan::test
