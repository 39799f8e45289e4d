// Example configurations that axolotl, LLaMA-Factory, TRL, accelerate and the alignment handbook publish.
// public_examples.json names repository, commit and path of each, and holds the values of those keys that gpuplan uses
// or refuses; with what these keys ask for, worked out without gpuplan, or a part of the reason it is refused with.
#include <filesystem>
#include <map>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json_file.h"
#include "ecosystem/config_reader.h"
#include "models/catalogue.h"
#include "models/recipe_names.h"
#include "models/training_method.h"
#include "sanitized.h"

namespace gpuplan {
namespace {

using nlohmann::json;

struct PublicExample {
  std::string repo, path, refused;
  json keys, expect;
};

std::vector<PublicExample> public_examples() {
  const json file = read_json_file(std::filesystem::path(GPUPLAN_TEST_DIR) / "ecosystem" / "public_examples.json");
  std::vector<PublicExample> examples;
  for (const json& entry : file)
    examples.push_back({entry["repo"], entry["path"], entry.value("refused", ""), entry["keys"],
                        entry.value("expect", json::object())});
  return examples;
}

/// A file that another of the same repository names.
FindConfig beside(const std::vector<PublicExample>& examples, const std::string& repo) {
  return [&examples, repo](const std::string& named, const std::string&) -> std::optional<ConfigFile> {
    for (const PublicExample& e : examples)
      if (e.repo == repo && e.path == named) return ConfigFile{e.path, e.keys.dump()};
    return std::nullopt;
  };
}

void check_expected(const ConfigReading& reading, const json& expect) {
  const Recipe& r = reading.request.recipe;
  if (expect.contains("method")) CHECK(to_string(r.method) == expect["method"].get<std::string>());
  if (expect.contains("micro_batch")) CHECK(r.micro_batch == expect["micro_batch"]);
  if (expect.contains("seq_len")) CHECK(r.seq_len == expect["seq_len"]);
  if (expect.contains("rank") && r.is_adapter()) CHECK(r.lora.rank == expect["rank"]);
  if (expect.contains("objective")) CHECK(r.objective.method->name == expect["objective"].get<std::string>());
  if (expect.contains("strategy")) CHECK(reading.request.strategy == expect["strategy"].get<std::string>());
  if (expect.contains("targets")) CHECK(json(r.lora.targets) == expect["targets"]);
  if (expect.contains("freezes_tower")) CHECK(json(reading.setup.freezes_tower.value()) == expect["freezes_tower"]);
  if (expect.contains("tp")) CHECK(reading.request.options.tp == expect["tp"]);
  if (expect.contains("processes")) CHECK(reading.setup.num_processes == expect["processes"]);
}

}  // namespace

TEST_CASE("public example files give what they ask for, or a reason") {
  const std::vector<PublicExample> examples = public_examples();
  CHECK(examples.size() >= 60);
  for (const PublicExample& e : examples) {
    CAPTURE(e.repo);
    CAPTURE(e.path);
    std::string reason;
    try {
      const ConfigReading reading = read_configs({{e.path, e.keys.dump()}}, beside(examples, e.repo));
      check_expected(reading, e.expect);
    } catch (const InputError& error) { reason = error.what(); }
    if (e.refused.empty())
      CHECK(reason == "");
    else
      CHECK_MESSAGE(reason.find(e.refused) != std::string::npos, reason, " instead of ", e.refused);
  }
}

TEST_CASE("public example files are answered as a whole on eight H100") {
  const std::vector<PublicExample> examples = public_examples();
  int num_asked = 0, num_answered = 0;
  for (const PublicExample& e : examples) {
    if (!e.refused.empty() || (num_asked++ % 4 != 0 && test::kIsSanitized)) continue;
    CAPTURE(e.path);
    ConfigReading reading = read_configs({{e.path, e.keys.dump()}}, beside(examples, e.repo));
    EstimateRequest& r = reading.request;
    r.model = load_model("llama-3-8b").spec;
    r.cluster = parse_gpus("8xH100");
    std::vector<std::string> notes;
    settle_strategy(reading, r, notes);
    try {
      const EstimateResult result = estimate(r);
      CHECK_FALSE(result.strategies.empty());
      ++num_answered;
    } catch (const InputError& error) {  // modules of another model
      CHECK(std::string(error.what()).find("--lora") != std::string::npos);
    }
  }
  CHECK(num_answered >= (test::kIsSanitized ? 15 : 60));
}

}  // namespace gpuplan
