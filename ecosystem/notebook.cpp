#include "ecosystem/notebook.h"

#include <vector>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json_file.h"
#include "base/names.h"
#include "ecosystem/python_tokens.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// Sources of the code cells, one after the other.
std::vector<std::string> cells_of_notebook(const std::string& text, const std::string& name) {
  const json notebook = parse_json(text, name);
  if (!notebook.is_object() || !notebook.contains("cells") || !notebook["cells"].is_array())
    throw InputError(name, "is no notebook: it has no cells");
  std::vector<std::string> cells;
  for (const json& cell : notebook["cells"]) {
    if (!cell.is_object() || cell.value("cell_type", json()) != "code" || !cell.contains("source")) continue;
    std::string& source = cells.emplace_back();
    if (cell["source"].is_string()) source = cell["source"].get<std::string>();
    if (cell["source"].is_array())
      for (const json& line : cell["source"])
        if (line.is_string()) source += line.get<std::string>();
  }
  return cells;
}

bool is_command(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos || (line[first] != '!' && line[first] != '%')) return false;
  const char next = first + 1 < line.size() ? line[first + 1] : ' ';  // "%}" closes a tag of a chat template in a text
  return line[first] == '!' || next == '%' || is_name_begin(next);
}

/// A line behind "!": names in braces are variables.
std::string command_of(const std::string& line) {
  const std::string text = line.substr(line.find('!') + 1);
  std::string command;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins_name = text[i] == '{' && i + 1 < text.size() && is_name_begin(text[i + 1]);
    if (begins_name && !command.ends_with('$')) command += '$';
    command += text[i];
  }
  return command;
}

/// A cell as text of the shell; empty where it is Python.
std::string commands_of_cell(const std::string& cell) {
  const std::string first = cell.substr(0, cell.find('\n'));
  const std::string rest = first.size() < cell.size() ? cell.substr(first.size() + 1) : "";
  for (const char* magic : {"%%bash", "%%sh", "%%shell"})
    if (first.starts_with(magic)) return rest + "\n";
  const std::size_t space = first.find_last_of(" \t");
  if (first.starts_with("%%writefile") && space != std::string::npos)
    return fmt::format("cat > {} <<'END_OF_CELL'\n{}\nEND_OF_CELL\n", first.substr(space + 1), rest);
  std::string commands;
  bool continues = false;
  for (const std::string& line : split(cell, '\n')) {
    const bool begins = is_command(line) && line[line.find_first_not_of(" \t")] == '!';
    if (!begins && !continues) continue;
    const std::string command = begins ? command_of(line) : line;
    commands += command + "\n";
    continues = trim(command).ends_with('\\');
  }
  return commands;
}

/// Magic that only measures or keeps what the Python below it prints.
bool holds_python(const std::string& cell) {
  constexpr std::array kMagic{"%%time", "%%capture", "%%prun"};
  return std::ranges::any_of(kMagic, [&](const char* magic) { return cell.starts_with(magic); });
}

}  // namespace

std::string commands_of_notebook(const std::string& text, const std::string& name) {
  std::string commands;
  for (const std::string& cell : cells_of_notebook(text, name)) commands += commands_of_cell(cell);
  return commands;
}

std::string code_of_notebook(const std::string& text, const std::string& name) {
  std::string code;
  for (const std::string& cell : cells_of_notebook(text, name)) {
    const bool is_cell_magic = cell.starts_with("%%") && !holds_python(cell);
    for (std::size_t begin = 0; begin <= cell.size();) {  // lines with what they begin with
      const std::size_t end = std::min(cell.find('\n', begin), cell.size());
      const std::string line = cell.substr(begin, end - begin);
      code += is_command(line) || is_cell_magic ? "\n" : line + "\n";
      begin = end + 1;
    }
  }
  return code;
}

}  // namespace gpuplan
