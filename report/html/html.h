// HTML as text: escaping, elements, tables. What is named *_html or returned from here is markup; all else is escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/text/facts.h"
#include "report/text/table.h"

namespace gpuplan {

/// Text as it may stand between tags and in quoted attributes.
std::string escape_html(std::string_view text);

/// JSON as it may stand in a <script> element: no '<' is left, so that nothing in it ends the element.
std::string escape_script_json(std::string_view json);

/// <h2>title</h2> and its content in a section; nothing for empty content.
std::string section_html(std::string_view title, const std::string& content_html);

std::string paragraph_html(std::string_view text, std::string_view css_class = {});
std::string list_html(const std::vector<std::string>& texts);
std::string facts_html(const std::vector<Fact>& facts);
std::string table_html(const Table& table);

/// A bar of `share` (0 … 1) with a text beside it, for a table cell.
std::string bar_html(double share, std::string_view text, std::string_view css_class = {});

}  // namespace gpuplan
