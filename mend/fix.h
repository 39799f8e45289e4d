// gpuplan fix: the least change of a trainer's own files by which they fit, or train faster or cheaper. The changes are
// those of planner/changes, evaluated as `estimate` does; the files that say them are read again before they are given
// out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ecosystem/config_reader.h"
#include "ecosystem/row_count.h"
#include "mend/stated_facts.h"
#include "planner/changes.h"

namespace gpuplan {

enum class Goal : std::uint8_t { Fits, Fast, Cheap };
inline constexpr std::array kGoals{NameRow<Goal>{"fits", Goal::Fits}, NameRow<Goal>{"fast", Goal::Fast},
                                   NameRow<Goal>{"cheap", Goal::Cheap}};
constexpr NameTable<Goal> names_of(Goal) { return {"goal", kGoals}; }

/// Holds what may change beside what every fix may: how the same training is run.
struct Allowed {
  bool context = false, batch = false, method = false;
};

/// Files with what they ask.
struct ReadFiles {
  std::vector<ConfigFile> files;
  ConfigReading reading;
  EstimateRequest request;
  /// Says what the trainer refuses in them, and `request` has otherwise: a micro batch that does not divide the global
  /// batch.
  std::string why_refused;
  RowLengths rows{};  // of the data, as files on this machine have them
};

struct FixQuestion {
  ReadFiles given;
  Profile profile;
  Goal goal{};
  Allowed allowed;
  /// The files as a question. Throws InputError as `estimate --from` does.
  std::function<ReadFiles(const std::vector<ConfigFile>&)> read;
};

/// Something else that is allowed, and what it would change.
struct Permission {
  std::string allow;  // "context"
  std::string what;   // "--seq-len 1024"
};

struct FixAnswer {
  std::optional<StrategyEstimate> before;  // of the files as they are; nothing: no strategy is possible
  /// The files as a launcher that is told nothing else starts them, where they name no strategy and `before` has
  /// another.
  std::optional<StrategyEstimate> plain;
  std::optional<StrategyEstimate> after;  // of the changed ones; nothing: they are as they were
  std::optional<EstimateRequest> asks;    // what the changed ones ask
  std::vector<std::string> flags;         // what changes, as flags of gpuplan
  MendedFiles mended;
  std::string counted;  // the strategy of `before`, where the files name none; empty: they name one
  /// Why the files do not start or do not fit, where that is not the memory of the GPUs; empty: it is, or they fit.
  std::string why_not;
  std::string not_started;           // why the files cannot start on these GPUs; empty: they do, or are changed so
  std::string unsayable;             // the first way that the files have no words for, and why; empty: none
  std::vector<Permission> would_do;  // where nothing that is allowed does it
  std::vector<std::string> notes;

  /// Says whether the files, changed or not, do what was asked.
  bool fits() const { return after || (before && before->fits_well() && not_started.empty()); }
};

FixAnswer find_fix(const FixQuestion& question);

}  // namespace gpuplan
