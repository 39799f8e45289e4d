#include "validate/read_points.h"

#include <algorithm>
#include <array>
#include <istream>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "validate/point_fields.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr IntRange kRankRange{1, 1 << 16};
constexpr const char* kExpected =
    "each line is one JSON object: a memory point has memory_metric, a speed point has target";

void read_shape(Fields& fields, Point& point) {
  point.shape = PointShape{.num_layers = fields.integer("n_layer", {1, 1 << 12}),
                           .hidden = fields.integer("d_model", {1, 1 << 18}),
                           .num_heads = fields.integer("n_heads", {1, 1 << 12}),
                           .num_kv_heads = fields.integer("n_kv", {1, 1 << 12}),
                           .ffn = fields.integer("d_ff", {1, 1 << 20}),
                           .vocab = fields.integer("vocab", {1, 1 << 24})};
}

void read_lora(Fields& fields, PointLora& lora) {
  lora.rank = fields.optional_integer("r", kRankRange);
  lora.alpha = fields.optional_number("alpha");
  lora.targets = fields.texts("target_modules");
  if (lora.targets.empty()) lora.targets = fields.texts("targets");
  lora.trains_embeddings = fields.optional_flag("train_embeddings").value_or(false);
}

/// The facts that both kinds of points state.
void read_run(Fields& fields, Point& p) {
  p.id = fields.text("id");
  p.model = text_of(fields, "model");
  p.parameters_b = amount_of(fields, "params_b");
  const json* shape = fields.find("arch");
  if (shape && shape->is_object() && shape->contains("n_layer"))
    read_nested(fields, "arch", [&](Fields& inner) { read_shape(inner, p); });
  p.method = fields.text("method");
  read_nested(fields, "lora", [&](Fields& inner) { read_lora(inner, p.lora); });
  p.quant = text_of(fields, "quant");
  p.optimizer = text_of(fields, "optimizer");
  p.micro_batch = fields.optional_integer("micro_batch_size", kBatchRange);
  p.seq_len = fields.optional_integer("seq_len", kTokenRange);
  p.grad_accum = fields.optional_integer("grad_accum", kBatchRange);
  p.strategy = text_of(fields, "strategy");
  p.gpu = text_of(fields, "gpu");
  p.num_gpus = fields.optional_integer("num_gpus", kGpuRange).value_or(1);
}

Point read_point(const json& object, const std::string& where) {
  Fields fields(object, where);
  Point point{.where = where};
  read_run(fields, point);
  if (object.contains("memory_metric"))
    read_memory_point(fields, point);
  else if (object.contains("target"))
    read_speed_point(fields, point);
  else
    fields.report("memory_metric", "is missing, and so is target");
  fields.finish(kExpected);
  return point;
}

/// The line as JSON; where = "file:line:column" when it is none.
json parse_line(std::string_view line, const std::string& where) {
  try {
    return parse_json(line, "");
  } catch (const InputError& error) {
    const auto column = error.where().rfind(':');  // ":1:17"
    throw InputError(where + (column == std::string::npos ? "" : error.where().substr(column)), error.problem(),
                     kExpected);
  }
}

}  // namespace

std::vector<Point> parse_points(std::string_view text, const std::string& name) {
  if (text.size() > kLargestPointsFile)
    throw InputError(name, fmt::format("has {} bytes", text.size()), fmt::format("at most {}", kLargestPointsFile));
  std::vector<Point> points;
  std::set<std::string> ids;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = trim(text.substr(0, text.find('\n')));
    text.remove_prefix(
        std::min(text.size(), text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1));
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", name, number);
    if (line.size() > kLargestPoint) throw InputError(where, "the line is too long for a point", kExpected);
    points.push_back(read_point(parse_line(line, where), where));
    if (!ids.insert(points.back().id).second)
      throw InputError(where, fmt::format("the id '{}' comes twice", points.back().id), "every point has its own");
  }
  if (points.empty()) throw InputError(name, "has no points", kExpected);
  return points;
}

std::vector<Point> read_points(const std::filesystem::path& file) {
  std::error_code unknown;
  if (std::filesystem::file_size(file, unknown) > kLargestPointsFile && !unknown)
    throw InputError(file.string(), "is too large for a file of points",
                     fmt::format("at most {} bytes", kLargestPointsFile));
  return parse_points(read_file(file), file.string());
}

std::vector<Point> read_points(std::istream& in, const std::string& name) {
  std::string text;
  std::array<char, 1 << 16> part;
  do {
    in.read(part.data(), part.size());
    text.append(part.data(), std::size_t(in.gcount()));
  } while (in && text.size() <= kLargestPointsFile);
  return parse_points(text, name);
}

}  // namespace gpuplan
