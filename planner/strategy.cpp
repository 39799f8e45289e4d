#include "planner/strategy.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"
#include "models/optimizers.h"
#include "models/rank_model.h"
#include "planner/pipeline_schedule.h"

namespace gpuplan {
namespace {

using Row = StrategyRow;

/// Visits of a pipeline are written out.
constexpr std::int64_t kMostMicroBatches = 2048;

// Simplest first. FSDP's engine is replaced by the version asked for.
// clang-format off
constexpr std::array kRows{
    //  name            schedule               engine         optimizer gradients weights reshard  degrees            offload: optimizer, params
    Row{"single",       Schedule::Sequential, ShardingEngine::Local, {},                          Degrees::One,       false, false},
    Row{"ddp",          Schedule::Sequential, ShardingEngine::Local, {},                          Degrees::Replicate, false, false},
    Row{"zero1",        Schedule::Sequential, ShardingEngine::Zero,  {true, false, false, true},  Degrees::Shard,     true,  false},
    Row{"zero2",        Schedule::Sequential, ShardingEngine::Zero,  {true, true, false, true},   Degrees::Shard,     true,  false},
    Row{"fsdp-grad-op", Schedule::Sequential, ShardingEngine::Fsdp2, {true, true, true, false},   Degrees::Shard,     true,  true},
    Row{"fsdp",         Schedule::Sequential, ShardingEngine::Fsdp2, {true, true, true, true},    Degrees::Shard,     true,  true},
    Row{"zero3",        Schedule::Sequential, ShardingEngine::Zero,  {true, true, true, true},    Degrees::Shard,     true,  true},
    Row{"hsdp",         Schedule::Sequential, ShardingEngine::Fsdp2, {true, true, true, true},    Degrees::Hybrid,    true,  true},
    Row{"mp",           Schedule::Naive,      ShardingEngine::Local, {},                          Degrees::Pipeline,  false, false},
};
// clang-format on

constexpr std::array kNames = [] {
  std::array<std::string_view, kRows.size()> names{};
  for (std::size_t i = 0; i < kRows.size(); ++i) names[i] = kRows[i].name;
  return names;
}();

struct Alias {
  std::string_view text, name;
};
constexpr std::array kAliases{Alias{"full-shard", "fsdp"},
                              Alias{"fsdp-full-shard", "fsdp"},
                              Alias{"fsdp-full", "fsdp"},
                              Alias{"fsdp1", "fsdp"},
                              Alias{"fsdp2", "fsdp"},
                              Alias{"shard-grad-op", "fsdp-grad-op"},
                              Alias{"fsdp-shard-grad-op", "fsdp-grad-op"},
                              Alias{"no-shard", "ddp"},
                              Alias{"fsdp-no-shard", "ddp"},
                              Alias{"hybrid-shard", "hsdp"},
                              Alias{"fsdp-hybrid-shard", "hsdp"},
                              Alias{"fsdp-hybrid", "hsdp"},
                              Alias{"naive", "mp"},
                              Alias{"naive-mp", "mp"},
                              Alias{"model-parallel", "mp"},
                              Alias{"device-map", "mp"},
                              Alias{"zero-0", "ddp"},
                              Alias{"zero-1", "zero1"},
                              Alias{"zero-2", "zero2"},
                              Alias{"zero-3", "zero3"},
                              Alias{"deepspeed-zero0", "ddp"},
                              Alias{"deepspeed-zero1", "zero1"},
                              Alias{"deepspeed-zero2", "zero2"},
                              Alias{"deepspeed-zero3", "zero3"},
                              Alias{"one", "single"},
                              Alias{"distributed-data-parallel", "ddp"}};

/// Source: accelerate docs concept_guides/fsdp_and_deepspeed and usage_guides/fsdp; ZeRO++ hpZ (arXiv 2306.10209)
/// shards the weights inside a node as HYBRID_SHARD does. SHARD_GRAD_OP shards weights between steps, which ZeRO-2
/// keeps whole.
constexpr std::array kCounterparts{Counterparts{"stage 0", "NO_SHARD", {"ddp", ""}},
                                   Counterparts{"stage 1", "no counterpart", {"zero1", ""}},
                                   Counterparts{"stage 2", "SHARD_GRAD_OP", {"zero2", "fsdp-grad-op"}},
                                   Counterparts{"stage 3", "FULL_SHARD", {"zero3", "fsdp"}},
                                   Counterparts{"stage 3 + hpZ", "HYBRID_SHARD", {"", "hsdp"}}};

/// Kinds of parallelism that people ask for and that no row describes yet, by their squashed names.
struct Unsupported {
  std::string_view text, what;
};
constexpr std::array kUnsupported{Unsupported{"5d", "tensor, pipeline, context, expert and data parallelism"}};

/// Degrees that go with a strategy, by squashed names, and their flags.
struct Degree {
  std::string_view text, flag;
};
constexpr std::array kDegreeNames{Degree{"tp", "--tp"},
                                  Degree{"tensorparallel", "--tp"},
                                  Degree{"sp", "--sp"},
                                  Degree{"sequenceparallel", "--sp"},
                                  Degree{"cp", "--cp"},
                                  Degree{"contextparallel", "--cp"},
                                  Degree{"pp", "--pp"},
                                  Degree{"pipeline", "--pp"},
                                  Degree{"pipelineparallel", "--pp"},
                                  Degree{"gpipe", "--pp"},
                                  Degree{"ep", "--ep"},
                                  Degree{"expertparallel", "--ep"},
                                  Degree{"etp", "--etp"},
                                  Degree{"experttensorparallel", "--etp"},
                                  Degree{"1f1b", "--pp"},
                                  Degree{"3d", "--tp and --pp"},
                                  Degree{"4d", "--tp, --cp and --pp"}};

const Row& row_of(std::string_view name) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == name; });
  GPUPLAN_CHECK(row != kRows.end(), "a strategy name that is not in the table");
  return *row;
}

