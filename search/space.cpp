#include "search/space.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "models/optimizers.h"
#include "models/rank_model.h"
#include "planner/rollout_phases.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kLargestMicroBatch = 64;

/// The rows of planner/changes that set the method, in the order of Method.
struct MethodRow {
  Method method;
  const char* name;
};
constexpr std::array kMethodRows{MethodRow{Method::Full, "full"}, MethodRow{Method::Lora, "lora"},
                                 MethodRow{Method::Qlora, "qlora"}};

Setting method_setting(Method method, const Recipe& base) {
  for (const MethodRow& row : kMethodRows)
    if (row.method == method) return set_to(row.name, method == Method::Full ? "on" : adapters_of(base, method));
  throw BugError("a method without a row");
}

void add_flag(Way& way, const Setting& setting) { way.flags += (way.flags.empty() ? "" : " ") + describe(setting); }

/// Says whether two recipes agree in what the search varies.
bool is_same(const Recipe& a, const Recipe& b) {
  const auto key = [](const Recipe& r) {
    return std::tuple(r.loss, r.attention, r.packing, r.precision, r.optimizer->name, r.torch_compile,
                      r.offload.optimizer, r.offload.params, r.offload.activations);
  };
  return key(a) == key(b);
}

/// Checkpointing is always said: `estimate` switches it on by itself for a quantised base.
bool must_be_said(const Setting& setting, const Recipe& before, const Recipe& after) {
  return setting.change->name == "checkpointing" || !is_same(before, after);
}

/// Every combination of the values that the rows try, one row after the other; `use` gets each with its settings.
template <class Use>
void each_way(const SearchQuestion& question, std::size_t row, const Variant& variant, Way way, Use use) {
  const std::span<const Change> rows = changes();
  std::vector<std::string_view> values;
  for (; row < rows.size(); ++row) {
    if (!rows[row].tried || question.pinned.contains(std::string(rows[row].name))) continue;
    values = rows[row].tried(variant.request);
    if (!values.empty()) break;
  }
  if (row == rows.size()) return use(variant, std::move(way));
  bool is_first = true;
  for (const std::string_view value : values) {
    Way next = way;
    next.settings.push_back(set_to(rows[row].name, value));
    const bool is_first_value = std::exchange(is_first, false);
    if (!is_first_value) ++next.num_special;
    const Variant after = changed(variant, {&next.settings.back(), 1});
    const bool is_other_engine = !is_first_value && after.request.rollout.engine != variant.request.rollout.engine;
    if (is_other_engine || must_be_said(next.settings.back(), variant.request.recipe, after.request.recipe))
      add_flag(next, next.settings.back());
    each_way(question, row + 1, after, next, use);
  }
}

/// On cards whose tensor cores lack bf16, what trains in bf16 elsewhere trains in fp16, unless the user said otherwise.
void add_fp16_twins(std::vector<Way>& ways, const SearchQuestion& q, const FrameworkConvention& framework) {
  const auto lacks_bf16 = [](const Hardware& machine) {
    const std::vector<GpuSpec>& gpus = machine.cluster.gpus.kinds();
    return !std::all_of(gpus.begin(), gpus.end(), multiplies_bf16);
  };
  if (q.pinned.contains("precision") || !framework.dtypes.computes_in_fp16 ||
      std::none_of(q.machines.begin(), q.machines.end(), lacks_bf16))
    return;
  for (std::size_t i = 0, n = ways.size(); i < n; ++i) {
    if (ways[i].recipe.precision != Precision::Bf16Mixed) continue;
    Way twin = ways[i];
    std::erase_if(twin.settings, [](const Setting& s) { return s.change->name == "precision"; });
    twin.settings.push_back(set_to("precision", "fp16-mixed"));
    add_flag(twin, twin.settings.back());
    twin.recipe.precision = Precision::Fp16Mixed;
    ways.push_back(std::move(twin));
  }
}

