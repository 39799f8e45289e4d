// Asks the program's entry point in a process of its own, so that a crash, a hang and its memory are seen.
#pragma once

#include <cstdint>
#include <string>

#include "questions/question.h"

namespace gpuplan::test {

struct Answered {
  int code = -1;   // -1: a signal ended it
  int signal = 0;  // SIGALRM: it took longer than the limit
  double seconds = 0;
  std::int64_t memory_bytes = 0;  // the most that was resident
  std::string out, err;           // err with what a sanitizer reports
};

/// Seconds that a question may take; sanitizers slow the same code down.
int most_seconds();

Answered ask(const Question& question);

}  // namespace gpuplan::test
