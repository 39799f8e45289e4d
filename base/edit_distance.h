// How far two names are apart in letters, for slips of the keyboard.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuplan {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Says whether a name is another one with a slip or two: of short names one letter, of longer ones two, whatever the
/// case and separators.
bool is_slip(std::string_view text, std::string_view name);

}  // namespace gpuplan
