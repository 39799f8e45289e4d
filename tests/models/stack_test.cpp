// data/stack: releases, pins and facts of other programs by version, and the reader that answers from them.
#include "models/stack.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "models/families.h"
#include "models/framework.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

constexpr std::array kDates{"2024-06-30", "2025-03-31", "2026-08-22"};

/// What a model's config calls itself: of modelled families, and their text parts.
std::set<std::string> known_types() {
  std::set<std::string> types{"gemma4_text", "qwen3_vl_moe_text"};
  for (const Family* family : families())
    types.insert({std::string(family->model_type), std::string(family->wrapper_type)});
  return types;
}

bool overlap(const StackFact& a, const StackFact& b) {
  const auto is_apart = [](const StackFact& x, const StackFact& y) {
    return x.before && y.since && *x.before <= *y.since;
  };
  const auto share = [](const auto& x, const auto& y) {
    return std::ranges::any_of(x, [&](const auto& item) { return std::ranges::find(y, item) != y.end(); });
  };
  return !is_apart(a, b) && !is_apart(b, a) &&
         (a.families.empty() || b.families.empty() || share(a.families, b.families)) &&
         (!a.records || !b.records || share(*a.records, *b.records));
}

/// A later row may say more of some families, records, or versions of other libraries than an earlier one of all.
bool refines(const StackFact& earlier, const StackFact& later) {
  return (earlier.families.empty() && !later.families.empty()) || (!earlier.records && later.records) ||
         (earlier.others.empty() && !later.others.empty());
}

StackVersions with(const char* text, std::string_view record = "hf-trainer") {
  return stack_versions(parse_stack_versions(text), record);
}

const json& fact_of(const StackVersions& versions, std::string_view path, std::string_view family = {},
                    std::string_view record = "hf-trainer") {
  const json* const value = fact(facts_for(versions, record), path, family);
  REQUIRE_MESSAGE(value, std::string(path), " of ", std::string(family));
  return *value;
}

std::string text_of(const StackVersions& versions, std::string_view library) {
  const auto found = versions.find(library);
  return found == versions.end() ? "" : found->second.text;
}

}  // namespace

TEST_CASE("every row of data/stack has a source, versions of its library, and types of models that there are") {
  const std::set<std::string> types = known_types();
  CHECK(libraries().size() >= 20);
  for (const Library& library : libraries())
    for (const StackFact& row : library.facts) {
      CAPTURE(library.name);
      CAPTURE(row.path);
      CHECK(row.source.size() > 20);
      if (row.since && row.before) CHECK(*row.since < *row.before);
      // A bound is a release, or it would be a slip: nothing changes between releases.
      for (const auto& bound : {row.since, row.before})
        if (bound) {
          CAPTURE(bound->text);
          CHECK(std::ranges::any_of(library.releases, [&](const Release& r) { return r.version.is_a(*bound); }));
        }
      for (const std::string& family : row.families) CHECK_MESSAGE(types.contains(family), family);
      for (const auto& [other, range] : row.others) CHECK(find_library(other).releases.size() > 1);
    }
}

TEST_CASE("rows of a library that hold for the same versions and models do not contradict one another") {
  for (const Library& library : libraries())
    for (std::size_t i = 0; i < library.facts.size(); ++i)
      for (std::size_t j = i + 1; j < library.facts.size(); ++j) {
        const StackFact &earlier = library.facts[i], &later = library.facts[j];
        if (earlier.path != later.path || earlier.value == later.value || !overlap(earlier, later)) continue;
        CHECK_MESSAGE(refines(earlier, later), library.name, ": ", earlier.path, " is ", earlier.value.dump(), " and ",
                      later.value.dump());
      }
}