/// Everything that a way sets but some settings.
std::string key_without(std::initializer_list<std::string_view> settings, const Way& way) {
  std::string key;
  for (const Setting& s : way.settings)
    if (!std::ranges::count(settings, s.change->name)) key += fmt::format("{}={};", s.change->name, s.value);
  return key;
}

void pair_offloads(std::vector<Way>& ways) {
  std::map<std::string, std::size_t> without;
  for (std::size_t w = 0; w < ways.size(); ++w)
    if (!ways[w].recipe.offload.any()) without.emplace(key_without({"offload"}, ways[w]), w);
  for (Way& way : ways)
    if (way.recipe.offload.any())
      if (const auto same = without.find(key_without({"offload"}, way)); same != without.end())
        way.without_offload = same->second;
}

std::vector<std::vector<std::size_t>> kin_of(const std::vector<Way>& ways) {
  std::vector<std::vector<std::size_t>> out;
  std::map<std::string, std::size_t> known;
  for (std::size_t w = 0; w < ways.size(); ++w) {
    const auto [at, is_new] =
        known.try_emplace(key_without({"precision", "optimizer", "offload"}, ways[w]), out.size());
    if (is_new) out.emplace_back();
    out[at->second].push_back(w);
  }
  for (std::vector<std::size_t>& kin : out)
    std::ranges::stable_sort(kin, {}, [&](std::size_t way) { return key_without({"precision"}, ways[way]); });
  return out;
}

std::vector<MachineClass> classes_of(const std::vector<Hardware>& machines) {
  std::vector<MachineClass> out;
  for (std::size_t m = 0; m < machines.size(); ++m) {
    const std::int64_t gpus = machines[m].cluster.num_gpus(), nodes = machines[m].cluster.num_nodes();
    auto at = std::find_if(out.begin(), out.end(),
                           [&](const MachineClass& c) { return c.num_gpus == gpus && c.num_nodes == nodes; });
    if (at == out.end()) at = out.insert(out.end(), {gpus, nodes, {}});
    at->machines.push_back(m);
  }
  std::ranges::stable_sort(out, [](const MachineClass& a, const MachineClass& b) {
    return std::pair(a.num_gpus, a.num_nodes) < std::pair(b.num_gpus, b.num_nodes);
  });
  return out;
}

/// The most GPUs of one machine: ranks that share layers exchange much, and stay inside.
std::int64_t most_gpus_per_node(const SearchQuestion& q) {
  std::int64_t most = 1;
  for (const Hardware& machine : q.machines)
    most = std::max(most, std::min(machine.cluster.num_gpus(), machine.cluster.gpus_per_node));
  return most;
}

Mesh with_usual_exchange(Mesh mesh, const EstimateRequest& r) {
  return mesh.set_context_exchange(options_for(r).context_exchange.value_or(ContextExchange{}));
}

