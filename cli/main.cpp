#include "cli/program.h"

#include <iostream>

#include <unistd.h>

int main(int argc, char** argv) {
  return gpuplan::run({argv + 1, argv + argc}, std::cout, std::cerr, gpuplan::screen_of(STDOUT_FILENO), std::cin);
}
