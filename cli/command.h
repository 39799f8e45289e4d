// What a command is: a row with a name, a line for the help, an example that works, its flags and what it does.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "cli/render/screen.h"

namespace CLI {
class App;
}

namespace gpuplan {

/// Where a command reads and writes. Only the answer goes to `out`.
struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Screen screen;
  std::string command_line;  // as it was typed
  std::vector<std::string> arguments;

  /// Writes text to `out`, in ASCII where the screen has nothing else.
  void print(std::string_view text);
};

struct Command {
  const char* name;
  const char* summary;
  const char* usage;                                  // after "gpuplan name"
  const char* example;                                // lines for the help
  void (*setup)(CLI::App& app);                       // declares the flags
  int (*run)(const CLI::App& app, Console& console);  // returns the exit code: 0, or 1 when the answer is no
};

}  // namespace gpuplan