/// The usual shard group of HSDP: the node when there are several, else half of the machine; all where neither holds
/// whole groups that share a sequence.
std::int64_t usual_hybrid_shard(const ClusterSpec& cluster, const StrategyOptions& options) {
  const std::int64_t n = num_places(cluster, options), per_node = cluster.gpus_per_node / options.tp;
  const bool is_node = cluster.num_nodes() > 1 && per_node > 1 && n % per_node == 0;
  const std::int64_t shard = is_node ? per_node : n % 2 == 0 ? n / 2 : n;
  return shard % options.cp == 0 ? shard : n;
}

std::int64_t shard_size(const Row& row, const ClusterSpec& cluster, const StrategyOptions& options) {
  return options.shard_size.value_or(row.degrees == Degrees::Hybrid ? usual_hybrid_shard(cluster, options)
                                                                    : num_places(cluster, options));
}

/// The degrees of data parallel groups, and of the stages of `mp`: the others are as the options say.
Mesh mesh_of(const Row& row, const ClusterSpec& cluster, const StrategyOptions& options) {
  const std::int64_t n = num_places(cluster, options), pp = options.pp;
  const auto made = [&](std::initializer_list<Mesh::Degree> data, std::int64_t stages) {
    Mesh mesh(data);
    mesh.set(Axis::Tp, options.tp).set(Axis::Cp, options.cp).set(Axis::Pp, stages);
    mesh.set_splits_sequence(options.splits_sequence && options.tp > 1);
    if (const std::int64_t sharers = options.ep * options.ways_of_expert(); sharers > 1)
      mesh.set_expert_ways(options.ep, options.ways_of_expert())
          .set_expert_machines(ceil_div(sharers, cluster.gpus_per_node));
    if (options.cp > 1) mesh.set_context_exchange(options.context_exchange.value_or(ContextExchange{}));
    return mesh;
  };
  if (row.degrees == Degrees::One) return made({}, pp);
  if (row.degrees == Degrees::Pipeline) return made({}, n);
  if (row.degrees == Degrees::Replicate) return made({{Axis::DpReplicate, n}}, pp);
  const std::int64_t shard = shard_size(row, cluster, options);
  return made({{Axis::DpReplicate, n / shard}, {Axis::DpShard, shard}}, pp);
}

