#include "search/lengths.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/utf8.h"
#include "models/recipe.h"

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
  if (row.is_object() && std::ranges::any_of(row, [](const auto& item) { return item.is_string() || item.is_array(); }))
    throw InputError(where, "has no input_ids", "--data FILE counts rows of text, messages, prompts and answers");
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

Lengths make_lengths(std::map<std::int64_t, std::int64_t> rows_of) {
  Lengths out;
  double tokens = 0;
  for (const auto& [length, count] : rows_of) {
    out.num_rows += count;
    tokens += double(length) * double(count);
  }
  out.mean = tokens / double(out.num_rows);
  out.longest = out.at_most = rows_of.rbegin()->first;
  out.rows_of = std::move(rows_of);
  return out;
}

Lengths cut_at(const Lengths& lengths, std::int64_t most) {
  std::map<std::int64_t, std::int64_t> cut;
  for (const auto& [length, count] : lengths.rows_of) cut[std::min(length, most)] += count;
  Lengths out = make_lengths(std::move(cut));
  out.at_most = std::min(lengths.at_most, most);
  return out;
}

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
  std::map<std::int64_t, std::int64_t> rows_of;
  std::istringstream lines{std::string(without_byte_order_mark(text))};
  std::int64_t number = 0;
  std::int64_t num_rows = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (trim(line).empty()) continue;
    const std::string place = fmt::format("{}:{}", where, number);
    const Row row = parse_row(std::string(trim(line)), place);
    if (row.length < 1 || row.length > kMostSeqLen)
      throw InputError(place, fmt::format("{} tokens are out of range", row.length),
                       fmt::format("1 to {}", kMostSeqLen));
    if (row.count == 0) continue;  // an empty bin
    if (row.count > kMostDataRows - num_rows)
      throw InputError(place, "there are more rows than a data set has", fmt::format("at most {}", kMostDataRows));
    num_rows += row.count;
    rows_of[row.length] += row.count;
  }
  if (rows_of.empty()) throw InputError(where, "has no rows", kForms);
  return make_lengths(std::move(rows_of));
}

Lengths read_lengths(const std::string& file) { return parse_lengths(read_file(file, kLengthsLimit), file); }

}  // namespace gpuplan
