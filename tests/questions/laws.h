// What holds for the answer to every question.
#pragma once

#include <optional>
#include <string>

#include "questions/ask.h"

namespace gpuplan::test {

/// What is wrong with the answer; "" when every law holds.
std::string broken_law(const Question& question, const Answered& answered);

/// Laws between this question and one asked another way: another way to write it, more work, a smaller card, the plan
/// that was saved. One of them, chosen by the question's number. Asks up to two more questions.
std::string broken_relation(const Question& question, const Answered& answered);

/// The step of `simulate --network analytic` over that of `estimate`, less 1; empty where the question has no such
/// pair.
std::optional<double> difference_of_engines(const Question& question, const Answered& answered);

/// Asks, and says the first law that is broken. For check_all().
std::string first_broken(const Question& question);

}  // namespace gpuplan::test
