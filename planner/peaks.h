// Peaks besides the training step: loading, evaluation and saving. Each is what a rank holds at that moment; a run that
// dies "at eval" or "at save" finds its reason here.
#pragma once

#include "planner/job.h"
#include "planner/memory.h"

namespace gpuplan {

/// Tensors of the fullest GPU at moments outside of training steps, in bytes.
struct OtherPeaks {
  Bytes load;  // the weights, and what of the checkpoint is on the GPU besides
  Bytes eval;  // one evaluation batch, with the training state in place
  Bytes save;  // the training state, and what is gathered to be written
};

/// Of one class of ranks, whose step peaks at `step`. `gathered_to_save`: SaveCost::device_peak.
OtherPeaks other_peaks(const Job& job, const StepProgram& program, const RankClass& rank_class, const Peak& step,
                       Bytes gathered_to_save);

/// What an evaluation batch needs, of a job whatever the rank: gathered weights, and the most of what is not there at
/// one time: the activations of one layer, logits (on the rank with the head), the cache of generation.
struct EvaluationNeeds {
  Bytes gathered, activations, logits, generation;
};
EvaluationNeeds evaluation_needs(const Job& job, const StepProgram& program);

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

/// What recurrent layers carry from token to token: states in fp32 and the inputs of their convolutions in 16 bit, as
/// many bytes however long the sequence is.
Bytes state_bytes_per_sequence(const ModelSpec& model);
/// The cache when evaluation generates `eval_generate` tokens after full sequences; no bytes when it does not.
Bytes generation_cache(const EstimateRequest& request, const ModelSpec& model);

/// Whether the question is about evaluation too, so that its peak counts in the verdict.
bool is_evaluated(const EstimateRequest& request);

}  // namespace gpuplan
