// The plans of an answer of `plan` as tables: on a screen, in Markdown, and as numbers for a spreadsheet.
#pragma once

#include <span>
#include <string>

#include "report/answers.h"

namespace gpuplan {

/// The rows as the screen has room for them: price and memory go first, then the method where it is that of all, then
/// the range of the time, then the vendor. Costs keep their range.
std::string plan_rows(const PlanAnswer& answer, std::span<const PlanRow> rows, bool has_best, const Screen& screen);

/// Says what is trained: "llama-3.1-8b, LoRA: 50,000 rows of 800 tokens, 3 epochs, 120 M tokens".
std::string question_words(const PlanAnswer& answer);

/// The days of the prices of some rows: "prices of 2026-03-01 to 2026-09-25"; empty where none has one.
std::string price_days(std::span<const PlanRow> rows);

/// All rows in one table whose cells are plain numbers or words, units in the titles.
std::string plan_csv(const PlanAnswer& answer, const Screen& screen);

}  // namespace gpuplan
