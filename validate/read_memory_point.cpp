#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "validate/point_fields.h"

namespace gpuplan {
namespace {

void read_memory_norm(Fields& norm, Point& p) {
  p.framework = text_of(norm, "framework");
  p.precision = text_of(norm, "precision");
  p.loss = text_of(norm, "loss");
  p.checkpointing = text_of(norm, "checkpointing");
  p.length = text_of(norm, "length");
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

}  // namespace

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

}  // namespace gpuplan
