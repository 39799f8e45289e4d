// What ranks must know to meet: a secret that only this user's processes can have.
#pragma once

#include <string>

#include "base/units.h"
#include "run/launch.h"

namespace gpuplan {

inline constexpr const char *kSecretVariable = "GPUPLAN_SECRET", *kSecretFileVariable = "GPUPLAN_SECRET_FILE";

/// 64 random hexadecimal digits.
std::string new_secret();

/// $GPUPLAN_SECRET (gpuplan sets it for ranks that it starts itself), else the content of $GPUPLAN_SECRET_FILE, else of
/// rendezvous.key in user_data_dir(), which rank 0 makes with mode 600 and the others wait for: homes of a cluster are
/// shared. Throws InputError for a secret that is too short or that others can read, EnvError where there is none.
std::string rendezvous_secret(const LaunchedRank& launched, Seconds patience);

}  // namespace gpuplan
