// Whether this build runs under a sanitizer: the same code several times slower, where what is looked for shows with a
// few rounds.
#pragma once

#include <cstdlib>

namespace gpuplan::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Rounds of a law over random questions: `usual` in ./check, `sanitized` where each takes ten times as long, `all`
/// with GPUPLAN_ALL_ROUNDS set, as ./check --full does.
inline int num_rounds(int sanitized, int usual, int all) {
  if (kIsSanitized) return sanitized;
  return std::getenv("GPUPLAN_ALL_ROUNDS") ? all : usual;
}

}  // namespace gpuplan::test
