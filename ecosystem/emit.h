// Files of trainers written from a plan.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace gpuplan {

// A file that gpuplan writes for another program, and the plan that it comes from.

struct ExportedFile {
  std::string name, content;
  bool is_program = false;  // to be run: a shell script
  bool is_private = false;  // holds arguments of the user: readable by nobody else
  bool is_read = false;     // estimate --from reads the plan from it
};

/// Where a plan comes from, for the head of every file.
struct PlanMark {
  std::string file, sha256;
};

/// The key under which a JSON file says which plan it comes from.
inline constexpr const char* kMadeByKey = "_gpuplan";

// Text of the files that gpuplan writes for other programs. Names and paths come from users: whatever they hold, a YAML
// file stays one value per key, a JSON file parses, and a shell sees one word.

using OrderedJson = nlohmann::ordered_json;

/// `text` as one word of a POSIX shell.
std::string shell_word(std::string_view text);

/// `text` as a YAML scalar that YAML 1.1 and 1.2 read as this text: plain where that is safe, else in double quotes.
std::string yaml_word(std::string_view text);

/// A mapping as block YAML. Numbers that are not whole have a point, as PyYAML wants it.
std::string yaml_text(const OrderedJson& mapping);

/// A mapping as TOML: tables below each other, lists of numbers and texts.
std::string toml_text(const OrderedJson& mapping);

/// One line of a comment: control characters, line ends of every kind and bytes that are no UTF-8 become '?'.
std::string comment_word(std::string_view text);

}  // namespace gpuplan
