#include "report/text/answers_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "base/utf8.h"
#include "models/adapter_kind.h"
#include "models/ledger.h"
#include "models/optimizers.h"
#include "models/recipe_names.h"
#include "models/token_dispatcher.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"
#include "planner/job.h"
#include "planner/job_metrics.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

std::string adapters_text(const LoraSpec& lora, const std::vector<std::string>& trained) {
  const std::string on = fmt::format("{}", fmt::join(lora.targets, "+"));
  const AdapterKind& kind = *lora.kind;
  const std::string block = fmt::format("{}", lora.rotation_block > 0 ? lora.rotation_block : kind.block);
  std::string text = kind.is_lora()        ? fmt::format("r={} alpha={:g} on {}", lora.rank, lora.alpha, on)
                     : kind.is_prompt()    ? fmt::format("of {} virtual tokens", lora.rank)
                     : kind.is_on_output() ? fmt::format("r={} on the output of each MLP", lora.rank)
                     : !kind.has_rank()    ? (kind.block > 0 ? "in blocks of " + block + " on " : "on ") + on
                     : kind.block > 0      ? fmt::format("r={} in blocks of {} on {}", lora.rank, block, on)
                                           : fmt::format("r={} on {}", lora.rank, on);
  if (!trained.empty()) text += fmt::format(" of {} alone", fmt::join(trained, ", "));
  if (lora.dropout > 0) text += fmt::format(", dropout {:g}", lora.dropout);
  if (lora.adapter_dtype) text += fmt::format(", {} adapters", to_string(*lora.adapter_dtype));
  if (lora.base_dtype) text += fmt::format(", {} base", to_string(*lora.base_dtype));
  if (lora.is_dora) text += ", DoRA";
  if (!lora.modules_to_save.empty()) text += fmt::format(", trains {} as copies", fmt::join(lora.modules_to_save, "+"));
  return text;
}

std::string method_text(const Recipe& recipe) {
  if (recipe.method == Method::Full && !recipe.trained.empty())
    return fmt::format("training of {} {}", fmt::join(recipe.trained, ", "),
                       recipe.trained_in_turn ? "in this step, of others in other steps" : "alone");
  if (recipe.method == Method::Full) return "full fine-tuning";
  const QuantSpec& quant = recipe.quant;
  std::string text = fmt::format("{}{} {}", recipe.method == Method::Qlora ? "Q" : "", recipe.lora.kind->title,
                                 adapters_text(recipe.lora, recipe.trained));
  if (quant.kind == BaseQuant::Nf4)
    return text +
           fmt::format(", NF4 base in blocks of {}{}", quant.block_size,
                       quant.double_quant ? ", doubly quantised" : "") +
           (quant.quantises_experts ? ", experts too" : "");
  if (quant.kind == BaseQuant::Int8) return text + ", 8-bit base";
  if (quant.kind != BaseQuant::None)
    text += fmt::format(", {} base in {} bits", format_of(quant.kind).text, quant.bits());
  return text;
}

/// "dpo, reference: adapter switched off; ": what the model is trained for.
std::string objective_text(const Recipe& recipe, const EstimateRequest& request) {
  if (recipe.objective.method.is_usual()) return "";
  std::string text(recipe.objective.method->name);
  if (const Reference reference = reference_of(recipe); reference != Reference::None)
    text += fmt::format(" with the reference as {}", to_string(reference));
  if (request.teacher) text += fmt::format(" from {}", request.teacher->name);
  return text + ", ";
}

/// ", but for its experts, 95 % of the weights": of a quantised base, those that the trainer leaves in 16 bit.
std::string unquantised_text(const TrainedModel& model, const Recipe& recipe) {
  const double share = unquantised_experts(model, recipe);
  return share < 0.01 ? "" : fmt::format(", but for its experts in 16 bit, {:.0f} % of the weights", 100 * share);
}