Schedule schedule_of(const Row& row, const StrategyOptions& options) {
  if (options.pp == 1) return row.schedule;
  return options.schedule.value_or(options.virtual_stages > 1 ? Schedule::Interleaved : Schedule::OneFOneB);
}

}  // namespace

Wrap parse_wrap(std::string_view text, std::string_view where) {
  constexpr std::string_view kSize = "size:";
  if (text == "layer") return {};
  if (!text.starts_with(kSize))
    throw InputError(std::string(where), fmt::format("unknown policy '{}'", text),
                     "layer, or size:N with at least N parameters per unit, as in size:100000000");
  return {WrapPolicy::Size, parse_integer(text.substr(kSize.size()), fmt::format("{} size", where), 1)};
}

std::string to_string(const Wrap& wrap) {
  return wrap.policy == WrapPolicy::Layer ? "layer" : fmt::format("size:{}", wrap.min_params);
}

std::int64_t num_places(const ClusterSpec& cluster, const StrategyOptions& options) {
  return cluster.num_gpus() / (options.tp * options.pp);
}

std::string degrees_text(const Mesh& mesh) {
  std::vector<std::string> degrees;
  if (mesh.ways(Axis::Tp) > 1)
    degrees.push_back(fmt::format("tp{}{}", mesh.ways(Axis::Tp), mesh.splits_sequence() ? "+sp" : ""));
  if (mesh.ways(Axis::Cp) > 1) degrees.push_back(fmt::format("cp{}", mesh.ways(Axis::Cp)));
  if (mesh.ways(Axis::Ep) > 1) degrees.push_back(fmt::format("ep{}", mesh.ways(Axis::Ep)));
  if (mesh.ways(Axis::Etp) > 1) degrees.push_back(fmt::format("etp{}", mesh.ways(Axis::Etp)));
  if (mesh.num_stages() > 1) degrees.push_back(fmt::format("pp{}", mesh.num_stages()));
  degrees.push_back(fmt::format("dp{}", mesh.batch_replicas()));
  return fmt::format("{}", fmt::join(degrees, "·"));
}

std::string Strategy::title() const {
  const bool is_plain = mesh.within_layers() == Mesh() && !pipeline_row(schedule);
  return is_plain ? name : name + " " + degrees_text(mesh);
}

std::span<const StrategyRow> strategy_rows() { return kRows; }
std::span<const std::string_view> strategy_names() { return kNames; }
std::span<const Counterparts> counterparts() { return kCounterparts; }

std::string_view simplest_strategy(std::int64_t num_gpus) {
  const auto uses_all = [&](const Row& row) { return (row.degrees == Degrees::One) == (num_gpus == 1); };
  return std::find_if(kRows.begin(), kRows.end(), uses_all)->name;
}

std::string strategy_that_reshards(std::string_view name) {
  const auto own = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.name == name; });
  if (own == kRows.end()) return std::string(name);  // "auto"
  StateLayout layout = own->layout;
  layout.reshards_after_forward = true;
  const auto alike = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) {
    return row.engine == own->engine && row.degrees == own->degrees && row.layout == layout;
  });
  return std::string(alike == kRows.end() ? name : alike->name);
}

bool lays_stages(std::string_view name) { return row_of(name).degrees == Degrees::Pipeline; }

std::string canonical_strategy(std::string_view text) {
  const std::string wanted = squash(text);
  for (const std::string_view name : kNames)
    if (squash(name) == wanted) return std::string(name);
  for (const Alias& alias : kAliases)
    if (squash(alias.text) == wanted) return std::string(alias.name);
  if (wanted == "deepspeed" || wanted == "ds")
    throw InputError(
        "--strategy", fmt::format("'{}' is an engine with several strategies", text),
        "zero1, zero2 or zero3, by the stage of ZeRO (its stage 0 is ddp); --framework hf-deepspeed has its "
        "conventions");
  std::vector<std::string> names(kNames.begin(), kNames.end());
  for (const Degree& degree : kDegreeNames)
    if (degree.text == wanted)
      throw InputError("--strategy", fmt::format("'{}' is a degree that goes with a strategy", text),
                       fmt::format("{} beside --strategy, for trainers that have it", degree.flag));
  for (const Unsupported& kind : kUnsupported)
    if (kind.text == wanted)
      throw InputError("--strategy", fmt::format("not supported yet: {} ({})", text, kind.what),
                       fmt::format("supported are auto, {}", fmt::join(names, ", ")));
  throw InputError("--strategy", fmt::format("unknown strategy '{}'", text),
                   did_you_mean(text, names, fmt::format("known: auto, {}", fmt::join(names, ", "))));
}

