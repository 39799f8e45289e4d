// What is written from the table of commands and the flags that CLI11 knows: the manual page and shell completion.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpuplan {

// Shell completion, generated from the commands and flags that CLI11 knows.

/// One flag or positional as a shell sees it.
struct CompletedFlag {
  std::string name;  // "--model"; empty: a positional
  std::string help;
  bool takes_value = false, needs_value = false;
  std::vector<std::string> values;  // what may follow
  bool takes_file = false;
};

struct CompletedCommand {
  std::string name, help;
  std::vector<CompletedFlag> flags;
};

/// Every command. Names of models, GPUs and machines are those of the catalogues now.
std::vector<CompletedCommand> completed_commands(const CLI::App& program);

std::string bash_completion(const std::vector<CompletedCommand>& commands);
std::string zsh_completion(const std::vector<CompletedCommand>& commands);
std::string fish_completion(const std::vector<CompletedCommand>& commands);
/// The same as JSON, for programs that show the flags in a way of their own; and which flags are of which method.
std::string json_listing(const std::vector<CompletedCommand>& commands);
/// The requests that `gpuplan serve` answers (serve/requests.h), as an OpenAPI description: one for each command that
/// has --json.
std::string open_api(const std::vector<CompletedCommand>& commands);

// The manual page, in roff: written from the table of commands and the flags that CLI11 knows, as the help is.

/// docs/gpuplan.1 is what this writes; a test compares them.
std::string manual_page(const CLI::App& program);

}  // namespace gpuplan
