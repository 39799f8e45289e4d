#include "planner/accuracy.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/archive.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "models/recipe_names.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kNumFigures> kFigureNames{"tensors_bytes", "reserved_bytes", "process_bytes",
                                                                 "step_seconds"};

template <class Archive, class Range>
void list_range(Archive& f, Range& r) {
  constexpr double kMost = 1e6;
  f("low", r.low, NumberRange{std::numeric_limits<double>::min(), 1});
  f("high", r.high, NumberRange{1, kMost});
  f("points", r.num_points);
  f("sources", r.num_sources);
  f("tail", r.tail);
  f("widening", r.widening);
  f("coverage", r.coverage);
}

void read_figure(Fields& f, FigureAccuracy& figure) {
  f.object("all", [&](Fields& all) { list_range(all, figure.all); });
  f("coverage", figure.coverage);
  Fields methods = f.fields("by_method");
  for (const std::string& name : methods.keys()) {
    auto& [method, range] =
        figure.by_method.emplace_back(parse_name<Method>(name, f.file() + ": by_method"), AccuracyRange{});
    methods.object(name, [&, &range = range](Fields& row) { list_range(row, range); });
  }
}

void write_figure(FieldWriter& f, const FigureAccuracy& figure) {
  f.object("all", [&](FieldWriter& all) { list_range(all, figure.all); });
  f.object("by_method", [&](FieldWriter& methods) {
    for (const auto& [method, range] : figure.by_method)
      methods.object(to_string(method), [&, &range = range](FieldWriter& row) { list_range(row, range); });
  });
  f("coverage", figure.coverage);
}

}  // namespace

std::string_view to_string(Figure figure) { return kFigureNames[std::size_t(figure)]; }

const AccuracyRange& FigureAccuracy::of(Method method) const {
  for (const auto& [own, range] : by_method)
    if (own == method) return range;
  return all;
}

const FigureAccuracy* Accuracy::find(Figure figure) const {
  for (const auto& [own, accuracy] : figures)
    if (own == figure) return &accuracy;
  return nullptr;
}

std::optional<AccuracyRange> Accuracy::range(Figure figure, Method method) const {
  const FigureAccuracy* found = find(figure);
  return found ? std::optional(found->of(method)) : std::nullopt;
}

nlohmann::ordered_json to_json(const Accuracy& accuracy) {
  FieldWriter out;
  out("about",
      std::string("measured / predicted of published measurements: 8 of 10 lie between low and high. Written by "
                  "gpuplan validate --save-ranges; fields: README.md"));
  out.object("figures", [&](FieldWriter& figures) {
    for (const auto& [figure, a] : accuracy.figures)
      figures.object(to_string(figure), [&, &a = a](FieldWriter& f) { write_figure(f, a); });
  });
  return out.take();
}

Accuracy read_accuracy(const std::filesystem::path& file) {
  const json content = read_json_file(file);
  Fields fields(content, file.string());
  Fields figures = fields.fields("figures");
  Accuracy out;
  for (int i = 0; i < kNumFigures; ++i)
    if (auto row = figures.optional_fields(kFigureNames[std::size_t(i)]))
      read_figure(*row, out.figures.emplace_back(Figure(i), FigureAccuracy{}).second);
  fields.finish();
  return out;
}

const Accuracy& default_accuracy() {
  static const Accuracy shipped = [] {
    const auto file = data_dir() / "validation" / "accuracy.json";
    std::error_code error;
    return std::filesystem::exists(file, error) ? read_accuracy(file) : Accuracy{};
  }();
  return shipped;
}

}  // namespace gpuplan
