#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json_file.h"
#include "ecosystem/carried_keys.h"
#include "ecosystem/export_parts.h"
#include "ecosystem/own_facts.h"
#include "models/recipe_names.h"
#include "planner/job.h"
#include "planner/job_metrics.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// Puts a value at "a.b.c".
void put(OrderedJson& top, const std::string& path, OrderedJson value) {
  OrderedJson* at = &top;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = path.find('.', begin)) != std::string::npos; begin = dot + 1)
    at = &(*at)[path.substr(begin, dot - begin)];
  (*at)[path.substr(begin)] = std::move(value);
}

/// Sizes that DeepSpeed counts in elements, as Hugging Face's "auto" computes them from the hidden size.
void add_zero_sizes(OrderedJson& file, const ExportJob& job) {
  OrderedJson& zero = file["zero_optimization"];
  const std::int64_t hidden = job.request.model.hidden_size;
  zero["contiguous_gradients"] = true;
  if (job.setup.zero_stage == 3) {
    zero["stage3_prefetch_bucket_size"] = 9 * hidden * hidden / 10;
    zero["stage3_param_persistence_threshold"] = 10 * hidden;
    zero["sub_group_size"] = 1'000'000'000;
    zero["stage3_max_live_parameters"] = 1'000'000'000;
    zero["stage3_max_reuse_distance"] = 1'000'000'000;
  } else {
    zero["reduce_scatter"] = true;
    zero["allgather_bucket_size"] = 50'000'000;
  }
  for (const char* part : {"offload_optimizer", "offload_param"}) {
    if (!zero.contains(part)) continue;
    zero[part]["pin_memory"] = true;
    if (zero[part]["device"] == "nvme") zero[part]["nvme_path"] = "/local_nvme";
    if (zero[part]["device"] == "nvme" && std::string_view(part) == "offload_param")
      zero[part]["buffer_size"] = largest_partition(job);
  }
}

std::string made_by(const ExportJob& job) {
  const EstimateRequest& r = job.request;
  return fmt::format("Made by gpuplan {} from {} (sha256 {}): {}, {}, {} on {} x {}.", GPUPLAN_VERSION,
                     comment_word(job.mark.file), job.mark.sha256.substr(0, 12), comment_word(r.model.name),
                     to_string(r.recipe.method), job.strategy.name, r.cluster.num_gpus(),
                     comment_word(r.cluster.gpus.front().name));
}

/// Writes them as the table says, but for those that were given.
Versions versions_of(const ExportJob& job, const Versions& of_table) {
  Versions out = of_table;
  for (auto& [package, version] : out)
    if (const auto given = version_of(job.versions, package)) version = *given;
  return out;
}

std::string versions_text(const Versions& versions) {
  std::string out;
  for (const auto& [package, version] : versions)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", package, version);
  return out;
}

/// A comment of what no file says.
std::string rest_of(const ExportJob& job, const char* before, const char* after) {
  if (job.left_to_script.empty()) return "";
  return fmt::format("{}The rest of the plan is your script's: {}.{}", before, comment_word(job.left_to_script), after);
}

/// A comment of what the user's file of another program said, and this one does not.
std::string left_behind(const ExportJob& job, const KeyTable& table, const char* before, const char* after) {
  if (!job.left || table.role != FileRole::Trainer) return "";
  return fmt::format("{}Left behind of {}, whose words are {}'s: {}.{}", before, comment_word(job.left->file),
                     comment_word(job.left->trainer), comment_word(names_of_carried(job.left->settings)), after);
}

/// Says whether the user's file, of other words, could have said a key and does not: it leaves it to a default.
bool is_left_to_default(const ExportJob& job, const KeyTable& table, const std::string& key) {
  return job.part_of && knows_setting(*job.part_of, table, key, job.request.recipe.objective.method->name) &&
         !value_at(job.carried->settings, key);
}

}  // namespace

