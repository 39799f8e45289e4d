#include "mend/text_edit.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

using Lines = std::vector<std::string>;

/// Each with its line end; the last one may have none.
Lines lines_of(const std::string& text) {
  Lines lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

/// A line of one text, of the other, or of both (' ', '-', '+').
struct DiffLine {
  char sign = ' ';
  std::string text;
};

/// Adds what stands between two stretches that are alike: the longest common subsequence stays.
void add_middle(std::vector<DiffLine>& out, const Lines& before, const Lines& after, std::size_t begin,
                std::size_t before_end, std::size_t after_end) {
  constexpr std::size_t kMostCells = 16'000'000;
  const std::size_t rows = before_end - begin, columns = after_end - begin;
  const bool is_small = rows == 0 || columns < kMostCells / rows;
  std::vector<std::uint32_t> common(is_small ? (rows + 1) * (columns + 1) : 0);  // of the rest from (i, j) on
  const auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& { return common[i * (columns + 1) + j]; };
  for (std::size_t i = is_small ? rows : 0; i-- > 0;)
    for (std::size_t j = columns; j-- > 0;)
      at(i, j) = before[begin + i] == after[begin + j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
  std::size_t i = 0, j = 0;
  while (i < rows || j < columns) {
    if (is_small && i < rows && j < columns && before[begin + i] == after[begin + j]) {
      out.push_back({' ', before[begin + i]});
      ++i, ++j;
    } else if (i < rows && (!is_small || j == columns || at(i + 1, j) >= at(i, j + 1))) {
      out.push_back({'-', before[begin + i++]});
    } else {
      out.push_back({'+', after[begin + j++]});
    }
  }
}

std::vector<DiffLine> compare(const Lines& before, const Lines& after) {
  std::size_t begin = 0, before_end = before.size(), after_end = after.size();
  while (begin < before_end && begin < after_end && before[begin] == after[begin]) ++begin;
  while (before_end > begin && after_end > begin && before[before_end - 1] == after[after_end - 1])
    --before_end, --after_end;
  std::vector<DiffLine> out;
  for (std::size_t i = 0; i < begin; ++i) out.push_back({' ', before[i]});
  add_middle(out, before, after, begin, before_end, after_end);
  for (std::size_t i = before_end; i < before.size(); ++i) out.push_back({' ', before[i]});
  return out;
}

/// "12,3": the first line and how many; of none the line before them.
std::string range_text(std::size_t first, std::size_t count) {
  return count == 1 ? std::to_string(first) : fmt::format("{},{}", count == 0 ? first - 1 : first, count);
}

}  // namespace

void KeyedEdits::drop(const std::string& key) {
  std::erase_if(edits_, [&](const auto& edit) { return edit.first == key; });
}

std::vector<TextEdit> KeyedEdits::list() const {
  std::vector<TextEdit> out;
  for (const auto& [key, edit] : edits_) out.push_back(edit);
  return out;
}

std::string with_edits(const std::string& text, std::vector<TextEdit> edits) {
  std::ranges::stable_sort(edits, [](const TextEdit& a, const TextEdit& b) { return a.begin < b.begin; });
  std::string out;
  std::size_t at = 0;
  for (const TextEdit& edit : edits) {
    GPUPLAN_CHECK(edit.begin >= at && edit.end >= edit.begin && edit.end <= text.size(), "edits of a text overlap");
    out += text.substr(at, edit.begin - at) + edit.text;
    at = edit.end;
  }
  return out + text.substr(at);
}

std::string unified_diff(const std::string& before, const std::string& after, const std::string& name,
                         std::size_t context) {
  if (before == after) return {};
  const std::vector<DiffLine> lines = compare(lines_of(before), lines_of(after));
  std::string out = fmt::format("--- {}\n+++ {}\n", before.empty() ? "/dev/null" : name, name);
  std::size_t before_line = 1, after_line = 1;  // of lines[at]
  for (std::size_t at = 0; at < lines.size();) {
    std::size_t change = at;
    while (change < lines.size() && lines[change].sign == ' ') ++change;
    if (change == lines.size()) break;
    const std::size_t first = std::max(at, change - std::min(change, context));
    before_line += first - at, after_line += first - at;
    std::size_t end = change;  // behind the hunk: changes nearer than twice the context are one
    for (std::size_t i = change; i < lines.size() && i <= end + 2 * context; ++i)
      if (lines[i].sign != ' ') end = i;
    end = std::min(lines.size(), end + 1 + context);
    std::string body;
    std::size_t num_before = 0, num_after = 0;
    for (std::size_t i = first; i < end; ++i) {
      num_before += lines[i].sign != '+' ? 1 : 0;
      num_after += lines[i].sign != '-' ? 1 : 0;
      body += lines[i].sign + lines[i].text;
      if (!lines[i].text.ends_with('\n')) body += "\n\\ No newline at end of file\n";
    }
    out +=
        fmt::format("@@ -{} +{} @@\n{}", range_text(before_line, num_before), range_text(after_line, num_after), body);
    before_line += num_before, after_line += num_after;
    at = end;
  }
  return out;
}

}  // namespace gpuplan
