// What of an AdamW step depends on its settings alone, for the kernels of every device. Plain C++, for .cu files too.
#pragma once

#include <cmath>

#include "device/device.h"

namespace gpuplan {

///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,  w = w decay - rate m / (sqrt(v) root + epsilon)
/// which is AdamW with m / (1 - beta1^step) and v / (1 - beta2^step). Source: Loshchilov & Hutter 2019, algorithm 2.
struct AdamWStep {
  float beta1{}, beta2{}, epsilon{};
  float decay{};  // 1 - learning rate x weight decay
  float rate{};   // learning rate / (1 - beta1^step)
  float root{};   // 1 / sqrt(1 - beta2^step)
};

inline AdamWStep adamw_step(const AdamW& with) {
  const double bias1 = 1 - std::pow(double(with.beta1), double(with.step)),
               bias2 = 1 - std::pow(double(with.beta2), double(with.step));
  return {.beta1 = with.beta1,
          .beta2 = with.beta2,
          .epsilon = with.epsilon,
          .decay = float(1 - double(with.learning_rate) * double(with.weight_decay)),
          .rate = float(double(with.learning_rate) / bias1),
          .root = float(1 / std::sqrt(bias2))};
}

}  // namespace gpuplan
