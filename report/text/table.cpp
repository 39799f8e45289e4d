#include "report/text/table.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>

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

int total_width(const std::vector<int>& widths) {
  return std::accumulate(widths.begin(), widths.end(), 0) + kGap * std::max(0, narrow<int>(widths.size()) - 1);
}

/// The first spaces of a cell, which all of its lines have.
std::string margin_of(std::string_view cell) {
  return std::string(std::min(cell.find_first_not_of(' '), cell.size()), ' ');
}

constexpr std::array<std::string_view, 10> kDrawn{"█", "▉", "▊", "▋", "▌", "▍", "▎", "▏", "░", "▶"};  // bars

/// Columns that a cell takes at least: its longest word, or all of one that is short or has a bar.
int narrowest(std::string_view cell) {
  constexpr int kShort = 8;
  int widest = std::min(kShort, width_of(cell));
  if (std::ranges::any_of(kDrawn, [&](std::string_view drawn) { return cell.find(drawn) != cell.npos; }))
    return width_of(cell);
  const int margin = width_of(margin_of(cell));
  for (const std::string& word : split(cell, ' ')) widest = std::max(widest, margin + width_of(word));
  return widest;
}

/// The widths of a table of at most `room` columns of the screen. Where it is wider, columns of text take several
/// lines, the widest first, none narrower than its longest word.
std::vector<int> widths_within(const Table& table, int room) {
  std::vector<int> widths = widths_of(table), least = widths;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const bool is_text = table.columns[i].align == Align::Left;  // numbers stay whole below a folded title
    least[i] = narrowest(table.columns[i].title);
    for (const auto& row : table.rows)
      least[i] = std::max(least[i], is_text ? narrowest(row[i].text) : width_of(row[i].text));
  }
  for (int excess = total_width(widths) - room; excess > 0; --excess) {
    const auto can_shrink = [&](std::size_t i) { return widths[i] > least[i]; };
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (can_shrink(i) && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    if (widest == widths.size()) break;
    --widths[widest];
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

/// The lines of a cell in a column of `width`.
std::vector<std::string> folded(const std::string& cell, int width) {
  if (width_of(cell) <= width) return {cell};
  const std::string margin = margin_of(cell);
  std::vector<std::string> lines;
  std::istringstream text(wrap(cell.substr(margin.size()), width, margin, margin));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// A row, over several lines where a cell is wider than its column.
std::string lines_of(const std::vector<Cell>& cells, const Table& table, const std::vector<int>& widths,
                     const Screen& screen) {
  std::vector<std::vector<std::string>> columns;
  std::size_t num_lines = 1;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    columns.push_back(folded(cells[i].text, widths[i]));
    num_lines = std::max(num_lines, columns.back().size());
  }
  std::string out;
  for (std::size_t line = 0; line < num_lines; ++line) {
    std::vector<Cell> parts;
    for (std::size_t i = 0; i < cells.size(); ++i)
      parts.push_back({line < columns[i].size() ? columns[i][line] : "", cells[i].ink});
    out += line_of(parts, table, widths, screen);
  }
  return out;
}

void erase_column(Table& table, std::size_t i) {
  table.columns.erase(table.columns.begin() + std::ptrdiff_t(i));
  for (auto& row : table.rows) row.erase(row.begin() + std::ptrdiff_t(i));
}

}  // namespace

int width_of(const Table& table) { return total_width(widths_of(table)); }

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
  const Table shown = fit_to(table, screen.width);
  const std::vector<int> widths = widths_within(shown, screen.width);
  std::vector<Cell> titles;
  for (const Column& column : shown.columns) titles.push_back({column.title, Ink::Faint});
  std::string out = lines_of(titles, shown, widths, screen);
  for (const auto& row : shown.rows) out += lines_of(row, shown, widths, screen);
  return out;
}

std::string render_with_bars(const std::function<Table(int bar_width)>& make_table, const Screen& screen) {
  constexpr int kWidest = 24, kNarrowest = 8;
  if (screen.format != TableFormat::Text) {  // without the bars
    const Table bare = without_empty_columns(make_table(0));
    return bare.rows.empty() ? "" : render(bare, screen);
  }
  int bar_width = kNarrowest, too_wide = kWidest + 1;  // wider bars, wider tables
  while (too_wide - bar_width > 1) {
    const int middle = (bar_width + too_wide) / 2;
    (width_of(make_table(middle)) > screen.width ? too_wide : bar_width) = middle;
  }
  const Table table = make_table(bar_width);
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

std::string markdown_line(const std::string& text) { return markdown_text(text); }

std::string markdown_list(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += "- " + markdown_text(item) + "\n";
  return out;
}

}  // namespace gpuplan
