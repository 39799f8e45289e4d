#include "cluster/gpu_spelling.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/names.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

/// Words that say who makes it, never which one it is.
constexpr std::array<std::string_view, 5> kMakerWords{"nvidia", "amd", "geforce", "instinct", "tesla"};

std::string digits_of(const std::string& name) {
  std::string out;
  std::copy_if(name.begin(), name.end(), std::back_inserter(out), is_digit);
  return out;
}

/// Says whether one character more, less or other, or another order of the same ones, turns `a` into `b`.
bool is_one_slip(const std::string& a, const std::string& b) {
  const std::string &shorter = a.size() < b.size() ? a : b, &longer = a.size() < b.size() ? b : a;
  const auto at = std::size_t(std::mismatch(shorter.begin(), shorter.end(), longer.begin()).first - shorter.begin());
  if (longer.size() == shorter.size())
    return shorter.compare(std::min(at + 1, shorter.size()), std::string::npos, longer,
                           std::min(at + 1, longer.size())) == 0 ||
           std::is_permutation(a.begin(), a.end(), b.begin());
  return longer.size() == shorter.size() + 1 &&
         shorter.compare(at, std::string::npos, longer, at + 1, std::string::npos) == 0;
}

/// Says whether two neighbouring digits have changed places: "3900" for "3090".
bool swaps_two_digits(const std::string& typed, const std::string& name) {
  if (typed.size() != name.size()) return false;
  const auto at = std::size_t(std::mismatch(typed.begin(), typed.end(), name.begin()).first - typed.begin());
  return at + 1 < typed.size() && is_digit(typed[at]) && is_digit(typed[at + 1]) && typed[at] == name[at + 1] &&
         typed[at + 1] == name[at] && typed.compare(at + 2, std::string::npos, name, at + 2, std::string::npos) == 0;
}

std::vector<std::string> words_of(std::string_view text) {
  constexpr std::string_view kSeparators = " -_/()";
  std::vector<std::string> words(1);
  for (const char c : text)
    if (kSeparators.find(c) == std::string_view::npos)
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  if (words.back().empty()) words.pop_back();
  return words;
}

bool is_memory_unit(std::string_view word) {
  const std::string unit = to_lower(word);
  return unit == "g" || unit == "gb" || unit == "gib";
}

std::string joined_words(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

}  // namespace

std::string plain_gpu_name(std::string_view text) {
  std::string name = squash(text);
  std::erase_if(name, [](char c) { return c == '(' || c == ')'; });
  for (std::string_view word : kMakerWords)
    if (const auto at = name.find(word); at != std::string::npos && name.size() > word.size())
      name.erase(at, word.size());
  const auto ends_in_unit = [&](std::string_view unit) {
    return name.size() > unit.size() && name.ends_with(unit) && is_digit(name[name.size() - unit.size() - 1]);
  };
  if (ends_in_unit("gib")) name.replace(name.size() - 3, 3, "gb");
  if (ends_in_unit("g")) name += 'b';
  return name;
}

/// The number names the product: a 3065 is no 3060, an H20 no H200. So a name is offered for another only when all
/// their digits are the same, one slip of a letter lies between them, and this letter is not the one in front that
/// names the family (a B100 is no H100, but a "RXT 4090" is an RTX 4090); or when nothing but the last digit of a
/// number of four or more is missing ("A600" for A6000); or when two digits have changed places ("3900").
bool may_be_slip(const std::string& typed, const std::string& name) {
  constexpr std::size_t kWord = 3, kLongNumber = 3;
  if (swaps_two_digits(typed, name)) return digits_of(name).size() >= kLongNumber;
  const std::string typed_digits = digits_of(typed), digits = digits_of(name);
  if (!is_one_slip(typed, name)) return false;
  if (typed_digits != digits) return typed_digits.size() >= kLongNumber && digits.starts_with(typed_digits);
  const std::size_t typed_front = typed.find_first_of("0123456789"), front = name.find_first_of("0123456789");
  return typed.substr(0, typed_front) == name.substr(0, front) || (front >= kWord && typed_front >= kWord);
}

std::optional<NameWithMemory> memory_in_name(std::string_view text) {
  constexpr std::size_t kMostDigits = 3;  // "RTX 4090" has no 4090 GB
  const std::vector<std::string> words = words_of(text);
  for (std::size_t i = words.size(); i-- > 0;) {
    const std::string& word = words[i];
    const std::size_t end = std::min(word.find_first_not_of("0123456789"), word.size());
    const bool is_own_unit = end < word.size() && is_memory_unit(word.substr(end));
    const bool has_unit_behind = end == word.size() && i + 1 < words.size() && is_memory_unit(words[i + 1]);
    if (end == 0 || end > kMostDigits || (end < word.size() && !is_own_unit)) continue;
    const std::size_t num_words = has_unit_behind ? 2 : 1;
    const bool may_be_number = i == 0 && !is_own_unit && !has_unit_behind;  // "4 A6000", "4090"
    if (may_be_number || words.size() == num_words) continue;
    NameWithMemory found{.memory_gb = parse_integer(word.substr(0, end), "", 0),
                         .has_unit = is_own_unit || has_unit_behind};
    std::vector<std::string> base = words;
    const auto at = base.begin() + std::ptrdiff_t(i);
    base.erase(at, at + std::ptrdiff_t(num_words));
    found.base = joined_words(base);
    const std::size_t place = i == 0 ? base.size() : i;
    base.insert(base.begin() + std::ptrdiff_t(place), fmt::format("{}GB", found.memory_gb));
    found.full = joined_words(base);
    return found;
  }
  return {};
}

std::size_t digits_of_count(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view rest = trim(text.substr(digits));
  constexpr std::string_view kTimes = "×";
  const bool has_sign =
      rest.starts_with(kTimes) || rest.starts_with('x') || rest.starts_with('X') || rest.starts_with('*');
  if (digits == 0 || !has_sign) return 0;
  constexpr std::size_t kShortest = 3;  // of a card's number
  const std::string suffix = to_lower(rest.substr(0, rest.find(' ')));
  return digits >= kShortest && (suffix == "xt" || suffix == "xtx") ? 0 : digits;
}

std::string other_accelerator(std::string_view text) {
  const std::string name = plain_gpu_name(text);
  YamlFile file = YamlFile::read(data_dir() / "other_accelerators.yaml");
  std::string found;
  for (Fields& row : file.top().list("accelerators")) {
    const std::string what = row.text("what");
    for (const std::string& start : row.texts("begins")) {
      const std::string begin = plain_gpu_name(start);
      const bool goes_on = name.size() > begin.size() && is_digit(begin.back()) && is_digit(name[begin.size()]);
      if (found.empty() && name.starts_with(begin) && !goes_on) found = what;
    }
    row.allow({"kind", "source"});
    row.refuse_unknown();
  }
  file.finish();
  return found;
}

}  // namespace gpuplan
