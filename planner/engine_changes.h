// Internal to planner/change_rows: what may be changed in the engine that generates answers, and in the answers.
#pragma once

#include <string>

#include "planner/changes.h"

namespace gpuplan {

// Values of --rollout-engine that are worth trying; empty: not for this request.
std::string sleeping_engine(const EstimateRequest& r);
std::string engine_with_less(const EstimateRequest& r);
std::string engine_with_half_more(const EstimateRequest& r);
std::string engine_with_twice(const EstimateRequest& r);
std::string engine_over_twice(const EstimateRequest& r);
std::string engine_over_four_times(const EstimateRequest& r);
std::string synced_adapter(const EstimateRequest& r);
std::string own_engine(const EstimateRequest& r);
std::string lagging_engine(const EstimateRequest& r);
std::string wider_engine(const EstimateRequest& r);
std::string narrower_engine(const EstimateRequest& r);
/// Lists engines in the place of the trainer's own module where none is asked for: beside training, and on GPUs of
/// their own among as many in all.
FreeValues free_engine(const EstimateRequest& r);
/// Lists what a search of machines tries there: the trainer's own module, and engines beside training. Empty: the
/// trainer has an engine.
std::vector<std::string_view> tried_engine(const EstimateRequest& r);
/// Gives a value of --completion-len: answers cut at twice their mean, where few are longer.
std::string shorter_tail(const EstimateRequest& r);
/// "MEAN,MAX" or "MAX", as --completion-len.
void set_answers(Variant& v, const Setting& s);

}  // namespace gpuplan
