#include "questions/ask.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <regex>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/processor.h"
#include "cli/program.h"
#include "questions/random_question.h"
#include "sanitized.h"
#include "scratch_folder.h"

namespace gpuplan::test {
namespace {

/// What parent and child both see.
struct Shared {
  Tally tally;
  std::size_t begun = 0;  // the question that is asked now
};

Shared& shared() {
  static Shared* const kShared = [] {
    void* const room = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) std::abort();
    return new (room) Shared;
  }();
  return *kShared;
}

/// A program that says at once what a real one says after a second; two launchers are here and two are not.
void write_programs(const ScratchFolder& folder) {
  const std::string packages =
      R"({"torch": "2.6.0", "accelerate": "1.5.2", "transformers": "4.50.0", "peft": "0.14.0"})";
  folder.write("bin/python3", "#!/bin/sh\necho '" + packages + "'\n");
  for (const char* launcher : {"bin/torchrun", "bin/accelerate"}) folder.write(launcher, "#!/usr/bin/env python3\n");
  for (const auto& program : std::filesystem::directory_iterator(folder.path() / "bin"))
    std::filesystem::permissions(program.path(), std::filesystem::perms::owner_all);
}

/// The host that `cpu` means, so that two questions find the same memory free, and every machine gives the same answer.
void write_host(const ScratchFolder& folder) {
  folder.write("proc/meminfo",
               "MemTotal:       65536000 kB\nMemFree:        40000000 kB\nMemAvailable:   50000000 kB\n");
  folder.write("proc/cpuinfo",
               "processor\t: 0\nmodel name\t: A processor of questions\nflags\t\t: fpu sse2 avx2 fma\n");
}

/// What stands in the folder of the questions before the first one.
std::set<std::string>& kept_names() {
  static std::set<std::string> kNames;
  return kNames;
}

std::set<std::string> file_names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::map<std::string, std::string> files_below(const std::filesystem::path& folder) {
  constexpr std::uintmax_t kLargest = 16 << 20;  // no answer is larger
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.file_size() < kLargest)
      files[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
  return files;
}

/// The files of the questions before the first one.
std::map<std::string, std::string>& first_files() {
  static std::map<std::string, std::string> kFiles;
  return kFiles;
}

/// Removes what questions wrote: a folder of theirs where the next one writes a file.
void tidy() {
  std::error_code none;
  for (const std::string& name : file_names_in("."))
    if (!kept_names().contains(name)) std::filesystem::remove_all(name, none);
}

/// Catalogues are read and files written once, in the parent: every child then has them.
const ScratchFolder& scratch() {
  static const ScratchFolder kFolder;
  static const bool kIsReady = [] {
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(kFolder.path());
    write_programs(kFolder);
    write_host(kFolder);
    const char* const path = std::getenv("PATH");
    setenv("PATH", ((kFolder.path() / "bin").string() + (path ? std::string(":") + path : "")).c_str(), 1);
    setenv("GPUPLAN_PROC", (kFolder.path() / "proc").c_str(), 1);
    setenv("HF_HUB_OFFLINE", "1", 1);  // no question goes to the Hub
    setenv("XDG_DATA_HOME", (kFolder.path() / "data").c_str(), 1);
    const std::string problem = write_question_files();
    kept_names() = file_names_in(".");
    first_files() = files_below(".");
    kept_names().insert({"err", "verdicts"});
    std::filesystem::current_path(before);
    if (!problem.empty()) throw std::runtime_error(problem);
    return true;
  }();
  (void)kIsReady;
  return kFolder;
}

/// What stands in "err" since the last call: what the program, or a sanitizer, wrote past the stream that it was given.
std::string take_stderr() {
  std::string text = read_file("err");
  if (!text.empty() && truncate("err", 0) != 0) text += "(not cut)";
  return text;
}

void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

std::int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

/// Of all threads: on a busy machine the clock says nothing of the program.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

/// SIGPROF after so much work, SIGALRM when a question waits for ever. 0 ends both.
void limit(int seconds) {
  itimerval work{};
  work.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &work, nullptr);
  alarm(unsigned(60 * seconds));  // a busy machine gives little of a processor
}

void count(const Question& question, const Answered& answered) {
  Tally& t = tally();
  ++t.num_asked;
  t.num_refused += answered.code == 2;
  for (Tally::OfCommand& command : t.commands) {
    if (command.num_asked == 0) question.command.copy(command.name, sizeof command.name - 1);
    if (question.command != command.name) continue;
    ++command.num_asked;
    command.seconds += answered.seconds;
    break;
  }
  t.seconds += answered.seconds;
  if (answered.seconds > 0.25) ++t.num_long, t.long_seconds += answered.seconds;
  t.memory_bytes = std::max(t.memory_bytes, answered.memory_bytes);
  const std::string line = question.line();
  for (std::size_t i = 0; i < t.most.size(); ++i) {
    if (answered.work[i] <= t.most[i].amount) continue;
    t.most[i].amount = answered.work[i];
    std::memcpy(t.most[i].line, line.c_str(), std::min(line.size() + 1, sizeof t.most[i].line - 1));
  }
}

