// A table of text: columns as wide as their content. Where the screen is narrow, the least important ones are left out,
// then long cells take several lines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/text/screen.h"

namespace gpuplan {

enum class Align : unsigned char { Left, Right };

struct Column {
  std::string title;
  Align align = Align::Left;
  int dropped_at = 0;  // 0: never left out; else the column with the highest number goes first
};

struct Cell {
  std::string text;
  Ink ink = Ink::Plain;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;

  void add(std::vector<Cell> cells) { rows.push_back(std::move(cells)); }
};

/// Columns of the screen that the table takes.
int width_of(const Table& table);

/// Removes columns in which no row says anything.
Table without_empty_columns(Table table);

/// Removes columns until the table is at most `width` wide, or only indispensable ones are left.
Table fit_to(Table table, int width);

/// The table with its titles, as wide as the screen at most, two spaces between columns; no line ends in spaces.
std::string render(const Table& table, const Screen& screen);

/// The same of a table with bars, as wide as the screen allows; empty without rows.
std::string render_with_bars(const std::function<Table(int bar_width)>& make_table, const Screen& screen);

/// The table with a line of titles; cells keep their text without ink.
std::string markdown_table(const Table& table);
/// Text as a line of its own.
std::string markdown_line(const std::string& text);
std::string markdown_list(const std::vector<std::string>& items);

}  // namespace gpuplan
