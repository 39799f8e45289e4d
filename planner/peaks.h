// Phases of a run besides training steps: loading, evaluation and saving. Each is what a rank holds at that time. The
// verdict is that of the highest phase, training among them; a run that dies "at eval" or "at save" finds its reason
// here.
#pragma once

#include <optional>
#include <vector>

#include "planner/job.h"
#include "planner/memory.h"

namespace gpuplan {

/// Tensors of a rank in a phase.
struct PhasePeak {
  PeakInstant phase{};
  Bytes tensors;
  Bytes spare;         // of them, what the host takes where the GPU has no room
  bool counts = true;  // in the verdict: a phase that nobody asked for is shown only
  Bytes needed() const { return tensors - spare; }
};

/// Holds what an evaluation batch needs, of a job whatever the rank: gathered weights, and the most of what is not
/// there at one time: the activations of one layer, logits (on the rank with the head), the cache of generation.
struct EvaluationNeeds {
  Bytes gathered, activations, logits, generation;
};
EvaluationNeeds evaluation_needs(const Job& job, const StepProgram& program);

/// Holds what loading needs beside the weights that a rank keeps, and before it has its part of them.
struct LoadingNeeds {
  Bytes beside, alone;
  Bytes spare;  // of either
};

/// Holds what the phases need, of a job whatever the rank. Evaluation is unset where nobody asked for it or wants to
/// see it.
struct PhaseNeeds {
  LoadingNeeds loading;
  std::optional<EvaluationNeeds> evaluation;
  Bytes gathered_to_save;
};
PhaseNeeds phase_needs(const Job& job);

/// The phases of a class of ranks in the order of a run, without training, which peaks at `step`.
std::vector<PhasePeak> phase_peaks(const Job& job, const PhaseNeeds& needs, const StepProgram& program,
                                   const RankClass& rank_class, const Peak& step);

/// Gives the units that are gathered at one time: the one in use, those fetched ahead, and a root that stays.
Bytes gathered_weights(const Job& job);

/// Gives what an engine that shards weights has whole on a GPU at one time outside of compute, while it loads and
/// saves: a unit, or one parameter where it gathers these. No bytes where nothing is sharded, and where ranks
/// read and write parts of their own. Sources: state_dict of
/// torch/distributed/fsdp/_state_dict_utils.py; partition_parameters.py (zero.Init) and
/// _zero3_consolidated_16bit_state_dict of DeepSpeed's engine.
Bytes gathered_at_once(const Job& job);

/// Tensors while evaluation runs: persistent state and the above. With EvalLogits::Kept that is after the first batch;
/// each further one adds kept_logits().
///
/// Source: transformers Trainer.evaluation_loop and prediction_step (logits in fp32, gathered from all ranks and kept
/// on the device until eval_accumulation_steps or the end), accelerate utils/operations.py ConvertOutputsToFp32.
Bytes evaluation_tensors(const Job& job, const EvaluationNeeds& needs, const StepProgram& program,
                         const RankClass& rank_class, const Peak& step);

/// The rank with the head holds them besides: logits of an evaluation batch on their way to the loss, and those that
/// are kept.
Bytes evaluated_logits(const Job& job);

/// Logits of one evaluation batch as they are kept: fp32, of all data-parallel ranks.
Bytes kept_logits(const Job& job);

/// Sequences per rank of an evaluation batch: what is asked for, else the micro batch.
std::int64_t eval_batch(const EstimateRequest& request);

/// Keys and values of every layer in 16 bit: what one token adds to the cache of generation.
Bytes kv_bytes_per_token(const ModelSpec& model);

/// Gives what recurrent layers carry from token to token: states in fp32 and the inputs of their convolutions in 16
/// bit, as many bytes however long the sequence is.
Bytes state_bytes_per_sequence(const ModelSpec& model);
/// The cache when evaluation generates `eval_generate` tokens after full sequences; no bytes when it does not.
Bytes generation_cache(const EstimateRequest& request, const ModelSpec& model);

/// Says whether the question is about evaluation too, so that its peak counts in the verdict.
bool is_evaluated(const EstimateRequest& request);

}  // namespace gpuplan
