// The answer of `gpuplan estimate` for people.
#pragma once

#include <string>
#include <vector>

#include "report/answers.h"
#include "report/text/text.h"

namespace gpuplan {

/// Everything: what was asked, all strategies, the one to take, what was assumed; with --explain the terms.
std::string estimate_text(const EstimateAnswer& answer, const Screen& screen);

/// Its parts, in this order.
std::vector<Fact> question_facts(const EstimateAnswer& answer);
std::string question_text(const EstimateAnswer& answer, const Screen& screen);  // model, training, batch, GPUs
std::string strategies_text(const EstimateAnswer& answer,
                            const Screen& screen);  // the table, and what is not applicable
std::string closest_look_text(const EstimateAnswer& answer,
                              const Screen& screen);  // memory, time, limits of answer.shown
std::string explanation_text(const std::vector<ExplainSection>& sections, const Screen& screen);

/// How long the rows are, and what each way to fill sequences with them costs and gives.
std::string rows_text(const RowFit& rows, const Screen& screen);

}  // namespace gpuplan
