#include "planner/estimate.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "cluster/host.h"
#include "models/ledger.h"
#include "models/recipe_names.h"
#include "models/training_method.h"
#include "planner/changes.h"
#include "planner/comm_model.h"
#include "planner/free_choice.h"
#include "planner/job.h"
#include "planner/job_metrics.h"
#include "planner/recommend.h"
#include "planner/refusal.h"
#include "planner/rollout_phases.h"
#include "planner/step_batch.h"
#include "planner/strategy_estimate.h"

namespace gpuplan {

namespace {

EstimateRequest chosen_freely(const EstimateRequest& asked, ChosenFreely& chosen) {
  FreeChoice choice = choose_freely({asked, profile_of(asked)});
  for (const Setting& setting : choice.settings) chosen.flags.push_back(describe(setting));
  chosen.usual = std::move(choice.usual);
  return std::move(choice.request);
}

StrategyEstimate row_in_full(const Job& job, StepProgram& program, BlockCache& blocks) {
  StrategyEstimate e = estimate_strategy(job, program, Parts::All, &blocks);
  find_limits(e, job, program, &blocks);
  return e;
}

/// `recommended`, or where there is none the row that needs the least memory, of those that memory alone stops.
const StrategyEstimate* row_in_focus(const EstimateResult& result, const StrategyEstimate* recommended) {
  const StrategyEstimate* shown = recommended;
  for (const StrategyEstimate& e : result.strategies)
    if (!recommended && e.not_applicable.empty() &&
        (!shown || std::pair(is_refused(e), e.tiers.needed) < std::pair(is_refused(*shown), shown->tiers.needed)))
      shown = &e;
  return shown;
}

}  // namespace

const StrategyEstimate* strategy_in_focus(const EstimateResult& result) {
  const StrategyEstimate* recommended = nullptr;
  for (const StrategyEstimate& e : result.strategies)
    if (result.recommended && e.not_applicable.empty() && e.strategy.name == result.recommended->strategy)
      recommended = &e;
  return row_in_focus(result, recommended);
}

EstimateResult estimate(const EstimateRequest& request, InFull in_full) {
  EstimateRequest r = request;
  settle_stack(r);
  validate_recipe(r.recipe, r.model, r.cluster);
  check_teacher(r);
  check_answers(r);
  const EstimateRequest asked = r;
  const FrameworkConvention& framework = *r.recipe.framework;
  ChosenFreely chosen;
  if (r.not_given.are_chosen) r = chosen_freely(r, chosen);
  const EstimateRequest answered = r;
  r.options = options_for(r);
  EstimateResult out{.request = answered,
                     .chosen = std::move(chosen),
                     .model = prepare(r.model, r.recipe, framework),
                     .framework = framework,
                     .profile = profile_of(r)};
  Job job(r, out.model, framework, out.profile, {});
  StepProgram program;
  BlockCache blocks;
  for (const std::string_view name : strategy_names()) {
    if (r.strategy != "auto" && r.strategy != name) continue;
    if (const auto mistake = strategy_mistake(name, r.cluster, r.options))
      throw refusal_of(answered).value_or(*mistake);
    Strategy strategy = make_strategy(name, r.cluster, r.options);
    std::string why = why_not_applicable(strategy, r.cluster, r.recipe, r.model);
    if (why.empty() && r.strategy == "auto") why = why_not_chosen(strategy, framework);
    if (!why.empty()) {
      out.strategies.push_back({.strategy = strategy, .not_applicable = why});
      continue;
    }
    job.use(strategy);
    job.request.recipe.grad_accum = passes_under(r, strategy);
    out.strategies.push_back(in_full == InFull::All ? row_in_full(job, program, blocks)
                                                    : estimate_strategy(job, program, Parts::None, &blocks));
  }
  const StrategyEstimate* const best = best_of(out.strategies, r.preference, out.profile.time_error);
  if (const auto* const row = row_in_focus(out, best); row && in_full == InFull::InFocus) {
    job.use(row->strategy);
    job.request.recipe.grad_accum = passes_under(r, row->strategy);
    out.strategies[std::size_t(row - out.strategies.data())] = row_in_full(job, program, blocks);
  }
  out.recommended = recommend(r, asked, out);
  if (const auto* const row = strategy_in_focus(out))
    r.recipe.grad_accum = out.request.recipe.grad_accum = passes_under(r, row->strategy);
  out.assumptions = list_assumptions(r, out);
  return out;
}

namespace {

/// Says who steps offloaded states, how fast, and what shares that time.
std::string offload_assumption(const EstimateRequest& r, const EstimateResult& result) {
  const std::int64_t ranks = r.cluster.ranks_per_node(r.cluster.num_gpus());
  const auto rate = [&](ShardingEngine engine) {
    return host_optimizer_rate(result.profile, result.framework, engine, r.cluster.host, ranks).value / 1e9;
  };
  const double torch = rate(ShardingEngine::Fsdp2), vectorised = rate(ShardingEngine::Zero);
  const std::string rates =
      result.framework.fsdp2.host_step == result.framework.zero.host_step
          ? fmt::format("{:.3g} GB/s a rank", vectorised)
          : fmt::format("{:.3g} GB/s a rank with torch's optimizers (FSDP), {:.3g} GB/s with DeepSpeed's (ZeRO)", torch,
                        vectorised);
  return fmt::format("offloaded optimizer: {}; once per optimizer step, so more accumulation amortises it", rates);
}

/// Says whose memory and cores the host's part is counted with.
std::string host_assumption(const ClusterSpec& cluster) {
  const std::string memory = cluster.host_memory.count > 0
                                 ? fmt::format("{} of memory", format_bytes(cluster.host_memory))
                                 : fmt::format("memory not known, usually {} (--host-memory says it)",
                                               format_bytes(cluster.host.usual_memory));
  return fmt::format("host: {}, {}{}", describe(cluster.host), memory,
                     cluster.host.kind.empty() ? "" : "; --host says another");
}

/// Says how much of what is computed is padding; nothing where rows fill their sequences.
std::string padding_assumption(const Recipe& recipe, const Dataset& data) {
  const double real = tokens_without_padding(recipe, data), padded = double(padded_length(recipe, data));
  if (real >= padded && recipe.packing != Packing::Dynamic) return {};
  const std::string share = fmt::format("{:.0f} % of the tokens computed are padding, which tokens/s leaves out",
                                        100 * std::max(0.0, 1 - real / padded));
  if (recipe.packing != Packing::Dynamic || data.tokens_per_row == 0) return real < padded ? share : "";
  return fmt::format(
      "micro batches are padded to their longest row, {:.0f} tokens on average if rows have {:.0f} to {} "
      "tokens, evenly spread: {}",
      padded, std::max(0.0, 2 * real - double(recipe.seq_len)), std::min(recipe.seq_len, std::int64_t(2 * real)),
      share);
}

std::string profile_assumption(const EstimateResult& result) {
  const Profile& p = result.profile;
  if (!p.measured) return fmt::format("profile {}: {} (not calibrated on this machine)", p.id, p.title);
  return fmt::format("profile {}: measured {} on {}", p.id, p.measured->on.date, p.measured->on.device);
}

std::string links_assumption(const ClusterSpec& cluster, const Profile& profile) {
  const std::int64_t ranks = cluster.ranks_per_node(cluster.num_gpus());
  const CollectiveCurve* curve =
      has_measured_links(profile, cluster) ? profile.measured->curve_of(CollectiveKind::AllReduce, ranks) : nullptr;
  if (!curve)
    return fmt::format("links: {}, {:.1f} GB/s bus bandwidth ({})", cluster.fabric_text,
                       cluster.intra.bandwidth.value / 1e9, cluster.intra.source);
  const std::string other = curve->num_ranks == ranks ? "" : fmt::format(", taken for {}", ranks);
  return fmt::format("links: {}, all-reduce of {} ranks measured at {:.3g} GB/s busbw for {}{}", cluster.fabric_text,
                     curve->num_ranks, curve->bus_bandwidth(curve->most).value / 1e9, format_bytes(curve->most), other);
}

/// Of the recommended strategy, or the first one: all of a plan have nearly the same products.
std::string coverage_assumption(const EstimateResult& result) {
  for (const StrategyEstimate& e : result.strategies)
    if (e.not_applicable.empty() && (!result.recommended || result.recommended->strategy.empty() ||
                                     result.recommended->strategy == e.strategy.name))
      return describe(e.coverage);
  return {};
}

/// "corrected by 3 earlier runs on 2 ranks: time x1.04, …".
std::string correction_assumption(const RunCorrection& c, std::int64_t num_ranks) {
  const std::string ranks = num_ranks == 1 ? "1 rank" : fmt::format("{} ranks", num_ranks);
  return fmt::format("corrected by {} earlier {} on {}: time x{:.2f}, {}{} outside tensors", c.num_runs,
                     c.num_runs == 1 ? "run" : "runs", ranks, c.time, c.outside_tensors.count < 0 ? "-" : "+",
                     format_bytes(Bytes{std::abs(c.outside_tensors.count)}));
}

/// "1 image of 1024x1024 per row = 1,369 tokens of the row", and which parts are trained.
void add_image_assumptions(std::vector<std::string>& out, const EstimateRequest& r, const EstimateResult& result) {
  const ImageSpec& images = r.recipe.images;
  const ImageGrid& grid = result.model.image;
  const bool is_one = images.per_row == 1;
  const std::string tiles = grid.tiles > 1 ? fmt::format(" in {} tiles of {}x{}", grid.tiles, grid.width, grid.height)
                            : grid.width != images.width || grid.height != images.height
                                ? fmt::format(" resized to {}x{}", grid.width, grid.height)
                                : "";
  const bool is_attended = result.model.spec.vision.is_attended;
  out.push_back(fmt::format("images: {} image{} of {}x{} per row{} = {} {} ({} positions of the tower)", images.per_row,
                            is_one ? "" : "s", images.width, images.height, tiles,
                            format_grouped(images.per_row * (is_attended ? grid.features : grid.tokens)),
                            is_attended ? "features that some layers attend to" : "tokens of the row",
                            format_grouped(images.per_row * grid.positions())));
  const char* what =
      images.train == TrainVision::Whole
          ? "vision tower and projector are trained themselves, beside the adapters of the language model"
      : images.train == TrainVision::All ? "vision tower and projector are trained with the language model"
      : images.train == TrainVision::Projector
          ? "the vision tower is frozen and runs forward only; the projector is trained"
          : "vision tower and projector are frozen and run forward only; --train-vision trains them";
  out.push_back(what);
  if (images.train == TrainVision::No && r.recipe.is_adapter())
    out.push_back(
        "adapters are on the language model's linears only: PEFT's all-linear also reaches the vision tower, "
        "as --train-vision all does");
}

}  // namespace

/// Gives what was asked of DeepSpeed's engine; empty: nothing.
static std::string zero_settings(const StrategyOptions& o) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  if (o.overlap_comm)
    add(*o.overlap_comm ? "reductions beside backward (overlap_comm on)"
                        : "backward waits for its reductions (overlap_comm off)");
  if (o.reduce_bucket_size)
    add(*o.reduce_bucket_size < 0 ? "buckets of the hidden size squared"
                                  : fmt::format("buckets of {} elements", format_grouped(*o.reduce_bucket_size)));
  if (o.zero_quantized_weights.value_or(false)) add("ZeRO-3 gathers weights in 8 bit (zero_quantized_weights)");
  return out;
}

