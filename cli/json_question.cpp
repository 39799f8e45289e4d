#include "cli/json_question.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/narrow.h"
#include "cli/program.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostCores = 4096;
constexpr std::int64_t kNarrowest = 40, kWidest = 400;  // columns

constexpr std::array kKeys{"arguments", "files", "variables", "now", "cores", "input", "width"};

[[noreturn]] void refuse(const char* key, const char* what) {
  throw InputError(key, fmt::format("has to be {}", what));
}

std::map<std::string, std::string> texts_by_name(const json& question, const char* key) {
  std::map<std::string, std::string> texts;
  if (!question.contains(key)) return texts;
  if (!question[key].is_object()) refuse(key, "an object of texts");
  for (const auto& [name, text] : question[key].items()) {
    if (!text.is_string()) refuse(key, "an object of texts");
    texts[name] = text.get<std::string>();
  }
  return texts;
}

std::int64_t number_of(const json& question, const char* key, std::int64_t fallback, std::int64_t least,
                       std::int64_t most) {
  if (!question.contains(key)) return fallback;
  const json& value = question[key];
  const bool is_one =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t(most));
  if (!is_one || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    throw InputError(key, fmt::format("has to be a whole number from {} to {}", least, most));
  return value.get<std::int64_t>();
}

std::vector<std::string> arguments_of(const json& question) {
  constexpr const char* kWhat = "a list of texts";
  if (!question.contains("arguments") || !question["arguments"].is_array()) refuse("arguments", kWhat);
  std::vector<std::string> arguments;
  for (const json& argument : question["arguments"]) {
    if (!argument.is_string()) refuse("arguments", kWhat);
    arguments.push_back(argument.get<std::string>());
  }
  return arguments;
}

Answer answer_to(const json& question) {
  if (!question.is_object()) throw InputError("question", "has to be an object");
  for (const auto& [key, value] : question.items())
    if (std::ranges::find(kKeys, key) == kKeys.end())
      throw InputError(key, "is unknown", did_you_mean(key, {kKeys.begin(), kKeys.end()}, ""));
  Surroundings given;
  given.files = texts_by_name(question, "files");
  given.variables = texts_by_name(question, "variables");
  given.now = number_of(question, "now", 0, 0, std::int64_t(1) << 40);
  given.num_cores = narrow<int>(number_of(question, "cores", 1, 1, kMostCores));
  const std::string input =
      question.contains("input") && question["input"].is_string() ? question["input"].get<std::string>() : "";
  const Screen screen{.width = narrow<int>(number_of(question, "width", kPipeWidth, kNarrowest, kWidest))};
  return answer(arguments_of(question), std::move(given), input, screen);
}

}  // namespace

std::string answer_json(std::string_view question) {
  Answer answered;
  try {
    answered = answer_to(parse_json(question, "question"));
  } catch (const InputError& error) {
    answered = {.code = kWrongInput, .out = "", .err = fmt::format("gpuplan: {}\n", error.what()), .written = {}};
  }
  return json_line(
      json{{"code", answered.code}, {"out", answered.out}, {"err", answered.err}, {"written", answered.written}});
}

}  // namespace gpuplan
