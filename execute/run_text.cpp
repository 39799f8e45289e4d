#include "execute/run_text.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>
#include <unistd.h>

#include "base/files.h"
#include "base/unit_text.h"
#include "report/answers.h"
#include "report/text/amounts.h"
#include "report/text/table.h"
#include "report/text/text.h"
#include "report/trace/chrome_trace.h"

namespace gpuplan {
namespace {

std::string error_text(const PredictedMeasured& c) {
  return c.measured > 0 && c.predicted > 0 ? fmt::format("{:+.1f} %", 100 * c.error()) : "-";
}

/// "head_and_loss" as people say it.
std::string words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

template <class Text>
Table comparison_table(const char* title, const std::vector<PredictedMeasured>& rows, Text text) {
  Table table{.columns = {{title}, {"predicted", Align::Right}, {"measured", Align::Right}, {"error", Align::Right}},
              .rows = {}};
  for (const PredictedMeasured& c : rows) {
    const Ink ink = &c == &rows.back() ? Ink::Strong : Ink::Plain;
    const std::string measured = c.measured > 0 || c.predicted == 0 ? text(c.measured) : "-";
    table.add({{words(c.name), ink}, {text(c.predicted), ink}, {measured, ink}, {error_text(c), ink}});
  }
  return table;
}

std::string bytes_text(double bytes) { return format_bytes(Bytes{std::int64_t(bytes)}); }
std::string seconds_text(double seconds) { return format_short_duration(Seconds{seconds}); }

std::string what_was_trained(const RunReport& r) {
  const Recipe& recipe = r.request.recipe;
  const auto& steps = r.outcome.steps;
  std::string text =
      fmt::format("{}: {} on {}, {}", r.request.model.name, recipe.is_adapter() ? "adapters" : "all weights",
                  r.request.cluster.name, r.strategy.name);
  if (steps.empty()) return text + "\n";
  text += fmt::format("\nsteps {} to {}: loss {:.4f} to {:.4f}", r.outcome.first_step, r.outcome.last_step,
                      steps.front().loss, steps.back().loss);
  return text + fmt::format(", {:.0f} tokens/s (median)\n", r.tokens_per_second);
}

std::string where_saved(const RunReport& r, const TrainingOptions& o) {
  if (o.output.empty()) return "nothing was saved: --output DIR keeps it\n";
  if (r.outcome.was_stopped)
    return fmt::format("stopped after step {}; go on with --resume --output {}\n", r.outcome.last_step,
                       o.output.string());
  return fmt::format("{} saved in {}\n", r.request.recipe.is_adapter() ? "adapter" : "model", o.output.string());
}

}  // namespace

RunProgress::RunProgress(Console& console, bool is_quiet)
    : console_(console),
      is_quiet_(is_quiet),
      is_terminal_(is_terminal(StandardStream::Err)),
      screen_(screen_of(StandardStream::Err)) {}

void RunProgress::show(const StepMetrics& m, std::int64_t total_steps) {
  if (is_quiet_ && !is_terminal_) return;
  if (first_ == 0) first_ = m.step;
  elapsed_ += m.duration;
  const Seconds left = double(total_steps - m.step) / double(m.step - first_ + 1) * elapsed_;
  const std::string line = fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  {}  {} left", m.step, total_steps,
                                       m.loss, m.tokens_per_second, format_bytes(m.memory), format_duration(left));
  if (is_terminal_) {
    console_.err << "\r\033[K" << line << std::flush;
    return;
  }
  const std::int64_t tenths = 10 * m.step / total_steps;
  if (tenths == tenths_) return;
  tenths_ = tenths;
  console_.err << "gpuplan: " << line << "\n";
}

void RunProgress::finish() {
  if (is_terminal_) console_.err << "\r\033[K" << std::flush;
}

std::string run_text(const RunReport& r, const std::vector<std::string>& notes, const TrainingOptions& options,
                     const Screen& screen) {
  std::string text = what_was_trained(r) + where_saved(r, options) + "\n";
  text += render(comparison_table("memory of rank 0", r.memory, bytes_text), screen) + "\n";
  text += render(comparison_table("time of one step", r.time, seconds_text), screen) + "\n";
  const bool is_calibrated = r.request.profile && r.request.profile->measured;
  if (r.request.profile) text += fmt::format("profile {}\n", r.request.profile->id);
  if (!is_calibrated) text += "times are predicted without calibration: `gpuplan calibrate` measures this machine\n";
  for (const auto& list : {notes, r.outcome.notes})
    for (const std::string& note : list) text += wrap(note, screen.width, "- ", "  ");
  return text;
}

std::string engine_text(const EngineReport& r, const std::vector<std::string>& notes, const Screen& screen) {
  const auto& steps = r.outcome.steps;
  std::string text = fmt::format("{}: {} on {}, {} by {}\n", r.request.model.name,
                                 r.request.recipe.is_adapter() ? "adapters" : "all weights", r.request.cluster.name,
                                 r.strategy.name, r.engine);
  if (!steps.empty())
    text += fmt::format("steps {} to {}: loss {:.4f} to {:.4f}{}\n", steps.front().step, steps.back().step,
                        steps.front().loss, steps.back().loss,
                        r.tokens_per_second > 0 ? fmt::format(", {:.0f} tokens/s (median)", r.tokens_per_second) : "");
  text += "\n" + render(comparison_table("memory of a GPU", r.memory, bytes_text), screen) + "\n";
  text += render(comparison_table("time of one step", r.time, seconds_text), screen) + "\n";
  for (const std::string& note : notes) text += wrap(note, screen.width, "- ", "  ");
  return text;
}

std::string run_trace(const RunReport& r) {
  SimulationAnswer answer;
  answer.request = r.request;
  answer.result.model.weights.order.resize(std::size_t(r.num_layers));
  answer.plan.estimate = r.estimate;
  answer.plan.simulation = r.measured;
  return chrome_trace(answer);
}

}  // namespace gpuplan
