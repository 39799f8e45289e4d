#include "planner/validation/read_points.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cluster/machine.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr IntRange kBatch{1, 1 << 24}, kTokens{1, 1 << 26}, kRank{1, 1 << 16}, kGpus{1, kMostGpus};
constexpr const char* kExpected = "each line is one JSON object: a memory point has memory_metric, a speed point has target";

std::string text_of(JsonFields& fields, const char* key) { return fields.optional_string(key).value_or(""); }

constexpr double kMostGib = 1 << 30;  // 1 EiB

/// A number above zero.
std::optional<double> amount_of(JsonFields& fields, const char* key, double most = 1e18) {
  const auto value = fields.optional_number(key);
  if (value && !(*value > 0)) fields.report(key, fmt::format("{} is not an amount above 0", *value));
  if (value && *value > most) fields.report(key, fmt::format("{} is too large, must be {} or less", *value, most));
  return value;
}

/// A field that is true, false, null or a text that names more than false; the text itself is not looked at.
bool flag_of(JsonFields& fields, const char* key) {
  const json* value = fields.find(key);
  return value && (value->is_boolean() ? value->get<bool>() : !value->is_null());
}

/// One text or a list of them.
std::vector<std::string> texts_of(JsonFields& fields, const char* key) {
  const json* value = fields.find(key);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> out;
  if (!value->is_array()) fields.report(key, "expected a text or a list of texts");
  if (value->is_array())
    for (const json& one : *value) {
      if (one.is_string())
        out.push_back(one.get<std::string>());
      else
        fields.report(key, "expected a list of texts");
    }
  return out;
}

/// Runs `read` over the object under `key`, when there is one.
template <class Read>
void nested(JsonFields& fields, const char* key, const std::string& where, Read read) {
  const json* value = fields.find(key);
  if (!value) return;
  JsonFields inner(*value, where, std::string(key) + ".");
  read(inner);
  inner.finish();
}

void read_shape(JsonFields& fields, Point& point) {
  point.shape = PointShape{.num_layers = fields.require_int("n_layer", {1, 1 << 12}),
                           .hidden = fields.require_int("d_model", {1, 1 << 18}),
                           .num_heads = fields.require_int("n_heads", {1, 1 << 12}),
                           .num_kv_heads = fields.require_int("n_kv", {1, 1 << 12}),
                           .ffn = fields.require_int("d_ff", {1, 1 << 20}),
                           .vocab = fields.require_int("vocab", {1, 1 << 24})};
}

void read_lora(JsonFields& fields, PointLora& lora) {
  lora.rank = fields.optional_int("r", kRank);
  lora.alpha = fields.optional_number("alpha");
  lora.targets = texts_of(fields, "target_modules");
  if (lora.targets.empty()) lora.targets = texts_of(fields, "targets");
  lora.trains_embeddings = fields.optional_bool("train_embeddings").value_or(false);
}

/// The facts that both kinds of points state.
void read_run(JsonFields& fields, Point& p) {
  p.id = fields.require_string("id");
  p.model = text_of(fields, "model");
  p.parameters_b = amount_of(fields, "params_b");
  const json* shape = fields.find("arch");
  if (shape && shape->is_object() && shape->contains("n_layer"))
    nested(fields, "arch", p.where, [&](JsonFields& inner) { read_shape(inner, p); });
  p.method = fields.require_string("method");
  nested(fields, "lora", p.where, [&](JsonFields& inner) { read_lora(inner, p.lora); });
  p.quant = text_of(fields, "quant");
  p.optimizer = text_of(fields, "optimizer");
  p.micro_batch = fields.optional_int("micro_batch_size", kBatch);
  p.seq_len = fields.optional_int("seq_len", kTokens);
  p.grad_accum = fields.optional_int("grad_accum", kBatch);
  p.strategy = text_of(fields, "strategy");
  p.gpu = text_of(fields, "gpu");
  p.length_text = text_of(fields, "seq_len_kind");
  p.num_gpus = fields.optional_int("num_gpus", kGpus).value_or(1);
}

void read_memory_norm(JsonFields& norm, Point& p) {
  p.framework = text_of(norm, "framework");
  p.precision = text_of(norm, "precision");
  p.loss = text_of(norm, "loss");
  p.checkpointing = text_of(norm, "checkpointing");
  p.length = text_of(norm, "length");
}

void read_figures(JsonFields& fields, MemoryFigures& memory, const std::string& where) {
  constexpr std::array<std::string_view, 2> kOutcomes{"ok", "oom"};
  memory.metric = fields.require_string("memory_metric");
  memory.gib = amount_of(fields, "peak_memory_gib", kMostGib);
  memory.capacity_gib = amount_of(fields, "gpu_mem_gib", kMostGib);
  memory.boundary = text_of(fields, "boundary");
  const std::string outcome = fields.optional_string("outcome").value_or("ok");
  if (std::find(kOutcomes.begin(), kOutcomes.end(), outcome) == kOutcomes.end())
    fields.report("outcome", fmt::format("'{}' is neither ok nor oom", outcome));
  memory.ran_out = outcome == "oom";
  nested(fields, "peak_alt_gib", where, [&](JsonFields& inner) {
    const json* all = fields.find("peak_alt_gib");
    for (const auto& [metric, value] : all->items())
      if (const auto gib = amount_of(inner, metric.c_str(), kMostGib)) memory.others_gib.emplace_back(metric, *gib);
  });
}

