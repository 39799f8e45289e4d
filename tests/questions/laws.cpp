#include "questions/laws.h"

#include <cmath>
#include <regex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "sanitized.h"

namespace gpuplan::test {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostMemory = (kIsSanitized ? std::int64_t(8) : std::int64_t(2)) << 30;

/// Exactly one message, and no part of an answer.
std::string broken_refusal(const Answered& a) {
  if (!a.out.empty()) return "a refused question has an answer too";
  int messages = 0;
  for (const std::string& line : split(a.err, '\n')) messages += line.starts_with("gpuplan: ");
  return messages == 1 ? "" : fmt::format("a refused question has {} messages", messages);
}

/// The first negative number below `value`, by its path. NaN and infinity are null in JSON, and no number of theirs
/// that must be there may be null.
std::string negative_number(const json& value, const std::string& at) {
  if (value.is_number() && value.get<double>() < 0) return fmt::format("{} is {}", at, value.dump());
  if (!value.is_structured()) return "";
  for (const auto& [key, inner] : value.items())
    if (std::string found = negative_number(inner, at + "." + key); !found.empty()) return found;
  return "";
}

std::string broken_strategy(const json& s) {
  if (!s.at("not_applicable").is_null()) return "";
  for (const char* key : {"peak_bytes", "tensors_bytes", "reserved_bytes", "process_bytes", "needed_bytes",
                          "usable_bytes", "capacity_bytes", "host_bytes", "communication_bytes", "step_seconds",
                          "tokens_per_second", "mfu", "global_batch"})
    if (!s.at(key).is_number()) return fmt::format("{} is {}", key, s.at(key).dump());
  std::int64_t sum = 0;
  for (const auto& [part, bytes] : s.at("memory_bytes").items()) sum += bytes.get<std::int64_t>();
  const auto bytes = [&](const char* key) { return s.at(key).get<std::int64_t>(); };
  if (sum != bytes("peak_bytes")) return fmt::format("parts sum to {}, the peak is {}", sum, bytes("peak_bytes"));
  if (bytes("tensors_bytes") > bytes("reserved_bytes") || bytes("reserved_bytes") > bytes("process_bytes"))
    return "tensors, reserved and process memory are not in this order";
  if (s.at("step_seconds").get<double>() <= 0) return "a step takes no time";
  return "";
}

std::string broken_estimate(const json& answer, int code) {
  bool is_yes = false;
  for (const json& strategy : answer.at("strategies")) {
    if (std::string law = broken_strategy(strategy); !law.empty())
      return fmt::format("{}: {}", strategy.at("name").get<std::string>(), law);
    is_yes |= strategy.at("not_applicable").is_null() && strategy.at("fits") != "no";
  }
  if (is_yes != (code == 0)) return fmt::format("exit code {}, and {}", code, is_yes ? "a plan fits" : "no plan fits");
  return "";
}

std::string broken_simulation(const json& answer) {
  for (const char* key : {"step_seconds", "tokens_per_second", "mfu", "hfu", "peak_bytes", "idle_seconds"})
    if (!answer.at(key).is_number()) return fmt::format("{} is {}", key, answer.at(key).dump());
  if (answer.at("step_seconds").get<double>() <= 0) return "a step takes no time";
  for (const char* key : {"resident", "compute"})
    if (answer.at("gpu_utilization").at(key).get<double>() > 1 + 1e-9) return "a GPU is busy more than all the time";
  return "";
}

std::string broken_json(const Question& question, const Answered& a) {
  const json answer = json::parse(a.out, nullptr, false);
  if (answer.is_discarded()) return "the answer is no JSON";
  for (const auto& [key, part] : answer.items())  // of a cluster, -1 is what it has not
    if (std::string found = key == "cluster" ? "" : negative_number(part, key); !found.empty()) return found;
  return question.command == "estimate" ? broken_estimate(answer, a.code) : broken_simulation(answer);
}

/// Memory of tensors by strategy.
json strategies_of(const Answered& a) {
  json out = json::object();
  if (a.code != 0 && a.code != 1) return out;
  const json answer = json::parse(a.out, nullptr, false);
  for (const json& s : answer.at("strategies"))
    if (s.at("not_applicable").is_null()) out[s.at("name").get<std::string>()] = s;
  return out;
}

}  // namespace

std::string broken_law(const Question& question, const Answered& a) {
  if (a.signal != 0) return fmt::format("signal {} after {:.1f} s: {}", a.signal, a.seconds, a.err);
  for (const char* report : {"Sanitizer", "runtime error"})
    if (a.err.find(report) != std::string::npos) return a.err;
  if (a.code < 0 || a.code > 2) return fmt::format("exit code {}: {}", a.code, a.err);
  if (a.memory_bytes > kMostMemory) return fmt::format("{} MiB of memory", a.memory_bytes >> 20);
  if (a.code == 2) return broken_refusal(a);
  if (a.out.empty()) return "no answer";
  if (question.has("--json")) return broken_json(question, a);
  static const std::regex kNoNumber("(^|[ $(-])(nan|inf)([ ,;)%]|$)", std::regex::multiline);
  std::smatch found;
  return std::regex_search(a.out, found, kNoNumber) ? "the answer has '" + found.str() + "'" : "";
}

std::string broken_relation(const Question& question, const Answered& a) {
  if (question.command != "estimate" || !question.has("--json")) return "";
  const Answered text = ask(question.without("--json"));
  if (text.code != a.code) return fmt::format("exit code {} with --json and {} without", a.code, text.code);
  if (a.code == 2) return "";
  const std::string batch = question.value_of("--micro-batch");
  if (batch.empty()) return "";  // the framework's default
  const std::int64_t sequences = std::stoll(batch);
  const json one = strategies_of(a),
             two = strategies_of(ask(question.with("--micro-batch", std::to_string(2 * sequences))));
  for (const auto& [name, s] : one.items())
    if (two.contains(name) && two[name]["tensors_bytes"] < s["tensors_bytes"])
      return fmt::format("{}: {} bytes of tensors with {} sequences, {} with twice as many", name,
                         s["tensors_bytes"].dump(), sequences, two[name]["tensors_bytes"].dump());
  return "";
}

std::optional<double> difference_of_engines(const Question& question, const Answered& a) {
  if (question.command != "simulate" || !question.has("--json") || question.value_of("--network") != "analytic" ||
      a.code != 0)
    return {};
  Question estimate = question;
  estimate.command = "estimate";
  for (const char* flag :
       {"--network", "--no-fold", "--compare", "--scaling", "--from", "--to", "--trace", "--html", "--seed"})
    estimate = estimate.without(flag);
  for (const char* flag : {"--jitter", "--straggler", "--what-if"})
    if (question.has(flag)) return {};
  const json simulated = json::parse(a.out, nullptr, false), estimated = strategies_of(ask(estimate));
  const std::string name = simulated.at("strategy");
  if (!estimated.contains(name)) return {};
  return simulated.at("step_seconds").get<double>() / estimated[name]["step_seconds"].get<double>() - 1;
}

}  // namespace gpuplan::test
