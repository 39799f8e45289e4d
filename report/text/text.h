// Text in columns of a terminal: widths in characters, wrapping, bars, labelled lines, headings, points.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/text/screen.h"

namespace gpuplan {

/// Characters of UTF-8 text; every character that we print is one column wide.
int width_of(std::string_view utf8);

/// `text` as lines of at most `width` columns, each ended; the first begins with `first`, the others with `rest`.
/// A word that is too long for a line is cut.
std::string wrap(std::string_view text, int width, std::string_view first, std::string_view rest);

/// `text` filled up with spaces to `width` columns.
std::string pad_right(std::string text, int width);
std::string pad_left(std::string text, int width);

/// A bar of `width` characters of which `share` (0 … 1) is filled, in steps of an eighth; more than 1 ends in an arrow.
std::string bar(double share, int width);

/// Sentences do not get wider than this, however wide the screen is.
int prose_width(const Screen& screen);

struct Fact {
  std::string label, text;
};

/// One fact after the other, labels `indent` columns in and as wide as the widest. Facts without text are left out.
std::string render(const std::vector<Fact>& facts, int indent, const Screen& screen);

/// A heading on a line of its own, after an empty line.
std::string heading(std::string_view title, const Screen& screen);

/// One "- " point per text.
std::string points(const std::vector<std::string>& texts, const Screen& screen);

}  // namespace gpuplan
