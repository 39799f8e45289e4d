#include "validate/read_points.h"

#include <algorithm>
#include <array>
#include <istream>
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

constexpr IntRange kBatchRange{1, 1 << 24}, kTokenRange{1, 1 << 26}, kGpuRange{1, kMostGpus}, kRankRange{1, 1 << 16},
    kBucketRange{1, 1 << 30};
constexpr double kMostGib = 1 << 30;  // 1 EiB: beyond it bytes do not fit 63 bits
constexpr const char* kExpected =
    "each line is one JSON object: a memory point has memory_metric, a speed point has target";

/// Empty when not given.
std::string text_of(Fields& fields, const char* key) { return fields.optional_text(key).value_or(""); }

/// A number above zero.
std::optional<double> amount_of(Fields& fields, const char* key, double most = 1e18) {
  const auto value = fields.optional_number(key, kAnyNumber);
  if (value && !(*value > 0 && *value < 1e18)) fields.report(key, fmt::format("{} is not an amount above 0", *value));
  if (value && *value > most) fields.report(key, fmt::format("{} is too large, must be {} or less", *value, most));
  return value;
}

/// True, or a text; false and null are not.
bool flag_of(Fields& fields, const char* key) {
  const json* value = fields.find(key);
  return value && (value->is_boolean() ? value->get<bool>() : !value->is_null());
}

/// Runs `read` over the object under `key`, when there is one.
template <class Read>
void read_nested(Fields& fields, const char* key, Read read) {
  if (auto inner = fields.optional_fields(key)) read(*inner);
}

void read_memory_norm(Fields& norm, Point& p) {
  p.framework = text_of(norm, "framework");
  p.precision = text_of(norm, "precision");
  p.loss = text_of(norm, "loss");
  p.checkpointing = text_of(norm, "checkpointing");
  p.length = text_of(norm, "length");
  p.is_kbit_prepared = norm.optional_flag("kbit_prepared").value_or(false);
  p.reduce_bucket = norm.optional_integer("reduce_bucket", kBucketRange);
}

void read_figures(Fields& fields, MemoryFigures& memory) {
  constexpr std::array<std::string_view, 2> kOutcomes{"ok", "oom"};
  memory.metric = fields.text("memory_metric");
  memory.gib = amount_of(fields, "peak_memory_gib", kMostGib);
  memory.capacity_gib = amount_of(fields, "gpu_mem_gib", kMostGib);
  memory.boundary = text_of(fields, "boundary");
  const std::string outcome = fields.optional_text("outcome").value_or("ok");
  if (std::find(kOutcomes.begin(), kOutcomes.end(), outcome) == kOutcomes.end())
    fields.report("outcome", fmt::format("'{}' is neither ok nor oom", outcome));
  memory.ran_out = outcome == "oom";
  read_nested(fields, "peak_alt_gib", [&](Fields& inner) {
    for (const std::string& metric : inner.keys())
      if (const auto gib = amount_of(inner, metric.c_str(), kMostGib)) memory.others_gib.emplace_back(metric, *gib);
  });
}

std::string why_memory_is_skipped(Fields& fields) {
  struct Flag {
    const char* key;
    const char* reason;
  };
  constexpr std::array kFlags{Flag{"in_scope", "out of scope"}, Flag{"fully_specified", "not fully specified"},
                              Flag{"use_for_scoring", "not meant for scoring"}};
  for (const Flag& flag : kFlags)
    if (!fields.optional_flag(flag.key).value_or(true)) return flag.reason;
  return {};
}

void read_memory_point(Fields& fields, Point& p) {
  p.kind = PointKind::Memory;
  p.source = fields.optional_text("source_key").value_or(text_of(fields, "source"));
  p.group = fields.optional_text("group").value_or(p.id);
  p.skipped = why_memory_is_skipped(fields);
  p.framework_text = text_of(fields, "framework");
  p.weight_dtype = text_of(fields, "weight_dtype");
  p.attention = text_of(fields, "attention");
  p.length_text = text_of(fields, "seq_len_kind");
  p.optimizer_in_backward = fields.optional_flag("optimizer_in_backward").value_or(false);
  p.is_compiled = flag_of(fields, "torch_compile");
  if (flag_of(fields, "cpu_offload")) p.offload.emplace_back("cpu");
  if (flag_of(fields, "activation_offload")) p.offload.emplace_back("activations");
  read_nested(fields, "norm", [&](Fields& norm) { read_memory_norm(norm, p); });
  read_figures(fields, p.memory);
}

