// The tables of a validation, for the terminal and for the report alike.
#pragma once

#include <string>
#include <vector>

#include "report/answers.h"
#include "report/text/table.h"

namespace gpuplan {

Table memory_errors_table(const MemorySummary& summary);
Table speed_errors_table(const SpeedSummary& summary);
Table memory_by_table(const ValidationAnswer& answer, Grouping grouping);
Table speed_by_table(const ValidationAnswer& answer, Grouping grouping);
Table verdicts_table(const VerdictCounts& verdicts);
Table worst_table(const ValidationAnswer& answer, PointKind kind, std::size_t most);
Table ranges_table(const Accuracy& ranges);
Table picks_table(const std::vector<PickSummary>& picks);

/// "3 x 'tp of degree 8'": one line per reason.
std::vector<std::string> reason_lines(const ValidationAnswer& answer, PointStatus status);
/// One line per comparison whose best we did not pick.
std::vector<std::string> missed_pick_lines(const std::vector<PickSummary>& picks);

}  // namespace gpuplan
