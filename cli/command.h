// What a command is: a row with a name, a line for the help, an example that works, its flags and what it does.
#pragma once

#include "report/text/screen.h"

namespace CLI {
class App;
}

namespace gpuplan {

struct Command {
  const char* name;
  const char* summary;
  const char* usage;                                  // after "gpuplan name"
  const char* example;                                // lines for the help
  void (*setup)(CLI::App& app);                       // declares the flags
  int (*run)(const CLI::App& app, Console& console);  // returns the exit code: 0, or 1 when the answer is no
};

}  // namespace gpuplan
