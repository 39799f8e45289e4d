// Feeds files to a fuzz target without libFuzzer: the corpus as a test in every build, and a find under a debugger.
// With --mutate N it goes on with N inputs made from them at random, for a build whose compiler has no libFuzzer: an
// input that lets an exception through, ends the process or takes more than two minutes is left beside as find-<seed>.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <random>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fuzz/fuzz_input.h"

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed);

namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kMostBytes = 8192;
constexpr unsigned kMostSeconds = 120;  // a hang

std::vector<fs::path> files_in(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Runs one input; false, and a line on standard error, when the target let an exception through.
bool run(const Bytes& input, const char* name) {
  try {
    LLVMFuzzerTestOneInput(input.data(), input.size());
    return true;
  } catch (const std::exception& error) { return std::fprintf(stderr, "%s: %s\n", name, error.what()), false; }
}

std::minstd_rand& random_source() {
  static std::minstd_rand one;
  return one;
}
std::size_t below(std::size_t limit) { return limit == 0 ? 0 : std::size_t(random_source()()) % limit; }

/// Of the input that is being run, for a handler that may call almost nothing.
const Bytes* current = nullptr;
char find_name[64] = "find";

void save_find() {
  const int file = open(find_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file >= 0 && current) static_cast<void>(!write(file, current->data(), current->size()));
  if (file >= 0) close(file);
}

void end_at_signal(int number) {
  save_find();
  signal(number, SIG_DFL);
  raise(number);
}

Bytes mutant_of(const std::vector<Bytes>& seeds) {
  Bytes input = seeds[below(seeds.size())];
  std::size_t size = std::min(input.size(), kMostBytes);
  input.resize(kMostBytes);
  for (std::size_t times = 1 + below(6); times > 0; --times)
    size = LLVMFuzzerCustomMutator(input.data(), size, kMostBytes, unsigned(random_source()()));
  input.resize(size);
  return input;
}

/// How many of `count` mutants let an exception through.
int run_mutants(const std::vector<Bytes>& seeds, long count, unsigned seed) {
  for (const int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM}) signal(number, end_at_signal);
  const rlimit memory{rlim_t(4) << 30, rlim_t(4) << 30};
  setrlimit(RLIMIT_AS, &memory);
  random_source().seed(seed);
  int num_failed = 0;
  for (long i = 0; i < count; ++i) {
    const Bytes input = mutant_of(seeds);
    std::snprintf(find_name, sizeof find_name, "find-%u-%ld", seed, i);
    current = &input;
    alarm(kMostSeconds);
    if (!run(input, find_name)) ++num_failed, save_find();
    alarm(0);
  }
  return num_failed;
}

}  // namespace

/// Changes bytes as libFuzzer's mutator of this name does: a few at random, a piece moved, doubled, taken out or put
/// in.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  static constexpr std::array<std::string_view, 22> kWords{"0",
                                                           "-1",
                                                           "9223372036854775807",
                                                           "1e308",
                                                           "nan",
                                                           "null",
                                                           "true",
                                                           "\"",
                                                           "{",
                                                           "}",
                                                           "[",
                                                           "\n",
                                                           ":",
                                                           "- ",
                                                           ",",
                                                           "\t",
                                                           "../",
                                                           "&a",
                                                           "*a",
                                                           "#",
                                                           "\xff",
                                                           "18446744073709551616"};
  Bytes out(data, data + size);
  const auto at = [&](std::size_t place) { return out.begin() + std::ptrdiff_t(place); };
  const std::size_t from = below(size), length = size == 0 ? 0 : 1 + below(std::min<std::size_t>(size - from, 64));
  const Bytes piece(at(from), at(from + length));
  const std::size_t to = below(size + 1);
  switch (below(6)) {
    case 0:
      if (size > 0) out[from] = std::uint8_t(out[from] ^ (1U << below(8)));
      break;
    case 1:
      if (size > 0) out[from] = std::uint8_t(below(256));
      break;
    case 2: out.erase(at(from), at(from + length)); break;
    case 3: out.insert(at(to), piece.begin(), piece.end()); break;
    case 4: std::copy_n(piece.begin(), std::min(piece.size(), size - std::min(to, size)), at(to)); break;
    default: {
      const std::string_view word = kWords[below(kWords.size())];
      out.insert(at(to), word.begin(), word.end());
    }
  }
  out.resize(std::min(out.size(), max_size));
  std::copy(out.begin(), out.end(), data);
  return out.size();
}

int main(int argc, char** argv) {
  std::vector<Bytes> inputs;
  int num_failed = 0;
  long num_mutants = 0;
  unsigned seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--mutate" && i + 1 < argc) {
      num_mutants = std::atol(argv[++i]);
      continue;
    }
    if (word == "--seed" && i + 1 < argc) {
      seed = unsigned(std::atol(argv[++i]));
      continue;
    }
    for (const fs::path& file : files_in(argv[i])) {
      std::ifstream in(file, std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
      if (!in)
        std::fprintf(stderr, "%s: cannot be read\n", file.c_str()), ++num_failed;
      else if (!run(inputs.back(), file.c_str()))
        ++num_failed;
    }
  }
  std::printf("%zu inputs replayed, %d failed\n", inputs.size(), num_failed);
  if (inputs.empty() || num_failed > 0) return 1;
  if (num_mutants == 0) return 0;
  const int num_found = run_mutants(inputs, num_mutants, seed);
  std::printf("%ld mutants, %d failed\n", num_mutants, num_found);
  return num_found > 0 ? 1 : 0;
}
