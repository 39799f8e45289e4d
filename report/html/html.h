// HTML as text: escaping, elements, tables. What is named *_html or returned from here is markup; all else is escaped.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/text/table.h"
#include "report/text/text.h"

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

std::string per_second(double tokens);  // "1,500"
std::string percent(double share);      // "45 %"

/// A cell of a row around its content; numbers stand to the right.
std::string cell_html(const std::string& html, std::string_view css_class = "number");

/// Every page begins so, before the version that wrote it.
inline constexpr std::string_view kPageBegins =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" "
    "content=\"gpuplan ";

/// From the doctype to the end of <head>. Nothing may be fetched: a page that tries is stopped by the browser.
std::string page_head_html(std::string_view title, std::string_view more_style = {});

/// The opening of a table with its titles and their classes, and its end.
std::string table_head_html(const std::vector<std::pair<std::string_view, std::string_view>>& titles);
constexpr std::string_view kTableEnd = "</tbody>\n</table></div>\n";

}  // namespace gpuplan