void apply_zero_options(const StrategyOptions& options, EngineConvention& zero) {
  if (!zero.is_deepspeed()) return;
  for (GradientBuckets* buckets : {&zero.buckets, &zero.buckets_stage3}) {
    buckets->size = options.reduce_bucket_size.value_or(buckets->size);
    buckets->overlap_comm = options.overlap_comm.value_or(buckets->overlap_comm);
  }
  zero.gathers_int8 = options.zero_quantized_weights.value_or(zero.gathers_int8);
}

bool has_strategy(const FrameworkConvention& framework, std::string_view name) {
  const std::vector<std::string>& all = framework.distributed.strategies;
  return all.empty() || std::ranges::find(all, name) != all.end();
}

std::optional<InputError> strategy_mistake(std::string_view name, const ClusterSpec& cluster,
                                           const StrategyOptions& options) {
  const Row& row = row_of(name);
  if (cluster.num_gpus() % (options.tp * options.pp) != 0)
    return InputError(options.pp == 1 ? "--tp" : "--pp",
                      fmt::format("tp {} x pp {} = {} does not divide the {} GPUs", options.tp, options.pp,
                                  options.tp * options.pp, cluster.num_gpus()),
                      "tp x pp x data parallel = GPUs");
  const std::int64_t cp = options.cp, n = num_places(cluster, options);
  if (n % cp != 0)
    return InputError("--cp", fmt::format("{} does not divide the {} data parallel ranks", cp, n),
                      "tp x pp x cp x data parallel = GPUs");
  if (options.etp > 1 && n * options.tp % (options.ep * options.ways_of_expert()) != 0)
    return InputError("--etp",
                      fmt::format("ep {} x etp {} = {} does not divide the {} ranks of a stage", options.ep,
                                  options.etp, options.ep * options.ways_of_expert(), n * options.tp),
                      "ep x etp x ranks that have the same experts = tp x data parallel");
  if (n * options.tp % options.ep != 0)
    return InputError("--ep", fmt::format("{} does not divide the {} ranks of a stage", options.ep, n * options.tp),
                      "ep x ranks that have the same experts = tp x data parallel");
  if (row.degrees == Degrees::One || row.degrees == Degrees::Pipeline || row.degrees == Degrees::Replicate) return {};
  const std::int64_t shard = shard_size(row, cluster, options);
  if (shard >= 1 && n % shard == 0 && shard % cp != 0 && cp % shard != 0)
    return InputError("--cp", fmt::format("{} does not divide the shard groups of {} ranks", cp, shard),
                      "a state is sharded over the ranks that share a sequence too");
  if (shard >= 1 && n % shard == 0) return {};
  return InputError("--shard-size",
                    n == cluster.num_gpus() ? fmt::format("{} does not divide the {} GPUs", shard, n)
                                            : fmt::format("{} does not divide the {} data parallel groups", shard, n),
                    "choose a divisor of the number of GPUs");
}

Strategy make_strategy(std::string_view name, const ClusterSpec& cluster, const StrategyOptions& options) {
  if (const auto mistake = strategy_mistake(name, cluster, options)) throw *mistake;
  const Row& row = row_of(name);
  Strategy s{.name = std::string(name),
             .schedule = schedule_of(row, options),
             .engine = row.engine,
             .layout = row.layout,
             .mesh = mesh_of(row, cluster, options),
             .chunks = options.pp > 1 ? options.virtual_stages : 1,
             .stage_layers = options.pp > 1 ? options.stage_layers : StageLayers(),
             .overlaps_tensor_parallel = options.overlaps_tensor_parallel};
  s.simplicity = narrow<int>(&row - kRows.data());
  if (options.tp * options.pp * options.cp * options.ep * options.ways_of_expert() > 1)
    s.simplicity += narrow<int>(kRows.size());
  if (is_fsdp(row.engine)) {
    if (options.fsdp_version == 1) s.engine = ShardingEngine::Fsdp1;
    s.wrap = options.wrap;
    s.wrap_min_params = options.wrap_min_params;
    if (!options.reshards) s.layout.reshards_after_forward = false;
  }
  if (s.engine != ShardingEngine::Local && s.mesh.shard_ways() == 1 &&
      options.shard_size) {  // sharding over one rank is DDP
    s.engine = ShardingEngine::Local;
    s.layout = {};
  }
  return s;
}