std::string json_head_of(const ExportJob& job, const Versions& of_table) {
  return fmt::format("{} For {}.{}", made_by(job), versions_text(versions_of(job, of_table)), rest_of(job, " ", ""));
}

std::string head_of(const ExportJob& job, const Versions& of_table) {
  const Versions versions = versions_of(job, of_table);
  return fmt::format("# {}\n{}{}", made_by(job),
                     versions.empty() ? "" : fmt::format("# For {}.\n", versions_text(versions)),
                     rest_of(job, "# ", "\n"));
}

OrderedJson table_values(const ExportJob& job, const KeyTable& table, const OrderedJson& usual,
                         const OrderedJson& decided) {
  OrderedJson file = OrderedJson::object();
  if (table.is_json && table.has_head)
    file[kMadeByKey] = json_head_of(job, table.versions) + left_behind(job, table, " ", "");
  const bool leaves_to_deepspeed = table.role == FileRole::Launcher && job.is_zero();
  for (const KeyRow& row : table.rows) {
    if (!is_written_for(row, job.versions) || !is_stated(job.setup, *row.field)) continue;
    if (!row.only_with.first.empty() && !has_effect(row, json(file))) continue;
    if (leaves_to_deepspeed && row.field->name == "mixed_precision") continue;  // its own file says it
    if (leaves_to_deepspeed && row.field->name == "zero_init" && job.setup.zero_stage != 3) continue;
    OrderedJson value = value_in_file(row, value_of(job.setup, *row.field));
    const bool is_count = row.field->name == "alpha" ||
                          (row.field->name == "epochs" && (table.name == "torchtune" || table.name == "verl"));
    if (is_count && value == std::floor(value.get<double>()))
      value = std::int64_t(value.get<double>());  // PEFT's and torchtune's types are whole numbers
    if (value.is_null()) continue;
    if (value != false)
      for (const auto& [key, its] : row.beside) put(file, key, its);
    put(file, row.key, std::move(value));
  }
  const CarriedSettings* const own = job.carried && job.carried->trainer == table.name ? job.carried.get() : nullptr;
  const auto takes_usual = [&](const std::string& key) {
    return !own || (job.carries_part && !is_left_to_default(job, table, key));
  };
  for (const auto& [key, value] : table.fixed)
    if (const KeyRow* row = table.find(key); takes_usual(key) || (row && row->use == KeyUse::Used))
      put(file, key, value);
  for (const auto& [key, value] : usual.items())
    if (takes_usual(key)) put(file, key, value);
  for (const auto& [key, value] : decided.items()) put(file, key, value);
  const bool is_of_method = job.method && table.name == job.method->program;
  if (is_of_method) {
    const bool is_whole = own && !job.carries_part;  // the user's file: it lacks what names the method, at most
    const OrderedJson keys = keys_of(*job.method, job.data);
    for (const auto& [key, value] : keys.items()) {
      const bool names_it = std::ranges::find(job.method->says, key) != job.method->says.end();
      if (is_whole ? names_it && !value_at(own->settings, key) : !is_left_to_default(job, table, key))
        put(file, key, value);
    }
  }
  if (own) put_carried(file, in_keys_of(table, own->settings, job.versions), table, !job.keeps_data(), job.setup);
  if (is_of_method)
    for (const std::string& key : job.method->omits) file.erase(key);
  if (table.role == FileRole::Launcher && job.num_nodes() > 1) {
    file["main_process_ip"] = "127.0.0.1";  // launch.sh names the real one
    file["main_process_port"] = 29500;
  }
  if (table.role == FileRole::Engine) add_zero_sizes(file, job);
  return file;
}

