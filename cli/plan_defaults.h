// Settings of a plan that no flag gives: those of the trainer, of the cards and of the data. Each says in a note what
// it set.
#pragma once

namespace CLI {
class App;
}

namespace gpuplan {

struct EstimateRequest;
struct PlanQuestion;

/// A trainer's defaults apply where --framework names it. What PEFT's preparation of a quantised base switches on
/// applies in any case.
void set_defaults(const CLI::App& app, PlanQuestion& question);

/// A recipe of bf16 by default trains in fp16 on cards whose tensor cores lack bf16.
void set_precision(PlanQuestion& question);

/// --global-batch as passes per optimizer step of every rank that has sequences of its own.
void set_global_batch(const CLI::App& app, EstimateRequest& request);

/// Lengths, packing and loss of a method that generates, and as many answers as the generations of a prompt divide.
/// `has_files`: the batch is theirs. Throws InputError for settings of generation beside another method.
void set_rollout(const CLI::App& app, PlanQuestion& question, bool has_files);

/// Rows are longer than usual where their images need it and --seq-len does not say how long they are.
void set_length(const CLI::App& app, PlanQuestion& question);

/// Rows that nobody gives a length are no longer than a table of positions.
void fit_positions(const CLI::App& app, PlanQuestion& question);

/// Takes the number of rows that hold --tokens in all epochs.
void set_rows(const CLI::App& app, PlanQuestion& question);

/// Rows that no sequence holds are spread over several, which is not what trainers do that do not pack.
void note_long_rows(PlanQuestion& question);

}  // namespace gpuplan
