// A question that a user could type: a command and its flags.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpuplan::test {

/// One word or two of a command line. "--lora=r=8" is one word, as its value may be left out. Without a name, a word
/// that stands alone: a plan file, what a catalogue is asked for.
struct GivenFlag {
  std::string name, value;
  bool is_needed = false;  // the question means nothing without it
};

struct Question {
  std::string command;
  std::vector<GivenFlag> flags;
  std::uint64_t number = 0;  // chooses which other question it is compared with

  bool has(const std::string& name) const;
  /// The value of a flag; "" when it is not given.
  std::string value_of(const std::string& name) const;
  /// The same question with a flag set, or added.
  Question with(const std::string& name, const std::string& value) const;
  Question without(const std::string& name) const;

  std::vector<std::string> words() const;
  /// As a user types it.
  std::string line() const;
};

/// A line as line() writes it, without quoted words.
Question question_of(const std::string& line);

/// The shortest question that still `fails`: flags left out one after the other, then values made small.
Question shrunk(Question question, const std::function<bool(const Question&)>& fails);

}  // namespace gpuplan::test
