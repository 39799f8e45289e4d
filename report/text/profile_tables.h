// The fits of a profile as tables.
#pragma once

#include "cluster/profile/profile.h"
#include "report/profile_numbers.h"
#include "report/text/table.h"

namespace gpuplan {

Table gemm_table(const Measured& measured);
Table kernel_table(const Measured& measured);
Table attention_table(const Measured& measured);
Table collective_table(const Measured& measured);
/// Latencies, copies, overheads.
Table scalar_table(const Measured& measured);
/// Values that were measured, or all of a shipped profile.
Table value_table(const Profile& profile);

/// "312 TFLOP/s", "5.2 us", "0.89".
std::string number_text(const ProfileNumber& number);

}  // namespace gpuplan
