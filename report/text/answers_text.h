// Every answer for people.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "diagnose/machine_check.h"
#include "report/answers.h"
#include "report/catalogue_report.h"
#include "report/text/gantt.h"
#include "report/text/screen.h"
#include "report/text/table.h"
#include "report/text/text.h"
#include "search/largest.h"
#include "validate/report.h"

namespace gpuplan {

// The answer of `gpuplan estimate` for people.

/// Everything: what was asked, all strategies, the one to take, what was assumed; with --explain the terms.
std::string estimate_text(const EstimateAnswer& answer, const Screen& screen);

/// Its parts, in this order.
std::vector<Fact> question_facts(const EstimateAnswer& answer);
std::string question_text(const EstimateAnswer& answer, const Screen& screen);  // model, training, batch, GPUs
/// "fits", "fits tightly", "fits if the host has 441 GiB", "does not fit".
std::string fits_words(const StrategyEstimate& shown, bool fits);

/// "--loss fused --checkpointing full (defaults: mp, 1,741 tokens/s, $14.24)"; empty where nothing was chosen.
std::string chosen_words(const EstimateAnswer& answer);

/// "layers spread over the GPUs, which take turns" of mp: what a name means that not all trainers have; empty of
/// others.
std::string meaning_of(const Strategy& strategy);
/// "mp: layers spread over the GPUs, which take turns; sent low, ...": short words of the table but for those of the
/// strategy that is shown.
std::string words_of_table(const EstimateAnswer& answer, const std::vector<const StrategyEstimate*>& rows);
/// "mp (layers spread over the GPUs, which take turns)".
std::string title_in_words(const Strategy& strategy);
/// " by FSDP1", where nobody asked for the older version and what is trained makes it so; else empty.
std::string older_fsdp_words(const EstimateRequest& request, const Strategy& strategy);

/// One line for each better way to run what was given.
std::vector<std::string> better_lines(const EstimateAnswer& answer);

/// The verdict of estimate, with time and cost of what fits, in one line however wide.
std::string brief_text(const EstimateAnswer& answer);
/// The answer of estimate on one screen: at most kFirstScreen lines.
inline constexpr int kFirstScreen = 21;
std::string first_screen_text(const EstimateAnswer& answer, const Screen& screen);

/// Gives the share of a quantised base that the trainer leaves in 16 bit, being experts that are one parameter.
double unquantised_experts(const TrainedModel& model, const Recipe& recipe);

/// Gives what the process holds; of one that may run, without the cache that its allocator gives back where the GPU has
/// no room for it. Of one that does not, as if there were room for all of it.
Bytes shown_memory(const StrategyEstimate& e);

/// A row for each of these strategies; `bar_width` of the column of memory.
std::string strategies_table_text(const EstimateAnswer& answer, const std::vector<const StrategyEstimate*>& rows,
                                  const Screen& screen);

/// A row for each strategy that is possible, in base units that a column names: for machines.
std::string estimate_csv(const EstimateAnswer& answer, const Screen& screen);

/// The reasons why strategies are not in the table, those alike together.
std::string not_applicable_text(const EstimateResult& result, const Screen& screen);

std::string strategies_text(const EstimateAnswer& answer,
                            const Screen& screen);  // the table, and what is not applicable
std::string closest_look_text(const EstimateAnswer& answer,
                              const Screen& screen);  // memory, time, limits of answer.shown
/// The phases of a step, one line each; empty of supervised fine-tuning.
std::string phases_text(const StrategyEstimate& e, const Screen& screen);
std::string explanation_text(const std::vector<ExplainSection>& sections, const Screen& screen);

/// Says how long the rows are, and what each way to fill sequences with them costs and gives.
std::string rows_text(const RowFit& rows, const Screen& screen);

// The answer of `gpuplan simulate` for people.

/// Everything: what was asked, how fast, where the step goes, what it waits for, the chart, neighbours, assumptions.
std::string simulation_text(const SimulationAnswer& answer, const GanttView& view, const Screen& screen);

/// Its parts. A part without content is empty text.
std::string speed_text(const SimulationAnswer& answer, const Screen& screen);      // step, tokens/s, MFU, time, cost
std::string step_shares_text(const Simulation& simulation, const Screen& screen);  // where the step goes
std::string streams_text(const Simulation& simulation, const Screen& screen);      // per GPU and stream
std::string critical_text(const Simulation& simulation, const Screen& screen);     // what the step waits for
std::string links_text(const Simulation& simulation, const Screen& screen);        // busiest links
std::string comparison_text(std::span<const SimulatedPlan> plans, const Screen& screen);  // one row per strategy
std::string scaling_text(std::span<const SimulatedPlan> plans, const Screen& screen);     // one row per number of GPUs

// The answer of `gpuplan diagnose` for people.

/// Measured beside predicted, what explains the gap, and with a trace the parts of the step.
std::string diagnosis_text(const DiagnosisAnswer& answer, const Screen& screen);

/// Its parts, which the page has, too: "2.00 s a step measured, 1.10 s predicted (…): …"; what a cause would make of
/// the prediction; why no cause is named, or ""; the parts of the step; how the question was understood.
std::vector<std::string> gap_lines(const Diagnosis& d);
std::string prediction_with(const Explanation& e, const Diagnosis& d);
std::string no_explanation(const Diagnosis& d);
Table parts_table(const StepParts& measured, const StepParts& predicted);
std::vector<std::string> reading_notes(const DiagnosisAnswer& answer);

// The answer of `gpuplan doctor` for people: what stands in the way, then what the machine has.

std::string machine_check_text(const MachineCheck& check, const Screen& screen);

// The answer of `gpuplan plan` as text: a sentence, the rows of the frontier with their commands, the knobs, and what
// was searched.

/// "price: $2.69 per GPU and hour, runpod, 2026-05-22 (its pricing page)"; empty without a price.
std::string price_words(const PlanRow& row);
/// " with 15 min of set-up (--overhead)", behind a time that has it; empty where nothing is added.
std::string set_up_words(Seconds overhead);
/// Gives what --overhead adds; empty where nothing is added.
std::string overhead_words(const SearchQuestion& question);
/// " at full length (--tokens-per-row)" of rows whose number is known and whose lengths are not; empty else.
std::string full_length_words(const EstimateRequest& request, bool has_rows);
/// "Rent 2x H100 SXM at runpod and train with fsdp: 4 h 10 min, $38."
std::string plan_sentence(const PlanAnswer& answer);

/// "21 % less time, 31.0 GiB more: does not fit".
std::string knob_effect(const Knob& knob, const PlanRow& plan);

/// "412,345 plans in 3.1 s; rejected: 310,000 do not fit, …".
std::string searched_text(const SearchAnswer& found);
/// Plans that were searched, without combinations that no trainer or machine has.
std::int64_t num_possible(const SearchAnswer& found);

std::string plan_text(const PlanAnswer& answer, const Screen& screen);

/// Models by context, each cell the method that carries it: "LoRA", "QLoRA*" with offload, "full?" tightly. Brief: as
/// many as one screen holds.
std::string largest_text(const LargestTable& table, const SearchQuestion& question, bool is_brief,
                         const Screen& screen);
std::string carried_word(const Carried& carried);

// The answer of `gpuplan validate` for people, and the page docs/accuracy.md.

std::string validation_text(const ValidationAnswer& answer, const Screen& screen);

/// Markdown, the same for the same points and data: no dates, no paths.
std::string validation_report(const ValidationAnswer& answer, const Peers& peers);

// Models and GPUs of the catalogue for people: lists, and one explained.

std::string models_text(const std::vector<CatalogueEntry>& entries, const Screen& screen);
std::string model_text(const ModelReport& report, const Screen& screen);
std::string gpus_text(const std::vector<GpuReport>& reports, const Screen& screen);
std::string gpu_text(const GpuReport& report, const Screen& screen);
std::string machines_text(const std::vector<MachineReport>& reports, const Screen& screen);
std::string machine_text(const MachineReport& report, const Screen& screen);

}  // namespace gpuplan
