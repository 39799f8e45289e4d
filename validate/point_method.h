// The methods of measured points, in their words.
#pragma once

#include <array>
#include <string_view>

#include "models/recipe.h"

namespace gpuplan {

struct PointMethod {
  std::string_view name;
  Method method;
  bool is_dora;
};
inline constexpr std::array kPointMethods{
    PointMethod{"full", Method::Full, false}, PointMethod{"pretrain", Method::Full, false},
    PointMethod{"lora", Method::Lora, false}, PointMethod{"qlora", Method::Qlora, false},
    PointMethod{"dora", Method::Lora, true},  PointMethod{"qdora", Method::Qlora, true}};

}  // namespace gpuplan
