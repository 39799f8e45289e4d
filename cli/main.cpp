#include "base/data_archive.h"
#include "base/data_archive_symbols.h"
#include "base/files.h"
#include "cli/program.h"

#include <csignal>
#include <iostream>

#include <unistd.h>

int main(int argc, char** argv) {
  gpuplan::use_data_archive(gpuplan::carried_data());
  gpuplan::fill_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error of the write, and is told
  return gpuplan::run({argv + 1, argv + argc}, std::cout, std::cerr, gpuplan::screen_of(gpuplan::StandardStream::Out),
                      std::cin);
}
