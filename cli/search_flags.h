// The flags of `gpuplan plan` beside those that describe a plan, and the question that they make together: what is
// given is a constraint, what is not given is searched.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "search/lengths.h"
#include "search/space.h"

namespace CLI {
class App;
}

namespace gpuplan {

struct CarriedSettings;
struct PlanFlag;

void add_search_flags(CLI::App& app);

/// Changes the help of flags whose values a search tries where they are not given.
void tell_what_is_searched(CLI::App& app);

struct AskedSearch {
  SearchQuestion question;
  std::string given;                                 // the user's flags, as a command repeats them
  std::vector<std::string> notes;                    // how it was understood
  bool has_rows = true;                              // false: how much is trained on is assumed
  std::string data_words{};                          // "500 steps of 32 sequences", where files count those
  std::shared_ptr<const CarriedSettings> carried{};  // of a trainer's file, for a plan that is saved; null: none
};

/// `needs_model`: off for --largest. Throws InputError.
AskedSearch read_search(const CLI::App& app, std::istream& in, bool needs_model);

/// `text` as one word of a shell command.
std::string shell_word(const std::string& text);
/// A flag with its value as a command says them: a value that may be left out is joined to it.
std::string flag_words(const PlanFlag& flag, const std::string& value);

}  // namespace gpuplan
