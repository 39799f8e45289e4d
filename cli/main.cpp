#include "cli/program.h"

#include <csignal>
#include <iostream>

#include <fcntl.h>
#include <unistd.h>

namespace {

/// A standard stream that is closed (`>&-`) would be the next file that is opened, and get the answer. It becomes an
/// empty input, to which nothing can be written.
void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_RDONLY);  // takes the lowest number that is free
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error of the write, and is told
  return gpuplan::run({argv + 1, argv + argc}, std::cout, std::cerr, gpuplan::screen_of(STDOUT_FILENO), std::cin);
}
