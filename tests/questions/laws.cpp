#include "questions/laws.h"

#include <algorithm>
#include <array>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "base/names.h"
#include "questions/hints.h"
#include "questions/random_question.h"
#include "sanitized.h"
#include "schemas/schemas.h"

namespace gpuplan::test {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostMemory = (kIsSanitized ? std::int64_t(8) : std::int64_t(2)) << 30;

/// Exactly one message, and no part of an answer.
std::string broken_refusal(const Answered& a) {
  if (!a.out.empty()) return "a refused question has an answer too";
  int messages = 0;
  for (const std::string& line : split(a.err, '\n')) messages += line.starts_with("gpuplan: ");
  return messages == 1 ? "" : fmt::format("a refused question has {} messages: {}", messages, a.err);
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
  std::int64_t sum = 0;
  for (const auto& [part, bytes] : s.at("memory_bytes").items()) sum += bytes.get<std::int64_t>();
  const auto bytes = [&](const char* key) { return s.at(key).get<std::int64_t>(); };
  if (sum != bytes("peak_bytes")) return fmt::format("parts sum to {}, the peak is {}", sum, bytes("peak_bytes"));
  if (bytes("tensors_bytes") > bytes("reserved_bytes") || bytes("reserved_bytes") > bytes("process_bytes"))
    return "tensors, reserved and process memory are not in this order";
  if (!s.at("step_seconds").is_number() || s.at("step_seconds").get<double>() <= 0) return "a step takes no time";
  return "";
}

std::string broken_estimate(const json& answer, int code) {
  bool is_yes = false;
  for (const json& strategy : answer.at("strategies")) {
    if (std::string law = broken_strategy(strategy); !law.empty())
      return fmt::format("{}: {}", strategy.at("name").get<std::string>(), law);
    is_yes |= strategy.at("not_applicable").is_null() &&
              (strategy.at("fits") == "yes" || strategy.at("fits") == "tight" || strategy.at("fits") == "if-host");
  }
  if (is_yes != (code == 0)) return fmt::format("exit code {}, and {}", code, is_yes ? "a plan fits" : "no plan fits");
  return "";
}

std::string broken_simulation(const json& answer) {
  if (answer.at("step_seconds").get<double>() <= 0) return "a step takes no time";
  for (const char* key : {"resident", "compute"})
    if (answer.at("gpu_utilization").at(key).get<double>() > 1 + 1e-9) return "a GPU is busy more than all the time";
  for (const json& rank : answer.at("streams"))
    for (const auto& [stream, busy] : rank.at("busy_seconds").items())
      if (busy.get<double>() > answer.at("step_seconds").get<double>() * (1 + 1e-9))
        return fmt::format("stream {} is busy longer than the step", stream);
  return "";
}

/// Of the search, not of --largest.
std::string broken_plan(const Question& question, const json& answer, int code) {
  const json& frontier = answer.at("frontier");
  if (frontier.empty() != (code != 0)) return fmt::format("exit code {} and {} plans", code, frontier.size());
  const std::string top = question.value_of("--top");
  if (!top.empty() && frontier.size() > std::stoul(top)) return "more rows than --top";
  const std::string budget = question.value_of("--budget");
  for (const json& row : frontier) {
    if (row.at("fits") != "yes" && row.at("fits") != "tight" && row.at("fits") != "if-host")
      return "a plan that does not fit is shown";
    if (!budget.empty() && row.at("cost_usd").is_number() &&
        row.at("cost_usd").get<double>() > std::stod(budget.substr(budget.front() == '$')))
      return "a plan costs more than --budget";
  }
  return "";
}

std::string broken_topology(const json& answer) {
  std::int64_t gpus = 0;
  for (const json& vertex : answer.at("vertices")) gpus += vertex.at("kind") == "GPU";
  if (gpus != answer.at("num_gpus")) return fmt::format("{} GPUs of {} are drawn", gpus, answer.at("num_gpus").dump());
  const std::size_t vertices = answer.at("vertices").size();
  for (const json& link : answer.at("links"))
    if (link.at("from").get<std::size_t>() >= vertices || link.at("to").get<std::size_t>() >= vertices)
      return "a link leads nowhere";
  return "";
}

/// A refusal of an engine has a reason and nothing to start. A plan that lacks a program here has its command.
std::string broken_dry_run(const json& answer, int code, const std::string& told) {
  const bool is_refused = !answer.at("refusal").is_null();
  const bool fails_here = told.find("it would not start here: ") != std::string::npos;
  if ((is_refused || fails_here) != (code == 1))
    return fmt::format("exit code {}, refusal {}", code, answer.at("refusal").dump());
  if (is_refused != answer.at("commands").empty()) return "a refused plan has commands, or another one has none";
  return is_refused == answer.at("nearest").is_null() ? "a refusal does not say what comes nearest" : "";
}

/// Of docs/schemas; "" where the command has none.
std::string schema_of(const Question& q, const json& answer) {
  if (q.command == "plan") return answer.contains("num_models") ? "plan-largest" : "plan";
  if (q.command == "profiles") {
    const std::string action = q.flags.empty() || !q.flags.front().name.empty() ? "list" : q.flags.front().value;
    return action == "show" ? "profile" : action == "compare" ? "profiles-compare" : "profiles";
  }
  if (q.command == "estimate" && q.has("--generate")) return "generate";
  if (q.command == "validate" && !answer.contains("summary")) return "validate-phases";
  return q.command == "run" ? "run-dry" : q.command;
}

std::string broken_json(const Question& question, const Answered& a) {
  const json answer = json::parse(a.out, nullptr, false);
  if (answer.is_discarded()) return "the answer is no JSON";
  const std::string schema = schema_of(question, answer);
  if (std::string problem = schema_problem(schema, answer); !problem.empty())
    return fmt::format("the answer breaks the schema {}: {}", schema, problem);
  const bool may_be_negative = question.command == "validate" || question.command == "profiles";
  if (!may_be_negative)
    for (const auto& [key, part] : answer.items())  // of a cluster, -1 is what it has not; knobs are differences
      if (std::string found = key == "cluster" || key == "knobs" ? "" : negative_number(part, key); !found.empty())
        return found;
  if (schema == "estimate") return broken_estimate(answer, a.code);
  if (question.command == "simulate") return broken_simulation(answer);
  if (schema == "plan") return broken_plan(question, answer, a.code);
  if (schema == "run-dry") return broken_dry_run(answer, a.code, a.err);
  return question.command == "topology" ? broken_topology(answer) : "";
}

/// Pictures and traces are well-formed; a saved plan is what the schema says.
std::string broken_file(const Question& question, const Answered& a) {
  if (a.code != 0) return "";
  if (question.value_of("--svg") == "machine.svg") {
    pugi::xml_document picture;
    if (!picture.load_string(written("machine.svg").c_str())) return "the picture is no XML";
  }
  if (question.value_of("--trace") == "trace.json" && !json::accept(std::ifstream("trace.json")))
    return "the trace is no JSON";
  if (question.value_of("--save") != "saved.json") return "";
  const json plan = json::parse(written("saved.json"), nullptr, false);
  if (plan.is_discarded()) return "the saved plan is no JSON";
  const std::string problem = schema_problem("plan-file", plan);
  return problem.empty() ? "" : "the saved plan breaks its schema: " + problem;
}

/// Where `word` stands alone in the text, as a number would; npos when it does not.
std::size_t place_of(std::string_view word, const std::string& text) {
  constexpr std::string_view kBefore = " $(-\n", kBehind = " ,;)%\n";
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos;
    if (begins && (end == text.size() || kBehind.find(text[end]) != std::string_view::npos)) return at;
  }
  return std::string::npos;
}

