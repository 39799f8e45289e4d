// A word to the core that this thread looks at memory in a loop: it costs a few cycles and no turn of the scheduler.
#pragma once

namespace gpuplan {

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace gpuplan
