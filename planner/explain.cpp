#include "planner/explain.h"

#include <fmt/format.h>

#include "base/unit_text.h"
#include "models/ledger.h"
#include "models/optimizers.h"
#include "models/quantisation.h"
#include "planner/block.h"
#include "planner/state_sizes.h"

namespace gpuplan {
namespace {

std::string per_parameter(double bytes, std::int64_t parameters) {
  return fmt::format("{:.3g} bytes per parameter", bytes / double(parameters));
}

ExplainSection parameters_section(const EstimateResult& result) {
  const TrainedModel& m = result.model;
  ExplainSection s{"Parameters", {}};
  for (std::size_t k = 0; k < m.weights.kinds.size(); ++k)
    s.lines.push_back({fmt::format("one {}", m.weights.kinds[k].name),
                       fmt::format("{} x {}", format_grouped(m.weights.kinds[k].elements()), m.weights.num_of_kind(k)),
                       fmt::format("sum over the tensors of the checkpoint (gpuplan models --show {})", m.spec.name)});
  s.lines.push_back({"embedding", format_grouped(m.weights.before_elements()), m.spec.source});
  s.lines.push_back({"final norm and head",
                     fmt::format("{}{}", format_grouped(m.weights.after_elements()),
                                 m.spec.tie_word_embeddings ? " (head tied to the embedding)" : ""),
                     m.spec.source});
  s.lines.push_back(
      {"total", format_grouped(m.parameters),
       m.spec.recorded_parameters ? "computed; equals the recorded count of the checkpoint" : "computed"});
  s.lines.push_back(
      {"trainable",
       fmt::format("{} ({:.3g} %)", format_grouped(m.trainable), 100.0 * double(m.trainable) / double(m.parameters)),
       "recipe"});
  return s;
}

/// A linear with an adapter, of the last kind of layer that has one.
const LinearRef* adapted_linear(const TrainedModel& model) {
  for (auto linears = model.linears.rbegin(); linears != model.linears.rend(); ++linears)
    for (const LinearRef& linear : linears->by_slot)
      if (linear.is_adapted) return &linear;
  return nullptr;
}

ExplainSection lora_section(const EstimateRequest& r, const EstimateResult& result) {
  ExplainSection s{"Adapters", {}};
  const std::int64_t rank = r.recipe.lora.rank;
  s.lines.push_back({"an adapted linear",
                     fmt::format("A [{0}, in] and B [out, {0}]: {0} x (in + out) parameters", rank),
                     "Hu et al. 2021, peft tuners/lora/layer.py"});
  s.lines.push_back(
      {"worked example", "1024 x 1024 with r = 8: 8 x 2048 = 16,384 of 1,048,576, that is 1/64", "arithmetic"});
  if (const LinearRef* const l = adapted_linear(result.model))
    s.lines.push_back(
        {fmt::format("here, {}", l->name),
         fmt::format("{} x {}: {} of {}, 1/{:.0f}", l->in, l->out, format_grouped(rank * (l->in + l->out)),
                     format_grouped(l->in * l->out), double(l->in * l->out) / double(rank * (l->in + l->out))),
         "arithmetic"});
  s.lines.push_back(
      {"the ladder of bytes per base parameter",
       "16 trained in mixed precision, 2 frozen in 16 bit (LoRA), 0.5 frozen in NF4 (QLoRA; 0.516 with its scales)",
       "arXiv 1910.02054; arXiv 2305.14314"});
  if (r.recipe.quant.kind == BaseQuant::Nf4) {
    const std::int64_t elements = 1 << 24;
    s.lines.push_back(
        {"NF4 here",
         fmt::format("{:.4f} bytes per quantised parameter (block {}, {})",
                     double(quantised_bytes(elements, 4096, r.recipe.quant).count) / double(elements),
                     r.recipe.quant.block_size, r.recipe.quant.double_quant ? "double quantisation" : "fp32 scales"),
         "0.5 + 1/block + 4/(256 block); arXiv 2305.14314 section 3"});
  }
  return s;
}

ExplainSection state_section(const Job& job, const StrategyEstimate& chosen) {
  const EstimateRequest& r = job.request;
  const TrainedModel& m = job.model;
  const DtypePolicy& n = job.numerics;
  const OptimizerSpec& optimizer = *r.recipe.optimizer;
  const StateSizes total = model_state(m, n, r.recipe, job.rules);
  ExplainSection s{"Training state of one rank", {}};
  const auto add = [&](const char* term, Bytes bytes, const std::string& source) {
    if (bytes.count > 0)
      s.lines.push_back(
          {term, fmt::format("{} ({})", format_bytes(bytes), per_parameter(double(bytes.count), m.trainable)), source});
  };
  if (total.frozen.count > 0)
    s.lines.push_back(
        {"frozen base",
         fmt::format("{} ({})", format_bytes(total.frozen), per_parameter(double(total.frozen.count), m.parameters)),
         job.framework.source});
  add("trained weights", total.trained,
      fmt::format("{} storage, framework {}", to_string(r.recipe.is_adapter() ? n.adapter : n.weight),
                  job.framework.name));
  add("gradients at the step", total.gradient, "same dtype as the weight they belong to (torch)");
  add("fp32 master", total.master, "arXiv 1910.02054: 16-bit weights with an fp32 copy");
  add("optimizer state", total.state + total.paged_state, std::string(optimizer.source));
  const Bytes gradient_copy = chosen.peak.step_gradient;
  const Bytes temporary = chosen.peak.step_temporaries;
  add("fp32 gradients of the step", gradient_copy, "ZeRO steps on an fp32 copy of its gradient partition");
  add("temporary at the step", temporary,
      job.rules.steps_flat           ? fmt::format("DeepSpeed steps flat tensors: {}", optimizer.source)
      : total.step_scratch.count > 0 ? "a loop over the tensors holds two copies of the largest"
                                     : "foreach optimizers make one parameter-sized list");
  if (chosen.strategy.mesh.shard_ways() > 1)
    s.lines.push_back({"sharded over",
                       fmt::format("{} ranks: optimizer{}{}", chosen.strategy.mesh.shard_ways(),
                                   chosen.strategy.layout.shards_gradients ? ", gradients" : "",
                                   chosen.strategy.layout.shards_weights ? ", weights" : ""),
                       "strategy " + chosen.strategy.name});
  return s;
}

ExplainSection rules_section(const EstimateRequest& r, const EstimateResult& result, const StrategyEstimate& chosen) {
  const double P = double(result.model.parameters);
  ExplainSection s{"Common rules of thumb, for comparison", {}};
  s.lines.push_back(
      {"4 x the half-precision bytes",
       format_bytes(Bytes{std::int64_t(8 * P)}) + fmt::format(" ({:.1f} GB)", 8 * P / 1e9),
       "weights, gradients and two Adam states, all in 16 bit; no master copy, no activations, no logits, no buffers"});
  s.lines.push_back({"accelerate estimate-memory, float16", fmt::format("{:.1f} GB", 8 * P / 1e9),
                     "max(4P, 6P, 8P) bytes: its largest stage is the two fp32 Adam states alone "
                     "(huggingface/accelerate commands/estimate.py)"});
  s.lines.push_back({"accelerate estimate-memory, float32", fmt::format("{:.1f} GB", 16 * P / 1e9),
                     "4 x 4P bytes, the state of fp32 training without activations"});
  s.lines.push_back({"here",
                     fmt::format("{} tensors, {} in the process", format_bytes(chosen.tiers.tensors),
                                 format_bytes(chosen.tiers.process)),
                     r.recipe.is_adapter()
                         ? "a frozen base has no gradients and no optimizer state, so the rules answer another "
                           "question; activations and logits, which they leave out, are most of the rest"
                         : "mixed precision keeps 16 bytes per parameter (fp32 weights, gradients and states), then "
                           "activations, logits and communication buffers come on top; sharding divides the state"});
  return s;
}

ExplainSection peak_section(const ModelBlocks& blocks, const StrategyEstimate& chosen) {
  ExplainSection s{fmt::format("Tensors alive at the peak ({})", chosen.peak_instant), {}};
  const auto why = [&](const std::string& name) {
    for (const LayerGraph& graph : blocks.all_graphs())
      for (const Local& l : graph.locals)
        if (name == l.name)
          return fmt::format("{} {}{}{}", dims_text(l), to_string(l.dtype), *l.why ? ": " : "", l.why);
    return std::string();
  };
  constexpr std::size_t kMost = 24;
  for (std::size_t i = 0; i < std::min(kMost, chosen.items.size()); ++i) {
    const auto& item = chosen.items[i];
    s.lines.push_back(
        {item.name,
         fmt::format("{}{}", format_bytes(item.bytes), item.count > 1 ? fmt::format(" ({} tensors)", item.count) : ""),
         why(item.name)});
  }
  return s;
}

ExplainSection ledger_section(const LayerGraph& layer, const LayerKind& kind, const EstimateRequest& r, double width) {
  ExplainSection s{fmt::format("Activation ledger: what one {} keeps for backward", kind.name), {}};
  Bytes total;
  for (const LocalId id : saved_locals(layer)) {
    const Local& l = layer.locals[id];
    total += l.bytes();
    s.lines.push_back({l.name,
                       fmt::format("{} ({:.3g} bytes per token and hidden unit)", format_bytes(l.bytes()),
                                   double(l.bytes().count) / width),
                       fmt::format("{} {}: {}", dims_text(l), to_string(l.dtype), l.why)});
  }
  s.lines.push_back(
      {"together",
       fmt::format("{} ({:.3g} bytes per token and hidden unit)", format_bytes(total), double(total.count) / width),
       r.recipe.checkpointing == Checkpointing::None
           ? fmt::format("kept by every {}", kind.name)
           : fmt::format("exists for one {} at a time; checkpointed layers keep their input", kind.name)});
  return s;
}

/// One section for each kind of layer; the bridge between encoder and decoder keeps next to nothing.
void add_ledgers(std::vector<ExplainSection>& out, const Job& job, const ModelBlocks& blocks) {
  for (std::size_t k = 0; k < blocks.kinds.size(); ++k) {
    const LayerKind& kind = job.model.weights.kinds[k];
    const LayerGraph& graph = blocks.graphs[blocks.kinds[k].graph];
    const double width = double(graph.locals[kSlotX].elements);
    if (!kind.is_bridge && blocks.kinds[k].runs_backward)
      out.push_back(ledger_section(graph, kind, job.request, width));
  }
}

ExplainSection tiers_section(const EstimateResult& result, const StrategyEstimate& chosen) {
  ExplainSection s{"From tensors to the process", {}};
  const MemoryTiers& t = chosen.tiers;
  s.lines.push_back(
      {"tensors", format_bytes(t.tensors), "peak of the step program in program order (torch: max_memory_allocated)"});
  s.lines.push_back(
      {"reserved", format_bytes(t.reserved),
       "sum of each tensor class's own peak, as classes do not share allocator segments, limited by the card"});
  s.lines.push_back({"process", format_bytes(t.process), "with CUDA context, NCCL and cuBLAS workspace (nvidia-smi)"});
  s.lines.push_back(
      {"must fit", fmt::format("{} of {}", format_bytes(t.needed), format_bytes(t.usable)),
       fmt::format("tensors, {:.0f} % of the allocator's spread, fixed overheads; {} less {:.0f} % margin",
                   result.profile.pool_slack * 100, format_bytes(t.capacity), result.profile.margin * 100)});
  return s;
}

/// What of the step's time was measured, and how well the fits hold.
void add_measured(ExplainSection& s, const EstimateRequest& r, const EstimateResult& result,
                  const StrategyEstimate& chosen) {
  const Profile& p = result.profile;
  if (!p.measured) return;
  const std::string source = fmt::format("{}, {}", p.id, p.measured->on.date);
  const auto held_out = [](const FitQuality& q) {
    return fmt::format("held-out error {:.1f} % median, {:.1f} % p90", 100 * q.held_out_median, 100 * q.held_out_p90);
  };
  const std::string missing = describe(chosen.coverage);
  s.lines.push_back({"GEMM shapes", fmt::format("{} different products", chosen.coverage.num_shapes),
                     missing.empty() ? "all within the measured range" : missing});
  if (const MeasurementsAtRanks* load = p.measured->load_of(r.cluster.ranks_per_node(chosen.num_gpus_used)))
    for (const GemmSurface& g : load->gemm)
      s.lines.push_back({fmt::format("{} {} {}", to_string(g.type), to_string(g.regime), to_string(g.layout)),
                         fmt::format("at most {:.4g} TFLOP/s", g.rate.value / 1e12),
                         fmt::format("{}: {}", source, held_out(g.quality))});
  for (const CollectiveCurve& c : p.measured->collectives)
    s.lines.push_back(
        {fmt::format("{} of {} ranks", to_string(c.kind), c.num_ranks),
         fmt::format("{:.3g} GB/s busbw at {}", c.bus_bandwidth(c.most).value / 1e9, format_bytes(c.most)),
         fmt::format("{}: {}", source, held_out(c.quality))});
}

ExplainSection time_section(const EstimateRequest& r, const EstimateResult& result, const StrategyEstimate& chosen) {
  ExplainSection s{"Time of one optimizer step", {}};
  const StepTime& t = chosen.time;
  s.lines.push_back({"step", format_duration(t.step), "forward pass over the step program (max-plus over streams)"});
  s.lines.push_back(
      {"compute", format_duration(t.compute), "roofline per op: max(FLOPs / rate, bytes / bandwidth) + launch"});
  s.lines.push_back(
      {"communication",
       fmt::format("{} busy, {} of the step not hidden by compute", format_duration(t.communication),
                   format_duration(t.exposed)),
       fmt::format("alpha-beta on the bottleneck link: {:.1f} GB/s, {}; {}", r.cluster.intra.bandwidth.value / 1e9,
                   format_duration(r.cluster.intra.latency), r.cluster.intra.source)});
  s.lines.push_back(
      {"host dispatch", format_duration(t.host), "kernels launched one after the other: the floor of small batches"});
  s.lines.push_back(
      {"bytes sent per rank and step", format_bytes(chosen.communication),
       "ring volumes: (n-1)/n of the message per gather or reduce-scatter, twice that per all-reduce (nccl-tests)"});
  s.lines.push_back(
      {"MFU", fmt::format("{:.1f} %", chosen.mfu * 100),
       r.recipe.is_adapter()
           ? "model FLOPs 4P per token (no weight gradients of the base) plus attention, over the datasheet rate"
           : "model FLOPs 6P per token plus attention, over the datasheet rate"});
  s.lines.push_back({"global batch",
                     fmt::format("{} sequences: {} per rank x {} accumulation x {} replicas", chosen.global_batch,
                                 r.recipe.micro_batch, r.recipe.grad_accum, chosen.strategy.mesh.batch_replicas()),
                     "recipe"});
  for (const auto& [name, value] : result.profile.values)
    s.lines.push_back(
        {name, fmt::format("{:g} {}", value.value, value.unit), fmt::format("{}: {}", value.kind, value.source)});
  add_measured(s, r, result, chosen);
  return s;
}

/// Advice of one line is text in a common section; a table has a section of its own.
void add_advice(std::vector<ExplainSection>& out, const AdviceCase& c) {
  ExplainSection texts{"Advice for this plan (peaks are of tensors on the fullest GPU)", {}};
  std::vector<ExplainSection> tables;
  for (Advice& advice : advise(c)) {
    if (advice.lines.size() > 1) {
      tables.push_back({std::string(advice.title), std::move(advice.lines)});
      continue;
    }
    advice.lines.front().term = advice.title;
    texts.lines.push_back(std::move(advice.lines.front()));
  }
  if (!texts.lines.empty()) out.push_back(std::move(texts));
  for (ExplainSection& table : tables) out.push_back(std::move(table));
}

}  // namespace

std::vector<ExplainSection> explain(const EstimateRequest& request, const EstimateResult& result,
                                    const StrategyEstimate& chosen) {
  std::vector<ExplainSection> out{parameters_section(result)};
  if (request.recipe.is_adapter()) out.push_back(lora_section(request, result));
  if (!chosen.not_applicable.empty()) return out;
  const Job job(request, result.model, result.framework, result.profile, chosen.strategy);
  ModelBlocks blocks;
  make_blocks(blocks, job);
  out.push_back(state_section(job, chosen));
  add_ledgers(out, job, blocks);
  out.push_back(peak_section(blocks, chosen));
  out.push_back(tiers_section(result, chosen));
  out.push_back(rules_section(request, result, chosen));
  out.push_back(time_section(request, result, chosen));
  add_advice(out, {request, result, chosen});
  return out;
}

}  // namespace gpuplan