/// A page or a terminal gets no control characters of ours or of arguments.
std::string broken_text(const Question& question, const Answered& a) {
  for (const std::string word : {"nan", "inf"}) {
    const std::size_t at = place_of(word, a.out);
    const auto has_it = [&](const GivenFlag& flag) { return flag.value.find(word) != std::string::npos; };
    if (at != std::string::npos && std::none_of(question.flags.begin(), question.flags.end(), has_it))
      return "the answer has '" + a.out.substr(at < 20 ? 0 : at - 20, 40) + "'";
  }
  return a.out.find('\x1b') != std::string::npos || a.err.find('\x1b') != std::string::npos
             ? "an escape sequence reaches the terminal"
             : "";
}

/// Every flag that a message or an answer for people names exists. What `export`, `run` and `completion` print are the
/// words of other programs, and `validate` names scripts.
std::string broken_hint(const Question& question, const Answered& a) {
  constexpr std::array kOthersWords{"export", "run", "completion", "validate"};
  const bool is_ours = std::find(kOthersWords.begin(), kOthersWords.end(), question.command) == kOthersWords.end();
  const std::string text = a.err + (is_ours && !question.has("--json") ? "\n" + a.out : "");
  const std::string flag = unknown_flag(text, question.command, question.line());
  return flag.empty() ? "" : fmt::format("the answer names {}, which is no flag", flag);
}

}  // namespace

std::string broken_law(const Question& question, const Answered& a) {
  for (const char* report : {"Sanitizer", "runtime error"})
    if (a.err.find(report) != std::string::npos) return a.err;
  const bool may_fail = asks_too_much_of_files(question);
  if (a.code < 0 || a.code > (may_fail ? 3 : 2)) return fmt::format("exit code {}: {}", a.code, a.err);
  const bool has_rows = question.has("--data");  // any number of them
  for (int i = has_rows ? 1 : 0; i < kNumWorks; ++i)
    if (const std::int64_t done = a.work[std::size_t(i)]; done > kMostWork[std::size_t(i)])
      return fmt::format("{} {}, more than {}", done, to_string(Work(i)), kMostWork[std::size_t(i)]);
  if (a.memory_bytes > kMostMemory) return fmt::format("{} MiB of memory", a.memory_bytes >> 20);
  if (std::string law = broken_text(question, a); !law.empty()) return law;
  if (std::string law = broken_hint(question, a); !law.empty()) return law;
  if (a.code == 3) return a.err.empty() ? "the machine failed, and nothing says why" : "";
  if (a.code == 2) return broken_refusal(a);
  if (a.out.empty() && a.err.empty()) return "no answer";
  if (std::string law = broken_file(question, a); !law.empty()) return law;
  return question.has("--json") ? broken_json(question, a) : "";
}

std::string first_broken(const Question& question) {
  const Answered answered = ask(question);
  std::string law = broken_law(question, answered);
  return law.empty() && answered.code < 2 ? broken_relation(question, answered) : law;
}

}  // namespace gpuplan::test
