// What the commands estimate, simulate and validate have to show, as data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnose/diagnosis.h"
#include "planner/accuracy.h"
#include "planner/estimate.h"
#include "planner/explain.h"
#include "report/text/screen.h"
#include "search/answer.h"
#include "search/row_fit.h"
#include "sim/simulation.h"
#include "validate/constants.h"
#include "validate/cross_validation.h"
#include "validate/reliability.h"
#include "validate/report.h"
#include "validate/speed_report.h"

namespace gpuplan {

struct EstimateAnswer {
  EstimateRequest request;
  EstimateResult result;
  const StrategyEstimate* shown = nullptr;  // of result: recommended or asked for, else nearest to fitting
  std::vector<ExplainSection> explanation;  // with --explain
  bool has_details = false;                 // --details
  bool is_brief = false;                    // one screen of text
  bool has_rows = true;                     // false: how much is trained on is assumed
  std::string data_words;                   // "500 steps of 32 sequences", where files count those; empty: they do not
  std::int64_t stated_seq_len = 0;          // tokens that a sequence may have, where no row has as many; 0: some may
  std::size_t num_notes = 0;                // of the assumptions: about how the question was understood
  Seconds overhead;                         // part of every time and cost
  double steps_per_logged = 1;              // optimizer steps that the trainer logs as one step
  std::string caveat;                       // of the assumptions, the one that can turn the answer; empty: none can
  std::optional<RowFit> rows;               // with --lengths or --data, of the strategy that is shown

  bool fits() const { return result.recommended && !result.recommended->strategy.empty(); }
};

/// Says why no strategy is possible, by the flag that stands in the way. Requires: none is in focus.
InputError no_strategy(const EstimateResult& result);

/// Holds what `gpuplan plan` shows.
struct PlanAnswer {
  SearchQuestion question;
  SearchAnswer found;
  std::vector<std::string> notes;  // how the question was understood
  std::string largest;             // what --max asked for, in a sentence; empty: nothing
  std::string command;             // the command line, as typed
  bool is_brief = false;           // one screen
  bool has_rows = true;            // false: how much is trained on is assumed
  std::string data_words;          // "500 steps of 32 sequences", where files count those; empty: they do not
};

struct SimulationAnswer {
  EstimateRequest request;
  EstimateResult result;  // model, framework, profile and ranges; strategies may be empty
  SimOptions options;
  SimulatedPlan plan;                     // looked at closely
  std::vector<SimulatedPlan> comparison;  // other strategies beside it, in the order to show; may be empty
  std::vector<SimulatedPlan> scaling;     // the same strategy on more and more GPUs; may be empty
  std::vector<std::string> assumptions;
  std::vector<std::string> not_compared;  // those of the assumptions that say why a row of these is missing or the same
  std::string command;                    // the command line, as typed
  std::string topology_svg;               // a picture of the machine for the report; may be empty
  bool is_brief = false;                  // one screen
  Seconds set_up;                         // of plan.total: before training, and paid for
};

/// Holds what `gpuplan diagnose` shows.
struct DiagnosisAnswer {
  Diagnosis diagnosis;
  std::vector<std::string> sources;  // of the measurements: which file, how much of it
  std::vector<std::string> notes;    // how the question was understood
  bool is_brief = false;             // one screen
};

struct ValidationAnswer {
  ValidationAnswer() = default;
  ValidationAnswer(ValidationAnswer&&) = default;  // not copied: results would point into the other's points
  ValidationAnswer& operator=(ValidationAnswer&&) = default;

  std::vector<Point> points;
  std::vector<PointResult> results;  // point into `points`
  MemorySummary memory;
  SpeedSummary speed;
  CrossValidation cross_validation;
  std::vector<PointResult> not_seen;  // the same points, predicted by fits without their sources
  MemorySummary memory_not_seen;
  SpeedSummary speed_not_seen;
  Accuracy ranges;          // that these points give, not seen
  Reliability reliability;  // of the verdicts on memory
  std::vector<EmpiricalConstant> constants;
  std::optional<Grouping> by;
  std::optional<std::vector<PickSummary>> picks;  // memory, speed
  std::size_t num_worst = 5;                      // shown in the text
};

/// Judges the points and sums up.
ValidationAnswer validate_points(std::vector<Point> points, const TimeRefinement& refine = {});

}  // namespace gpuplan