TEST_CASE("two libraries that are no trainers never state the same fact of one trainer") {
  for (const FrameworkConvention& record : list_frameworks()) {
    std::map<std::string, std::string> stated;  // by path
    for (const Library& library : libraries())
      for (const StackFact& row : library.facts) {
        const auto& records = row.records ? row.records : library.records;
        if (library.is_trainer || (records && std::ranges::find(*records, record.name) == records->end())) continue;
        CAPTURE(row.path);
        CHECK(stated.try_emplace(row.path, library.name).first->second == library.name);
      }
  }
}

TEST_CASE("within a series of a library, later versions have later days; days are days") {
  for (const Library& library : libraries())
    for (std::size_t i = 0; i < library.releases.size(); ++i) {
      const Release& release = library.releases[i];
      CAPTURE(library.name);
      CAPTURE(release.version.text);
      CHECK(release.date.size() == 10);
      CHECK(release.date >= "2021-01-01");
      CHECK(release.date <= "2027-01-01");
      if (i == 0) continue;
      const Release& before = library.releases[i - 1];
      const bool is_same_series = std::equal(before.version.numbers.begin(), before.version.numbers.begin() + 2,
                                             release.version.numbers.begin());
      if (is_same_series) CHECK(before.date <= release.date);  // 5.10.3 came after 5.12.0
    }
}

TEST_CASE("records and libraries that data/stack names exist, and every pin can be met") {
  for (const Library& library : libraries()) {
    CAPTURE(library.name);
    for (const std::string& record : library.records.value_or(std::vector<std::string>{}))
      CHECK_MESSAGE(known_framework(record), record);
    for (const StackFact& row : library.facts)
      for (const std::string& record : row.records.value_or(std::vector<std::string>{}))
        CHECK_MESSAGE(known_framework(record), record);
    for (const Pin& pin : library.pins)
      for (const auto& [other, range] : pin.ranges) {
        CAPTURE(range.text());
        CHECK(std::ranges::any_of(find_library(other).releases,
                                  [&, &bound = range](const Release& r) { return bound.holds(r.version); }));
      }
  }
}

TEST_CASE("facts about a trainer's record can be read as its fields, at every date and for every type of model") {
  std::set<std::string> types = known_types();
  for (const auto& file : files_in(data_dir() / "frameworks", ".json")) {
    const json record = read_json_file(file);
    for (const char* date : kDates) {
      const auto rows =
          facts_for(versions_at(date, record["name"].get<std::string>()), record["name"].get<std::string>());
      for (const std::string& type : types) {
        json merged = record;
        merged.merge_patch(record_facts(rows, type));
        CHECK_NOTHROW(read_framework(merged, file.filename().string() + " of " + date));
      }
    }
  }
}

TEST_CASE("without a version, every library is the newest release") {
  const StackVersions newest = newest_versions();
  CHECK(newest.size() == libraries().size());
  for (const Library& library : libraries())
    for (const Release& release : library.releases)
      CHECK_MESSAGE(release.version <= newest.at(library.name), library.name, " ", release.version.text);
  CHECK(text_of(newest, "transformers") == "5.15.0");
  CHECK(text_of(newest, "peft") == "0.20.0");
}

TEST_CASE("a stack of a date is the newest release of each library that there was") {
  CHECK(text_of(versions_at("2024-06-30", "hf-trainer"), "transformers") == "4.42.3");
  CHECK(text_of(versions_at("2024-06-30", "hf-trainer"), "peft") == "0.11.1");
  CHECK(text_of(versions_at("2024-06-30", "hf-trainer"), "torchtitan").empty());
  CHECK(text_of(versions_at("2025-03-31", "trl"), "trl") == "0.16.0");
  CHECK(text_of(versions_at("2025-03-31", "trl"), "deepspeed") == "0.16.5");
  CHECK(text_of(versions_at("2026-06-15", "hf-trainer"), "transformers") == "5.12.1");  // and not 5.10.3 of that day
  CHECK(text_of(versions_at("2026-08-22", "hf-trainer"), "transformers") == "5.15.0");
  CHECK(text_of(versions_at("2023-01-01", "hf-trainer"), "transformers").empty());
}

