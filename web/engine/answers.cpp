// The native side of tests/web/compare.mjs: a question of JSON per line in, its answer per line out, by the commands of
// the module.
#include <iostream>
#include <string>

#include "base/data_archive.h"
#include "base/data_archive_symbols.h"
#include "cli/json_question.h"

int main() {
  gpuplan::use_data_archive(gpuplan::carried_data());
  for (std::string line; std::getline(std::cin, line);) std::cout << gpuplan::answer_json(line) << "\n" << std::flush;
}
