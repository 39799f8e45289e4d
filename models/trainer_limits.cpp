#include "models/trainer_limits.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"
#include "models/framework.h"
#include "models/optimizers.h"
#include "models/quantisation.h"
#include "models/recipe_names.h"

namespace gpuplan {
namespace {

std::vector<TrainerLimits> read_limits() {
  YamlFile file = YamlFile::read(data_dir() / "trainer_limits.yaml");
  std::vector<TrainerLimits> rows;
  for (Fields& f : file.top().list("trainers")) {
    TrainerLimits& row = rows.emplace_back();
    f("framework", row.framework);
    if (f.has("bases")) f("bases", row.bases.emplace());
    f.optional("optimizers", row.optimizers);
    f.optional("precisions", row.precisions);
    f.optional("compiles", row.compiles);
    f.optional("packs", row.packs);
    f.optional("one_vocabulary", row.one_vocabulary);
    f.optional("moves_reference", row.moves_reference);
    f.optional("copies_reference", row.copies_reference);
    f.optional("shares_answers_evenly", row.shares_answers_evenly);
    f("source", row.source);
  }
  file.top().refuse_unknown();
  file.finish();
  return rows;
}

template <class Value>
bool lacks(const std::vector<Value>& values, const Value& value) {
  return std::ranges::find(values, value) == values.end();
}

template <class Value, class Text>
std::string list_of(const std::vector<Value>& values, Text text) {
  std::string out;
  for (const Value& value : values) out += (out.empty() ? "" : ", ") + std::string(text(value));
  return out;
}

}  // namespace

const TrainerLimits& limits_of(std::string_view framework) {
  static const TrainerLimits kNone;
  const std::vector<TrainerLimits>& rows = read_once<read_limits>();
  const auto found = std::ranges::find(rows, framework, &TrainerLimits::framework);
  return found == rows.end() ? kNone : *found;
}

std::optional<BeyondLimits> beyond_limits(const Recipe& recipe, bool has_own_base) {
  const std::string& trainer = recipe.framework->name;
  const TrainerLimits& has = limits_of(trainer);
  const BaseQuant kind = recipe.quant.kind;
  if (has.bases && kind != BaseQuant::None && !has_own_base && lacks(*has.bases, kind))
    return BeyondLimits{kind == BaseQuant::Int8 ? "--int8" : "--qlora",
                        fmt::format("{} has no base in {}", trainer, format_of(kind).text),
                        has.bases->empty() ? "--lora: its base is held in 16 bit"
                                           : list_of(*has.bases, [](BaseQuant k) { return format_of(k).text; })};
  if (!has.optimizers.empty() && lacks(has.optimizers, std::string(recipe.optimizer->name)))
    return BeyondLimits{"--optimizer", fmt::format("{} has no {}", trainer, recipe.optimizer->name),
                        fmt::format("{} has {}", trainer, fmt::join(has.optimizers, ", "))};
  if (!has.precisions.empty() && lacks(has.precisions, recipe.precision))
    return BeyondLimits{
        "--precision", fmt::format("{} has no {}", trainer, to_string(recipe.precision)),
        fmt::format("{} has {}", trainer, list_of(has.precisions, [](Precision p) { return to_string(p); }))};
  const TrainingMethod& method = *recipe.objective.method;
  const bool is_packed = recipe.packing == Packing::Packed && !method.generates;
  if (is_packed && !has.packs.empty() && lacks(has.packs, method.like))
    return BeyondLimits{"--packing", fmt::format("{} packs no rows of {}", trainer, method.name),
                        "--packing dynamic or padded"};
  if (!has.moves_reference && recipe.objective.reference == Reference::Host)
    return BeyondLimits{"--ref", trainer + " keeps a reference on the GPU all the time", "--ref copy"};
  if (!has.compiles && recipe.torch_compile)
    return BeyondLimits{"--compile", trainer + " puts no model through torch.compile", "leave it out"};
  return {};
}

}  // namespace gpuplan
