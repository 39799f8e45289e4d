// What a training program writes while `gpuplan run --engine` watches it: its output, line by line, and the files of
// metrics of data/ecosystem/scripts/gpuplan_metrics.py.
#pragma once

#include <chrono>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnose/log_line.h"
#include "run/metrics.h"

namespace gpuplan {

/// Replaces the values of secrets by "***".
class Redaction {
 public:
  /// Values of at least 6 characters of environment variables whose names end with TOKEN, KEY, SECRET, PASSWORD or
  /// CREDENTIALS.
  Redaction();
  explicit Redaction(std::vector<std::string> secrets);
  std::string operator()(std::string text) const;

 private:
  std::vector<std::string> secrets_;  // longest first
};

/// Words of a command for people: the value behind --token, --hub_token, --api-key=… is "***" too.
std::vector<std::string> without_secrets(const std::vector<std::string>& words, const Redaction& redacted);

/// A process of the job that said it begins, and whether it said that it ended.
struct RankFile {
  std::int64_t rank = 0, pid = 0;
  bool has_ended = false;
};

/// Gathers steps from output and from metrics files; what the files say counts.
class EngineOutput {
 public:
  /// `folder`: of metrics files, which is read again and again. `echo` receives every line of output, without secrets.
  EngineOutput(std::filesystem::path folder, std::ostream& echo);
  /// Bytes of the launcher's output, in pieces of any size; line ends are \n and \r.
  void add_output(std::string_view bytes);
  /// Reads what was appended to the metrics files.
  void read_metrics();
  void finish();  // a last line without an end

  const std::vector<StepMetrics>& steps() const { return steps_.empty() ? logged_ : steps_; }
  bool has_metrics() const { return !steps_.empty(); }
  const std::map<std::int64_t, RankFile>& ranks() const { return ranks_; }
  Bytes tensors() const { return tensors_; }         // most in tensors of rank 0's GPU; 0: not said
  Bytes process() const { return process_; }         // most resident host memory of rank 0
  const std::string& tail() const { return tail_; }  // the last 20,000 characters of output

 private:
  void take_line(std::string line);
  void take_metrics(std::int64_t rank, const std::string& line);

  std::filesystem::path folder_;
  std::ostream& echo_;
  Redaction redacted_;
  std::string partial_, tail_;
  std::vector<StepMetrics> steps_, logged_;
  std::optional<std::pair<std::int64_t, std::chrono::steady_clock::time_point>> last_bar_;
  std::map<std::filesystem::path, std::int64_t> read_to_;
  std::map<std::int64_t, RankFile> ranks_;
  Bytes tensors_, process_;
};

}  // namespace gpuplan
