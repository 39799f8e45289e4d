// What fits of a profile are called, and how good they are, in the same words everywhere: tables, plots, comparisons.
#pragma once

#include <string>

#include "cluster/profile/measured.h"

namespace gpuplan {

std::string gemm_name(const GemmSurface& surface);          // "bf16 weight-gradient GEMM, thin-k"
std::string kernel_name(const KernelRate& rate);            // "rms-norm bf16"
std::string attention_name(const AttentionRate& rate);      // "flash attention bf16, head size 128"
std::string collective_name(const CollectiveCurve& curve);  // "all-reduce of 4 ranks", "send of 2 ranks, in pairs"
std::string ranks_suffix(std::int64_t num_ranks);           // ", 4 ranks at once"; empty for one

/// "off by 1.2 % (p90 4.0 %), held out 2.1 % (p90 6.3 %); 40 samples, 1 outlier", medians first; empty without samples.
std::string quality_text(const FitQuality& quality);

/// 0.0234 is "2.3 %".
std::string error_percent(double share);

}  // namespace gpuplan