std::string why_memory_is_skipped(JsonFields& fields) {
  struct Flag {
    const char* key;
    const char* reason;
  };
  constexpr std::array kFlags{Flag{"in_scope", "out of scope"}, Flag{"fully_specified", "not fully specified"},
                              Flag{"use_for_scoring", "not meant for scoring"}};
  for (const Flag& flag : kFlags)
    if (!fields.optional_bool(flag.key).value_or(true)) return flag.reason;
  return {};
}

void read_memory(JsonFields& fields, Point& p) {
  p.kind = PointKind::Memory;
  p.source = fields.optional_string("source_key").value_or(text_of(fields, "source"));
  p.group = fields.optional_string("group").value_or(p.id);
  p.skipped = why_memory_is_skipped(fields);
  p.framework_text = text_of(fields, "framework");
  p.weight_dtype = text_of(fields, "weight_dtype");
  p.attention = text_of(fields, "attention");
  p.optimizer_in_backward = fields.optional_bool("optimizer_in_backward").value_or(false);
  p.is_compiled = flag_of(fields, "torch_compile");
  if (flag_of(fields, "cpu_offload")) p.offload.emplace_back("cpu");
  if (flag_of(fields, "activation_offload")) p.offload.emplace_back("activations");
  nested(fields, "norm", p.where, [&](JsonFields& norm) { read_memory_norm(norm, p); });
  read_figures(fields, p.memory, p.where);
}

void read_speed_norm(JsonFields& norm, Point& p, const std::string& where) {
  p.strategy = text_of(norm, "family");
  p.precision = text_of(norm, "precision");
  p.attention = text_of(norm, "attention");
  p.checkpointing = text_of(norm, "checkpointing");
  p.software = text_of(norm, "software");
  p.is_compiled = p.software == "compiled";
  p.offload = texts_of(norm, "offload");
  nested(norm, "degrees", where, [&](JsonFields& degrees) {
    for (const char* axis : {"tp", "pp", "cp", "ep"})
      if (const auto degree = degrees.optional_int(axis, kGpus)) p.degrees.emplace_back(axis, *degree);
  });
  nested(norm, "link", where, [&](JsonFields& link) {
    p.link = PointLink{.kind = link.require_string("kind"),
                       .generation = link.optional_int("generation", {1, 16}),
                       .has_p2p = link.optional_bool("p2p")};
  });
}

/// The size of a shard group under one of the names that `parallel` has for it; 0 and 1 mean no sharding there.
void read_parallel(JsonFields& parallel, Point& p) {
  for (const char* key : {"fsdp", "zero1_shard_degree"})
    if (const auto size = parallel.optional_int(key, {0, kMostGpus}); size && *size > 1) p.shard_size = size;
}

void read_target(JsonFields& target, SpeedFigures& speed) {
  speed.metric = target.require_string("metric");
  speed.value = amount_of(target, "value").value_or(0);
  if (speed.value <= 0 && !target.has_problems()) target.report("value", "is missing");
}

void read_speed(JsonFields& fields, Point& p) {
  p.kind = PointKind::Speed;
  p.source = text_of(fields, "source");
  p.group = p.id;
  const std::string level = text_of(fields, "spec_level"), trust = text_of(fields, "trust");
  if (level == "partial") p.skipped = "not fully specified";
  if (trust == "low") p.skipped = "trust is low";
  p.checkpointing_text = text_of(fields, "gradient_checkpointing");
  p.global_batch = fields.optional_int("global_batch_seqs", kTokens);
  p.gpus_per_node = fields.optional_int("gpus_per_node", kGpus);
  p.network = text_of(fields, "inter_node_link");
  nested(fields, "norm", p.where, [&](JsonFields& norm) { read_speed_norm(norm, p, p.where); });
  nested(fields, "parallel", p.where, [&](JsonFields& parallel) { read_parallel(parallel, p); });
  nested(fields, "target", p.where, [&](JsonFields& target) { read_target(target, p.speed); });
  nested(fields, "metrics", p.where,
         [&](JsonFields& metrics) { p.speed.flops_kind = metrics.optional_string("tflops_kind").value_or(""); });
  nested(fields, "derived", p.where, [&](JsonFields& derived) {
    p.speed.tokens_per_step = amount_of(derived, "tokens_per_step");
    p.speed.step_seconds = amount_of(derived, "step_time_s");
  });
}

Point read_point(const json& object, const std::string& where) {
  JsonFields fields(object, where);
  Point point{.where = where};
  read_run(fields, point);
  if (object.contains("memory_metric"))
    read_memory(fields, point);
  else if (object.contains("target"))
    read_speed(fields, point);
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
    throw InputError(where + (column == std::string::npos ? "" : error.where().substr(column)), error.problem(), kExpected);
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
    text.remove_prefix(std::min(text.size(), text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1));
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
    throw InputError(file.string(), "is too large for a file of points", fmt::format("at most {} bytes", kLargestPointsFile));
  return parse_points(read_file(file), file.string());
}

}  // namespace gpuplan
