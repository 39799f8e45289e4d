// Whether this build runs under a sanitizer: the same code several times slower, where what is looked for shows with a
// few rounds.
#pragma once

namespace gpuplan::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace gpuplan::test
