// Cells and rows of the report's tables.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan {

std::string per_second(double tokens);  // "1,500"
std::string percent(double share);      // "45 %"

/// A cell of a row around its content; numbers stand to the right.
std::string cell_html(const std::string& html, std::string_view css_class = "number");

/// The opening of a table with its titles and their classes, and its end.
std::string table_head_html(const std::vector<std::pair<std::string_view, std::string_view>>& titles);
constexpr std::string_view kTableEnd = "</tbody>\n</table></div>\n";

}  // namespace gpuplan
