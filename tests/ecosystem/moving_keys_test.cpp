// A law of the tables that preference tuning and reinforcement learning are read by: every key that they call used
// moves the question, in at least one file of its format. Files are made from the tables themselves.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/key_table.h"
#include "models/catalogue.h"
#include "planner/plan_builder.h"

namespace gpuplan {

using namespace test;

namespace {

using nlohmann::json;
using Keys = std::vector<std::pair<std::string, json>>;

/// Facts by which one file of a format differs from another in what it trains and how.
constexpr std::array<std::array<std::string_view, 2>, 4> kSwitches{
    {{"objective", "pair_loss"}, {"adapter", "quant_bits"}, {"engine", "engine_place"}, {"distributed", "fsdp_words"}}};

/// Facts that the program asks for beside the question: which model, machine and data.
constexpr std::array<std::string_view, 26> kBeside{"model",
                                                   "held_out",
                                                   "model_alias",
                                                   "teacher",
                                                   "reward_model",
                                                   "num_processes",
                                                   "num_machines",
                                                   "learners",
                                                   "data_sets",
                                                   "processes_per_machine",
                                                   "visible_gpus",
                                                   "data_folder",
                                                   "max_samples",
                                                   "max_steps",
                                                   "max_rounds",
                                                   "epoch_steps",
                                                   "model_type",
                                                   "model_positions",
                                                   "total_answers",
                                                   "reference_gpus",
                                                   "reference_machines",
                                                   "critic_gpus",
                                                   "critic_machines",
                                                   "reward_gpus",
                                                   "reward_machines",
                                                   "shares_reference"};

/// One format of moving_keys.json: files by which it is recognised, whether all of its keys are of methods that
/// generate (else those of kOfMethods are), and keys that move nothing by themselves, with the reason.
struct Format {
  std::string name;
  std::vector<Keys> files;
  bool is_whole = false;
  std::map<std::string, std::string> still;
};
std::vector<Format> formats() {
  std::vector<Format> out;
  const std::string file = std::string(GPUPLAN_TEST_DIR) + "/ecosystem/moving_keys.json";
  const json all = json::parse(read_file(file));
  for (const auto& [name, row] : all.items()) {
    Format format{.name = name, .is_whole = row.value("whole", false)};
    for (const json& keys : row.at("files")) {
      Keys one;
      for (const auto& [key, value] : keys.items()) one.emplace_back(key, value);
      format.files.push_back(std::move(one));
    }
    const json still = row.value("still", json::object());
    for (const auto& [reason, keys] : still.items())
      for (const json& key : keys) format.still.emplace(key.get<std::string>(), reason);
    out.push_back(std::move(format));
  }
  return out;
}

/// The facts between these, in the order of setup_fields(), are of preference tuning and reinforcement learning.
bool is_of_methods(const SetupField& field) {
  const SetupField* const first = find_setup_field("objective");
  const SetupField* const last = find_setup_field("fills_by_tokens");
  REQUIRE(first < last);
  return &field >= first && &field <= last;
}

json tree_of(const Keys& keys) {
  json tree = json::object();
  for (const auto& [key, value] : keys) {
    json* at = &tree;
    std::string rest = key;
    for (std::size_t dot; (dot = rest.find('.')) != std::string::npos; rest.erase(0, dot + 1)) {
      at = &(*at)[rest.substr(0, dot)];
      if (!at->is_object()) *at = json::object();
    }
    (*at)[rest] = value;
  }
  return tree;
}

/// Holds what a file asks: the question with machine and passes settled, and what stands beside it. Empty: it is
/// refused.
struct Asked {
  EstimateRequest request;
  json beside;
};
std::optional<Asked> asked_by(const Keys& keys) {
  try {
    ConfigReading reading = read_configs({{"file", tree_of(keys).dump()}}, {});
    Asked out{.request = reading.request, .beside = {}};
    out.request.cluster = plain_cluster(8);
    std::vector<std::string> notes;
    settle_strategy(reading, out.request, notes);
    settle_passes(reading, out.request, notes);
    for (const std::string_view fact : kBeside) out.beside.push_back(value_of(reading.setup, *find_setup_field(fact)));
    return out;
  } catch (const InputError&) { return {}; }
}

bool is_same(const Asked& a, const Asked& b) {
  const EstimateRequest &p = a.request, &q = b.request;
  const auto options = [](const StrategyOptions& o) {
    return std::tie(o.tp, o.splits_sequence, o.cp, o.context_exchange, o.ep, o.etp, o.pp, o.virtual_stages,
                    o.stage_layers, o.schedule, o.shard_size, o.fsdp_version, o.wrap, o.wrap_min_params, o.reshards,
                    o.reduce_bucket_size, o.overlap_comm, o.zero_quantized_weights, o.overlaps_tensor_parallel);
  };
  return p.recipe == q.recipe && p.rollout == q.rollout && options(p.options) == options(q.options) &&
         p.strategy == q.strategy && p.dataset.rows == q.dataset.rows &&
         p.dataset.tokens_per_row == q.dataset.tokens_per_row && p.dataset.epochs == q.dataset.epochs &&
         p.eval_batch == q.eval_batch && p.eval_logits == q.eval_logits && p.eval_generate == q.eval_generate &&
         a.beside == b.beside;
}

/// Values to try: those of the row, and some of the fact's type.
std::vector<json> values_of(const KeyRow& row) {
  std::vector<json> out;
  for (const auto& [value, fact] : row.values)
    if (!value.is_null()) out.push_back(value);
  const auto more = [&](std::initializer_list<json> values) { out.insert(out.end(), values); };
  const SetupMember& member = row.field->member;
  if (std::holds_alternative<Setup::Flag Setup::*>(member)) more({true, false});
  if (std::holds_alternative<Setup::Count Setup::*>(member)) more({1, 2, 4, 16, 768});
  if (std::holds_alternative<Setup::Number Setup::*>(member)) more({0.0, 0.1, 0.4, 2.0});
  if (std::holds_alternative<Setup::Word Setup::*>(member)) more({"Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B"});
  if (std::holds_alternative<Setup::Words Setup::*>(member)) more({json{"q_proj"}, json{"v_proj", "o_proj"}});
  if (std::holds_alternative<Setup::Numbers Setup::*>(member)) more({json{1}, json{2, 3}});
  return out;
}

/// A file of a format, and what it asks.
struct Context {
  Keys keys;
  Asked asked;
};

/// Files of the format that are answered: the least one, with every choice of what it switches.
std::vector<Context> contexts_of(const KeyTable& table, const Format& format) {
  constexpr std::size_t kMost = 300;
  std::vector<Context> contexts;
  for (const Keys& file : format.files) {
    std::optional<Asked> asked = asked_by(file);
    CAPTURE(json(file).dump());
    CHECK(asked);
    if (asked) contexts.push_back({file, std::move(*asked)});
  }
  for (const auto& facts : kSwitches) {
    const std::vector<Context> before = contexts;
    for (const KeyRow& row : table.rows) {
      if (row.use != KeyUse::Used || std::ranges::find(facts, row.field->name) == facts.end()) continue;
      for (const json& value : values_of(row))
        for (const Context& context : before) {
          if (contexts.size() >= kMost) break;
          Keys with = context.keys;
          with.emplace_back(row.key, value);
          std::optional<Asked> asked = asked_by(with);
          if (asked && !is_same(*asked, context.asked)) contexts.push_back({std::move(with), std::move(*asked)});
        }
    }
  }
  return contexts;
}

/// Two values of the key, or one beside its absence, ask for different things in at least one context.
bool moves(const KeyTable& table, const KeyRow& row, const std::vector<Context>& contexts) {
  const std::vector<json> values = values_of(row);
  for (const Context& context : contexts) {
    Keys base = context.keys;
    std::optional<Asked> first = context.asked;
    for (const std::string& needed : row.needs) {
      const KeyRow* const other = table.find(needed);
      const std::vector<json> any = other && other->field ? values_of(*other) : std::vector<json>{true};
      base.emplace_back(needed, any.empty() ? json(true) : any.front());
      first = asked_by(base);
    }
    for (const json& value : values) {
      Keys with = base;
      with.emplace_back(row.key, value);
      std::optional<Asked> asked = asked_by(with);
      if (asked && first && !is_same(*first, *asked)) return true;
      if (!first) first = std::move(asked);
    }
  }
  return false;
}

}  // namespace

TEST_CASE("every key that a table of preference tuning or reinforcement learning calls used moves the question") {
  for (const Format& format : formats()) {
    CAPTURE(format.name);
    const KeyTable* const table = find_key_table(format.name);
    REQUIRE(table);
    CHECK(read_configs({{"file", tree_of(format.files.front()).dump()}}, {}).trainer == table->title);
    const std::vector<Context> contexts = contexts_of(*table, format);
    for (const KeyRow& row : table->rows) {
      if (row.use != KeyUse::Used || !(format.is_whole || is_of_methods(*row.field))) continue;
      const std::string key = format.name + ": " + row.key;
      CAPTURE(key);
      if (moves(*table, row, contexts) == format.still.contains(row.key))
        FAIL_CHECK(fmt::format("{} ({})", key, row.field->name));
    }
  }
}

}  // namespace gpuplan