/// In the child. Leaves without destructors: what the parent holds is not the child's to clean.
[[noreturn]] void check_and_leave(const std::vector<Question>& questions, std::size_t from, const Law& law) {
  if (chdir(scratch().path().c_str()) != 0) _exit(99);
  const int err = open("err", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (err < 0 || dup2(err, STDERR_FILENO) < 0) _exit(99);
  std::ofstream verdicts("verdicts", std::ios::app);
  for (std::size_t i = from; i < questions.size(); ++i) {
    shared().begun = i;
    tidy();
    std::string verdict;
    try {
      verdict = law(questions[i]);
    } catch (const std::exception& error) { verdict = fmt::format("a law ends with: {}", error.what()); }
    if (!verdict.empty()) verdicts << json_line(nlohmann::json{i, verdict}) << std::endl;
  }
  _exit(0);
}

std::string end_of(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
    return fmt::format("hangs: {} s of a processor", hang_seconds());
  const std::string err = read_file((scratch().path() / "err").string());
  if (WIFSIGNALED(status)) return fmt::format("signal {}: {}", WTERMSIG(status), err);
  return fmt::format("the process left with {}: {}", WEXITSTATUS(status), err);
}

}  // namespace

int hang_seconds() { return kIsSanitized ? 1200 : 300; }

Tally& tally() { return shared().tally; }

std::string written(const std::string& name) {
  std::error_code none;
  return std::filesystem::is_regular_file(name, none) ? read_file(name) : "";
}

std::map<std::string, std::string> take_files_written() {
  std::map<std::string, std::string> files = files_below(".");
  std::erase_if(files, [](const auto& file) {
    const auto before = first_files().find(file.first);
    return file.first == "err" || file.first == "verdicts" ||
           (before != first_files().end() && before->second == file.second);
  });
  for (const auto& [path, content] : files)
    if (const auto before = first_files().find(path); before != first_files().end())
      std::ofstream(path, std::ios::binary) << before->second;
  return files;
}

std::string without_time(const std::string& text) {
  static const std::regex kTime(R"((plans searched in|"seconds":) [\d.e-]+( m?s)?)"),
      kDisk(R"([\d.]+ [A-Z]iB free at)");
  return std::regex_replace(std::regex_replace(text, kTime, "$1"), kDisk, "free at");
}

Surroundings surroundings_of_questions() {
  const std::filesystem::path folder = scratch().path();
  Surroundings given;
  for (const auto& [path, content] : first_files()) given.files[path] = given.files[(folder / path).string()] = content;
  for (const char* name :
       {"HOME", "PATH", "GPUPLAN_PROC", "GPUPLAN_PROFILE_DIR", "HF_HUB_OFFLINE", "XDG_DATA_HOME", "LC_ALL", "LANG"})
    if (const char* const value = std::getenv(name)) given.variables[name] = value;
  given.num_cores = num_usable_cores();
  return given;
}

Answered ask(const Question& question) {
  std::ostringstream out, err;
  std::istringstream in;
  forget_peak();
  limit(hang_seconds());
  const WorkCounts before = work_counts();
  const double begin = processor_seconds();
  Answered answered;
  answered.code = run(question.words(), out, err, {}, in);
  answered.seconds = processor_seconds() - begin;
  answered.work = work_counts();
  for (std::size_t i = 0; i < before.size(); ++i) answered.work[i] -= before[i];
  limit(0);
  answered.memory_bytes = peak_bytes();
  answered.out = out.str();
  answered.err = err.str() + take_stderr();
  count(question, answered);
  return answered;
}

std::vector<std::string> check_all(const std::vector<Question>& questions, const Law& law) {
  const std::filesystem::path file = scratch().path() / "verdicts";
  std::filesystem::remove(file);
  std::vector<std::string> out(questions.size());
  for (std::size_t from = 0; from < questions.size();) {
    shared().begun = from;
    const pid_t child = fork();
    if (child == 0) check_and_leave(questions, from, law);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) throw std::runtime_error("no process could be started");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    const std::size_t last = shared().begun;
    out[last] = end_of(status);
    from = last + 1;
  }
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json verdict = nlohmann::json::parse(line);
    out[verdict[0].get<std::size_t>()] = verdict[1].get<std::string>();
  }
  return out;
}

}  // namespace gpuplan::test
