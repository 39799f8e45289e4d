// Text of at most so many lines: the most important first, and what has no room is counted.
#pragma once

#include <algorithm>
#include <string>

#include "base/narrow.h"
#include "report/text/screen.h"
#include "report/text/text.h"

namespace gpuplan {

class LineBudget {
 public:
  LineBudget(int most, const Screen& screen) : most_(most), screen_(screen) {}

  /// Adds whole lines, all of `text` or none of it. Returns false where it has no room.
  bool add(const std::string& text) {
    const int lines = narrow<int>(std::count(text.begin(), text.end(), '\n'));
    if (lines > room()) {
      ++num_hidden_;
      return false;
    }
    text_ += text, num_lines_ += lines;
    return true;
  }
  bool add_prose(const std::string& text, const char* first = "", const char* rest = "  ") {
    return text.empty() || add(wrap(text, prose_width(screen_), first, rest));
  }
  int room() const { return most_ - num_lines_; }
  int num_hidden() const { return num_hidden_; }
  std::string take() { return std::move(text_); }

 private:
  int most_, num_lines_ = 0, num_hidden_ = 0;
  const Screen& screen_;
  std::string text_;
};

}  // namespace gpuplan
