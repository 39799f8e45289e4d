#include "search/lengths.h"

#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"

namespace gpuplan {
namespace {

constexpr const char* kForms =
    "one length a line, a length and a count a line, or JSON lines with input_ids (a list) or length";

struct Row {
  std::int64_t length{}, count = 1;
};

Row parse_json_row(const std::string& line, const std::string& where) {
  const nlohmann::json row = parse_json(line, where);
  if (row.is_object() && row.contains("input_ids") && row["input_ids"].is_array())
    return {std::int64_t(row["input_ids"].size()), 1};
  if (row.is_object() && row.contains("length") && row["length"].is_number_integer())
    return {row["length"].get<std::int64_t>(), 1};
  if (row.is_array()) return {std::int64_t(row.size()), 1};
  throw InputError(where, "has no input_ids", kForms);
}

Row parse_row(std::string line, const std::string& where) {
  if (line.front() == '{' || line.front() == '[') return parse_json_row(line, where);
  for (char& c : line)
    if (c == ',' || c == '\t' || c == ';') c = ' ';
  std::vector<std::string> words;
  for (const std::string& word : split(line, ' '))
    if (!trim(word).empty()) words.emplace_back(trim(word));
  if (words.empty() || words.size() > 2) throw InputError(where, fmt::format("'{}' is not a length", line), kForms);
  return {parse_integer(words[0], where, 0), words.size() == 2 ? parse_integer(words[1], where, 0) : 1};
}

}  // namespace

double Lengths::mean_longest_of(std::int64_t batch) const {
  // E[max] = sum over lengths of length x (F(length)^b - F(the length before)^b)
  double mean_longest = 0, below = 0;
  std::int64_t seen = 0;
  for (const auto& [length, count] : rows_of) {
    seen += count;
    const double share = std::pow(double(seen) / double(num_rows), double(batch));
    mean_longest += double(length) * (share - below);
    below = share;
  }
  return mean_longest;
}

std::int64_t Lengths::quantile(double share) const {
  std::int64_t seen = 0;
  for (const auto& [length, count] : rows_of) {
    seen += count;
    if (double(seen) >= share * double(num_rows)) return length;
  }
  return longest;
}

Lengths parse_lengths(const std::string& text, const std::string& where) {
  Lengths out;
  std::istringstream lines(text);
  std::int64_t number = 0;
  double tokens = 0;
  constexpr std::int64_t kMostTokens = std::int64_t(1) << 26;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (trim(line).empty()) continue;
    const std::string place = fmt::format("{}:{}", where, number);
    const Row row = parse_row(std::string(trim(line)), place);
    if (row.length < 1 || row.length > kMostTokens)
      throw InputError(place, fmt::format("{} tokens are out of range", row.length),
                       fmt::format("1 to {}", kMostTokens));
    if (row.count == 0) continue;  // an empty bin
    out.rows_of[row.length] += row.count;
    out.num_rows += row.count;
    tokens += double(row.length) * double(row.count);
  }
  if (out.num_rows == 0) throw InputError(where, "has no rows", kForms);
  out.mean = tokens / double(out.num_rows);
  out.longest = out.rows_of.rbegin()->first;
  return out;
}

Lengths read_lengths(const std::string& file) { return parse_lengths(read_file(file), file); }

}  // namespace gpuplan
