// How gpuplan ends when it ends badly, by who was wrong (base/error.h).
#pragma once

namespace gpuplan {

inline constexpr int kWrongInput = 2, kWorldFailed = 3, kOurBug = 4;

}  // namespace gpuplan
