// The commands and their flags for other programs: as JSON, and as the requests of gpuplan serve.
#include <algorithm>

#include <fmt/format.h>

#include "base/json_file.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;
using Commands = std::vector<CompletedCommand>;

constexpr std::string_view kJsonFlag = "--json";

/// Flags that mean something for a method alone.
std::vector<std::string> flags_of(const TrainingMethod& method) {
  std::vector<std::string> flags;
  const auto add = [&](bool has, std::initializer_list<const char*> names) {
    if (has) flags.insert(flags.end(), names.begin(), names.end());
  };
  add(method.has_pass_of(PassModel::Reference), {"--ref"});
  add(method.has_pass_of(PassModel::Teacher), {"--teacher", "--teacher-topk"});
  add(method.distils && method.generates, {"--student-share"});
  add(method.has_pass_of(PassModel::Critic), {"--critic"});
  add(method.has_pass_of(PassModel::Reward), {"--reward-model"});
  add(method.generates, {"--generations", "--prompt-len"});
  add(method.generates || method.scores_completions, {"--completion-len"});
  add(method.generates, {"--rollout-engine", "--updates", "--iterations", "--reward-time"});
  add(method.head == MethodHead::Score && !method.generates, {"--labels"});
  add(method.head == MethodHead::Pooled, {"--texts-per-row"});
  return flags;
}

Json parameter(const CompletedFlag& flag) {
  Json schema{{"type", flag.takes_value ? "string" : "boolean"}};
  if (!flag.values.empty()) schema["examples"] = flag.values;
  Json out{{"name", flag.name.substr(2)}, {"in", "query"}, {"description", flag.help}, {"schema", std::move(schema)}};
  if (!flag.needs_value) out["allowEmptyValue"] = true;
  return out;
}

Json reply(std::string_view description, const char* type = "text/plain") {
  return {
      {"description", description},
      {"content", {{type, {{"schema", {{"type", std::string_view(type) == "text/plain" ? "string" : "object"}}}}}}}};
}

Json replies(const std::string& command) {
  return {{"200", reply(fmt::format("what `gpuplan {} --json` prints, whether the answer is yes or no: "
                                    "docs/schemas/{}.schema.json",
                                    command, command),
                        "application/json")},
          {"400", reply("the question is wrong: what is, and what would be right")},
          {"401", reply("the address that gpuplan serve printed has a token")},
          {"403", reply("asked by a page of another origin, or under another host name")},
          {"503", reply("something that the question needs is missing here, or too many wait")},
          {"504", reply("no answer within --timeout")}};
}

/// The flags of a command as parameters of an address; a file is given by its content, with POST.
Json path_of(const CompletedCommand& command) {
  Json parameters = Json::array(), properties = Json::object();
  for (const CompletedFlag& flag : command.flags) {
    if (flag.name.empty() || flag.name == kJsonFlag) continue;
    parameters.push_back(parameter(flag));
    properties[flag.name.substr(2)] = {{"type", Json::array({"string", "number", "boolean"})},
                                       {"description", flag.help}};
  }
  properties["files"] = {{"type", "object"},
                         {"description", "content by path: nothing else is read"},
                         {"additionalProperties", {{"type", "string"}}}};
  return {{"get",
           {{"operationId", command.name},
            {"summary", command.help},
            {"parameters", std::move(parameters)},
            {"responses", replies(command.name)}}},
          {"post",
           {{"operationId", command.name + "_with_files"},
            {"summary", command.help},
            {"requestBody",
             {{"required", true},
              {"content",
               {{"application/json", {{"schema", {{"type", "object"}, {"properties", std::move(properties)}}}}}}}}},
            {"responses", replies(command.name)}}}};
}

}  // namespace

std::string json_listing(const Commands& commands) {
  Json rows = Json::array(), methods = Json::array();
  for (const CompletedCommand& command : commands) {
    Json flags = Json::array();
    for (const CompletedFlag& flag : command.flags)
      flags.push_back({{"name", flag.name},
                       {"help", flag.help},
                       {"takes_value", flag.takes_value},
                       {"needs_value", flag.needs_value},
                       {"takes_file", flag.takes_file},
                       {"values", flag.values}});
    rows.push_back({{"name", command.name}, {"help", command.help}, {"flags", std::move(flags)}});
  }
  for (const TrainingMethod& method : training_methods())
    methods.push_back({{"name", method.name}, {"title", method.title}, {"flags", flags_of(method)}});
  return json_text(Json{{"commands", std::move(rows)}, {"methods", std::move(methods)}});
}

std::string open_api(const Commands& commands) {
  Json paths = Json::object();
  const auto asks_a_machine = [](const CompletedCommand& command) {
    return std::ranges::any_of(machine_commands(), [&](const Command& one) { return one.name == command.name; });
  };
  for (const CompletedCommand& command : commands)
    if (!asks_a_machine(command) &&
        std::ranges::find(command.flags, kJsonFlag, &CompletedFlag::name) != command.flags.end())
      paths["/api/" + command.name] = path_of(command);
  const Json about{
      {"title", "gpuplan serve"},
      {"version", GPUPLAN_VERSION},
      {"description",
       "The planner on this machine. Flags are those of the command line, without `--`; amounts in answers "
       "are in base units, with the unit in the key."}};
  return json_text(Json{{"openapi", "3.1.0"}, {"info", about}, {"paths", std::move(paths)}});
}

}  // namespace gpuplan
