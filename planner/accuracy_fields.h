// The ranges of predictions as data/validation/accuracy.json and the answer of `gpuplan validate` list them.
#pragma once

#include <limits>

#include "base/archive.h"
#include "planner/accuracy.h"

namespace gpuplan {

template <class Archive, class Range>
void list_range(Archive& f, Range& r) {
  constexpr double kMost = 1e6;
  f("low", r.low, NumberRange{std::numeric_limits<double>::min(), 1});
  f("high", r.high, NumberRange{1, kMost});
  f("points", r.num_points);
  f("sources", r.num_sources);
  f("coverage", r.coverage);
  f("coverage_of_pairs", r.coverage_of_pairs);
}

template <class Archive>
void list_fields(Archive& f, const AccuracyRange& range) {
  list_range(f, range);
}

/// Every figure and cell that may have a range, where it has one.
template <class Archive>
void list_ranges(Archive& f, const Accuracy& accuracy) {
  for (int i = 0; i < kNumFigures; ++i) {
    const FigureAccuracy* const found = accuracy.find(Figure(i));
    const FigureAccuracy figure = found ? *found : FigureAccuracy{};
    f.optional_object(to_string(Figure(i)), found != nullptr, [&](auto& inner) {
      for (const std::string& cell : cells_of(Figure(i))) {
        const AccuracyRange* const range = figure.find(cell);
        inner.all_if(range != nullptr, [&](auto& one) { one(cell, range ? *range : AccuracyRange{}); });
      }
    });
  }
}

}  // namespace gpuplan
