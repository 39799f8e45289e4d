// The answer of `validate` as JSON. Errors are shares: predicted / measured - 1.
#pragma once

#include <nlohmann/json.hpp>

#include "report/answers.h"

namespace gpuplan {

nlohmann::ordered_json validation_json(const ValidationAnswer& answer);

}  // namespace gpuplan
