// Asks the program's entry point, many questions in one process. The process is a child, so that a crash and a hang are
// seen; another one goes on behind the question that ended it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/surroundings.h"
#include "base/work_count.h"
#include "questions/question.h"

namespace gpuplan::test {

struct Answered {
  int code = -1;
  WorkCounts work{};              // done by the answer: the same on every machine
  double seconds = 0;             // of a processor, to be printed: no law asks for them
  std::int64_t memory_bytes = 0;  // the most that was resident
  std::string out, err;           // err with what a sanitizer reports
};

/// Seconds of a processor after which a question counts as hanging. What it may do is counted as work.
int hang_seconds();

/// The work that docs/limits.md allows a question. Files without a limit, those of --data, are not counted.
inline constexpr WorkCounts kMostWork{300'000'000, 1'000'000'000, 200'000'000};

/// What the asking processes count together.
struct Tally {
  struct OfCommand {
    char name[16] = {};
    std::uint64_t num_asked = 0;
    double seconds = 0;  // of a processor
  };
  std::array<OfCommand, 16> commands;  // those that were asked first
  std::uint64_t num_asked = 0, num_refused = 0, num_compared = 0, num_far = 0;
  std::uint64_t num_long = 0;  // of more than a quarter of a second
  double farthest = 0, seconds = 0, long_seconds = 0;
  std::int64_t memory_bytes = 0;
  struct Most {
    std::int64_t amount = 0;
    char line[2000] = {};
  };
  std::array<Most, kNumWorks> most;  // work of one question
};
Tally& tally();

/// Only for a law of check_all(): in its process, its folder, with its time limit.
Answered ask(const Question& question);

/// A file that an answer wrote; "" when there is none.
std::string written(const std::string& name);

/// All files that the last answer wrote or changed, by path. Those that it changed are put back.
std::map<std::string, std::string> take_files_written();

/// A text of answers without the time that they took and the space that was left on the disk.
std::string without_time(const std::string& text);

/// The folder and the variables of the questions, for `answer`.
Surroundings surroundings_of_questions();

using Law = std::function<std::string(const Question&)>;

/// What `law` says of each question ("" when it holds), or how the question ended the process.
std::vector<std::string> check_all(const std::vector<Question>& questions, const Law& law);

}  // namespace gpuplan::test
