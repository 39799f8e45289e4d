// The files of web/page, built into the program (cmake/EmbedText.cmake).
#pragma once

#include <string_view>
#include <vector>

namespace gpuplan {

struct PageFile {
  std::string_view name, content;
};
/// Every one, as the build found them.
std::vector<PageFile> page_files();

}  // namespace gpuplan
