// A file that gpuplan writes for another program, and the plan that it comes from.
#pragma once

#include <string>

namespace gpuplan {

struct ExportedFile {
  std::string name, content;
  bool is_program = false;  // to be run: a shell script
  bool is_private = false;  // holds arguments of the user: readable by nobody else
};

/// Where a plan comes from, for the head of every file.
struct PlanMark {
  std::string file, sha256;
};

}  // namespace gpuplan
