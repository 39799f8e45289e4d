// Words of a row: the machine, why it is shown, and the command that asks `estimate` about it.
#pragma once

#include <span>
#include <string>

#include "search/plan_row.h"

namespace gpuplan {

/// "2x H100 SXM", "2 x AWS p5.48xlarge (16x H100 SXM)", "2x RTX 4090 + 2x RTX 3090".
std::string machine_name(const ClusterSpec& cluster);

/// "1 of 3x RTX 3090" where a plan leaves GPUs idle, "8x H100 (4 for the engine)" where an engine has its own.
std::string used_machine(const EstimateRequest& request, std::int64_t num_used);

/// "gpuplan estimate --model llama3-8b --lora r=8 --gpus 2xh100-sxm --strategy fsdp …": gives the same plan.
std::string command_of(const Space& space, const RankedPlan& plan, const std::string& given);

/// Says why a row is there: by which rule it is the first, or how it differs from the first. `all`: of the plans that
/// rows were chosen from.
std::string reason_of(const PlanRow& row, std::span<const PlanRow> rows, const SearchQuestion& question, double error,
                      std::span<const Merit> all);

/// Says why the first row, one of `replaced`'s job, stands in its place: "as cheap as hsdp within the error ($77.38),
/// and simpler; hsdp is the cheapest within the limits".
std::string reason_of_star(const PlanRow& replaced, std::span<const PlanRow> rows, const SearchQuestion& question,
                           double error, std::span<const Merit> all);

/// "2x H100 SXM at runpod, LoRA, fsdp: 2 h 10 min, $38".
std::string summary_of(const PlanRow& row);

/// "full", "LoRA", "QLoRA".
std::string method_word(const Recipe& recipe);

}  // namespace gpuplan
