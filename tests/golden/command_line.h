// A line of a shell, as golden files and documents show it: words, quotes, an input file, and what passes through head
// or sed -n. Runs `gpuplan` in this process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "environment_variable.h"

namespace gpuplan::test {

struct Ran {
  int code{};
  std::string out, err;
};

/// Words as a shell would cut them, single and double quotes included.
std::vector<std::string> words_of(std::string_view text);

/// Runs "WORD... [< FILE] [| head -N] [| sed -n 'A,Bp']": the arguments of gpuplan, its input, the lines that are
/// shown.
Ran run_line(std::string_view line);

/// A page of questions ("$ gpuplan …", with comments above and an empty line after each answer) with what `answer`
/// makes of each command's output as it is today; `num_questions` counts them.
std::string with_answers_of_today(const std::string& page, std::string (*answer)(const std::string& output),
                                  int& num_questions);

/// Whether GPUPLAN_UPDATE_GOLDEN=1 asks for files to be rewritten.
bool is_updating();

}  // namespace gpuplan::test
