// The fixed parts of the report's page, page.css and page.js, built into the program (cmake/EmbedText.cmake). They
// fetch nothing; all text comes from the page itself.
#pragma once

#include <string_view>

namespace gpuplan {

std::string_view page_style();
/// Draws the timeline and the memory curves from the JSON in #data. When done it sets data-ready, data-spans (on the
/// page) and data-drawn (rectangles of the first picture) on the document's element.
std::string_view page_script();

}  // namespace gpuplan
