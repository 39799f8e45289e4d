// What could be trained on a machine: the models of the catalogue by the context that they carry, and the longest
// context or the largest micro batch of one model. Memory decides; everything that saves it is tried.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/catalogue_file.h"
#include "search/search.h"

namespace gpuplan {

/// The best quality that fits for one model and context, by its simplest plan.
struct Carried {
  Method method{};
  std::string strategy;
  Fit fit{};
  bool offloads = false;
  Seconds per_million_tokens;
};

/// A plan that takes longer for a million tokens is marked with its time.
inline constexpr Seconds kSlow{3600};

struct LargestRow {
  std::string model;
  std::int64_t parameters{};
  std::vector<std::optional<Carried>> by_context;  // empty: nothing fits, or the model has no such context
};

struct LargestTable {
  std::vector<std::int64_t> contexts;
  std::vector<LargestRow> rows;  // those that some context carries, the largest first
  std::int64_t num_models = 0;   // looked at
};

/// `question`: machine, methods and pinned knobs; its model is not read. One sequence per GPU and pass.
LargestTable largest_models(const SearchQuestion& question, const std::vector<std::int64_t>& contexts,
                            const std::vector<CatalogueEntry>& catalogue, const SearchOptions& options);

/// The longest sequence, in steps of 256 tokens, and the largest micro batch with which some plan fits well, other
/// things as asked; nothing where not even the smallest does.
std::optional<std::int64_t> longest_context(const SearchQuestion& question, const SearchOptions& options);
std::optional<std::int64_t> largest_batch(const SearchQuestion& question, const SearchOptions& options);

}  // namespace gpuplan
