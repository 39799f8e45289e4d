// Names as people type them: case and separators do not matter, and a slip gets a suggestion.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

/// ASCII, whatever the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string to_lower(std::string_view text);

/// Lower case with spaces, '-', '_', '.' and '/' removed: "Llama 3 8B" and "llama-3-8b" become "llama38b".
std::string squash(std::string_view text);

/// The candidates nearest to `text` by edit distance of their squashed forms, best first, at most `most`;
/// empty when none is near (distance over about a third of the length).
std::vector<std::string> nearest(std::string_view text, const std::vector<std::string>& candidates,
                                 std::size_t most = 3);

/// "did you mean 'A6000'?" or "did you mean one of 'a', 'b'?", or `otherwise` when nothing is near.
std::string did_you_mean(std::string_view text, const std::vector<std::string>& candidates, std::string otherwise = {});

std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

/// Names of files, models and machines are shown as they were given, in answers, pages and plans. Throws InputError
/// naming `where` for one that holds a control character.
void require_plain_name(std::string_view name, const std::string& where, std::string hint);

/// A whole number in `text`, nothing else beside it; throws InputError naming `where` otherwise, or when it
/// lies outside of the range.
long long parse_integer(std::string_view text, std::string_view where, long long at_least,
                        long long at_most = std::numeric_limits<long long>::max());
double parse_number(std::string_view text, std::string_view where);
/// The same of a text that may be something else; nothing when it is.
std::optional<double> as_number(std::string_view text);

}  // namespace gpuplan
