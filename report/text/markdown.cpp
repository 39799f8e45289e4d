#include "report/text/markdown.h"

#include <fmt/format.h>

#include "base/names.h"

namespace gpuplan {
namespace {

std::string cell_text(std::string_view text) {
  std::string out;
  for (const char c : trim(text)) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace

std::string markdown_table(const Table& table) {
  std::string titles = "|", rule = "|", rows;
  for (const Column& column : table.columns) {
    titles += fmt::format(" {} |", cell_text(column.title));
    rule += column.align == Align::Right ? " ---: |" : " --- |";
  }
  for (const auto& row : table.rows) {
    rows += "|";
    for (const Cell& cell : row) rows += fmt::format(" {} |", cell_text(cell.text));
    rows += "\n";
  }
  return titles + "\n" + rule + "\n" + rows;
}

std::string markdown_list(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += "- " + item + "\n";
  return out;
}

}  // namespace gpuplan
