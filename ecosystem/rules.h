// Combinations that trainers and engines refuse, or take and train wrongly. Each has an id, which docs/ecosystem.md
// lists; reading and writing ask the same table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ecosystem/setup.h"

namespace gpuplan {

struct Rule {
  std::string_view id;       // "R01"
  std::string_view why;      // what happens
  std::string_view nearest;  // the nearest set-up that works, as flags or keys
  bool (*is_broken)(const Setup& setup);
  /// Turns the set-up into what the program makes of it, where it trains all the same: a file that says so is read
  /// with a note, and none is written. nullptr: it stops.
  void (*read_as)(Setup& setup) = nullptr;
  /// Changes the one fact by which a set-up that stops comes closest to itself, and names it. nullptr: there are
  /// several ways.
  std::string_view (*mend)(Setup& setup) = nullptr;
};

std::span<const Rule> ecosystem_rules();

/// Holds what became of the rules that a set-up breaks.
struct KeptRules {
  std::vector<std::string> notes;   // of those that the program reads otherwise
  std::vector<std::string> mended;  // facts that were changed
  std::string why_mended;           // of the first
};

/// Stops with InputError about `where` at a combination that the program refuses, unless it is to be mended and one
/// fact does; one that the program takes is read as it takes it.
KeptRules keep_rules(Setup& setup, bool mends, const std::string& where);

/// The first rule that a set-up breaks; nullptr when it breaks none.
const Rule* broken_rule(const Setup& setup);

/// Gives what a set-up's launcher and engine amount to.
bool is_fsdp_setup(const Setup& setup, int version);  // FSDP of this version
bool is_zero_setup(const Setup& setup, int least_stage);
bool shards_weights(const Setup& setup);

}  // namespace gpuplan
