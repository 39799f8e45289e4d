// What other programs read of the commands and flags: the listing in JSON, the description of serve's requests.
#include <algorithm>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "golden/command_line.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

using nlohmann::json;

json printed(const char* format) { return json::parse(test::run_line(fmt::format("completion {}", format)).out); }

std::set<std::string> flags_of(const json& listing, std::string_view name) {
  std::set<std::string> flags;
  for (const json& command : listing.at("commands"))
    if (command.at("name") == name)
      for (const json& flag : command.at("flags")) flags.insert(flag.at("name").get<std::string>());
  return flags;
}

}  // namespace

TEST_CASE("every method is listed with flags that estimate has, those that generate with the engine's") {
  const json listing = printed("json");
  const std::set<std::string> known = flags_of(listing, "estimate");
  const json& methods = listing.at("methods");
  REQUIRE(methods.size() == training_methods().size());
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const TrainingMethod& method = training_methods()[i];
    CAPTURE(method.name);
    CHECK(methods[i].at("name") == method.name);
    std::set<std::string> flags;
    for (const json& flag : methods[i].at("flags")) {
      CHECK_MESSAGE(known.contains(flag.get<std::string>()), flag);
      flags.insert(flag.get<std::string>());
    }
    CHECK(flags.contains("--rollout-engine") == method.generates);
    CHECK(flags.contains("--ref") == method.has_pass_of(PassModel::Reference));
    CHECK(flags.contains("--teacher") == method.has_pass_of(PassModel::Teacher));
    CHECK(flags.contains("--student-share") == (method.distils && method.generates));
  }
}

TEST_CASE("the requests of serve are the commands with --json that need no machine, each flag a parameter") {
  const json listing = printed("json"), described = printed("openapi");
  CHECK(described.at("openapi") == "3.1.0");
  CHECK(described.at("info").at("version") == GPUPLAN_VERSION);
  for (const json& command : listing.at("commands")) {
    const std::string name = command.at("name");
    CAPTURE(name);
    std::set<std::string> flags = flags_of(listing, name);
    const bool needs_machine =
        std::ranges::any_of(machine_commands(), [&](const Command& one) { return one.name == name; });
    const bool is_asked = flags.erase("--json") > 0 && !needs_machine;
    REQUIRE(described.at("paths").contains("/api/" + name) == is_asked);
    if (!is_asked) continue;
    const json& path = described.at("paths").at("/api/" + name);
    std::set<std::string> parameters;
    for (const json& parameter : path.at("get").at("parameters"))
      parameters.insert("--" + parameter.at("name").get<std::string>());
    flags.erase("");  // a plan by its path, which no request names
    CHECK(parameters == flags);
    CHECK(path.at("post").at("requestBody").at("content").at("application/json").at("schema").at("properties").size() ==
          flags.size() + 1);
    CHECK(path.at("get").at("responses").contains("400"));
  }
}

}  // namespace gpuplan
