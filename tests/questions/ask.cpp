#include "questions/ask.h"

#include <chrono>
#include <sstream>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/program.h"
#include "sanitized.h"
#include "scratch_folder.h"

namespace gpuplan::test {
namespace {

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count <= 0) _exit(99);
    done += std::size_t(count);
  }
}

/// In the child. Leaves without destructors: what the parent holds is not the child's to clean.
[[noreturn]] void answer_and_leave(const Question& question, const ScratchFolder& folder) {
  if (chdir(folder.path().c_str()) != 0) _exit(99);  // files of --html and --trace
  const int out = open("out", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int err = open("err", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0 || err < 0 || dup2(err, STDERR_FILENO) < 0) _exit(99);
  alarm(unsigned(most_seconds()));
  std::ostringstream said, complained;
  std::istringstream in;
  const int code = run(question.words(), said, complained, {}, in);
  write_all(out, said.str());
  write_all(err, complained.str());
  _exit(code);
}

/// Reads catalogues once, in the parent: every child then has them. False when the program does not work at all.
bool warm() {
  std::istringstream in;
  for (const char* const command : {"estimate", "simulate"}) {
    std::ostringstream out, err;
    if (run({command, "--model", "smollm2-135m", "--lora", "--gpus", "2xA6000"}, out, err, {}, in) != 0) return false;
  }
  return true;
}

}  // namespace

int most_seconds() { return kIsSanitized ? 60 : 10; }

Answered ask(const Question& question) {
  static const ScratchFolder kFolder;
  static const bool kIsWarm = warm();
  if (!kIsWarm) return {};
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) answer_and_leave(question, kFolder);
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child) return {};
  Answered answered;
  answered.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  answered.memory_bytes = std::int64_t(used.ru_maxrss) * 1024;
  if (WIFEXITED(status)) answered.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) answered.signal = WTERMSIG(status);
  answered.out = read_file((kFolder.path() / "out").string());
  answered.err = read_file((kFolder.path() / "err").string());
  return answered;
}

}  // namespace gpuplan::test