TEST_CASE("what a trainer pins wins over newer releases") {
  const StackVersions axolotl = newest_versions("axolotl");
  CHECK(text_of(axolotl, "axolotl") == "0.18.0");
  CHECK(text_of(axolotl, "transformers") == "5.14.1");
  CHECK(text_of(axolotl, "peft") == "0.19.1");
  CHECK(text_of(axolotl, "trl").empty());            // a trainer of its own
  CHECK(text_of(axolotl, "deepspeed") == "0.18.9");  // >=0.18.6,<0.19
  CHECK(text_of(with("axolotl=0.14.0", "axolotl"), "transformers") == "5.0.0");
  CHECK(text_of(with("axolotl=0.12.1", "axolotl"), "transformers") == "4.55.0");  // as 0.12.0
  CHECK(text_of(versions_at("2025-07-31", "axolotl"), "transformers") == "4.53.1");
  CHECK(text_of(newest_versions("llama-factory"), "transformers") == "5.6.0");
  CHECK(text_of(newest_versions("llama-factory"), "peft") == "0.18.1");
  CHECK(text_of(newest_versions("verl"), "verl") == "0.9.0");
  CHECK(text_of(with("axolotl=0.18.0,peft=0.20.0", "axolotl"), "peft") == "0.20.0");  // what is said is taken
}

TEST_CASE("a version may be given by its first numbers, be newer than any known, or have a suffix") {
  CHECK(text_of(parse_stack_versions("transformers=4.57"), "transformers") == "4.57.6");
  CHECK(text_of(parse_stack_versions("Transformers=5"), "transformers") == "5.15.0");
  CHECK(text_of(parse_stack_versions("transformers=4.57.1,trl=0.24"), "trl") == "0.24.0");
  CHECK(text_of(parse_stack_versions("transformers=5.99"), "transformers") == "5.99");
  CHECK(text_of(parse_stack_versions("torch=2.6.0+cu124"), "torch") == "2.6.0+cu124");
  CHECK(text_of(parse_stack_versions("transformers=4.58.0.dev0"), "transformers") == "4.58.0.dev0");
}

TEST_CASE("a library or a release that there is not is refused with the nearest") {
  const auto error_of = [](const char* text) {
    try {
      parse_stack_versions(text);
    } catch (const InputError& error) {
      CHECK(error.where() == "--versions");
      return error.problem() + "; " + error.hint();
    }
    return std::string("taken");
  };
  CHECK(error_of("transfomers=5.0") == "unknown library 'transfomers'; did you mean 'transformers'?");
  CHECK(error_of("transformers=4.57.9") ==
        "there is no release 4.57.9 of transformers; nearest: 4.57.6 and 5.0.0; the newest is 5.15.0");
  for (const char* text : {"transformers=40.57", "transformers=4.1", "trl=0.30", "trl", "trl=", "trl=new",
                           "trl=1.9,trl=1.8", "", "torch=2.6;id"})
    CHECK_MESSAGE(error_of(text) != "taken", text);
}