/// Ranks that share the experts, and each of them: as given, else powers of two within a machine, of data parallel ones
/// too; an expert is shared by as many as share layers at most. Where tokens spread evenly, whole experts on as many
/// ranks hold as much and exchange less, so that parts of them are for what cannot be divided so. Beside cp those that
/// share the experts are ranks of whole sequences, which every trainer takes.
std::vector<Mesh> expert_meshes(const SearchQuestion& q, const FrameworkConvention& framework, std::string_view name,
                                const Mesh& mesh) {
  const StrategyOptions& given = q.base.options;
  const std::int64_t tp = mesh.ways(Axis::Tp), cp = std::max<std::int64_t>(1, given.cp), most = most_gpus_per_node(q);
  const bool keeps_ways = given.ep > 1 || q.pinned.contains("ep"), keeps_cut = given.etp > 0;
  const std::int64_t usual = keeps_cut ? given.etp : usual_ways_of_expert(q.base, tp, given.ep);
  const auto with = [&](std::int64_t ep, std::int64_t etp) { return Mesh(mesh).set(Axis::Ep, ep).set(Axis::Etp, etp); };
  const auto is_possible = [&](std::int64_t ep, std::int64_t etp) {
    const Mesh shared = Mesh(mesh).set(Axis::DpShard, ep * etp).set_expert_ways(ep, etp);
    return why_not_by_experts(q.base.model, q.base.recipe, framework, name, shared).empty();
  };
  const auto is_worthwhile = [&](std::int64_t ep, std::int64_t etp) {
    return etp == 1 || keeps_ways || !framework.expert_parallel.beside_tensor || q.base.recipe.routing.imbalance > 1 ||
           q.base.model.moe.num_experts % (ep * etp) != 0;
  };
  std::vector<Mesh> out;
  if (tp == given.tp || (is_worthwhile(given.ep, usual) && is_possible(given.ep, usual)))
    out.push_back(with(given.ep, usual));
  if (!q.base.model.moe.is_present() || !std::ranges::count(framework.expert_parallel.strategies, name)) return out;
  for (std::int64_t ep = given.ep; ep == given.ep || (!keeps_ways && ep <= most); ep *= 2) {
    if (ep > given.ep && ep % cp != 0) continue;
    if (keeps_cut && ep > given.ep && is_possible(ep, usual)) out.push_back(with(ep, usual));
    for (std::int64_t etp = 1; !keeps_cut && etp <= tp && (etp == 1 || ep * etp <= most); etp *= 2)
      if ((ep != given.ep || etp != usual) && is_worthwhile(ep, etp) && is_possible(ep, etp))
        out.push_back(with(ep, etp));
  }
  return out;
}

/// Ranks that share layers: as given, else powers of two within a machine, where the trainer shares layers of this
/// model so. Each has its part of the sequence where that is possible, which needs less memory and exchanges as much.
std::vector<Mesh> tensor_meshes(const SearchQuestion& q, const FrameworkConvention& framework, std::string_view name) {
  const StrategyOptions& given = q.base.options;
  const FrameworkTensorParallel& trainer = framework.tensor_parallel;
  const bool may_split = given.splits_sequence || trainer.sequence != SequenceSplit::No;
  std::vector<Mesh> out =
      expert_meshes(q, framework, name, Mesh{{Axis::Tp, given.tp}}.set_splits_sequence(may_split && given.tp > 1));
  if (given.tp > 1 || q.pinned.contains("tp") || !std::ranges::count(trainer.strategies, name)) return out;
  for (std::int64_t tp = 2; tp <= most_gpus_per_node(q); tp *= 2) {
    const Mesh tensor = Mesh{{Axis::Tp, tp}}.set_splits_sequence(trainer.sequence != SequenceSplit::No);
    for (const Mesh& mesh : expert_meshes(q, framework, name, tensor))
      if (why_not_shared(q.base.model, q.base.recipe, framework, name, mesh).empty()) out.push_back(mesh);
  }
  return out;
}

/// The chunks of each of `stages` stages that are worth a look: all of a stage in one, and one, two or four layers
/// each.
std::vector<std::int64_t> chunks_of(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> out{1};
  for (const std::int64_t size : {4, 2, 1}) {
    const std::int64_t chunks = (layers + stages * size - 1) / (stages * size);
    if (chunks > out.back()) out.push_back(chunks);
  }
  return out;
}

/// Adds `searched` in every number of stages, a power of two, that the trainer lays this model in.
void add_pipelines(std::vector<SearchedStrategy>& out, const SearchQuestion& q, SearchedStrategy searched) {
  std::int64_t most = 1;
  for (const Hardware& machine : q.machines) most = std::max(most, machine.cluster.num_gpus() / searched.tp);
  Recipe recipe = q.base.recipe;
  const std::int64_t etp = searched.etp;
  for (std::int64_t pp = 2; pp <= most; pp *= 2)
    for (const std::int64_t chunks : chunks_of(q.base.model.num_layers(), pp)) {
      recipe.grad_accum = pp;  // which every schedule takes
      const bool is_interleaved = chunks > 1;
      const Strategy staged{.name = std::string(searched.name),
                            .schedule = is_interleaved ? Schedule::Interleaved : Schedule::OneFOneB,
                            .mesh = Mesh{{Axis::Tp, searched.tp}, {Axis::DpShard, searched.ep * etp}, {Axis::Pp, pp}}
                                        .set_splits_sequence(searched.splits_sequence)
                                        .set_expert_ways(searched.ep, etp),
                            .chunks = chunks};
      if (!why_not_divided(staged, recipe, q.base.model).empty()) continue;
      searched.fewer_chunks = searched.pp == pp ? searched.virtual_stages : 0;
      searched.pp = pp, searched.virtual_stages = chunks;
      out.push_back(searched);
    }
}

