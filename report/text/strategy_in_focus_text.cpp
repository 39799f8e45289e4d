// One strategy closely: what fills the GPU and when, the time of a step, how far the recipe can be pushed, what saving
// costs.
#include <algorithm>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/phase_lines.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

constexpr int kLookWidth = 19, kCategory = 19;

/// Categories that are not empty, largest first, with bars that add up to the whole.
std::string breakdown_text(const StrategyEstimate& e, const std::optional<AccuracyRange>& range, const Screen& screen) {
  std::vector<Category> order;
  for (int c = 0; c < kNumCategories; ++c)
    if (e.memory[std::size_t(c)].count > 0) order.push_back(Category(c));
  std::ranges::stable_sort(order,
                           [&](Category a, Category b) { return e.memory[std::size_t(a)] > e.memory[std::size_t(b)]; });
  std::string out;
  for (const Category c : order) {
    const Bytes bytes = e.memory[std::size_t(c)];
    const double share = bytes / e.tiers.process;
    out +=
        fmt::format("  {} {} {}  {:3.0f} %\n", pad_right(std::string(in_words(c)), kCategory),
                    paint(bar(share, kLookWidth), Ink::Accent, screen), pad_left(format_bytes(bytes), 9), 100 * share);
  }
  const std::string ends = with_range(e.tiers.process, range).substr(format_bytes(e.tiers.process).size());
  return out + paint(fmt::format("  {} {} {}{}  of {}\n", pad_right("in all", kCategory), std::string(kLookWidth, ' '),
                                 pad_left(format_bytes(e.tiers.process), 9), ends, format_bytes(e.tiers.usable)),
                     Ink::Strong, screen);
}

std::string peak_text(const StrategyEstimate& e) {
  constexpr std::size_t kShown = 3;
  std::string text = e.peak_instant;
  for (std::size_t i = 0; i < std::min(kShown, e.items.size()); ++i)
    text += fmt::format("{} {} {}", i == 0 ? "; largest:" : ",", e.items[i].name, format_bytes(e.items[i].bytes));
  return text;
}

std::string tiers_text(const MemoryTiers& tiers) {
  return fmt::format("tensors {}, reserved by the allocator {}, process (nvidia-smi) {}; the GPU offers {}",
                     format_bytes(tiers.tensors), format_bytes(tiers.reserved), format_bytes(tiers.process),
                     format_bytes(tiers.capacity));
}

std::string time_text(const StrategyEstimate& e, const std::optional<AccuracyRange>& range) {
  std::string text = fmt::format("{}: compute {}", with_range(e.time.step, range), format_duration(e.time.compute));
  if (e.strategy.mesh.world() > 1)
    text += fmt::format(", communication {} ({} of the step is not compute)", format_duration(e.time.communication),
                        format_duration(e.time.exposed));
  return text +
         fmt::format("; kernel launches: {} of host time; MFU {:.0f} %", format_duration(e.time.host), 100 * e.mfu);
}

std::string range_text(const AccuracyRange& r, const char* what) {
  const std::string measured = r.unmeasured.empty()
                                   ? fmt::format("{}, {} points of {} sources", r.cell, r.num_points, r.num_sources)
                                   : fmt::format("wider than for {}: no measured run with {}", r.cell, r.unmeasured);
  return fmt::format("within -{:.0f} % to +{:.0f} % of the {} ({})", 100 * (1 - r.low), 100 * (r.high - 1), what,
                     measured);
}

/// Gives what the brackets mean.
std::string accuracy_text(const StrategyEstimate& e) {
  if (!e.memory_range || !e.time_range) return "";
  return fmt::format("80 % of measurements are {}, and {}", range_text(*e.memory_range, "memory shown"),
                     range_text(*e.time_range, "step time"));
}

std::string total_text(const EstimateAnswer& answer) {
  const StrategyEstimate& e = *answer.shown;
  if (!e.total) return "";
  std::string text =
      fmt::format("{} for {:g} epoch{} of {} steps", format_duration(*e.total), answer.request.dataset.epochs,
                  answer.request.dataset.epochs == 1 ? "" : "s", format_grouped(e.steps_per_epoch));
  return text + (e.cost_usd ? fmt::format(", {} on {} GPU{}", format_usd(*e.cost_usd), e.num_gpus_used,
                                          e.num_gpus_used == 1 ? "" : "s")
                            : "");
}

std::string limits_text(const StrategyEstimate& e) {
  if (!e.max_micro_batch && !e.max_seq_len) return "";
  std::string text;
  if (e.max_micro_batch) text = fmt::format("micro batch {}", format_grouped(*e.max_micro_batch));
  if (e.max_seq_len)
    text += fmt::format("{}{} tokens per sequence", text.empty() ? "" : ", or ", format_grouped(*e.max_seq_len));
  return text;
}

