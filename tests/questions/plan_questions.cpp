#include "questions/plan_questions.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/names.h"
#include "cli/flag_ranges.h"
#include "cli/plan_flags.h"
#include "cli/plan_question.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/optimizers.h"

namespace gpuplan::test {
namespace {

Values model_names() {
  Values names;
  for (const CatalogueEntry& entry : list_catalogue())
    if (entry.is_modelled) names.push_back(entry.name);
  return names;
}

Values framework_names() {
  Values names{kPlainFramework};
  for (const FrameworkConvention& framework : list_frameworks()) names.push_back(framework.name);
  return names;
}

Values optimizer_names() {
  Values names;
  for (const OptimizerSpec& optimizer : optimizers()) names.emplace_back(optimizer.name);
  return names;
}

/// What the help shows as "a|b|chunked[=N]", with a number in place of N and K.
Values choices_of(const PlanFlag& flag) {
  static const std::map<std::string, std::string> kWithNumber{
      {"every=K", "every=2"}, {"size:N", "size:20000000"}, {"chunked[=N]", "chunked=4"}};
  Values values;
  for (const std::string& choice : split(flag.value, '|')) {
    const auto found = kWithNumber.find(choice);
    values.push_back(found == kWithNumber.end() ? choice : found->second);
  }
  return values;
}

/// Usual sizes. The ends of the range are drawn apart.
const std::map<std::string, Values> kUsual{
    {"--micro-batch", {"1", "2", "3", "4", "8", "16"}},
    {"--image-size", {"224", "512", "1024x768"}},
    {"--seq-len", {"128", "512", "1000", "2048", "4096", "8192", "32768"}},
    {"--grad-accum", {"1", "2", "3", "8", "64"}},
    {"--rows", {"1", "100", "10000", "1000000"}},
    {"--tokens-per-row", {"1", "200", "2048", "100000"}},
    {"--epochs", {"0.5", "1", "3"}},
    {"--eval-batch", {"1", "8", "64"}},
    {"--eval-generate", {"0", "1", "256"}},
    {"--price-per-gpu-hour", {"0", "0.8", "2.5"}},
    {"--shard-size", {"1", "2", "4", "8"}},
    {"--host", {"desktop", "workstation", "server"}},
    {"--host-memory", {"32", "128GiB", "2000"}},
    {"--offload", {"optimizer", "params", "activations", "optimizer,params", "optimizer:nvme,params:nvme"}}};

/// A value for a flag of the table; "" when it is read by others of this file.
std::string value_for(const PlanFlag& flag, Chances& chances) {
  const std::string name = flag.name;
  const auto rows = ranges_of("", name);
  const FlagRange* row = !rows.empty() && !rows.front()->numbers ? rows.front() : nullptr;  // the value is a number
  const std::size_t rare = name == "--num-gpus" ? 200 : 8;  // the largest machines take as long as five hundred others
  if (row && chances.one_in(rare))
    return fmt::format("{:.15g}", chances.one_in(2) ? row->range.least : row->range.most);
  if (row && chances.one_in(rare)) {
    const double value = chances.spread(std::max(row->range.least, 1e-3), row->range.most);
    return row->kind == NumberKind::Real ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", std::max(1.0, value));
  }
  if (const auto usual = kUsual.find(name); usual != kUsual.end()) return chances.pick(usual->second);
  static const Values kFrameworks = framework_names(), kOptimizers = optimizer_names();
  if (name == "--framework") return chances.pick(kFrameworks);
  if (name == "--optimizer") return chances.pick(kOptimizers);
  if (std::string_view(flag.value).find('|') != std::string_view::npos) return chances.pick(choices_of(flag));
  return "";
}

}  // namespace

void add_method(Question& q, Chances& chances) {
  const Values adapters{"",
                        "r=8",
                        "r=64,alpha=16,dropout=0.1",
                        "r=1,targets=q_proj+v_proj",
                        "r=16,dora",
                        "r=8,save=lm_head+embed_tokens",
                        "r=4,dtype=bf16,base=fp32"};
  switch (chances.below(3)) {
    case 0: q.flags.push_back({"--full", ""}); return;
    case 1:
      q.flags.push_back({"--lora", chances.pick(adapters)});
      if (chances.one_in(6)) q.flags.push_back({"--int8", ""});
      return;
    default: q.flags.push_back({"--qlora", chances.one_in(4) ? "r=8,quant=gptq4" : chances.pick(adapters)});
  }
}

void add_machine(Question& q, Chances& chances) {
  static const Values kGpus{"1xA6000",       "1x4090",  "2x3090",  "3xA6000", "4xA6000",       "8x4090",   "4xH100",
                            "8xA100-80GB",   "16xH100", "64xH100", "1xL40S",  "8xT4",          "8xMI300X", "8xH200",
                            "2x4090,2x3090", "2xV100",  "1xcpu",   "2xcpu",   "256xA100-80GB", "1024xH100"};
  static const Values kMachines{"dgx-h100", "dgx-a100-80gb", "aws-g5.48xlarge", "ws-4x-a6000-nvlink", "gb200-nvl72"};
  if (!chances.one_in(6)) {
    q.flags.push_back({"--gpus", chances.pick(kGpus), true});
    return;
  }
  q.flags.push_back({"--cluster", chances.pick(kMachines), true});
  if (chances.one_in(3)) q.flags.push_back({"--num-gpus", chances.pick(Values{"1", "2", "4", "16"})});
}

void add_recipe(Question& q, Chances& chances) {
  const std::size_t how_often = 2 + chances.below(12);  // some questions say much, some little
  for (const PlanFlag& flag : plan_flags()) {
    if (flag.name == std::string_view("--tokens")) continue;  // in place of --rows: asked by lines of their own
    if (q.has(flag.name) || !chances.one_in(how_often)) continue;
    const bool is_switch = std::string_view(flag.value).empty();
    const std::string name = flag.name, value = is_switch ? "" : value_for(flag, chances);
    if (name == "--full" || name == "--int8" || (!is_switch && value.empty())) continue;
    if (name.find("image") != std::string::npos && !chances.one_in(10)) continue;  // few models see images
    q.flags.push_back({name, value});
  }
}

std::string random_model(Chances& chances) {
  static const Values kModels = model_names();
  return chances.pick(kModels);
}

std::string random_strategy(Chances& chances) {
  return chances.pick(Values{"single", "mp", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp-grad-op", "hsdp"});
}

void add_plan_file(Question& q, Chances& chances) {
  q.flags.push_back(
      {"", chances.pick(Values{"lora.json", "qlora.json", "full.json", "tight.json", "nodes.json"}), true});
}

void add_plan(Question& q, Chances& chances) {
  if (chances.one_in(10)) {
    add_plan_file(q, chances);
  } else {
    q.flags.push_back({"--model", random_model(chances), true});
    add_method(q, chances);
    add_machine(q, chances);
  }
  add_recipe(q, chances);
}

void add_simulation(Question& q, Chances& chances) {
  if (chances.one_in(2)) q.flags.push_back({"--network", chances.one_in(2) ? "analytic" : "flow"});
  if (chances.one_in(10)) q.flags.push_back({"--no-fold", ""});
  if (chances.one_in(6)) q.flags.push_back({"--jitter", chances.pick(Values{"0", "0.02", "0.3", "1"})});
  if (chances.one_in(6)) q.flags.push_back({"--straggler", chances.pick(Values{"0=1.2", "0=1000", "0=0.001"})});
  if (chances.one_in(6)) q.flags.push_back({"--compare", "ddp,fsdp,zero3,mp"});
  if (chances.one_in(10)) q.flags.push_back({"--seed", chances.pick(Values{"0", "1", "4294967295"})});
  if (chances.one_in(8)) q.flags.push_back({"--scaling", "1,2,4"});
  if (chances.one_in(6))
    q.flags.push_back(
        {"--what-if", chances.pick(Values{"memory=2", "gemm=0.5", "nvlink=900", "micro-batch=2", "loss=fused"})});
  if (chances.one_in(4)) q.flags.push_back({"--chart-from", chances.pick(Values{"0s", "1ns", "1ms", "20ms", "1s"})});
  if (chances.one_in(4)) q.flags.push_back({"--chart-to", chances.pick(Values{"1us", "5ms", "60ms", "2s", "1h"})});
  if (chances.one_in(10)) q.flags.push_back({"--trace", "trace.json"});
  if (chances.one_in(10)) q.flags.push_back({"--html", "report.html"});
}

}  // namespace gpuplan::test
