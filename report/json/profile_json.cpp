#include "report/json/answers_json.h"

#include <array>

#include "base/json_file.h"
#include "cluster/profile/probe.h"
#include "report/json/json_values.h"
#include "report/profile_numbers.h"
#include "report/text/profile_text.h"

namespace gpuplan {

namespace {

using Json = nlohmann::ordered_json;

Json fitted_json(const Fitted& f) { return {{"value", f.value}, {"low", f.low}, {"high", f.high}}; }

Json quality_json(const FitQuality& q) {
  return {{"num_points", q.num_points}, {"num_outliers", q.num_outliers},       {"median_error", q.median_error},
          {"p90_error", q.p90_error},   {"held_out_median", q.held_out_median}, {"held_out_p90", q.held_out_p90}};
}

Json shape_json(const GemmShape& s) { return {{"m", s.m}, {"n", s.n}, {"k", s.k}, {"batch", s.batch}}; }

/// "rate" in FLOP/s is rate_flops_per_second.
std::string key_of(const GemmParameter& parameter) {
  constexpr std::array<const char*, 5> kEnds{"_flops_per_second", "_bytes_per_second", "_seconds", "_bytes",
                                             ""};  // by FitUnit
  return std::string(parameter.name) + kEnds[std::size_t(parameter.unit)];
}

Json surface_json(const GemmSurface& s) {
  Json out{{"type", to_string(s.type)}, {"layout", to_string(s.layout)}, {"regime", to_string(s.regime)}};
  for (const GemmParameter& parameter : kGemmParameters) out[key_of(parameter)] = fitted_json(s.*parameter.member);
  out["correction_points"] = s.correction.points().size();
  out["tile_m"] = s.tile_m;
  out["tile_n"] = s.tile_n;
  out["num_units"] = s.num_units;
  out["least"] = shape_json(s.range.least);
  out["most"] = shape_json(s.range.most);
  out["quality"] = quality_json(s.quality);
  return out;
}

Json kernel_json(const KernelRate& r) {
  return {{"kernel", r.kernel},
          {"dtype", to_string(r.dtype)},
          {"launch_seconds", fitted_json(r.launch)},
          {"bandwidth_bytes_per_second", fitted_json(r.bandwidth)},
          {"least_bytes", r.least.count},
          {"most_bytes", r.most.count},
          {"quality", quality_json(r.quality)}};
}

Json attention_json(const AttentionRate& r) {
  return {{"kernel", r.kernel},
          {"dtype", to_string(r.dtype)},
          {"head_size", r.head_size},
          {"launch_seconds", fitted_json(r.launch)},
          {"rate_flops_per_second", fitted_json(r.rate)},
          {"quality", quality_json(r.quality)}};
}

Json segment_json(const CurveSegment& s) {
  return {{"from_bytes", s.from.count},
          {"alpha_seconds", fitted_json(s.alpha)},
          {"bandwidth_bytes_per_second", fitted_json(s.bandwidth)}};
}

template <class T, class ToJson>
Json list_json(const std::vector<T>& rows, ToJson to_json) {
  Json out = Json::array();
  for (const T& row : rows) out.push_back(to_json(row));
  return out;
}

Json load_json(const MeasurementsAtRanks& load) {
  return {{"num_ranks", load.num_ranks},
          {"gemm", list_json(load.gemm, surface_json)},
          {"kernels", list_json(load.kernels, kernel_json)},
          {"attention", list_json(load.attention, attention_json)}};
}

Json curve_json(const CollectiveCurve& c) {
  return {{"kind", to_string(c.kind)},
          {"num_ranks", c.num_ranks},
          {"scope", to_string(c.scope)},
          {"least_bytes", c.least.count},
          {"most_bytes", c.most.count},
          {"segments", list_json(c.segments, segment_json)},
          {"correction_points", c.correction.points().size()},
          {"quality", quality_json(c.quality)}};
}

Json held_out_json(const HeldOut& e) {
  return {{"what", e.what}, {"num_points", e.num_points}, {"median", e.median}, {"p90", e.p90}};
}

Json scalar_json(const ScalarFit& s) {
  return {{"name", s.name},
          {"unit", s.unit},
          {"num_ranks", s.num_ranks},
          {"value", fitted_json(s.value)},
          {"quality", quality_json(s.quality)}};
}

Json machine_json(const MeasuredOn& on) {
  Json versions = Json::object();
  for (const auto& [name, version] : on.versions) versions[name] = version;
  return {{"kind", on.kind},
          {"device", on.device},
          {"gpu", on.gpu},
          {"architecture", on.architecture},
          {"fabric", on.fabric},
          {"num_devices", on.num_devices},
          {"num_cores", on.num_cores},
          {"memory_bytes", on.memory.count},
          {"date", on.date},
          {"versions", versions},
          {"warnings", on.warnings}};
}

Json values_json(const Profile& profile) {
  Json out = Json::object();
  for (const auto& [name, v] : profile.values)
    out[name] = {{"value", v.value},
                 {"unit", v.unit},
                 {"low", or_null(v.low)},
                 {"high", or_null(v.high)},
                 {"kind", v.kind},
                 {"source", v.source},
                 {"num_samples", v.num_samples},
                 {"residual", v.num_samples > 0 ? Json(v.residual) : Json()}};
  return out;
}

Json samples_json(const Profile& profile) {
  Json out = Json::array();
  for (const Sample& sample : samples_of(profile)) out.push_back(Json::parse(to_json_line(sample)));
  return out;
}

Json number_json(const ProfileNumber& n) {
  return {{"value", n.number.value},
          {"low", n.has_interval ? Json(n.number.low) : Json()},
          {"high", n.has_interval ? Json(n.number.high) : Json()}};
}

Json row_json(const ComparedNumber& row) {
  return {{"number", row.first.name},        {"unit", unit_name(row.first)},
          {"first", number_json(row.first)}, {"second", number_json(row.second)},
          {"ratio", or_null(row.ratio)},     {"do_intervals_overlap", or_null(row.do_intervals_overlap)}};
}

Json stored_json(const ListedProfile& one) {
  const Profile* const profile = one.stored.profile.get();
  const MeasuredOn* const on = profile && profile->measured ? &profile->measured->on : nullptr;
  return {{"id", profile ? Json(profile->id) : Json()},
          {"file", one.stored.file.string()},
          {"device", on ? Json(on->device) : Json()},
          {"gpu", on ? Json(on->gpu) : Json()},
          {"num_devices", on ? Json(on->num_devices) : Json()},
          {"date", on ? Json(on->date) : Json()},
          {"used_for", or_null(one.used_for)},
          {"problem", or_null(one.stored.problem)}};
}

}  // namespace

Json profile_json(const Profile& profile) {
  Json out{{"id", profile.id},
           {"title", profile.title},
           {"file", profile.file},
           {"sha256", profile.sha256},
           {"measured_on", profile.measured ? machine_json(profile.measured->on) : Json()},
           {"summary", summary_sentences(profile)},
           {"values", values_json(profile)}};
  if (!profile.measured) return out;
  out["loads"] = list_json(profile.measured->loads, load_json);
  out["collectives"] = list_json(profile.measured->collectives, curve_json);
  out["scalars"] = list_json(profile.measured->scalars, scalar_json);
  out["held_out"] = list_json(profile.measured->held_out, held_out_json);
  out["samples"] = samples_json(profile);
  return out;
}

Json profiles_json(const ProfileList& list) {
  return {{"folder", list.folder.string()},
          {"profiles", list_json(list.measured, stored_json)},
          {"shipped", list_json(list.shipped, [](const ListedClass& one) {
             return Json{{"id", one.id}, {"title", one.title}, {"used_for", or_null(one.used_for)}};
           })}};
}

Json comparison_json(const Profile& first, const Profile& second, const ProfileComparison& c) {
  return {{"first", first.id},
          {"second", second.id},
          {"numbers", list_json(c.both, row_json)},
          {"only_in_first", c.only_in_first},
          {"only_in_second", c.only_in_second},
          {"num_with_intervals", c.num_with_intervals},
          {"num_agreeing", c.num_agreeing},
          {"agreement", c.num_with_intervals > 0 ? Json(c.agreement()) : Json()}};
}

}  // namespace gpuplan
