// The fixed parts of the report's page, page.css, page.js, plan.css and plan.js, built into the program
// (cmake/EmbedText.cmake). They fetch nothing; all text comes from the page itself.
#pragma once

#include <string_view>

namespace gpuplan {

std::string_view page_style();
/// Draws the timeline and the memory curves from the JSON in #data. When done it sets data-ready, data-spans (on the
/// page) and data-drawn (rectangles of the first picture) on the document's element.
std::string_view page_script();

/// Gives what the page of `gpuplan plan` adds to the style. Its script shows the figures of the plan that one points at
/// or walks to with the keyboard, and copies commands; then it sets data-ready and data-plans on the document's
/// element.
std::string_view plan_style();
std::string_view plan_script();

}  // namespace gpuplan
