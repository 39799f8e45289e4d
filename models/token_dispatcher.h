// Programs that bring tokens to the ranks of their experts and back: how many copies of a token each sends. One row of
// data per program (data/token_dispatchers.yaml); what is computed around them is in models/ledger/experts.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "models/recipe.h"

namespace gpuplan {

struct TokenDispatcher {
  std::string name, title, source;
  /// True: a rank gets a token once, however many of its experts work on it, and a machine gets it once over the
  /// network. False: as often as there are experts that work on it.
  bool sends_once = false;
};

/// Every dispatcher, the usual one first.
std::span<const TokenDispatcher> token_dispatchers();

/// A row by name. Throws InputError naming --dispatcher with the nearest names.
const TokenDispatcher& find_token_dispatcher(std::string_view name);

/// Groups of equal size, of `groups` into which `experts` are divided, that have one at least of `chosen` experts: how
/// many they are on the average, where each choice of experts is as likely as any other. A group has none of them with
/// the probability C(experts - size, chosen) / C(experts, chosen).
double mean_groups_reached(std::int64_t groups, std::int64_t experts, std::int64_t chosen);

}  // namespace gpuplan