/// `name` with the degrees that were given, or with every one that the trainer has for this model. Long sequences are
/// shared by as many GPUs of a machine as leave each enough of them.
void add_strategies(std::vector<SearchedStrategy>& out, const SearchQuestion& q, const FrameworkConvention& framework,
                    std::string_view name) {
  const StrategyOptions& given = q.base.options;
  for (const Mesh& mesh : tensor_meshes(q, framework, name)) {
    out.push_back({name, mesh.ways(Axis::Tp), mesh.splits_sequence(), given.cp, mesh.ways(Axis::Ep),
                   mesh.ways(Axis::Etp), given.pp, given.pp > 1 ? given.virtual_stages : 1});
    const bool may_have_stages = given.pp == 1 && given.cp == 1 && !q.pinned.contains("pp");
    if (may_have_stages && !framework.pipeline.strategies.empty()) add_pipelines(out, q, out.back());
  }
  if (given.cp > 1 || given.pp > 1 || given.ep > 1 || given.etp > 1 || q.pinned.contains("cp")) return;
  for (std::int64_t cp = 2; cp <= most_gpus_per_node(q) && q.base.recipe.seq_len / cp >= kLeastContext; cp *= 2) {
    const Mesh mesh{{Axis::Cp, cp}, {Axis::DpShard, cp}};
    if (why_not_in_context(q.base.model, q.base.recipe, framework, name, with_usual_exchange(mesh, q.base)).empty())
      out.push_back({name, given.tp, given.splits_sequence, cp, 1, usual_ways_of_expert(q.base, given.tp, 1)});
  }
}

}  // namespace

std::string SearchedStrategy::flags() const {
  std::string text = fmt::format("--strategy {}", name);
  if (tp > 1) text += fmt::format(" --tp {}", tp);
  if (splits_sequence) text += " --sp";
  if (cp > 1) text += fmt::format(" --cp {}", cp);
  if (ep > 1) text += fmt::format(" --ep {}", ep);
  if (etp > 1) text += fmt::format(" --etp {}", etp);
  if (pp > 1) text += fmt::format(" --pp {}", pp);
  if (virtual_stages > 1) text += fmt::format(" --virtual-stages {}", virtual_stages);
  return text;
}

std::int64_t usual_share(std::int64_t data_parallel, std::int64_t answers) {
  const std::int64_t least = answers / std::gcd(answers, data_parallel);
  const double share = std::max(1.0, double(kUsualGlobalBatch) / double(data_parallel * least));
  return least * std::int64_t(std::bit_floor(std::uint64_t(share * 4 / 3)));
}

EngineChoice engine_on(const Way& way, const Hardware& machine) {
  EngineChoice engine = way.engine;
  // as many as train is what nobody needs to say
  if (machine.engine_gpus > 0 && machine.engine_gpus != machine.cluster.num_gpus()) engine.gpus = machine.engine_gpus;
  return engine;
}

