#include "validate/point_fields.h"

namespace gpuplan {
namespace {

void read_speed_norm(Fields& norm, Point& p) {
  p.strategy = text_of(norm, "family");
  p.precision = text_of(norm, "precision");
  p.attention = text_of(norm, "attention");
  p.checkpointing = text_of(norm, "checkpointing");
  p.software = text_of(norm, "software");
  p.is_compiled = p.software == "compiled";
  p.offload = norm.texts("offload");
  read_nested(norm, "degrees", [&](Fields& degrees) {
    for (const char* axis : {"tp", "pp", "cp", "ep"})
      if (const auto degree = degrees.optional_integer(axis, kGpuRange)) p.degrees.emplace_back(axis, *degree);
  });
  read_nested(norm, "link", [&](Fields& link) {
    p.link = PointLink{.kind = link.text("kind"),
                       .generation = link.optional_integer("generation", {1, 16}),
                       .has_p2p = link.optional_flag("p2p")};
  });
}

/// The size of a shard group under one of the names that `parallel` has for it; 0 and 1 mean no sharding there.
void read_parallel(Fields& parallel, Point& p) {
  for (const char* key : {"fsdp", "zero1_shard_degree"})
    if (const auto size = parallel.optional_integer(key, {0, kMostGpus}); size && *size > 1) p.shard_size = size;
}

void read_target(Fields& target, SpeedFigures& speed) {
  speed.metric = target.text("metric");
  speed.value = amount_of(target, "value").value_or(0);
  if (!target.is_given("value")) target.report("value", "is missing");
}

}  // namespace

void read_speed_point(Fields& fields, Point& p) {
  p.kind = PointKind::Speed;
  p.source = p.framework_text = text_of(fields, "source");
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

}  // namespace gpuplan
