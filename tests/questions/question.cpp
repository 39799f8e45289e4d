#include "questions/question.h"

#include <algorithm>
#include <array>

#include "base/names.h"
#include "cli/search_flags.h"

namespace gpuplan::test {
bool Question::has(const std::string& name) const {
  return std::any_of(flags.begin(), flags.end(), [&](const GivenFlag& flag) { return flag.name == name; });
}

std::string Question::value_of(const std::string& name) const {
  for (const GivenFlag& flag : flags)
    if (flag.name == name) return flag.value;
  return "";
}

Question Question::with(const std::string& name, const std::string& value) const {
  Question out = without(name);
  out.flags.push_back({name, value});
  return out;
}

Question Question::without(const std::string& name) const {
  Question out = *this;
  std::erase_if(out.flags, [&](const GivenFlag& flag) { return flag.name == name; });
  return out;
}

std::vector<std::string> Question::words() const {
  std::vector<std::string> words{command};
  for (const auto& [name, value, is_needed] : flags) {
    const bool is_optional = name == "--lora" || name == "--qlora";
    if (!name.empty()) words.push_back(is_optional && !value.empty() ? name + "=" + value : name);
    if (!is_optional && !value.empty()) words.push_back(value);
  }
  return words;
}

std::string Question::line() const {
  std::string line = "gpuplan";
  for (const std::string& word : words()) line += " " + shell_word(word);
  return line;
}

Question question_of(const std::string& line) {
  Question q;
  for (const std::string& word : split(line, ' ')) {
    if (word == "gpuplan") continue;
    const std::size_t equals = word.find('=');
    if (q.command.empty())
      q.command = word;
    else if (!word.starts_with("--"))
      q.flags.back().value = word;
    else if (equals == std::string::npos)
      q.flags.push_back({word, ""});
    else
      q.flags.push_back({word.substr(0, equals), word.substr(equals + 1)});
  }
  return q;
}

Question shrunk(Question question, const std::function<bool(const Question&)>& fails) {
  for (bool is_shorter = true; is_shorter;) {
    is_shorter = false;
    for (std::size_t i = question.flags.size(); i-- > 0;) {
      if (question.flags[i].is_needed) continue;
      Question shorter = question;
      shorter.flags.erase(shorter.flags.begin() + std::ptrdiff_t(i));
      if (!fails(shorter)) continue;
      question = shorter;
      is_shorter = true;
      break;
    }
  }
  const std::array<GivenFlag, 4> simple{
      {{"--model", "smollm2-135m"}, {"--gpus", "2xA6000"}, {"--gpus", "1xA6000"}, {"--lora", ""}}};
  for (const GivenFlag& flag : simple) {
    if (!question.has(flag.name) || question.value_of(flag.name) == flag.value) continue;
    Question simpler = question;
    for (GivenFlag& given : simpler.flags)
      if (given.name == flag.name) given.value = flag.value;
    if (fails(simpler)) question = simpler;
  }
  return question;
}

}  // namespace gpuplan::test