std::vector<std::string> list_assumptions(const EstimateRequest& r, const EstimateResult& result) {
  std::vector<std::string> out = r.cluster.assumptions;
  const Recipe& c = r.recipe;
  out.push_back(fmt::format("framework {}: {}", result.framework.name, result.framework.title));
  if (const auto text = deciding_versions(result.framework.versions, result.framework.name); !text.empty())
    out.push_back(fmt::format("libraries: {}; --versions takes others", text));
  if (!c.optimizer->remark.empty()) out.emplace_back(c.optimizer->remark);
  out.push_back(
      fmt::format("{} tokens per sequence, {}, micro batch {} per data-parallel rank, {} per optimizer step", c.seq_len,
                  c.packing == Packing::Packed   ? "packed"
                  : c.packing == Packing::Padded ? "padded"
                                                 : "dynamic lengths (memory for the longest)",
                  c.micro_batch, c.grad_accum == 1 ? "1 micro-batch" : fmt::format("{} micro-batches", c.grad_accum)));
  if (attention_kernel_used(r.model, c, result.framework) != c.attention)
    out.push_back(
        fmt::format("attention: the modelling code of {} has no {} path here, so scores are materialised (eager)",
                    r.model.model_type, to_string(c.attention)));
  const auto without_bf16 =
      std::find_if_not(r.cluster.gpus.kinds().begin(), r.cluster.gpus.kinds().end(), multiplies_bf16);
  if (c.precision != Precision::Fp16Mixed && c.precision != Precision::Fp32 &&
      without_bf16 != r.cluster.gpus.kinds().end())
    out.push_back(fmt::format("warning: {} has no bf16 tensor cores, so {} is several times slower than fp16-mixed",
                              without_bf16->name, to_string(c.precision)));
  if (c.quant.kind == BaseQuant::Nf4 && !c.quant.storage_dtype && !result.framework.distributed.own_quantised_shards &&
      r.cluster.num_gpus() > 1)
    out.push_back(
        fmt::format("bnb_4bit_quant_storage: {} under FSDP and ZeRO-3, whose units have one dtype; uint8 elsewhere",
                    to_string(resolve_numerics(c, result.framework, ShardingEngine::Fsdp1).compute)));
  if (std::string settings = zero_settings(r.options); !settings.empty()) out.push_back("DeepSpeed: " + settings);
  if (r.model.vision.is_present()) add_image_assumptions(out, r, result);
  if (result.model.weights.part_elements(ModelPart::Idle) > 0)
    out.push_back(
        "text alone: towers of images and sound are loaded, frozen and idle, and adapters are on the language model's "
        "linears only, where PEFT's all-linear also reaches those of the towers");
  if (r.model.num_layers_with(has_delta_net) > 0 && !result.framework.layers.is_handwritten)
    out.push_back(result.framework.layers.has_delta_kernels
                      ? "linear attention runs flash-linear-attention's kernels; without that library "
                        "(--versions flash-linear-attention=none) a step takes two to four times as long"
                      : "linear attention runs transformers' loops in torch: flash-linear-attention is not installed");
  if (r.model.num_encoder_layers > 0) out.push_back("encoder and decoder both read the stated number of tokens");
  if (r.model.moe.is_present()) out.push_back("experts get equal shares of the tokens");
  const StrategyEstimate* const shown = strategy_in_focus(result);
  if (generates(c) && shown) out.push_back(rollout_assumption(Job(r, shown->strategy)));
  const std::int64_t per_row = r.dataset.tokens_per_row > 0 ? r.dataset.tokens_per_row : c.seq_len;
  const bool is_cut = c.packing != Packing::Packed && per_row > c.seq_len;
  out.push_back(fmt::format("data: {} rows of {} tokens{}, {:g} epoch{}", format_grouped(r.dataset.rows), per_row,
                            is_cut ? fmt::format(" cut to {}", c.seq_len) : "", r.dataset.epochs,
                            r.dataset.epochs == 1 ? "" : "s"));
  if (std::string padding = padding_assumption(c, r.dataset); !padding.empty()) out.push_back(std::move(padding));
  out.push_back(profile_assumption(result));
  if (const RunCorrection own = correction_of(result.profile, r.cluster.num_gpus(), result.framework.name);
      own.num_runs > 0)
    out.push_back(correction_assumption(own, r.cluster.num_gpus()));
  if (std::string missing = coverage_assumption(result); !missing.empty()) out.push_back(std::move(missing));
  if (r.cluster.num_gpus() > 1) out.push_back(links_assumption(r.cluster, result.profile));
  if (r.price_per_gpu_hour)
    out.push_back(fmt::format("price: {} per GPU and hour (given)", format_usd(*r.price_per_gpu_hour)));
  else if (r.cluster.price_per_gpu_hour)
    out.push_back(fmt::format("price: {} per GPU and hour ({})", format_usd(*r.cluster.price_per_gpu_hour),
                              r.cluster.price_source));
  else
    out.push_back("price: none known for these GPUs; give --price-per-gpu-hour");
  if (c.offload.optimizer == OffloadTarget::Cpu) out.push_back(offload_assumption(r, result));
  if (r.cluster.host.is_stated()) out.push_back(host_assumption(r.cluster));
  if (c.is_adapter() && result.model.has_tied_head && result.model.head.is_adapted)
    out.push_back("the adapted head shares its frozen weight with the embedding");
  if (r.options.fsdp_version == 1) out.push_back("FSDP means version 1 (FullyShardedDataParallel)");
  out.push_back(fmt::format("{:.0f} % of the device is kept free as margin", result.profile.margin * 100));
  return out;
}

}  // namespace gpuplan
