// The part of a random question that describes a plan: what estimate, simulate and plan share.
#pragma once

#include <string>
#include <vector>

#include "questions/chances.h"
#include "questions/question.h"

namespace gpuplan::test {

using Values = std::vector<std::string>;

/// A model, method and machine, or a plan file; and some flags of the table.
void add_plan(Question& q, Chances& chances);
void add_plan_file(Question& q, Chances& chances);
void add_method(Question& q, Chances& chances);
void add_machine(Question& q, Chances& chances);
void add_recipe(Question& q, Chances& chances);
void add_simulation(Question& q, Chances& chances);

std::string random_model(Chances& chances);
std::string random_strategy(Chances& chances);

}  // namespace gpuplan::test