ExportedFile table_file(const ExportJob& job, const KeyTable& table, const OrderedJson& usual,
                        const OrderedJson& decided) {
  const OrderedJson file = table_values(job, table, usual, decided);
  const bool is_of_method = job.method && table.name == job.method->program;
  const std::string head =
      head_of(job, table.versions) + left_behind(job, table, "# ", "\n") + facts_of_no_key(job, table);
  return {.name = is_of_method && !job.method->file.empty() ? job.method->file : table.file,
          .content = table.is_json                   ? json_text(file)
                     : table.file.ends_with(".toml") ? head + toml_text(file)
                                                     : head + yaml_text(file),
          .is_read = true};
}

std::string facts_of_no_key(const ExportJob& job, const KeyTable& table) {
  OrderedJson facts = OrderedJson::object();
  for (const SetupField& field : setup_fields()) {
    if (table.role != FileRole::Trainer || !is_fact_of_no_key(field.name) || !is_stated(job.setup, field)) continue;
    const auto writes = [&](const KeyRow& row) { return row.field == &field && is_written_for(row, job.versions); };
    if (std::ranges::none_of(table.rows, writes)) facts[std::string(field.name)] = value_of(job.setup, field);
  }
  return facts.empty() ? "" : fmt::format("{}{}\n", kOwnFacts, facts.dump());
}

const KeyTable& target_table(const char* name) {
  const KeyTable* found = find_key_table(name);
  GPUPLAN_CHECK(found, "a target without a key table");
  return *found;
}

std::string trl_program(const ExportJob& job) {
  return job.method && !job.method->starts.empty() ? job.method->starts : "-m trl.scripts.sft --config sft.yaml";
}

/// Twice in a run that is short.
std::int64_t save_steps(const ExportJob& job) {
  constexpr double kUsual = 200;
  const std::int64_t of_epoch = job_metrics(Job(job.request, job.strategy), Seconds{1}, FlopsPerSec{1}).steps_per_epoch;
  return std::int64_t(std::clamp(double(of_epoch) * job.request.dataset.epochs / 2, 1.0, kUsual));
}

OrderedJson learning_keys(const ExportJob& job) {
  const bool is_adapter = job.request.recipe.is_adapter();
  const double own = !job.method ? 0 : is_adapter ? job.method->adapter_rate : job.method->rate;
  return {{"learning_rate", own > 0      ? own
                            : is_adapter ? 2e-4
                                         : 2e-5},
          {"warmup_steps", 20},
          {"logging_steps", 5},
          {"save_steps", save_steps(job)},
          {"save_total_limit", 2}};
}

ExportedFile launch_file(const ExportJob& job, const Versions& of_table, const std::string& exports,
                         const std::string& command) {
  const Versions versions = versions_of(job, of_table);
  std::string out = "#!/bin/sh\n" + head_of(job, of_table) + "set -eu\ncd \"$(dirname \"$0\")\"\n";
  if (!versions.empty()) {
    out += "python3 -";
    for (const auto& [package, version] : versions)
      out += fmt::format(" {} {}", shell_word(package), shell_word(version.substr(0, version.find(' '))));
    out += R"( <<'CHECK'
import re, sys
from importlib.metadata import version
def numbers(text): return [int(n) for n in re.findall(r"\d+", text)[:2]]
for package, least in zip(sys.argv[1::2], sys.argv[2::2]):
    if numbers(version(package)) < numbers(least):
        sys.exit(f"{package} {version(package)} is older than {least}")
CHECK
)";
  }
  if (job.strategy.is_one_gpu()) out += "export CUDA_VISIBLE_DEVICES=\"${CUDA_VISIBLE_DEVICES:-0}\"\n";
  return {.name = "launch.sh", .content = out + exports + "exec " + command + " \"$@\"\n", .is_program = true};
}

std::string accelerate_command(const ExportJob& job, const std::string& program) {
  std::string out = "accelerate launch --config_file accelerate.yaml";
  if (job.num_nodes() > 1 && !job.is_one_process())
    out +=
        " --machine_rank \"${MACHINE_RANK:?the number of this machine, from 0}\""
        " --main_process_ip \"${MAIN_ADDRESS:?the address of machine 0}\" --main_process_port \"${MAIN_PORT:-29500}\"";
  return out + " " + program;
}

