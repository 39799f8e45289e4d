#include "report/text/table.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "base/names.h"
#include "base/narrow.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

constexpr int kGap = 2;

std::vector<int> widths_of(const Table& table) {
  std::vector<int> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    int width = width_of(table.columns[i].title);
    for (const auto& row : table.rows) width = std::max(width, width_of(row[i].text));
    widths.push_back(width);
  }
  return widths;
}

/// One line; padding stays outside the colour so that trailing spaces can go.
std::string line_of(const std::vector<Cell>& cells, const Table& table, const std::vector<int>& widths,
                    const Screen& screen) {
  std::string line, spaces;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(std::size_t(widths[i] - width_of(cells[i].text)), ' ');
    if (table.columns[i].align == Align::Right) spaces += padding;
    if (!cells[i].text.empty()) {
      line += spaces + paint(cells[i].text, cells[i].ink, screen);
      spaces.clear();
    }
    if (table.columns[i].align == Align::Left) spaces += padding;
    spaces.append(kGap, ' ');
  }
  return line + "\n";
}

void erase_column(Table& table, std::size_t i) {
  table.columns.erase(table.columns.begin() + std::ptrdiff_t(i));
  for (auto& row : table.rows) row.erase(row.begin() + std::ptrdiff_t(i));
}

}  // namespace

int width_of(const Table& table) {
  const std::vector<int> widths = widths_of(table);
  return std::accumulate(widths.begin(), widths.end(), 0) + kGap * std::max(0, narrow<int>(widths.size()) - 1);
}

Table without_empty_columns(Table table) {
  for (std::size_t i = table.columns.size(); i-- > 0;)
    if (std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[i].text.empty(); }))
      erase_column(table, i);
  return table;
}

Table fit_to(Table table, int width) {
  while (width_of(table) > width) {
    const auto goes = std::max_element(table.columns.begin(), table.columns.end(),
                                       [](const Column& a, const Column& b) { return a.dropped_at < b.dropped_at; });
    if (goes == table.columns.end() || goes->dropped_at == 0) break;
    erase_column(table, std::size_t(goes - table.columns.begin()));
  }
  return table;
}

namespace {

/// Cells without the characters that bars are drawn with.
Table without_bars(Table table) {
  constexpr std::array<std::string_view, 10> kDrawn{"█", "▉", "▊", "▋", "▌", "▍", "▎", "▏", "░", "▶"};
  for (auto& row : table.rows)
    for (Cell& cell : row)
      for (const std::string_view drawn : kDrawn)
        for (std::size_t at = 0; (at = cell.text.find(drawn, at)) != std::string::npos;)
          cell.text.erase(at, drawn.size());
  return without_empty_columns(std::move(table));
}

/// RFC 4180: a cell with a comma, a quote or a line end is in quotes.
std::string csv_cell(std::string_view text) {
  const std::string plain(trim(text));
  if (plain.find_first_of(",\"\n") == std::string::npos) return plain;
  std::string out = "\"";
  for (const char c : plain) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_table(const Table& table) {
  std::string out;
  for (std::size_t i = 0; i < table.columns.size(); ++i) out += (i == 0 ? "" : ",") + csv_cell(table.columns[i].title);
  out += "\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) out += (i == 0 ? "" : ",") + csv_cell(row[i].text);
    out += "\n";
  }
  return out;
}

}  // namespace

std::string render(const Table& table, const Screen& screen) {
  if (screen.format != TableFormat::Text) {
    const Table bare = without_bars(table);
    return kTableBegins + (screen.format == TableFormat::Csv ? csv_table(bare) : markdown_table(bare)) + kTableEnds;
  }
  const std::vector<int> widths = widths_of(table);
  std::vector<Cell> titles;
  for (const Column& column : table.columns) titles.push_back({column.title, Ink::Faint});
  std::string out = line_of(titles, table, widths, screen);
  for (const auto& row : table.rows) out += line_of(row, table, widths, screen);
  return out;
}

std::string render_with_bars(const std::function<Table(int bar_width)>& make_table, const Screen& screen) {
  constexpr int kWidest = 24, kNarrowest = 8;
  if (screen.format != TableFormat::Text) {  // without the bars
    const Table bare = without_empty_columns(make_table(0));
    return bare.rows.empty() ? "" : render(bare, screen);
  }
  int bar_width = kWidest;
  while (bar_width > kNarrowest && width_of(make_table(bar_width)) > screen.width) --bar_width;
  const Table table = fit_to(make_table(bar_width), screen.width);
  return table.rows.empty() ? "" : render(table, screen);
}

namespace {

/// Names come from files: none of them is HTML, a link, or a line of its own.
std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : trim(text)) switch (c) {
      case '<': out += "&lt;"; break;
      case '&': out += "&amp;"; break;
      case '[': out += "\\["; break;
      case '|': out += "\\|"; break;
      case '\n': out += ' '; break;
      default: out += c;
    }
  return out;
}

}  // namespace

std::string markdown_table(const Table& table) {
  std::string titles = "|", rule = "|", rows;
  for (const Column& column : table.columns) {
    titles += fmt::format(" {} |", markdown_text(column.title));
    rule += column.align == Align::Right ? " ---: |" : " --- |";
  }
  for (const auto& row : table.rows) {
    rows += "|";
    for (const Cell& cell : row) rows += fmt::format(" {} |", markdown_text(cell.text));
    rows += "\n";
  }
  return titles + "\n" + rule + "\n" + rows;
}

std::string markdown_list(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += "- " + markdown_text(item) + "\n";
  return out;
}

}  // namespace gpuplan