std::string_view whole_copies(std::int64_t num_gpus) { return num_gpus > 1 ? "ddp" : "single"; }

std::string equivalent_strategy(std::string_view name, std::int64_t num_gpus, const StrategyOptions& options,
                                const Offload& offload) {
  const Row& row = row_of(name);
  if (row.degrees == Degrees::Hybrid && options.shard_size == num_gpus) return "fsdp";
  if (row.degrees != Degrees::One || offload.optimizer == OffloadTarget::None) return std::string(name);
  return offload.params != OffloadTarget::None ? "zero3" : "zero2";
}

namespace {

/// Gives what bitsandbytes' optimizers cannot step: rules R08 and R10 of docs/ecosystem.md. Frameworks with 4-bit
/// shards of their own have optimizers of their own.
std::string why_optimizer_fails(const Strategy& s, const Recipe& recipe, const FrameworkConvention& framework) {
  const EngineTraits& engine = traits_of(s.engine);
  const OptimizerSpec& optimizer = *recipe.optimizer;
  // axolotl src/axolotl/utils/schemas/validation.py (check_muon_deepspeed_fsdp)
  if (optimizer.is_matrix_momentum && s.engine == ShardingEngine::Fsdp1)
    return fmt::format("{} steps matrices, which FSDP1 flattens: use --fsdp-version 2", optimizer.name);
  if (optimizer.projects && (s.engine != ShardingEngine::Local || s.layout.shards_optimizer))
    return fmt::format("{} projects whole matrices: their gradients cannot be sharded", optimizer.name);
  if (optimizer.projects && recipe.optimizer_in_backward && s.mesh.copies() * s.mesh.shard_ways() > 1)
    return fmt::format("{} steps in backward on one GPU alone", optimizer.name);
  if (!optimizer.needs_plain_tensors() || framework.distributed.own_quantised_shards) return {};
  const bool steps_on_host = recipe.offload.optimizer != OffloadTarget::None ||
                             (recipe.offload.params != OffloadTarget::None && engine.offloads_together);
  if (steps_on_host) return fmt::format("{} steps on the GPU alone (bitsandbytes)", optimizer.name);
  if (optimizer.is_8bit && s.engine == ShardingEngine::Fsdp2)
    return fmt::format("{} cannot step FSDP2's shards (bitsandbytes): use --fsdp-version 1", optimizer.name);
  return {};
}

/// Source of the compiler's part: pytorch/torchtitan torchtitan/distributed/tensor_parallel.py @v0.2.0.
std::string why_no_overlap(const Strategy& s, const Recipe& recipe) {
  const FrameworkTensorParallel& trainer = recipe.framework->tensor_parallel;
  if (!s.overlaps_tensor_parallel.value_or(false) || s.mesh.ways(Axis::Tp) == 1) return {};
  if (!trainer.offers_overlap && !trainer.overlaps)
    return fmt::format("{} has no --tp-overlap that is planned", recipe.framework->name);
  if (!s.mesh.splits_sequence()) return "--tp-overlap is of gathers and scatters along the sequence: add --sp";
  if (trainer.overlap_needs_compile && !recipe.torch_compile)
    return fmt::format("--tp-overlap of {} needs --compile", recipe.framework->name);
  return {};
}

std::string why_not_piped(const Strategy& s, const Recipe& recipe, const ModelSpec& model) {
  const PipelineRow* const row = pipeline_row(s.schedule);
  if (!row) return {};
  const FrameworkPipeline& trainer = recipe.framework->pipeline;
  const std::int64_t stages = s.mesh.num_stages();
  if (lays_stages(s.name)) return "mp lays its own stages; --pp goes with data parallel strategies";
  if (!std::ranges::count(trainer.strategies, s.name))
    return trainer.strategies.empty()
               ? fmt::format("{} has no pipeline schedules that are planned", recipe.framework->name)
               : fmt::format("{} has pp with {}", recipe.framework->name, fmt::join(trainer.strategies, ", "));
  if (!std::ranges::count(trainer.schedules, row->name))
    return fmt::format("{} has the schedules {}", recipe.framework->name, fmt::join(trainer.schedules, ", "));
  if (row->has_chunks != (s.chunks > 1))
    return row->has_chunks ? "interleaved needs --virtual-stages 2 or more"
                           : fmt::format("{} has one chunk per stage", row->name);
  if (model.vision.is_present() || model.num_encoder_layers > 0) return "pp of encoders and towers is not planned yet";
  if (pipeline_bounds(model.num_layers(), s, trainer.counts_ends).empty())
    return s.stage_layers.empty()
               ? fmt::format(
                     "{} layers cannot be divided evenly into {} x {} parts: --stage-layers "
                     "says how many each stage has",
                     model.num_layers(), stages, s.chunks)
               : fmt::format("{} layers cannot be divided into {} stages of {} layers{}", model.num_layers(), stages,
                             to_string(s.stage_layers), s.chunks > 1 ? fmt::format(" in {} chunks", s.chunks) : "");
  if (row->has_chunks && recipe.grad_accum % stages != 0)
    return fmt::format("interleaved takes micro-batches in groups of {}: {} of --grad-accum is no multiple", stages,
                       recipe.grad_accum);
  if (recipe.offload.activations || recipe.optimizer_in_backward || !recipe.trained.empty())
    return "pp with offloaded activations, steps in backward or --train-only is not planned yet";
  if (recipe.grad_accum > kMostMicroBatches)
    return fmt::format("a pipeline of more than {} micro-batches is not planned", kMostMicroBatches);
  return {};
}

}  // namespace

