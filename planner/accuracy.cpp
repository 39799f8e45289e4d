#include "planner/accuracy.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/surroundings.h"
#include "planner/accuracy_fields.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kNumFigures> kFigureNames{"tensors_bytes", "reserved_bytes", "process_bytes",
                                                                 "step_seconds"};

void read_figure(Fields& f, FigureAccuracy& figure) {
  for (const std::string& cell : f.keys()) {
    AccuracyRange& range = figure.cells.emplace_back();
    range.cell = cell;
    f.object(cell, [&](Fields& row) { list_range(row, range); });
  }
}

struct MethodName {
  Method method;
  const char* name;
};
constexpr std::array kMethodNames{MethodName{Method::Full, "full training"}, MethodName{Method::Lora, "LoRA"},
                                  MethodName{Method::Qlora, "QLoRA"}};

const char* name_of(Method method) {
  return std::find_if(kMethodNames.begin(), kMethodNames.end(), [&](const MethodName& m) { return m.method == method; })
      ->name;
}

const char* place_of(const MeasuredKind& kind) {
  if (kind.offloads) return "with offload";
  return kind.has_several_gpus ? "on several GPUs" : "on one GPU";
}

}  // namespace

std::string_view to_string(Figure figure) { return kFigureNames[std::size_t(figure)]; }

std::vector<std::string> cells_of(Figure figure, const MeasuredKind& kind) {
  const std::string group = figure != Figure::StepTime ? name_of(kind.method)
                            : kind.is_pretraining      ? "pre-training"
                                                       : "fine-tuning";
  const std::string cell = figure == Figure::StepTime
                               ? fmt::format("{} {}", group, place_of(kind))
                               : fmt::format("{} {}", kind.is_sharded ? "sharded" : "unsharded", group);
  return {cell, group, "training"};
}

std::set<std::string> cells_of(Figure figure) {
  std::set<std::string> out(kModelKinds.begin(), kModelKinds.end());
  out.emplace(kUnlike);
  for (const MethodName& row : kMethodNames)
    for (int bits = 0; bits < 16; ++bits)
      for (std::string& cell :
           cells_of(figure, {row.method, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, {}}))
        out.insert(std::move(cell));
  return out;
}

const AccuracyRange* FigureAccuracy::find(std::string_view cell) const {
  for (const AccuracyRange& range : cells)
    if (range.cell == cell) return &range;
  return nullptr;
}

const FigureAccuracy* Accuracy::find(Figure figure) const {
  for (const auto& [own, accuracy] : figures)
    if (own == figure) return &accuracy;
  return nullptr;
}

namespace {

void widen(AccuracyRange& range, const AccuracyRange& by) {
  range.low = std::min(range.low, by.low);
  range.high = std::max(range.high, by.high);
}

/// Takes the kind of model and what was not measured into account.
AccuracyRange widened(AccuracyRange range, const FigureAccuracy& accuracy, const std::vector<std::string>& traits) {
  for (const std::string& trait : traits) {
    if (const AccuracyRange* const own = accuracy.find(trait)) widen(range, *own);
    if (!range.unmeasured.empty() || std::ranges::binary_search(accuracy.measured_traits, trait)) continue;
    range.unmeasured = trait;
    if (const AccuracyRange* const unlike = accuracy.find(kUnlike)) widen(range, *unlike);
  }
  return range;
}

}  // namespace

std::optional<AccuracyRange> Accuracy::range(Figure figure, const MeasuredKind& kind) const {
  if (const FigureAccuracy* accuracy = find(figure))
    for (const std::string& cell : cells_of(figure, kind))
      if (const AccuracyRange* range = accuracy->find(cell)) return widened(*range, *accuracy, kind.traits);
  return std::nullopt;
}

nlohmann::ordered_json to_json(const Accuracy& accuracy) {
  FieldWriter out;
  out("about", std::string("measured / predicted of published measurements: 8 of 10 of a new source lie between low "
                           "and high. Written by gpuplan validate --save-ranges; fields: README.md"));
  out.object("figures", [&](FieldWriter& figures) { list_ranges(figures, accuracy); });
  out.object("measured_traits", [&](FieldWriter& traits) {
    for (const auto& [figure, own] : accuracy.figures) traits(to_string(figure), own.measured_traits);
  });
  out("pretraining_frameworks", accuracy.pretraining_frameworks);
  return out.take();
}

Accuracy read_accuracy(const std::filesystem::path& file) {
  const json content = read_json_file(file);
  Fields fields(content, file.string());
  Fields figures = fields.fields("figures");
  std::optional<Fields> traits = fields.optional_fields("measured_traits");
  Accuracy out;
  for (int i = 0; i < kNumFigures; ++i)
    if (auto row = figures.optional_fields(kFigureNames[std::size_t(i)])) {
      FigureAccuracy& figure = out.figures.emplace_back(Figure(i), FigureAccuracy{}).second;
      read_figure(*row, figure);
      if (traits) figure.measured_traits = traits->texts(kFigureNames[std::size_t(i)].data());
    }
  out.pretraining_frameworks = fields.texts("pretraining_frameworks");
  fields.finish();
  return out;
}

namespace {

Accuracy read_shipped() {
  const auto file = data_dir() / "validation" / "accuracy.json";
  return is_there(file) ? read_accuracy(file) : Accuracy{};
}

}  // namespace

const Accuracy& default_accuracy() { return read_once<read_shipped>(); }

}  // namespace gpuplan
