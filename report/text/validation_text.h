// The answer of `validate` for people: summary, the table asked for, the worst points, what is not supported.
#pragma once

#include <string>

#include "report/text/screen.h"
#include "report/validation_answer.h"

namespace gpuplan {

std::string validation_text(const ValidationAnswer& answer, const Screen& screen);

}  // namespace gpuplan
