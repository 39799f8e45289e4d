#include "ecosystem/field_flags.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "models/optimizers.h"
#include "models/recipe_names.h"
#include "models/token_dispatcher.h"
#include "planner/strategy.h"

namespace gpuplan {
namespace {

using Request = const EstimateRequest&;
constexpr std::string_view kWithout = "without ";

std::string flag(std::string_view name, std::string_view value) { return fmt::format("{} {}", name, value); }

std::string on_or_off(std::string_view name, bool is_on) { return fmt::format("{}{}", is_on ? "" : kWithout, name); }

/// The flag of the method: full fine-tuning, adapters, adapters on an 8-bit base.
std::string method_words(Request r, const Strategy& /*strategy*/) {
  const Recipe& recipe = r.recipe;
  if (!recipe.is_adapter()) return "--full";
  const std::string spec = adapter_spec(recipe.lora, recipe.quant);
  if (recipe.method == Method::Qlora) return flag("--qlora", spec);
  return flag("--lora", spec) + (recipe.quant.kind == BaseQuant::Int8 ? " --int8" : "");
}

std::string checkpointing_words(Request r, const Strategy& /*strategy*/) {
  return flag("--checkpointing", checkpointing_text(r.recipe));
}
std::string loss_words(Request r, const Strategy& /*strategy*/) { return flag("--loss", loss_text(r.recipe)); }
std::string routing_words(Request r, const Strategy& /*strategy*/) {
  const Routing& routing = r.recipe.routing;
  std::string text = flag("--dispatcher", routing.dispatcher->name);
  if (routing.imbalance > 1) text += fmt::format(" --expert-imbalance {:g}", routing.imbalance);
  if (routing.capacity) text += fmt::format(" --expert-capacity {:g}", *routing.capacity);
  return text + (routing.pads_to_capacity ? " --pad-experts" : "");
}
/// Strategies that shard over all GPUs, or over none, say it by their name.
std::string shard_words(Request /*r*/, const Strategy& s) {
  return s.mesh.copies() > 1 && s.mesh.shard_ways() > 1 ? flag("--shard-size", std::to_string(s.mesh.shard_ways()))
                                                        : "";
}

constexpr std::array kFieldFlags{
    FieldFlag{"method", method_words},
    FieldFlag{"lora", method_words},
    FieldFlag{"quant", method_words},
    FieldFlag{"trained",
              [](Request r, const Strategy&) {
                return r.recipe.trained.empty()
                           ? on_or_off("--train-only", false)
                           : flag("--train-only", fmt::format("{}", fmt::join(r.recipe.trained, "+")));
              }},
    FieldFlag{"precision",
              [](Request r, const Strategy&) { return flag("--precision", to_string(r.recipe.precision)); }},
    FieldFlag{"optimizer", [](Request r, const Strategy&) { return flag("--optimizer", optimizer_text(r.recipe)); }},
    FieldFlag{"optimizer_in_backward",
              [](Request r, const Strategy&) {
                return on_or_off("--optimizer-in-backward", r.recipe.optimizer_in_backward);
              }},
    FieldFlag{"micro_batch",
              [](Request r, const Strategy&) { return flag("--micro-batch", std::to_string(r.recipe.micro_batch)); }},
    FieldFlag{"seq_len",
              [](Request r, const Strategy&) { return flag("--seq-len", std::to_string(r.recipe.seq_len)); }},
    FieldFlag{"packing", [](Request r, const Strategy&) { return flag("--packing", to_string(r.recipe.packing)); }},
    FieldFlag{"grad_accum",
              [](Request r, const Strategy&) { return flag("--grad-accum", std::to_string(r.recipe.grad_accum)); }},
    FieldFlag{"checkpointing", checkpointing_words},
    FieldFlag{"checkpoint_every", checkpointing_words},
    FieldFlag{"attention",
              [](Request r, const Strategy&) { return flag("--attention", to_string(r.recipe.attention)); }},
    FieldFlag{"attention_groups",
              [](Request r, const Strategy&) {
                return flag("--attention-groups", std::to_string(r.recipe.attention_groups));
              }},
    FieldFlag{"loss", loss_words},
    FieldFlag{"loss_chunks", loss_words},
    FieldFlag{"kernels",
              [](Request r, const Strategy&) {
                return r.recipe.kernels ? flag("--kernels", to_string(*r.recipe.kernels))
                                        : on_or_off("--kernels", false);
              }},
    FieldFlag{"torch_compile",
              [](Request r, const Strategy&) { return on_or_off("--compile", r.recipe.torch_compile); }},
    FieldFlag{"qat",
              [](Request r, const Strategy&) {
                return r.recipe.qat == Qat::None ? on_or_off("--qat", false) : flag("--qat", to_string(r.recipe.qat));
              }},
    FieldFlag{"fp8_matmul", [](Request r, const Strategy&) { return on_or_off("--fp8", r.recipe.fp8_matmul); }},
    FieldFlag{"offload", [](Request r, const Strategy&) { return flag("--offload", offload_list(r.recipe.offload)); }},
    FieldFlag{"routing", routing_words},
    FieldFlag{"images.train",
              [](Request r, const Strategy&) { return flag("--train-vision", to_string(r.recipe.images.train)); }},
    FieldFlag{"framework", [](Request r, const Strategy&) { return flag("--framework", r.recipe.framework->name); }},
    FieldFlag{"name", [](Request, const Strategy& s) { return flag("--strategy", s.name); }},
    FieldFlag{"zero_stage", [](Request, const Strategy& s) { return flag("--strategy", s.name); }},
    FieldFlag{"dp_replicate", shard_words},
    FieldFlag{"dp_shard", shard_words},
    FieldFlag{"cp", [](Request, const Strategy& s) { return flag("--cp", std::to_string(s.mesh.ways(Axis::Cp))); }},
    FieldFlag{"ep", [](Request, const Strategy& s) { return flag("--ep", std::to_string(s.mesh.ways(Axis::Ep))); }},
    FieldFlag{"etp", [](Request, const Strategy& s) { return flag("--etp", std::to_string(s.mesh.ways(Axis::Etp))); }},
    FieldFlag{"pp", [](Request, const Strategy& s) { return flag("--strategy", s.name); }},
    FieldFlag{"reshard_after_forward",
              [](Request, const Strategy& s) { return on_or_off("--no-reshard", !s.layout.reshards_after_forward); }},
    FieldFlag{"wrap",
              [](Request, const Strategy& s) {
                return flag("--wrap", to_string(Wrap{s.wrap, s.wrap_min_params}));
              }},
    FieldFlag{"fsdp_version", [](Request, const Strategy& s) {
                const int version = traits_of(s.engine).fsdp_version;
                return version == 0 ? flag("--strategy", s.name) : flag("--fsdp-version", std::to_string(version));
              }}};

}  // namespace

const FieldFlag* find_field_flag(std::string_view field) {
  const auto row = std::find_if(kFieldFlags.begin(), kFieldFlags.end(), [&](const FieldFlag& f) {
    return field == f.field || (field.starts_with(f.field) && field.substr(f.field.size()).starts_with('.'));
  });
  return row == kFieldFlags.end() ? nullptr : &*row;
}

std::string plan_with(const std::vector<std::string>& fields, const EstimateRequest& r, const Strategy& strategy) {
  std::vector<std::string> with, without;
  for (const std::string& field : fields) {
    const FieldFlag* row = find_field_flag(field);
    if (!row) continue;
    const std::string words = row->words(r, strategy);
    if (words.empty()) continue;
    std::vector<std::string>& list = words.starts_with(kWithout) ? without : with;
    const std::string named = words.starts_with(kWithout) ? words.substr(kWithout.size()) : words;
    if (std::find(list.begin(), list.end(), named) == list.end()) list.push_back(named);
  }
  if (with.empty() && without.empty()) return "";
  const std::string left_out = without.empty() ? "" : fmt::format("without {}", fmt::join(without, " and "));
  if (with.empty()) return "plan " + left_out;
  return fmt::format("plan with {}{}{}", fmt::join(with, " "), left_out.empty() ? "" : ", ", left_out);
}

}  // namespace gpuplan