std::string training_text(const EstimateAnswer& answer) {
  const TrainedModel& model = answer.result.model;
  const Recipe& recipe = answer.request.recipe;
  return objective_text(recipe, answer.request) +
         fmt::format("{}{}: {} trainable ({:.3g} %); {}, {}{}", method_text(recipe), unquantised_text(model, recipe),
                     format_count(model.trainable), 100.0 * double(model.trainable) / double(model.parameters),
                     to_string(recipe.precision), optimizer_text(recipe),
                     recipe.optimizer_in_backward ? " in backward" : "") +
         (recipe.qat == Qat::None ? "" : fmt::format(", {} fake quantisers", to_string(recipe.qat)));
}

std::string sequence_text(const Recipe& recipe, std::int64_t stated_seq_len) {
  const std::string tokens = format_grouped(recipe.seq_len);
  if (stated_seq_len > 0)
    return fmt::format("up to {} tokens (the longest row's; {} are allowed)", tokens, format_grouped(stated_seq_len));
  return recipe.packing == Packing::Dynamic ? fmt::format("up to {} tokens", tokens)
                                            : fmt::format("{} {} tokens", tokens, to_string(recipe.packing));
}

/// micro batch × tokens × accumulation × replicas = global batch
std::string batch_text(const EstimateAnswer& answer) {
  const Recipe& recipe = answer.request.recipe;
  const std::int64_t most = answer.request.rollout.step_tokens;
  const Recipe filled = most > 0 ? filled_job(Job(answer.request, answer.shown->strategy)).recipe() : recipe;
  std::string text =
      filled.micro_batch == recipe.micro_batch
          ? fmt::format("micro batch {} × {}", recipe.micro_batch, sequence_text(recipe, answer.stated_seq_len))
          : fmt::format("micro batch of up to {} tokens, {} rows on average", format_grouped(most), filled.micro_batch);
  if (filled.grad_accum > 1) text += fmt::format(" × {} accumulated", filled.grad_accum);
  const StrategyEstimate& e = *answer.shown;
  const std::int64_t replicas = e.strategy.mesh.batch_replicas();
  if (replicas > 1) text += fmt::format(" × {} GPUs", replicas);
  const std::int64_t answers = recipe.objective.answers();
  if (answers > 1) text = fmt::format("{} answers × {}", answers, text);
  return text + fmt::format(" = {} {}{} per step ({})", format_grouped(e.global_batch),
                            answers == 1   ? "sequence"
                            : answers == 2 ? "pair"
                                           : "group",
                            e.global_batch == 1 ? "" : "s", e.strategy.name);
}

std::string offload_text(const Offload& offload) {
  std::vector<std::string> parts;
  if (offload.optimizer != OffloadTarget::None)
    parts.push_back(fmt::format("optimizer to {}", to_string(offload.optimizer)));
  if (offload.params != OffloadTarget::None)
    parts.push_back(fmt::format("parameters to {}", to_string(offload.params)));
  if (offload.activations) parts.emplace_back("activations to cpu");
  return parts.empty() ? "no offload" : "offload " + fmt::format("{}", fmt::join(parts, ", "));
}

/// The kernel that is counted; where the question named another, why.
std::string attention_text(const EstimateAnswer& answer) {
  const ModelSpec& model = answer.request.model;
  const AttentionKernel asked = answer.request.recipe.attention;
  const bool attends_anywhere = model.num_layers_with(attends) + model.num_layers_with(attends_to_images) > 0 ||
                                model.num_encoder_layers > 0 || model.vision.is_present();
  if (!attends_anywhere) return "no attention";
  const AttentionKernel used = attention_kernel_used(model, answer.request.recipe, answer.result.framework);
  return used == asked ? fmt::format("{} attention", to_string(used))
                       : fmt::format("{} attention (no {} in {})", to_string(used), to_string(asked), model.model_type);
}

/// "; tokens to experts: by DeepEP, the fullest GPU 1.5 times the mean, at most 1.25 times an even share each".
std::string routing_text(const Routing& routing) {
  std::vector<std::string> words;
  if (routing.dispatcher != Routing{}.dispatcher) words.push_back("by " + routing.dispatcher->title);
  if (routing.imbalance > 1) words.push_back(fmt::format("the fullest GPU {:g} times the mean", routing.imbalance));
  if (routing.capacity)
    words.push_back(fmt::format("at most {:g} times an even share each{}", *routing.capacity,
                                routing.pads_to_capacity ? " (padded)" : ""));
  return words.empty() ? "" : fmt::format("; tokens to experts: {}", fmt::join(words, ", "));
}

