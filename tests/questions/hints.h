// Flags that messages name, held against the flags that commands have.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::test {

/// Every "--flag" that stands alone in the text, in order; not those in quotes, which are words of the user, and not
/// those behind the name of a script.
std::vector<std::string> flags_in(std::string_view text);

/// The flags of a command; "": of all of them and of the program itself.
const std::set<std::string>& flags_of(const std::string& command);

/// The first flag of an answer's text that nobody has: not the command, not `estimate`, by whose flags plans are made,
/// not a command that the text names ("gpuplan plan"), and not one that stands in the question. "" when there is none.
std::string unknown_flag(const std::string& text, const std::string& command, const std::string& question);

}  // namespace gpuplan::test
