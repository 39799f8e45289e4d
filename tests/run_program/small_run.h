// Models and data made by the tests, and the command line of a run on them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "run_program/process.h"
#include "scratch_folder.h"

namespace gpuplan::test {

inline constexpr const char* kTwoRanks = " --gpus 2xcpu --strategy ddp";

struct Shape {
  std::string family = "llama";  // or qwen2, whose q, k and v have biases
  std::int64_t hidden = 36, ffn = 50, layers = 3, heads = 6, kv_heads = 2, vocab = 101;
};

/// A folder with model/config.json and tokens.bin (each token has its successor, so that there is something to learn).
class SmallRun {
 public:
  explicit SmallRun(const Shape& shape = {}, std::int64_t num_tokens = 4096);

  const std::filesystem::path& path() const { return scratch_.path(); }
  std::string at(const std::string& name) const { return (scratch_.path() / name).string(); }
  const ScratchFolder& scratch() const { return scratch_; }

  std::string content(const std::string& name) const;  // of a file in the folder

  /// gpuplan run --model … with random weights on the tokens in fp32, and what is given; a later flag replaces an
  /// earlier one.
  std::vector<std::string> command(const std::string& flags) const;
  Finished run(const std::string& flags, double limit_seconds = kPatience) const;
  /// … as ranks of one mpirun, each with flags of its own. A script picks them: the mpirun of Debian 13 (Open
  /// MPI 5.0.7) crashes where it gets two programs.
  Finished run_ranks(const std::vector<std::string>& flags_of_ranks) const;
  /// … which must end with exit code 0; its report, and the metrics' lines.
  nlohmann::json report(const std::string& flags) const;
  std::vector<nlohmann::json> metrics(const std::string& name = "metrics.jsonl") const;
  std::vector<double> losses(const std::string& name = "metrics.jsonl") const;

 private:
  ScratchFolder scratch_;
};

inline void check_has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK_MESSAGE(text.find(part) != std::string::npos, part);
}

double worst_relative(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace gpuplan::test
