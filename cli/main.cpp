#include "base/data_archive.h"
#include "base/data_archive_symbols.h"
#include "base/files.h"
#include "cli/commands.h"
#include "cli/program.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

/// Says whether a command has opened nothing: device libraries close what they hold when a program exits.
[[maybe_unused]] bool leaves_memory_alone(const std::vector<std::string>& args) {
  return !args.empty() && std::ranges::any_of(gpuplan::commands(), [&](const gpuplan::Command& command) {
    return args.front() == command.name && !gpuplan::needs_machine(command);
  });
}

}  // namespace

int main(int argc, char** argv) {
  gpuplan::use_data_archive(gpuplan::carried_data());
  gpuplan::fill_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error of the write, and is told
  const int code = gpuplan::run({argv + 1, argv + argc}, std::cout, std::cerr,
                                gpuplan::screen_of(gpuplan::StandardStream::Out), std::cin);
#ifdef NDEBUG  // the system takes back what was read, in no time; tools for tests look at what is left
  if (leaves_memory_alone({argv + 1, argv + argc})) {
    std::cout.flush();
    std::quick_exit(code);
  }
#endif
  return code;
}