std::string kernels_text(const EstimateAnswer& answer) {
  const Recipe& recipe = answer.request.recipe;
  std::string checkpointing(to_string(recipe.checkpointing));
  if (recipe.checkpointing == Checkpointing::EveryK)
    checkpointing = fmt::format("every {} layers", recipe.checkpoint_every);
  const std::string chunks = recipe.loss == LossKernel::Chunked ? fmt::format(" in {}", recipe.loss_chunks) : "";
  return fmt::format(
      "{}{}, {} loss{}{}{}; {}; {}{}", attention_text(answer),
      recipe.attention_groups > 1 ? fmt::format(" in {} shifted groups", recipe.attention_groups) : "",
      to_string(recipe.loss), chunks, recipe.torch_compile ? ", torch.compile" : "",
      recipe.fp8_matmul ? ", fp8 matmuls" : "",
      recipe.checkpointing == Checkpointing::None ? "no checkpointing" : "checkpointing " + checkpointing,
      offload_text(recipe.offload), routing_text(recipe.routing));
}

/// "2 × RTX 4090 of 23.5 GiB + 2 × RTX 3090 of 23.6 GiB": neighbours alike are counted.
std::string gpus_text(const ClusterSpec& cluster) {
  std::string text;
  for (std::size_t i = 0; i < cluster.gpus.size();) {
    std::size_t end = cluster.gpus.behind(i);
    while (end < cluster.gpus.size() && cluster.gpus[end].id == cluster.gpus[i].id) end = cluster.gpus.behind(end);
    text += fmt::format("{}{} × {} of {}", text.empty() ? "" : " + ", end - i, cluster.gpus[i].name,
                        format_bytes(cluster.gpus[i].framework_memory));
    i = end;
  }
  return text;
}

std::string cluster_text(const EstimateRequest& request) {
  const ClusterSpec& cluster = request.cluster;
  std::string text = gpus_text(cluster);
  const std::int64_t own = engine_gpus(request, cluster.num_gpus());
  if (cluster.num_nodes() > 1)
    text += fmt::format(" on {} nodes (network {} per GPU)", cluster.num_nodes(), format_rate(cluster.inter.bandwidth));
  if (own > 0) text += fmt::format(" that train + {} of the engine = {}", own, cluster.num_gpus() + own);
  if (cluster.num_gpus() > 1 && !cluster.fabric_text.empty()) text += "; " + cluster.fabric_text;
  const auto price = request.price_per_gpu_hour ? request.price_per_gpu_hour : cluster.price_per_gpu_hour;
  return text + (price ? fmt::format("; {} per GPU hour", format_usd(*price)) : "; no price known");
}

}  // namespace

double unquantised_experts(const TrainedModel& model, const Recipe& recipe) {
  if (recipe.quant.kind == BaseQuant::None || model.parameters == 0) return 0;
  std::int64_t left = 0;
  for (std::size_t kind = 0; kind < model.layers.size(); ++kind)
    for (const StateTensor& tensor : model.layers[kind])
      if ((tensor.kind == StateKind::Frozen || tensor.kind == StateKind::FrozenEnd) &&
          model.weights.kinds[kind].tensors[tensor.tensor].is_routed)
        left += tensor.elements() * model.weights.num_of_kind(kind);
  return double(left) / double(model.parameters);
}

std::vector<Fact> question_facts(const EstimateAnswer& answer) {
  const ModelSpec& model = answer.request.model;
  const std::string id =
      model.id.empty() || model.id == model.name ? "" : fmt::format(" ({})", printable_line(model.id));
  return {{"Model", fmt::format("{}{}, {} parameters", model.name, id, format_count(answer.result.model.parameters))},
          {"Training", training_text(answer)},
          {"Batch", batch_text(answer)},
          {"Kernels", kernels_text(answer)},
          {"GPUs", cluster_text(answer.request)}};
}

std::string question_text(const EstimateAnswer& answer, const Screen& screen) {
  return render(question_facts(answer), 0, screen);
}

