// The fields of the answers of `gpuplan run`, listed once: report/json/estimate_fields.h.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/archive.h"
#include "ecosystem/engine_job.h"
#include "report/json/common_fields.h"
#include "run/engine_report.h"
#include "run/preflight.h"
#include "run/run_report.h"

namespace gpuplan {

/// `value` of every row that a report may have. These three are in all of them.
template <class Archive, class Value>
void list_report_rows(Archive& f, const std::vector<std::string>& names, const std::vector<PredictedMeasured>& rows,
                      const char* unit, Value value, NumberRange range) {
  constexpr std::array<std::string_view, 3> kInAll{"tensors", "process", "step"};
  for (const std::string& name : names) {
    const auto row = std::ranges::find(rows, name, &PredictedMeasured::name);
    const PredictedMeasured shown = row == rows.end() ? PredictedMeasured{} : *row;
    const auto list = [&](auto& inner) { inner(name + unit, value(shown), range); };
    if (std::ranges::count(kInAll, name) > 0)
      list(f);
    else
      f.all_if(row != rows.end(), list);
  }
}

/// Memory, then time.
template <class Archive, class Report, class Value>
void list_reported(Archive& f, const char* key, const Report& r, Value value, NumberRange range = {},
                   const char* meaning = nullptr) {
  const auto list = [&](auto& inner) {
    list_report_rows(inner, memory_row_names(), r.memory, "_bytes", value, range);
    list_report_rows(inner, time_row_names(), r.time, "_seconds", value, range);
  };
  f.object(key, list, meaning);
}

template <class Archive, class Report>
void list_trained(Archive& f, const Report& r) {
  f("model", r.request.model.name);
  f("strategy", r.strategy.name);
  f("cluster", r.request.cluster.name);
}

/// Left out when no step was made or seen.
template <class Archive, class Report>
void list_losses(Archive& f, const Report& r) {
  const std::vector<StepMetrics>& steps = r.outcome.steps;
  f.all_if(!steps.empty(), [&](auto& inner) {
    inner("first_loss", finite_or_null(steps.empty() ? 0 : steps.front().loss), kAnyNumber);
    inner("last_loss", finite_or_null(steps.empty() ? 0 : steps.back().loss), kAnyNumber);
    inner("tokens_per_second", r.tokens_per_second, "of the whole job, at the median step");
  });
}

template <class Archive>
void list_run(Archive& f, const RunReport& r) {
  list_trained(f, r);
  f("first_step", r.outcome.first_step);
  f("last_step", r.outcome.last_step);
  f("stopped", r.outcome.was_stopped, "by Ctrl-C");
  list_losses(f, r);
  list_reported(f, "predicted", r, [](const PredictedMeasured& c) { return c.predicted; });
  list_reported(f, "measured", r, [](const PredictedMeasured& c) { return c.measured; });
  const auto error = [](const PredictedMeasured& c) {
    return c.measured > 0 ? finite_or_null(c.error()) : std::nullopt;
  };
  list_reported(f, "error", r, error, kAnyNumber, "predicted / measured - 1; null where nothing was measured");
}

template <class Archive>
void list_engine_run(Archive& f, const EngineReport& r) {
  list_trained(f, r);
  f("engine", r.engine);
  f("exit_code", r.outcome.code, IntRange{0, 3});
  f("stopped", r.outcome.was_stopped, "by Ctrl-C");
  f("steps", r.outcome.steps.size(), "that were seen");
  list_losses(f, r);
  list_reported(f, "predicted", r, [](const PredictedMeasured& c) { return c.predicted; });
  list_reported(
      f, "measured", r, [](const PredictedMeasured& c) { return c.measured; }, {}, "0: not known");
}

template <class Archive>
void list_fields(Archive& f, const ExportedFile& file) {
  f("name", file.name);
  f("content", file.content);
}

template <class Archive>
void list_fields(Archive& f, const EngineProcess& process) {
  f("words", process.command);
  f.named("variables", process.variables);
}

template <class Archive>
void list_fields(Archive& f, const Check& check) {
  f("what", check.what);
  f("found", check.found);
  f("problem", check.problem, "empty: all is well");
}

/// Lists a refused job: without files, commands and checks.
template <class Archive>
void list_dry_run(Archive& f, const EngineQuestion& question, const EngineJob& job, const EngineRun& run,
                  const std::vector<Check>& checks) {
  f("engine", question.engine);
  f("folder", question.folder.string());
  f("refusal", text_or_null(job.refusal), "null: the engine can train the plan");
  f("nearest", text_or_null(job.nearest), "with a refusal: what comes nearest and can be had");
  f("files", job.files);
  f("commands", run.processes);
  f("checks", checks);
}

}  // namespace gpuplan
