#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "planner/tiers.h"
#include "questions/laws.h"

namespace gpuplan::test {
namespace {

using nlohmann::json;

/// The strategies that can be, by name.
json strategies_of(const Answered& a) {
  json out = json::object();
  if (a.code != 0 && a.code != 1) return out;
  const json answer = json::parse(a.out, nullptr, false);
  for (const json& s : answer.at("strategies"))
    if (s.at("not_applicable").is_null()) out[s.at("name").get<std::string>()] = s;
  return out;
}

/// The question with twice the number of `flag`; nothing where it has no such number.
std::optional<Question> doubled(const Question& question, const std::string& flag) {
  const std::string value = question.value_of(flag);
  if (value.empty() || value.size() > 12 || value.find_first_not_of("0123456789") != std::string::npos) return {};
  return question.with(flag, std::to_string(2 * std::stoll(value)));
}

/// What is chosen freely differs from question to question.
Question with_nothing_chosen(const Question& question) {
  return question.has("--as-given") ? question : question.with("--as-given", "");
}
Answered as_given(const Question& question, const Answered& a) {
  return question.has("--as-given") ? a : ask(with_nothing_chosen(question));
}

/// The worse, the smaller.
Fit fit_of(const json& strategy) { return parse_name<Fit>(strategy["fits"].get<std::string>(), "fits"); }

/// Twice as much of `flag` needs no less of `key`. The cut of `mp` may change with it, and which GPU is the fullest,
/// and thus the row's: its process then needs no less, but for a part of a layer, as a cut moves whole ones.
std::string broken_growth(const Question& question, const Answered& a, const Answered& more, const char* flag,
                          const char* key) {
  const json one = strategies_of(a), two = strategies_of(more);
  for (const auto& [name, s] : one.items()) {
    const bool is_of_memory = std::string_view(key) != "step_seconds", is_cut = name == "mp" && is_of_memory;
    if (is_of_memory && two.contains(name) && fit_of(two[name]) > fit_of(s))
      return fmt::format("{}: fits better with twice as many as {} {}", name, flag, question.value_of(flag));
    const std::string of = is_cut ? "process_bytes" : key;
    if (two.contains(name) && two[name][of].get<double>() < s[of].get<double>() * (1 - (is_cut ? 0.02 : 1e-12)))
      return fmt::format("{}: {} {} with {} {}, {} with twice as many", name, s[of].dump(), of, flag,
                         question.value_of(flag), two[name][of].dump());
  }
  return "";
}

std::string broken_growth(const Question& question, const Answered& a, const char* flag,
                          std::initializer_list<const char*> keys) {
  const auto more = doubled(question, flag);
  if (!more) return "";
  const Answered one = as_given(question, a), two = ask(with_nothing_chosen(*more));
  for (const char* key : keys)
    if (std::string law = broken_growth(question, one, two, flag, key); !law.empty()) return law;
  return "";
}

std::string broken_text_verdict(const Question& question, const Answered& a) {
  const Answered text = ask(question.without("--json"));
  return text.code == a.code ? "" : fmt::format("exit code {} with --json and {} without", a.code, text.code);
}

/// The same card with less memory, in the same machine: no better verdict, and the same tensors. A row of `mp` is that
/// of the GPU nearest to its limit; where there is no room for what the allocator keeps, that may be another one.
std::string broken_smaller_card(const Question& question, const Answered& a) {
  Question smaller = question;
  bool is_smaller = false;
  for (GivenFlag& flag : smaller.flags)
    if (flag.name == "--gpus" && flag.value == "8xA100-80GB") flag.value = "8xA100-40GB", is_smaller = true;
  if (!is_smaller) return "";
  const json large = strategies_of(as_given(question, a)), small = strategies_of(ask(with_nothing_chosen(smaller)));
  for (const auto& [name, s] : large.items()) {
    if (!small.contains(name)) continue;
    if (fit_of(small[name]) > fit_of(s)) return name + " fits better in half the memory";
    if (name != "mp" && small[name]["tensors_bytes"] != s["tensors_bytes"])
      return name + " has other tensors on a smaller card";
  }
  return "";
}

/// The saved plan asked again is the plan that was saved.
std::string broken_saved_plan(const Question& question, const Answered& a) {
  if (question.value_of("--save") != "saved.json" || a.code != 0) return "";
  const json saved = json::parse(written("saved.json"), nullptr, false);
  const Answered again = ask({.command = "estimate", .flags = {{"", "saved.json"}, {"--json", ""}}});
  if (again.code > 1) return "the saved plan is refused: " + again.err;
  const json all = strategies_of(again);
  const std::string name = saved.at("strategy").at("name");
  if (!all.contains(name)) return "the saved plan asked again has another strategy";
  const json& predicted = saved.at("predicted");
  const std::int64_t then = predicted.at("process_bytes"), now = all[name]["process_bytes"];
  return then == now ? "" : fmt::format("the saved plan needs {} bytes, asked again {}", then, now);
}

/// The command of a plan is a question with the plan's figures.
std::string broken_printed_command(const Answered& a) {
  const json recommended = json::parse(a.out, nullptr, false).value("recommended", json());
  if (recommended.is_null()) return "";
  const std::string command = recommended.at("command");
  if (command.find('\'') != std::string::npos) return "";  // cut at spaces below
  const Question printed = question_of(command).with("--json", "");
  if (printed.command != "estimate") return "";
  const Answered again = ask(printed);
  const json all = strategies_of(again);
  const std::string name = recommended.at("strategy");
  if (again.code != 0 || !all.contains(name))
    return fmt::format("the printed command ends with {}: {}", again.code, command);
  return all[name]["process_bytes"] == recommended.at("process_bytes")
             ? ""
             : fmt::format("the plan needs {} bytes, its command says {}: {}", recommended.at("process_bytes").dump(),
                           all[name]["process_bytes"].dump(), command);
}

}  // namespace

std::string broken_relation(const Question& question, const Answered& a) {
  if (!question.has("--json")) return "";
  if (question.command == "plan") return broken_printed_command(a);
  if (question.command != "estimate") return "";
  if (question.has("--save")) return broken_saved_plan(question, a);
  if (std::string law = broken_smaller_card(question, a); !law.empty()) return law;
  switch (question.number % 4) {
    case 0: return broken_text_verdict(question, a);
    case 1: return broken_growth(question, a, "--micro-batch", {"tensors_bytes", "process_bytes"});
    case 2: return broken_growth(question, a, "--seq-len", {"tensors_bytes", "process_bytes"});
    default: return broken_growth(question, a, "--grad-accum", {"step_seconds"});
  }
}

std::optional<double> difference_of_engines(const Question& question, const Answered& a) {
  if (question.command != "simulate" || !question.has("--json") || question.value_of("--network") != "analytic" ||
      a.code != 0)
    return {};
  for (const char* flag : {"--jitter", "--straggler", "--what-if"})
    if (question.has(flag)) return {};
  Question estimate = question;
  estimate.command = "estimate";
  for (const char* flag :
       {"--network", "--no-fold", "--compare", "--scaling", "--from", "--to", "--trace", "--html", "--seed"})
    estimate = estimate.without(flag);
  const json simulated = json::parse(a.out, nullptr, false), estimated = strategies_of(ask(estimate));
  const std::string name = simulated.at("strategy");
  if (!estimated.contains(name)) return {};
  return simulated.at("step_seconds").get<double>() / estimated[name]["step_seconds"].get<double>() - 1;
}

}  // namespace gpuplan::test
