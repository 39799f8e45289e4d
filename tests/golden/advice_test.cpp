// Questions of users beside the advice that estimate gives, for a person to review: advice/questions.txt.
//
//   # what an expert would say
//   $ gpuplan estimate …
//   exit: 0
//   ★ ddp fits …                     the first lines, and the advice behind the table
//
// An empty line ends a case. GPUPLAN_UPDATE_GOLDEN=1 rewrites the answers.
#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>

#include "base/files.h"
#include "golden/command_line.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

/// The first lines of an estimate and the advice behind its table, empty lines left out.
std::string verdict_of(const std::string& output) {
  std::istringstream lines(output);
  std::string text;
  bool is_first = true, is_table = false, is_prose = false, is_kept = true;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      is_first = false;
      continue;
    }
    is_table = is_table || line.starts_with("  strategy");
    const bool begins = !line.starts_with(" ") && !line.starts_with("★");
    is_prose = is_prose || (is_table && begins);
    if (begins)
      is_kept =
          !line.starts_with("Memory of a GPU") && !line.starts_with("Fits up to") && !line.starts_with("--explain");
    if (is_first || (is_prose && is_kept)) text += line + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("advice is what an expert would give") {
  const test::ScratchFolder scratch;
  const test::Variable profiles("GPUPLAN_PROFILE_DIR", scratch.path().c_str());
  const test::Variable gpus("CUDA_VISIBLE_DEVICES", "");
  const std::filesystem::path file = std::filesystem::path(GPUPLAN_TEST_DIR) / "golden/advice/questions.txt";
  const std::string page = read_file(file);
  int num_questions = 0;
  const std::string today = test::with_answers_of_today(page, verdict_of, num_questions);
  CHECK(num_questions > 0);
  if (test::is_updating())
    write_file_atomically(file, today);
  else
    CHECK_MESSAGE(page == today, "advice changed: run with GPUPLAN_UPDATE_GOLDEN=1 and review the difference");
}

}  // namespace gpuplan
