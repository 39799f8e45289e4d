// Questions of users beside the advice that estimate gives, for a person to review: advice/questions.txt.
//
//   # what an expert would say
//   $ gpuplan estimate …
//   exit: 0
//   Recommended: …                   from the verdict to the look at one strategy
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

/// The verdict and the advice of an estimate, empty lines left out.
std::string verdict_of(const std::string& output) {
  std::istringstream lines(output);
  std::string text;
  bool is_table = false, is_verdict = false;
  for (std::string line; std::getline(lines, line);) {
    is_table = is_table || line.starts_with("  strategy") || line.starts_with("  Not applicable");
    if (line.starts_with("Memory of ") || line.starts_with("Assumptions")) break;
    if (is_table && !line.empty() && !line.starts_with(" ") && !line.starts_with("★")) is_verdict = true;
    if (is_verdict && !line.empty()) text += line + "\n";
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