void read_speed_norm(Fields& norm, Point& p) {
  p.strategy = text_of(norm, "family");
  p.framework = text_of(norm, "framework");
  p.precision = text_of(norm, "precision");
  const std::string matmul = text_of(norm, "matmul");
  if (!matmul.empty() && matmul != "fp8") norm.report("matmul", fmt::format("'{}' is not fp8", matmul));
  p.has_fp8_products = !matmul.empty();
  p.recomputed_share = amount_of(norm, "recomputed_share", 1);
  p.attention = text_of(norm, "attention");
  p.checkpointing = text_of(norm, "checkpointing");
  p.software = text_of(norm, "software");
  p.is_compiled = p.software == "compiled";
  p.offload = norm.texts("offload");
  p.overlaps_tensor_parallel = norm.optional_flag("tp_overlap");
  read_nested(norm, "degrees", [&](Fields& degrees) {
    for (const char* axis : {"tp", "pp", "cp", "ep", "etp"})
      if (const auto degree = degrees.optional_integer(axis, kGpuRange)) p.degrees.emplace_back(axis, *degree);
  });
  read_nested(norm, "link", [&](Fields& link) {
    p.link = PointLink{.kind = link.text("kind"),
                       .generation = link.optional_integer("generation", {1, 16}),
                       .has_p2p = link.optional_flag("p2p")};
  });
}

/// The size of a shard group under one of the names that `parallel` has for it, and the chunks of a stage (0 and 1 mean
/// none), or the layers of each.
void read_parallel(Fields& parallel, Point& p) {
  for (const char* key : {"fsdp", "zero1_shard_degree"})
    if (const auto size = parallel.optional_integer(key, {0, kMostGpus}); size && *size > 1) p.shard_size = size;
  p.splits_sequence = parallel.optional_flag("sequence_parallel");
  for (const char* key : {"vp", "interleave"})
    if (const auto chunks = parallel.optional_integer(key, {0, 1024}); chunks && *chunks > 1) p.chunks = chunks;
  p.stage_layers = text_of(parallel, "stage_layers");
}

void read_target(Fields& target, SpeedFigures& speed) {
  speed.metric = target.text("metric");
  speed.value = amount_of(target, "value").value_or(0);
  if (!target.is_given("value")) target.report("value", "is missing");
}

void read_speed_point(Fields& fields, Point& p) {
  p.kind = PointKind::Speed;
  p.source = text_of(fields, "source");
  p.framework_text = fields.optional_text("framework").value_or(p.source);
  p.loss_text = text_of(fields, "loss_impl");
  p.group = p.id;
  const std::string level = text_of(fields, "spec_level"), trust = text_of(fields, "trust");
  if (level == "partial") p.skipped = "not fully specified";
  if (trust == "low") p.skipped = "trust is low";
  p.checkpointing_text = text_of(fields, "gradient_checkpointing");
  p.global_batch = fields.optional_integer("global_batch_seqs", kTokenRange);
  p.gpus_per_node = fields.optional_integer("gpus_per_node", kGpuRange);
  p.network = text_of(fields, "inter_node_link");
  p.slots = text_of(fields, "intra_node_link");
  read_nested(fields, "norm", [&](Fields& norm) { read_speed_norm(norm, p); });
  read_nested(fields, "parallel", [&](Fields& parallel) { read_parallel(parallel, p); });
  read_nested(fields, "target", [&](Fields& target) { read_target(target, p.speed); });
  read_nested(fields, "metrics", [&](Fields& metrics) {
    p.speed.flops_kind = metrics.optional_text("tflops_kind").value_or("");
    p.speed.tflops_per_gpu = amount_of(metrics, "tflops_per_gpu");
  });
  read_nested(fields, "derived", [&](Fields& derived) {
    p.speed.tokens_per_step = amount_of(derived, "tokens_per_step");
    p.speed.step_seconds = amount_of(derived, "step_time_s");
  });
}

void read_shape(Fields& fields, Point& point) {
  point.shape = PointShape{.num_layers = fields.integer("n_layer", {1, 1 << 12}),
                           .hidden = fields.integer("d_model", {1, 1 << 18}),
                           .num_heads = fields.integer("n_heads", {1, 1 << 12}),
                           .num_kv_heads = fields.integer("n_kv", {1, 1 << 12}),
                           .ffn = fields.integer("d_ff", {1, 1 << 20}),
                           .vocab = fields.integer("vocab", {1, 1 << 24})};
}

void read_lora(Fields& fields, PointLora& lora) {
  lora.kind = text_of(fields, "kind");
  lora.rotation_block = fields.optional_integer("rotation_block", kRankRange).value_or(0);
  lora.factor = fields.optional_integer("factor", kRankRange).value_or(0);
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
  p.trained_for = text_of(fields, "trained_for");
  p.reference = text_of(fields, "reference");
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
  require_size(text.size(), name, kPointsLimit);
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
  return parse_points(read_file(file, kPointsLimit), file.string());
}

std::vector<Point> read_points(std::istream& in, const std::string& name) {
  return parse_points(read_stream(in, name, kPointsLimit), name);
}

}  // namespace gpuplan
