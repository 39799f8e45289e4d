// Tables and lists for a Markdown page.
#pragma once

#include <string>
#include <vector>

#include "report/text/table.h"

namespace gpuplan {

/// The table with a line of titles; cells keep their text without ink.
std::string markdown_table(const Table& table);
std::string markdown_list(const std::vector<std::string>& items);

}  // namespace gpuplan
