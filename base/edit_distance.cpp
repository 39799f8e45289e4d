#include "base/edit_distance.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/names.h"

namespace gpuplan {

/// d[i][j] is the distance of the first i letters of a to the first j of b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

bool is_slip(std::string_view text, std::string_view name) {
  constexpr std::size_t kShort = 8;
  const std::string one = squash(text), other = squash(name);
  const auto [shorter, longer] = std::minmax({one.size(), other.size()});
  const std::size_t most = shorter <= kShort ? 1 : 2;
  return longer - shorter <= most && edit_distance(one, other) <= most;
}

}  // namespace gpuplan
