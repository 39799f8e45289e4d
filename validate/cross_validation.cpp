#include "validate/cross_validation.h"

#include "base/files.h"
#include "base/json_file.h"
#include "validate/comparison.h"

namespace gpuplan {

CrossValidation read_cross_validation(const std::filesystem::path& file) {
  const nlohmann::json content = read_json_file(file);
  Fields fields(content, file.string());
  CrossValidation out{.command = fields.text("command"), .date = fields.text("date"), .ratios = {}};
  Fields ratios = fields.fields("ratios");
  for (const std::string& id : ratios.keys()) out.ratios[id] = ratios.number(id.c_str());
  fields.finish();
  return out;
}

CrossValidation read_cross_validation() {
  const auto file = data_dir() / "validation" / "cross_validated.json";
  return is_there(file) ? read_cross_validation(file) : CrossValidation{};
}

namespace {

/// No constant that is fitted changes what tensors take.
void scale_memory(std::optional<Comparison>& part, double ratio) {
  if (part && part->tier != MemoryTier::Tensors) part->predicted *= ratio;
}

void scale_time(PointResult& result, double ratio) {
  Comparison& own = *result.own;
  own.predicted *= is_rate(own) ? 1 / ratio : ratio;
  if (result.throughput) result.throughput->predicted /= ratio;
}

}  // namespace

std::vector<PointResult> not_seen(std::vector<PointResult> results, const CrossValidation& validation) {
  for (PointResult& r : results) {
    const auto found = validation.ratios.find(r.point->id);
    if (found == validation.ratios.end()) continue;
    if (r.point->kind == PointKind::Speed) {
      if (r.own) scale_time(r, found->second);
      continue;
    }
    for (auto* part : {&r.own, &r.allocated, &r.process}) scale_memory(*part, found->second);
  }
  return results;
}

}  // namespace gpuplan