namespace {

std::string verdict_title(const EstimateAnswer& answer) {
  const std::string& asked = answer.request.strategy;
  if (asked == "auto") return answer.fits() ? "Recommended: " + answer.result.recommended->strategy : "Nothing fits";
  return asked + " " + fits_words(*answer.shown, answer.fits());
}

/// Gives what was chosen in the place of defaults, and what those give.
std::string choice_text(const EstimateAnswer& answer, const Screen& screen) {
  const std::string text = chosen_words(answer);
  return text.empty() ? "" : wrap("Chosen freely: " + text, prose_width(screen), "  ", "    ");
}

/// Says why this one was chosen, or what stands against the one that comes nearest.
std::string reason_text(const EstimateAnswer& answer, const Screen& screen) {
  const bool was_chosen = answer.fits() && answer.request.strategy == "auto";
  const std::string& reason = was_chosen ? answer.result.recommended->reason : answer.shown->why_not_yes;
  return reason.empty() ? "" : wrap(reason, prose_width(screen), "  ", "  ");
}

std::string better_text(const EstimateAnswer& answer, const Screen& screen) {
  std::string out;
  for (const std::string& line : better_lines(answer)) out += wrap(line, prose_width(screen), "  ", "    ");
  return out;
}

const char* advice_title(const EstimateAnswer& answer) {
  if (!answer.fits()) return "What would help";
  return answer.shown->fit != Fit::Yes ? "To be sure that it fits" : "Worth knowing";
}

std::string verdict_text(const EstimateAnswer& answer, const Screen& screen) {
  const std::vector<std::string>& advice = answer.result.recommended->advice;
  std::string out = heading(verdict_title(answer), screen) + reason_text(answer, screen) + choice_text(answer, screen) +
                    better_text(answer, screen);
  if (!advice.empty()) out += heading(advice_title(answer), screen) + points(advice, screen);
  return out;
}

}  // namespace

std::string estimate_text(const EstimateAnswer& answer, const Screen& screen) {
  if (screen.format == TableFormat::Csv) return estimate_csv(answer, screen);
  if (answer.is_brief)
    return first_screen_text(answer, screen) + (answer.rows ? rows_text(*answer.rows, screen) : "") +
           (screen.format != TableFormat::Text ? phases_text(*answer.shown, screen) : "");
  std::string out = question_text(answer, screen) + "\n" + strategies_text(answer, screen);
  if (answer.result.recommended) out += verdict_text(answer, screen);
  out += closest_look_text(answer, screen);
  if (answer.rows) out += rows_text(*answer.rows, screen);
  if (!answer.explanation.empty()) out += explanation_text(answer.explanation, screen);
  if (!answer.result.assumptions.empty())
    out += heading("Assumptions", screen) + points(answer.result.assumptions, screen);
  return out;
}

namespace {

constexpr int kWidestTerm = 40;

std::string line_text(const ExplainLine& line, int term_width, const Screen& screen) {
  const std::string hanging(std::size_t(2 + term_width + 2), ' ');
  if (width_of(line.term) <= term_width)
    return wrap(line.value, prose_width(screen), "  " + pad_right(line.term, term_width) + "  ", hanging);
  return wrap(line.term, prose_width(screen), "  ", "    ") + wrap(line.value, prose_width(screen), hanging, hanging);
}

/// A source that holds for several lines stands once, below the last of them.
std::string section_text(const ExplainSection& section, const Screen& screen) {
  int term_width = 0;
  for (const ExplainLine& line : section.lines)
    term_width = std::max(term_width, std::min(kWidestTerm, width_of(line.term)));
  std::string out = heading(section.title, screen);
  for (std::size_t i = 0; i < section.lines.size(); ++i) {
    const ExplainLine& line = section.lines[i];
    out += line_text(line, term_width, screen);
    const bool is_shared = i + 1 < section.lines.size() && section.lines[i + 1].source == line.source;
    if (!line.source.empty() && !is_shared)
      out += paint(wrap(line.source, prose_width(screen), "      ", "      "), Ink::Faint, screen);
  }
  return out;
}

}  // namespace

std::string explanation_text(const std::vector<ExplainSection>& sections, const Screen& screen) {
  std::string out;
  for (const ExplainSection& section : sections) out += section_text(section, screen);
  return out;
}

}  // namespace gpuplan
