#include "cli/gpu_words.h"

#include <algorithm>
#include <string_view>

#include "base/files.h"
#include "cluster/gpu_list.h"

namespace gpuplan {
namespace {

/// "2x4009"; "8x7b" is the size of a model.
bool is_count_of_something(const std::string& word) {
  const std::size_t sign = word.find_first_not_of("0123456789");
  if (sign == 0 || sign == std::string::npos || std::string_view("xX*").find(word[sign]) == std::string_view::npos)
    return false;
  const std::size_t end = word.find_first_not_of("0123456789.", sign + 1);
  const bool is_size = end == word.size() - 1 && (word[end] | 0x20) == 'b';
  return sign + 1 < word.size() && !is_size;
}

}  // namespace

bool means_gpus(const std::string& word) { return word == "local" || names_gpus(word) || is_count_of_something(word); }

std::size_t num_gpu_words(const std::vector<std::string>& words) {
  constexpr std::size_t kMostWords = 6;  // "2 x NVIDIA RTX 6000 Ada"
  if (words.empty() || is_there(words.front())) return 0;
  std::string text = words.front();
  std::size_t count = means_gpus(text) ? 1 : 0;
  for (std::size_t n = 1; n < std::min(kMostWords, words.size()); ++n) {
    text += " " + words[n];
    if (names_gpus(text)) count = n + 1;
  }
  return count;
}

std::vector<std::string> join_gpu_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (auto word = words.begin(); word != words.end();) {
    const std::size_t count = std::max<std::size_t>(1, num_gpu_words({word, words.end()}));
    out.push_back(*word++);
    for (std::size_t n = 1; n < count; ++n) out.back() += " " + *word++;
  }
  return out;
}

}  // namespace gpuplan