std::string host_text(const HostBytes& host) {
  std::string text = fmt::format("{} to load ({} when every rank reads a full copy)", format_bytes(host.load_efficient),
                                 format_bytes(host.load));
  if (host.step.count > 0) text += fmt::format(", {} in training", format_bytes(host.step));
  if (host.nvme.count > 0) text += fmt::format(", {} on NVMe", format_bytes(host.nvme));
  if (host.capacity.count > 0) text += fmt::format("; the node has {}", format_bytes(host.capacity));
  return text + (host.fits ? "" : ": too little");
}

std::string save_text(const SaveCost& save) {
  std::string text = fmt::format("{} on disk, {} with optimizer states", format_bytes(save.disk),
                                 format_bytes(save.disk_with_optimizer));
  return text +
         (save.device_peak.count > 0 ? fmt::format("; gathers up to {} on a GPU", format_bytes(save.device_peak)) : "");
}

/// The moments besides training steps; all with --details, else those that need more than a step.
std::string peaks_text(const EstimateAnswer& answer) {
  const StrategyEstimate& e = *answer.shown;
  const Bytes step = e.training_process();
  std::string text;
  const auto add = [&](const PhasePeak& phase, Bytes host) {
    const Bytes gpu = e.process_with(phase.tensors);
    if (!answer.has_details && gpu <= step) return;
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", describe(phase.phase, 0, 0),
                        phase.counts ? "" : " (where it is asked for)", format_bytes(gpu));
    if (answer.has_details && host.count > 0) text += fmt::format(" (host {})", format_bytes(host));
  };
  if (answer.has_details)
    text = fmt::format("training {}{}", format_bytes(step),
                       e.host.step.count > 0 ? fmt::format(" (host {})", format_bytes(e.host.step)) : "");
  for (const PhasePeak& phase : e.run_phases)
    add(phase, phase.phase == PeakInstant::Loading  ? e.host.load
               : phase.phase == PeakInstant::Saving ? e.host.save
                                                    : Bytes{});
  if (text.empty()) return text;
  if (e.peak.instant == PeakInstant::Evaluation)
    text += "; evaluation is the highest: --eval-batch and --eval-logits lower it";
  else if (e.peak.tensors > e.peak.step)
    text += fmt::format("; {} is the highest", describe(e.peak.instant, 0, 0));
  if (answer.request.eval_logits == EvalLogits::Kept)
    text += fmt::format("; each further evaluation batch keeps {} of logits", format_bytes(e.kept_logits));
  return text;
}

}  // namespace

namespace {

/// Gives what keeps a phase from being faster: the larger of computing, waiting for messages and launching kernels.
std::string_view bound_of(const StepTime& time) {
  constexpr double kMostly = 0.9;
  if (time.host.value > kMostly * time.step.value) return "launching";
  return time.exposed > time.compute ? "communication" : "compute";
}

}  // namespace

std::string phases_text(const StrategyEstimate& e, const Screen& screen) {
  if (e.phases.empty()) return "";
  Table table{.columns = {{"  phase"},
                          {"rows", Align::Right},
                          {"its model", Align::Right},
                          {"tensors", Align::Right},
                          {"time", Align::Right},
                          {"bound by"}},
              .rows = {}};
  for (const PhaseFigures& phase : e.phases)
    table.add({{"  " + phase.name},
               {phase.rows > 0 ? format_grouped(phase.rows) : ""},
               {phase.resident.count > 0 ? format_bytes(phase.resident)
                : phase.rows > 0         ? "shared"
                                         : ""},
               {phase.tensors.count > 0 ? format_bytes(phase.tensors) : ""},
               {format_duration(phase.time.step) + (phase.is_before_training ? " once"
                                                    : phase.beside.value > 0 ? " beside training"
                                                                             : "")},
               {phase.bound.empty() ? std::string(bound_of(phase.time)) : phase.bound}});
  const std::string lines = phase_lines_text(e, screen);
  return heading("Phases of a step", screen) + render(table, screen) + (lines.empty() ? "" : "\n" + lines);
}

std::string closest_look_text(const EstimateAnswer& answer, const Screen& screen) {
  const StrategyEstimate& e = *answer.shown;
  std::string out =
      heading(fmt::format("Memory of the fullest GPU under {}{}", e.strategy.name,
                          answer.fits() || answer.request.strategy != "auto" ? "" : ", which needs the least"),
              screen);
  out += breakdown_text(e, e.memory_range, screen) + "\n";
  return out +
         render(std::vector<Fact>{{"peak", peak_text(e)},
                                  {"measured as", tiers_text(e.tiers)},
                                  {"other peaks", peaks_text(answer)},
                                  {"fits up to", limits_text(e)},
                                  {"host memory", host_text(e.host)},
                                  {"step", time_text(e, e.time_range)},
                                  {"training", total_text(answer)},
                                  {"saving", save_text(e.save)},
                                  {"accuracy", accuracy_text(e)}},
                2, screen) +
         phases_text(e, screen);
}

}  // namespace gpuplan
