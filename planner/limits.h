// How far a recipe can be pushed on the same GPUs: the largest micro batch and the longest context that fit.
#pragma once

#include "planner/estimate.h"

namespace gpuplan {

/// Fills e.max_micro_batch and e.max_seq_len by doubling and bisection over whole plans; empty where not even 1 fits.
void find_limits(StrategyEstimate& e, const EstimateRequest& request, const TrainedModel& model,
                 const FrameworkConvention& framework, const Profile& profile, StepProgram& program);

/// Builds the program of e.strategy and fills peak, tiers and verdict only; true when it fits. What the searches call.
bool evaluate(StrategyEstimate& e, const EstimateRequest& request, const TrainedModel& model,
              const FrameworkConvention& framework, const Profile& profile, StepProgram& program);

/// FLOPs of the model for one optimizer step of the whole job, recompute excluded: 6 P per token for full fine-tuning,
/// 4 P plus 6 per adapter parameter for LoRA, plus causal attention. Source: Kaplan et al. 2020, table 1;
/// attention: Narayanan et al. 2021, arXiv 2104.04473, appendix.
double model_flops(const EstimateRequest& request, const TrainedModel& model, std::int64_t global_batch);

}  // namespace gpuplan