TEST_CASE("experts are modules before transformers 5 and stacked from it on, and PEFT reaches them accordingly") {
  const StackVersions old = with("transformers=4.57,peft=0.18.1,torch=2.10"), fresh = newest_versions("hf-trainer");
  for (const char* family : {"mixtral", "qwen3_moe", "olmoe", "deepseek_v3", "glm4_moe", "ernie4_5_moe", "phimoe"}) {
    CHECK(fact_of(old, "experts.layout", family) == "modules");
    CHECK(fact_of(fresh, "experts.layout", family) == "stacked");
    CHECK(fact_of(fresh, "experts.product", family) == "grouped");
    CHECK(fact_of(with("torch=2.8"), "experts.product", family) == "loop");
    CHECK(fact_of(old, "adapters.all_linear", family) == "linear");
  }
  CHECK(fact_of(old, "experts.product", "qwen3_moe") == "loop");
  CHECK(fact_of(old, "experts.product", "olmoe") == "loop-all");
  CHECK(fact_of(with("peft=0.18"), "adapters.all_linear", "qwen3_moe") == "linear");
  CHECK(fact_of(with("peft=0.19"), "adapters.all_linear", "qwen3_moe") == "error");
  CHECK(fact_of(with("peft=0.19,transformers=4.57"), "adapters.all_linear", "qwen3_moe") == "linear");
  CHECK(fact_of(fresh, "adapters.all_linear", "qwen3_moe") == "target-parameters");
  CHECK(fact_of(fresh, "adapters.all_linear", "phimoe") == "linear");
  CHECK(fact_of(with("transformers=5.5"), "adapters.all_linear", "qwen2_moe") == "target-parameters");
  CHECK(fact_of(fresh, "adapters.all_linear", "qwen2_moe") == "linear");
  CHECK(fact_of(fresh, "quantise.subclasses") == false);
  CHECK(fact_of(old, "quantise.subclasses") == true);
}

TEST_CASE("every family of the catalogue with experts has their layout, product and router under its own versions") {
  std::set<std::string> families_with_experts;
  for (const json& entry : read_json_file(data_dir() / "models" / "index.json")) {
    const json model = read_json_file(data_dir() / "models" / (entry["name"].get<std::string>() + ".json"));
    if (model.contains("moe") && model["moe"].is_object()) families_with_experts.insert(entry["model_type"]);
  }
  CHECK(families_with_experts.size() >= 25);
  const auto& first = find_library("transformers").models;
  for (const std::string& family : families_with_experts)
    for (const char* version : {"4.57", "5.0", "5.15"}) {
      CAPTURE(family);
      CAPTURE(version);
      const StackVersions versions = with((std::string("transformers=") + version).c_str());
      const auto since = first.find(family);
      if (since != first.end() && versions.at("transformers") < to_version(since->second, "models")) continue;
      for (const char* path : {"experts.layout", "experts.product", "experts.router"})
        CHECK_MESSAGE(fact(facts_for(versions, "hf-trainer"), path, family), path);
    }
}

TEST_CASE("defaults follow the versions: checkpoints, loss, optimizer, modules gathered at once") {
  const auto changes = [](const char* text, std::string_view record) {
    return record_facts(facts_for(with(text, record), record));
  };
  CHECK(changes("transformers=4.57", "hf-trainer")["checkpoints_reentrantly"] == true);
  CHECK(changes("transformers=5.0", "hf-trainer")["checkpoints_reentrantly"] == false);
  CHECK(changes("transformers=5.0,axolotl=0.14", "axolotl")["checkpoints_reentrantly"] == true);  // its own choice
  CHECK(changes("trl=0.21", "trl")["defaults"]["checkpointing"] == "none");
  CHECK(changes("trl=0.22", "trl")["defaults"]["checkpointing"] == "full");
  CHECK(changes("trl=1.6", "trl")["defaults"]["loss"] == "plain");
  CHECK(changes("trl=1.7", "trl")["defaults"]["loss"] == "chunked");
  CHECK(changes("transformers=4.54,torch=2.8", "trl")["default_optimizer"] == "adamw-fused");
  CHECK(changes("transformers=4.54,torch=2.7", "trl")["default_optimizer"] == "adamw-foreach");
  CHECK(changes("deepspeed=0.17.6", "trl")["zero"]["leaf_experts"].empty());
  CHECK(changes("deepspeed=0.18", "trl")["zero"]["leaf_experts"].size() == 3);
  CHECK(changes("llamafactory=0.9.5", "llama-factory")["zero"]["leaf_experts"].size() > 15);
  CHECK_FALSE(record_facts(facts_for(newest_versions("trl"), "trl")).contains("load"));  // it awaits a reader
}