Space::Space(const SearchQuestion& q) : question(q), framework(*q.base.recipe.framework) {
  for (const Method method : q.methods) {
    Variant variant{q.base, {}};
    Way way;
    if (q.methods.size() > 1 || q.base.recipe.method != method) {
      way.settings.push_back(method_setting(method, q.base.recipe));
      add_flag(way, way.settings.back());
      variant = changed(std::move(variant), way.settings);
      // one that was asked for stays, and rules the method out where that computes otherwise
      if (q.pinned.contains("precision")) variant.request.recipe.precision = q.base.recipe.precision;
    }
    const std::size_t model = models.size();
    models.push_back(prepare(q.base.model, variant.request.recipe, framework));
    each_way(q, 0, variant, way, [&](const Variant& v, Way found) {
      found.recipe = v.request.recipe;
      found.engine = v.request.rollout.engine;
      found.model = model;
      found.quality = quality_of(found.recipe);
      if (found.quality >= q.least_quality) ways.push_back(std::move(found));
    });
  }
  add_fp16_twins(ways, q, framework);
  pair_offloads(ways);
  kin = kin_of(ways);
  classes = classes_of(q.machines);
  for (const std::string_view name : strategy_names())
    if (q.base.strategy == "auto" || q.base.strategy == name) add_strategies(strategies, q, framework, name);
}

Space::Part Space::part(std::size_t index) const {
  const std::size_t s = index % strategies.size(), c = index / strategies.size() % classes.size(),
                    w = index / strategies.size() / classes.size();
  return {ways[w], classes[c], strategies[s], w, s};
}

std::vector<Batch> Space::batches(std::int64_t data_parallel, const SearchedStrategy& strategy) const {
  constexpr double kLittleIdle = 0.02;  // of a step, which finer chunks could save
  std::vector<Batch> out = all_batches(data_parallel);
  if (strategy.fewer_chunks > 0)  // stages idle for (stages - 1) / (chunks x micro-batches) of the time that they work
    std::erase_if(out, [&](const Batch& batch) {
      return double(strategy.pp - 1) < kLittleIdle * double(strategy.fewer_chunks * batch.accum);
    });
  return out;
}

std::vector<Batch> Space::all_batches(std::int64_t data_parallel) const {
  const Recipe& base = question.base.recipe;
  const bool pins_micro = question.pinned.contains("micro-batch"),
             pins_accum = question.pinned.contains("grad-accum") || base.optimizer_in_backward || compares_rows(base);
  if (pins_micro && pins_accum) {
    const bool is_asked =
        !question.global_batch || base.micro_batch * base.grad_accum * data_parallel == *question.global_batch;
    return is_asked ? std::vector<Batch>{{base.micro_batch, base.grad_accum}} : std::vector<Batch>{};
  }
  if (question.global_batch && *question.global_batch % data_parallel != 0) return {};
  const std::int64_t share = question.global_batch ? *question.global_batch / data_parallel
                                                   : usual_share(data_parallel, answers_of_row(question.base));
  std::vector<Batch> out;
  if (pins_micro) {
    if (share % base.micro_batch == 0) return {{base.micro_batch, share / base.micro_batch}};
    if (!question.global_batch) return {{base.micro_batch, std::max<std::int64_t>(1, share / base.micro_batch)}};
    return {};
  }
  for (std::int64_t micro = 1; micro <= std::min(share, kLargestMicroBatch); ++micro) {
    if (pins_accum && !question.global_batch && std::has_single_bit(std::uint64_t(micro)))
      out.push_back({micro, base.grad_accum});
    else if (share % micro == 0 && (!pins_accum || share / micro == base.grad_accum))
      out.push_back({micro, share / micro});
  }
  return out;
}

bool Space::suits(const Way& way, const Hardware& machine) const {
  if (question.pinned.contains("precision") || way.recipe.precision == Precision::Fp32) return true;
  const std::vector<GpuSpec>& gpus = machine.cluster.gpus.kinds();
  const bool has_bf16 = std::all_of(gpus.begin(), gpus.end(), multiplies_bf16) || !framework.dtypes.computes_in_fp16;
  return has_bf16 == (way.recipe.precision != Precision::Fp16Mixed);
}

std::string Space::why_not(const Way& way, const Hardware& machine) const {
  const auto mistake = recipe_mistake(way.recipe, question.base.model, machine.cluster);
  return mistake ? mistake->problem() : "";
}

}  // namespace gpuplan
