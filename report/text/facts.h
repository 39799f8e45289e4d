// Labelled lines: a label in a column of its own, the text beside it wrapped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/text/screen.h"

namespace gpuplan {

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
