#include "run/engine_output.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/environment.h"
#include "base/files.h"
#include "base/names.h"

namespace gpuplan {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kTail = 20'000, kLongestLine = 1 << 20;
constexpr std::string_view kDigits = "0123456789";

bool is_secret_name(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  std::replace(name.begin(), name.end(), '-', '_');
  for (const std::string_view end : {"TOKEN", "_KEY", "SECRET", "PASSWORD", "CREDENTIALS"})
    if (name.ends_with(end)) return true;
  return name == "KEY" || name == "APIKEY";
}

Bytes bytes_in(const nlohmann::json& line, const char* key) {
  const auto at = line.find(key);
  return at != line.end() && at->is_number() ? Bytes{std::int64_t(at->get<double>())} : Bytes{};
}

double figure_in(const nlohmann::json& line, const char* key) {
  const auto at = line.find(key);
  return at != line.end() && at->is_number() ? at->get<double>() : 0;
}

}  // namespace

Redaction::Redaction() {
  for (const std::string& one : all_variables()) {
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos || !is_secret_name(one.substr(0, equals))) continue;
    secrets_.push_back(one.substr(equals + 1));
  }
  *this = Redaction(std::move(secrets_));
}

Redaction::Redaction(std::vector<std::string> secrets) {
  for (std::string& secret : secrets)
    if (secret.size() >= 6) secrets_.push_back(std::move(secret));
  std::sort(secrets_.begin(), secrets_.end(), [](const std::string& a, const std::string& b) {
    return a.size() > b.size() || (a.size() == b.size() && a < b);
  });
}

std::string Redaction::operator()(std::string text) const {
  for (const std::string& secret : secrets_)
    for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos;) text.replace(at, secret.size(), "***");
  return text;
}

std::vector<std::string> without_secrets(const std::vector<std::string>& words, const Redaction& redacted) {
  std::vector<std::string> out;
  bool hides_next = false;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::size_t dashes = std::min(name.size(), name.find_first_not_of('-'));
    const bool is_secret = is_secret_name(name.substr(dashes));  // a flag, or a variable for env
    if (hides_next)
      out.emplace_back("***");
    else if (is_secret && equals != std::string::npos)
      out.push_back(name + "=***");
    else
      out.push_back(redacted(word));
    hides_next = !hides_next && is_secret && dashes > 0 && equals == std::string::npos;
  }
  return out;
}

EngineOutput::EngineOutput(std::filesystem::path folder, std::ostream& echo)
    : folder_(std::move(folder)),
      echo_(echo) {}

void EngineOutput::add_output(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\n' && c != '\r' && partial_.size() < kLongestLine) {
      partial_ += c;
      continue;
    }
    if (!partial_.empty()) take_line(std::exchange(partial_, {}));
    if (c != '\n' && c != '\r') partial_ += c;
  }
}

void EngineOutput::finish() {
  if (!partial_.empty()) take_line(std::exchange(partial_, {}));
  read_metrics();
}

void EngineOutput::take_line(std::string line) {
  line = redacted_(std::move(line));
  echo_ << line << "\n" << std::flush;
  tail_ += line + "\n";
  if (tail_.size() > 2 * kTail) tail_.erase(0, tail_.size() - kTail);
  const auto read = read_log_line(line);
  if (!read) return;
  const auto now = Clock::now();
  if (read->step && (logged_.empty() || *read->step > logged_.back().step)) {
    StepMetrics step{.step = *read->step};
    if (last_bar_ && *read->step > last_bar_->first)
      step.duration = Seconds{std::chrono::duration<double>(now - last_bar_->second).count() /
                              double(*read->step - last_bar_->first)};
    last_bar_ = {*read->step, now};
    if (step.step > 0) logged_.push_back(step);
  } else if (read->loss && !read->step && (logged_.empty() || logged_.back().loss != 0)) {
    logged_.push_back({.step = std::int64_t(logged_.size()) + 1});  // no bar counts the steps
  }
  if (logged_.empty() || !read->loss) return;
  logged_.back().loss = *read->loss;
  logged_.back().grad_norm = read->grad_norm.value_or(0);
  logged_.back().lr = read->learning_rate.value_or(0);
}

void EngineOutput::read_metrics() {
  for (const std::filesystem::path& path : files_in(folder_, ".jsonl")) {
    const std::string name = path.filename().string();
    if (!name.starts_with("rank-")) continue;
    const std::string number = name.substr(5, name.size() - 11);
    if (number.empty() || number.size() > 6 || number.find_first_not_of(kDigits) != std::string::npos) continue;
    std::int64_t& from = read_to_[path];
    const auto file = open_if_there(path);
    if (!file) continue;
    const std::string text = file->read(from, file->size() - from);
    std::size_t at = 0;
    for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      take_metrics(std::stoll(number), text.substr(at, end - at));
    from += at;  // a line that is being written is read with the next
  }
}

void EngineOutput::take_metrics(std::int64_t rank, const std::string& text) {
  const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object() || !line.contains("event") || !line["event"].is_string()) return;
  const std::string event = line["event"];
  RankFile& own = ranks_[rank];
  own.rank = rank;
  if (event == "begin") own.pid = std::int64_t(figure_in(line, "pid")), own.has_ended = false;
  if (event == "end") own.has_ended = true;
  if (rank != 0) return;
  const auto step = std::int64_t(figure_in(line, "step"));
  if (event == "log") {
    for (StepMetrics& known : steps_)
      if (known.step == step)
        known.loss = figure_in(line, "loss"), known.grad_norm = figure_in(line, "grad_norm"),
        known.lr = figure_in(line, "learning_rate");
    return;
  }
  if (event != "step" || step < 1 || (!steps_.empty() && step <= steps_.back().step)) return;
  steps_.push_back({.step = step,
                    .loss = figure_in(line, "loss"),
                    .grad_norm = figure_in(line, "grad_norm"),
                    .lr = figure_in(line, "learning_rate"),
                    .tokens_per_second = figure_in(line, "tokens_per_second"),
                    .duration = Seconds{figure_in(line, "step_seconds")},
                    .memory = bytes_in(line, "memory_bytes")});
  tensors_ = std::max(tensors_, bytes_in(line, "memory_bytes"));
  process_ = std::max(process_, bytes_in(line, "process_bytes"));
}

}  // namespace gpuplan
