// The help of the program and of each command, from the flags that CLI11 knows.
#pragma once

#include <string>

#include "report/text/screen.h"

namespace CLI {
class App;
}

namespace gpuplan {

std::string help_text(const CLI::App& app, const Screen& screen);

}  // namespace gpuplan
