// Feeds files to a fuzz target without libFuzzer: the corpus as a test in every build, and a find under a debugger.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <vector>

#include "fuzz/fuzz_input.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Runs one file; false, and a line on standard error, when the target let an exception through.
bool replay(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::fprintf(stderr, "%s: cannot be read\n", file.c_str()), false;
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
    return true;
  } catch (const std::exception& error) { return std::fprintf(stderr, "%s: %s\n", file.c_str(), error.what()), false; }
}

}  // namespace

int main(int argc, char** argv) {
  int num_files = 0, num_failed = 0;
  for (int i = 1; i < argc; ++i)
    for (const fs::path& file : files_in(argv[i])) ++num_files, num_failed += replay(file) ? 0 : 1;
  std::printf("%d inputs replayed, %d failed\n", num_files, num_failed);
  return num_files == 0 || num_failed > 0 ? 1 : 0;
}