std::string torchrun_command(const ExportJob& job) {
  if (job.is_one_process()) return "python3";
  const std::string machines = job.num_nodes() == 1
                                   ? "--standalone"
                                   : fmt::format(
                                         "--nnodes={} --node_rank=\"${{NODE_RANK:?the number of this "
                                         "machine, from 0}}\" --master_addr=\"${{MASTER_ADDR:?the address of "
                                         "machine 0}}\" --master_port=\"${{MASTER_PORT:-29500}}\"",
                                         job.num_nodes());
  std::string command = fmt::format("torchrun {} --nproc_per_node={}", machines, job.processes_per_node());
  for (const std::string& flag : torchrun_output_flags(job.versions)) command += " " + flag;
  return command;
}

std::vector<std::string> torchrun_output_flags(const Versions& versions) {
  // PyTorch before 2.0 does not find its default for redirections under Python 3.11; stdout alone it finds.
  const auto torch = version_of(versions, "torch");
  if (!torch || !is_older(*torch, "2.0")) return {};
  return {"--redirects=1", "--tee=1"};
}

std::vector<std::pair<std::string, std::string>> torchrun_variables(const ExportJob& job) {
  const KeyTable& table = *find_key_table("accelerate");
  std::vector<std::pair<std::string, std::string>> variables;
  const auto set = [&](std::string name, const std::string& value) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::toupper(c)); });
    variables.emplace_back(name, value);
  };
  set("ACCELERATE_MIXED_PRECISION", *job.setup.mixed_precision);
  if (is_fsdp(job.strategy.engine)) set("ACCELERATE_USE_FSDP", "true");
  if (job.setup.dp_replicate) set("ACCELERATE_USE_PARALLELISM_CONFIG", "true");
  for (const KeyRow& row : table.rows) {
    const std::size_t dot = row.key.find('.');
    const bool is_variable = row.key.starts_with("fsdp_config.") || row.key.starts_with("parallelism_config.");
    if (!is_variable || !is_written_for(row, job.versions) || !is_stated(job.setup, *row.field)) continue;
    const OrderedJson value = value_in_file(row, value_of(job.setup, *row.field));
    const std::string name =
        row.field->name == "fsdp_wrap_class" ? "FSDP_TRANSFORMER_CLS_TO_WRAP" : row.key.substr(dot + 1);
    if (!value.is_null()) set(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return variables;
}

std::vector<std::pair<std::string, std::string>> zero_variables(const ExportJob& job, const std::string& file) {
  if (!job.is_zero()) return {};
  std::vector<std::pair<std::string, std::string>> out{{"ACCELERATE_USE_DEEPSPEED", "true"},
                                                       {"ACCELERATE_DEEPSPEED_CONFIG_FILE", file}};
  if (job.setup.zero_stage == 3) out.emplace_back("ACCELERATE_DEEPSPEED_ZERO3_INIT", "true");
  const KeyRow* leaves = find_key_table("accelerate")->find("deepspeed_config.deepspeed_moe_layer_cls_names");
  if (job.setup.leaf_classes && leaves && is_written_for(*leaves, job.versions))
    out.emplace_back("ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES",
                     value_in_file(*leaves, *job.setup.leaf_classes).get<std::string>());
  return out;
}

ExportedFile torchrun_file(const ExportJob& job) {
  std::string exports;
  auto variables = torchrun_variables(job);
  const auto zero = zero_variables(job, "deepspeed.json");
  variables.insert(variables.end(), zero.begin(), zero.end());
  for (const auto& [name, value] : variables) exports += fmt::format("export {}={}\n", name, shell_word(value));
  return launch_file(job, {{"torch", "2.6 or later"}}, exports, torchrun_command(job));
}

}  // namespace gpuplan
