#include "models/training_method.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"
#include "models/framework.h"
#include "models/rollout.h"
#include "models/trainer_limits.h"

namespace gpuplan {

static NameTable<MethodHead> names_of(MethodHead) {
  static constexpr std::array kNames{NameRow<MethodHead>{"vocabulary", MethodHead::Vocabulary},
                                     NameRow<MethodHead>{"score", MethodHead::Score},
                                     NameRow<MethodHead>{"pooled", MethodHead::Pooled}};
  return {"head", kNames};
}
static NameTable<PassModel> names_of(PassModel) {
  static constexpr std::array kNames{
      NameRow<PassModel>{"policy", PassModel::Policy}, NameRow<PassModel>{"reference", PassModel::Reference},
      NameRow<PassModel>{"teacher", PassModel::Teacher}, NameRow<PassModel>{"critic", PassModel::Critic},
      NameRow<PassModel>{"reward", PassModel::Reward}};
  return {"model", kNames};
}

static NameTable<MethodLoss> names_of(MethodLoss) {
  static constexpr std::array kNames{NameRow<MethodLoss>{"tokens", MethodLoss::Tokens},
                                     NameRow<MethodLoss>{"pairs", MethodLoss::Pairs},
                                     NameRow<MethodLoss>{"surrogate", MethodLoss::Surrogate}};
  return {"loss", kNames};
}
static NameTable<MeanOver> names_of(MeanOver) {
  static constexpr std::array kNames{NameRow<MeanOver>{"rows", MeanOver::Rows},
                                     NameRow<MeanOver>{"tokens", MeanOver::Tokens}};
  return {"mean_over", kNames};
}

namespace {

/// Each name of another loss becomes a row: it is planned as the row that names it, and gpuplan's own executor does not
/// train with it.
void add_other_losses(std::vector<TrainingMethod>& methods) {
  std::vector<TrainingMethod> rows;
  for (const TrainingMethod& m : methods)
    for (const std::string& name : m.other_losses) {
      TrainingMethod& other = rows.emplace_back(m);
      other.name = name;
      other.title += fmt::format(" with the loss {}", name);
      other.aliases.clear();
      other.other_losses.clear();
      other.loss = MethodLoss::None;
    }
  methods.insert(methods.end(), rows.begin(), rows.end());
}

std::vector<TrainingMethod> read_methods() {
  YamlFile file = YamlFile::read(data_dir() / "methods.yaml");
  std::vector<TrainingMethod> methods;
  for (Fields& f : file.top().list("methods")) {
    TrainingMethod& m = methods.emplace_back();
    f("name", m.name);
    f("title", m.title);
    f.optional("aliases", m.aliases);
    f.optional("framework", m.framework);
    f.optional("answers", m.answers, IntRange{.least = 1});
    f.optional("head", m.head);
    f.optional("labels", m.labels, IntRange{.least = 1});
    f.optional("loss_on_first", m.loss_on_first);
    f.optional("distils", m.distils);
    f.optional("loss", m.loss);
    f.optional("mean_over", m.mean_over);
    f.optional("beta", m.beta);
    f.optional("clip_below", m.clip_below);
    f.optional("clip_above", m.clip_above);
    f.optional("other_losses", m.other_losses);
    f.optional("generates", m.generates);
    f.optional("scores_completions", m.scores_completions);
    f.optional("generations", m.generations, IntRange{.least = 1});
    f.optional("baselines", m.baselines, IntRange{.least = 1});
    if (f.has("passes"))
      f.optional_objects("passes", m.passes, [](Fields& own, SidePass& pass) {
        own("of", pass.of);
        own("name", pass.name);
        own.optional("times", pass.times, IntRange{.least = 1});
        own.optional("in_graph", pass.in_graph);
        own.optional("is_old", pass.is_old);
        own.optional("trains", pass.trains);
        own.optional("when_asked", pass.when_asked);
      });
    f("source", m.source);
    f.refuse_unknown();
    m.like = m.name;
  }
  file.top().refuse_unknown();
  file.finish();
  add_other_losses(methods);
  return methods;
}

}  // namespace

bool TrainingMethod::has_pass_of(PassModel model) const {
  return std::ranges::any_of(passes, [&](const SidePass& pass) { return pass.of == model; });
}

std::span<const TrainingMethod> training_methods() { return read_once<read_methods>(); }

const TrainingMethod& find_training_method(std::string_view name) {
  const std::string wanted = squash(name);
  std::vector<std::string> names;
  for (const TrainingMethod& m : training_methods()) {
    const auto is_wanted = [&](const std::string& spelling) { return squash(spelling) == wanted; };
    if (is_wanted(m.name) || std::ranges::any_of(m.aliases, is_wanted)) return m;
    names.push_back(m.name);
  }
  throw InputError("--method", fmt::format("unknown method '{}'", name),
                   did_you_mean(name, names, fmt::format("known: {}", fmt::join(names, ", "))));
}

const TrainingMethod& row_named(std::string_view name, std::type_identity<TrainingMethod>) {
  return name.empty() ? training_methods().front() : find_training_method(name);
}

std::int64_t Objective::answers() const {
  if (method.is_usual()) return 1;
  return texts_per_row > 0 ? texts_per_row : method->answers;
}

std::int64_t Recipe::answers_apart() const {
  return packing == Packing::Packed && framework->preference.packs_answers ? 1 : objective.answers();
}

/// A trainer without a row of data/rl_trainers.yaml is given the answers.
bool generates(const Recipe& recipe) {
  return !recipe.objective.method.is_usual() && recipe.objective.method->generates &&
         rollout_convention(recipe.framework->name);
}

MethodHead head_of(const Recipe& recipe) {
  const Objective& objective = recipe.objective;
  if (objective.method.is_usual()) return MethodHead::Vocabulary;
  return generates(recipe) && objective.labels > 0 ? MethodHead::Score : objective.method->head;
}

bool has_own_head(const Recipe& recipe) { return head_of(recipe) != MethodHead::Vocabulary; }

Reference usual_reference(const Recipe& recipe) {
  const RolloutConvention* const convention = rollout_convention(recipe.framework->name);
  if (recipe.is_adapter() && !limits_of(recipe.framework->name).copies_reference) return Reference::Adapter;
  return convention && convention->reference_on_host ? Reference::Host : Reference::Copy;
}

Reference reference_of(const Recipe& recipe) {
  if (recipe.objective.method.is_usual() || !recipe.objective.method->has_pass_of(PassModel::Reference))
    return Reference::None;
  const TrainingMethod& method = *recipe.objective.method;
  const RolloutConvention* const convention = method.generates ? rollout_convention(recipe.framework->name) : nullptr;
  const bool has_none = convention
                            ? std::ranges::find(convention->references, method.like) == convention->references.end()
                            : method.generates && method.beta == 0;
  if (has_none && !recipe.objective.reference) return Reference::None;
  return recipe.objective.reference.value_or(usual_reference(recipe));
}

}  // namespace gpuplan