std::string why_not_divided(const Strategy& s, const Recipe& recipe, const ModelSpec& model) {
  std::string why = why_not_shared(model, recipe, *recipe.framework, s.name, s.mesh);
  if (why.empty()) why = why_no_overlap(s, recipe);
  if (why.empty()) why = why_not_in_context(model, recipe, *recipe.framework, s.name, s.mesh);
  if (why.empty()) why = why_not_by_experts(model, recipe, *recipe.framework, s.name, s.mesh);
  return why.empty() ? why_not_piped(s, recipe, model) : why;
}

std::string why_not_applicable(const Strategy& s, const ClusterSpec& cluster, const Recipe& recipe,
                               const ModelSpec& model) {
  const FrameworkConvention& framework = *recipe.framework;
  if (!has_strategy(framework, s.name)) return fmt::format("{} does not have it", framework.name);
  const Row& row = row_of(s.name);
  const EngineTraits& engine = traits_of(s.engine);
  const bool is_divided = s.mesh.within_layers() != Mesh() || pipeline_row(s.schedule);
  const std::int64_t n = is_divided ? s.mesh.shard_ways() * s.mesh.copies() : cluster.num_gpus();
  if (std::string why = why_not_divided(s, recipe, model); !why.empty()) return why;
  const bool offloads_states =
      recipe.offload.optimizer != OffloadTarget::None || recipe.offload.params != OffloadTarget::None;
  const bool can_offload = row.engine != ShardingEngine::Local;
  // fully_shard casts the weights of ranks that share layers, be the shard group a single rank
  const bool casts_alone = is_fsdp(row.engine) && s.mesh.ways(Axis::Tp) > 1;
  if (n < 2 && row.degrees != Degrees::One && !casts_alone && !(can_offload && offloads_states))
    return is_divided    ? "each part of the model is on one GPU, so there is no data parallel group"
           : can_offload ? "needs at least 2 GPUs, or --offload on one"
                         : "needs at least 2 GPUs";
  // a tower is of the first stage, with the layers that read features of its middle
  const std::int64_t num_units =
      model.num_layers() + 2 - model.vision.num_units() - std::ssize(model.vision.deepstack_layers);
  if (s.mesh.num_stages() > num_units)
    return fmt::format("{} GPUs for {} layers and ends", s.mesh.num_stages(), num_units);
  if (s.schedule == Schedule::Naive && framework.distributed.mp_is_one_process && cluster.num_nodes() > 1)
    return "device_map is one process, and a process has the GPUs of one machine";
  if (s.mesh.num_stages() > 1 && (model.num_encoder_layers > 0 || model.vision.is_attended))
    return model.vision.is_attended ? "layers of every stage would read the images' features: not split into stages"
                                    : "every decoder layer reads the encoder's output: not split into stages";
  if (row.degrees == Degrees::Hybrid && (s.mesh.copies() == 1 || s.mesh.shard_ways() == 1))
    return "needs a shard group smaller than all GPUs";
  // HYBRID_SHARD without a device mesh of one's own: torch/distributed/fsdp/_init_utils.py
  // (_init_intra_node_process_group)
  if (row.degrees == Degrees::Hybrid && s.engine == ShardingEngine::Fsdp1 &&
      s.mesh.shard_ways() < cluster.gpus_per_node)
    return "FSDP version 1 shards over whole machines and copies between them";
  // rule E06: huggingface/accelerate src/accelerate/accelerator.py @16cb6eb8 (maybe_context_parallel: with FSDP2)
  if (s.engine == ShardingEngine::Fsdp1 && s.mesh.ways(Axis::Cp) > 1 &&
      s.mesh.context_exchange() != ContextExchange::Heads)
    return "FSDP version 1 divides no sequences among GPUs: --fsdp-version 2";
  if (recipe.offload.optimizer != OffloadTarget::None && !row.can_offload_optimizer) return "no optimizer offload";
  if (recipe.offload.params != OffloadTarget::None && !row.can_offload_params) return "no parameter offload";
  if (recipe.offload.params == OffloadTarget::Nvme && !engine.offloads_to_nvme) return "only ZeRO-3 offloads to NVMe";
  if (recipe.offload.optimizer == OffloadTarget::Nvme && !engine.offloads_to_nvme) return "only ZeRO offloads to NVMe";
  if (recipe.offload.optimizer == OffloadTarget::Cpu && recipe.offload.params == OffloadTarget::None &&
      engine.offloads_together)
    return "FSDP offloads parameters and optimizer together";
  const FrameworkDistributed& habits = framework.distributed;
  if (recipe.quant.kind == BaseQuant::Nf4 && s.engine == ShardingEngine::Fsdp2 && !habits.own_quantised_shards &&
      !habits.fsdp2_shards_4bit)
    return "FSDP2 cannot shard 4-bit bitsandbytes weights correctly: use --fsdp-version 1";
  if (std::string why = why_optimizer_fails(s, recipe, framework); !why.empty()) return why;
  if (recipe.quant.kind == BaseQuant::Nf4 && s.layout.shards_weights && !habits.own_quantised_shards) {
    const Dtype beside = resolve_numerics(recipe, framework, s.engine).compute;
    if (recipe.quant.storage_dtype.value_or(beside) != beside)
      return fmt::format("4-bit weights stored in {} cannot be sharded: a unit has one dtype, so storage={} is needed",
                         to_string(*recipe.quant.storage_dtype), to_string(beside));
  }
  if (const QuantFormat& format = format_of(recipe.quant.kind);
      format.kind != BaseQuant::None && !format.is_bitsandbytes && s.layout.shards_weights)
    return fmt::format("a base in {} cannot be sharded (no float storage)", format.text);
  if (recipe.quant.kind == BaseQuant::Int8 && s.layout.shards_weights &&
      !(s.engine == ShardingEngine::Fsdp2 && habits.fsdp2_shards_8bit))
    return "an 8-bit base cannot be sharded (bitsandbytes)";
  if (recipe.quant.kind == BaseQuant::Nf4 && s.layout.shards_weights && s.engine == ShardingEngine::Zero &&
      recipe.offload.params != OffloadTarget::None)
    return "ZeRO-3 does not offload 4-bit parameters";
  return {};
}

}  // namespace gpuplan
