// Notes and errors, which stand beside an answer: on a terminal in lines of its width.
#pragma once

#include <string>
#include <string_view>

namespace gpuplan {

/// `text` with every line that is wider than `width` wrapped under its own indent, and the first under two spaces more.
std::string in_width(std::string_view text, int width);

/// The same for the terminal that shows standard error; as it is where that is none.
std::string for_standard_error(std::string text);

}  // namespace gpuplan
