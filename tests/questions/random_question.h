// Random questions: every command that only computes, with flags from the program's own tables, the ends of their
// ranges, and now and then a value that no flag may have.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "questions/question.h"

namespace gpuplan::test {

/// The question number `number` of a seed: the same on every machine.
Question random_question(std::uint64_t seed, std::uint64_t number);

/// Public configurations of trainers, example0.yaml and on (tests/ecosystem/public_examples.json).
inline constexpr std::size_t kNumExamples = 123;

/// A file that questions name, in the current folder.
struct QuestionFile {
  const char* name;
  const char* command;  // that writes it; nullptr: it has `content`
  const char* content;
};
std::span<const QuestionFile> question_files();

/// Writes them. Returns what went wrong, "" when nothing.
std::string write_question_files();

/// Whether the question has a value that is wrong for the file system, so that the machine may refuse it (exit code 3).
bool asks_too_much_of_files(const Question& question);

}  // namespace gpuplan::test
