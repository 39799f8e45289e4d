#include "planner/accuracy.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "models/recipe_names.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kNumFigures> kFigureNames{"tensors_bytes", "reserved_bytes", "process_bytes",
                                                                 "step_seconds"};

nlohmann::ordered_json range_json(const AccuracyRange& r) {
  return {{"low", r.low},   {"high", r.high},         {"points", r.num_points}, {"sources", r.num_sources},
          {"tail", r.tail}, {"widening", r.widening}, {"coverage", r.coverage}};
}

AccuracyRange read_range(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  AccuracyRange r{.low = fields.require_number("low"),
                  .high = fields.require_number("high"),
                  .num_points = std::size_t(fields.require_int("points", {0, 1 << 30})),
                  .num_sources = std::size_t(fields.require_int("sources", {0, 1 << 30})),
                  .tail = fields.require_number("tail"),
                  .widening = fields.require_number("widening"),
                  .coverage = fields.require_number("coverage")};
  if (!(r.low > 0 && r.low <= 1)) fields.report("low", "must be above 0 and at most 1");
  if (!(r.high >= 1 && r.high < 1e6)) fields.report("high", "must be at least 1");
  fields.finish();
  return r;
}

FigureAccuracy read_figure(const json& value, const std::string& where) {
  JsonFields fields(value, where);
  FigureAccuracy out{.coverage = fields.require_number("coverage")};
  const json* all = fields.find("all");
  const json* methods = fields.find("by_method");
  if (!all) fields.report("all", "is missing");
  if (!methods || !methods->is_object()) fields.report("by_method", "expected an object");
  fields.finish();
  out.all = read_range(*all, where + ": all");
  for (const auto& [name, range] : methods->items())
    out.by_method.emplace_back(parse_method(name, where + ": by_method"), read_range(range, where + ": " + name));
  return out;
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
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  for (const auto& [figure, a] : accuracy.figures) {
    nlohmann::ordered_json methods = nlohmann::ordered_json::object();
    for (const auto& [method, range] : a.by_method) methods[std::string(to_string(method))] = range_json(range);
    figures[std::string(to_string(figure))] = {
        {"all", range_json(a.all)}, {"by_method", methods}, {"coverage", a.coverage}};
  }
  return {{"about",
           "measured / predicted of published measurements: 8 of 10 lie between low and high. Written by gpuplan "
           "validate --save-ranges; fields: README.md"},
          {"figures", figures}};
}

Accuracy read_accuracy(const std::filesystem::path& file) {
  const json content = read_json_file(file);
  JsonFields fields(content, file.string());
  const json* figures = fields.find("figures");
  if (!figures || !figures->is_object()) fields.report("figures", "expected an object");
  fields.finish();
  Accuracy out;
  for (int i = 0; i < kNumFigures; ++i)
    if (const auto at = figures->find(std::string(kFigureNames[std::size_t(i)])); at != figures->end())
      out.figures.emplace_back(Figure(i), read_figure(*at, fmt::format("{}: {}", file.string(), at.key())));
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
