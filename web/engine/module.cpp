// The WebAssembly module: what JavaScript calls (web/engine/engine.js).
#include <cstddef>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include "base/data_archive.h"
#include "base/files.h"
#include "cli/json_question.h"

namespace {

std::string shown;  // until the next call

}  // namespace

extern "C" {

/// Takes the archive of data/ (base/data_archive.h), `size` bytes that stay where they are. Once, before the first
/// question.
void gpuplan_use_data(const char* archive, std::size_t size) {
  umask(022);  // Emscripten 3.1 begins with 0777: nobody could read what is written
  gpuplan::use_data_archive({archive, size});
  // Folders are listed and data_dir() is found by names alone; the values come from the archive.
  for (const std::string& path : gpuplan::packed_paths()) {
    const std::filesystem::path file = std::filesystem::path("/data") / path;
    gpuplan::make_folders(file.parent_path());
    gpuplan::write_file_atomically(file, "");
  }
}

/// Answers a question, `size` bytes of JSON, with a text of gpuplan_size() bytes (cli/json_question.h).
const char* gpuplan_answer(const char* question, std::size_t size) {
  shown = gpuplan::answer_json({question, size});
  return shown.c_str();
}

std::size_t gpuplan_size() { return shown.size(); }
}
