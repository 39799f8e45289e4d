// The fields of the answers of `gpuplan profiles` and `gpuplan calibrate`, listed once: report/json/estimate_fields.h.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "cluster/profile/measured_fields.h"
#include "cluster/profile/probe_fields.h"
#include "report/json/common_fields.h"
#include "report/profile_list.h"
#include "report/profile_numbers.h"
#include "report/text/profile_text.h"

namespace gpuplan {

// In a profile's file a fit and a shape are lists of numbers: answers name them.
struct NamedFit : Fitted {};
struct NamedShape : GemmShape {};

template <class Archive>
void list_fields(Archive& f, const NamedFit& fit) {
  f("value", fit.value);
  f("low", fit.low, "95 % interval");
  f("high", fit.high);
}

template <class Archive>
void list_fields(Archive& f, const NamedShape& shape) {
  f("m", shape.m);
  f("n", shape.n);
  f("k", shape.k);
  f("batch", shape.batch);
}

template <class Archive>
void list_fields(Archive& f, const FitQuality& q) {
  f("num_points", q.num_points);
  f("num_outliers", q.num_outliers);
  f("median_error", q.median_error, "|ln(fitted / measured)|");
  f("p90_error", q.p90_error);
  f("held_out_median", q.held_out_median, "of cross-validation");
  f("held_out_p90", q.held_out_p90);
}

/// "rate" in FLOP/s is rate_flops_per_second.
inline std::string key_of(const GemmParameter& parameter) {
  constexpr std::array<const char*, 5> kEnds{"_flops_per_second", "_bytes_per_second", "_seconds", "_bytes",
                                             ""};  // by FitUnit
  return std::string(parameter.name) + kEnds[std::size_t(parameter.unit)];
}

template <class Archive>
void list_fields(Archive& f, const GemmSurface& s) {
  f("type", s.type);
  f("layout", s.layout);
  f("regime", s.regime);
  for (const GemmParameter& parameter : kGemmParameters) f(key_of(parameter), NamedFit{s.*parameter.member});
  f("correction_points", s.correction.points().size());
  f("tile_m", s.tile_m);
  f("tile_n", s.tile_n);
  f("num_units", s.num_units);
  f("least", NamedShape{s.range.least});
  f("most", NamedShape{s.range.most});
  f("quality", s.quality);
}

template <class Archive>
void list_fields(Archive& f, const KernelRate& r) {
  f("kernel", r.kernel);
  f("dtype", r.dtype);
  f("launch_seconds", NamedFit{r.launch});
  f("bandwidth_bytes_per_second", NamedFit{r.bandwidth});
  f("least_bytes", r.least, "traffic");
  f("most_bytes", r.most);
  f("quality", r.quality);
}

template <class Archive>
void list_fields(Archive& f, const AttentionRate& r) {
  f("kernel", r.kernel);
  f("dtype", r.dtype);
  f("head_size", r.head_size);
  f("launch_seconds", NamedFit{r.launch});
  f("rate_flops_per_second", NamedFit{r.rate});
  f("quality", r.quality);
}

template <class Archive>
void list_fields(Archive& f, const MeasurementsAtRanks& load) {
  f("num_ranks", load.num_ranks, "that work at once");
  f("gemm", load.gemm);
  f("kernels", load.kernels);
  f("attention", load.attention);
}

template <class Archive>
void list_fields(Archive& f, const CurveSegment& s) {
  f("from_bytes", s.from);
  f("alpha_seconds", NamedFit{s.alpha});
  f("bandwidth_bytes_per_second", NamedFit{s.bandwidth});
}

template <class Archive>
void list_fields(Archive& f, const CollectiveCurve& c) {
  f("kind", c.kind);
  f("num_ranks", c.num_ranks);
  f("scope", c.scope);
  f("least_bytes", c.least);
  f("most_bytes", c.most);
  f("segments", c.segments);
  f("correction_points", c.correction.points().size());
  f("quality", c.quality);
}

template <class Archive>
void list_fields(Archive& f, const ScalarFit& s) {
  f("name", s.name);
  f("unit", s.unit, "empty: a ratio");
  f("num_ranks", s.num_ranks);
  f("value", NamedFit{s.value});
  f("quality", s.quality);
}

template <class Archive>
void list_fields(Archive& f, const HeldOut& e) {
  f("what", e.what);
  f("num_points", e.num_points);
  f("median", e.median);
  f("p90", e.p90);
}

template <class Archive>
void list_fields(Archive& f, const ProfileValue& v) {
  f("value", v.value, "in its unit");
  f("unit", v.unit);
  f("low", v.low);
  f("high", v.high);
  f("kind", v.kind, "measured, fitted, datasheet or derived");
  f("source", v.source);
  f("num_samples", v.num_samples, "0: not stated");
  f("residual", v.num_samples > 0 ? std::optional(v.residual) : std::nullopt);
}

template <class Archive>
void list_fields(Archive& f, const Profile& profile) {
  const Measured none;
  const Measured& measured = profile.measured ? *profile.measured : none;
  f("gpuplan_version", std::string(GPUPLAN_VERSION));
  f("id", profile.id);
  f("title", profile.title);
  f("file", profile.file);
  f("sha256", profile.sha256);
  f.nullable_object("measured_on", profile.measured != nullptr, [&](auto& inner) {
    list_machine(inner, measured.on);
    inner("warnings", measured.on.warnings);
  });
  f("summary", summary_sentences(profile));
  f.named("values", profile.values);
  f.all_if(profile.measured != nullptr, [&](auto& inner) {
    inner("loads", measured.loads);
    inner("collectives", measured.collectives);
    inner("scalars", measured.scalars);
    inner("held_out", measured.held_out);
    inner.objects("samples", samples_of(profile), [](auto& one, const Sample& sample) { list_sample(one, sample); });
  });
}

template <class Archive>
void list_fields(Archive& f, const ListedProfile& one) {
  const Profile* const profile = one.stored.profile.get();
  const bool is_measured = profile && profile->measured;
  const MeasuredOn on = is_measured ? profile->measured->on : MeasuredOn{};
  f("id", profile ? std::optional(profile->id) : std::nullopt);
  f("file", one.stored.file.string());
  f.all_or_null(is_measured, [&](auto& inner) {
    inner("device", on.device);
    inner("gpu", on.gpu);
    inner("num_devices", on.num_devices);
    inner("date", on.date);
  });
  f("used_for", text_or_null(one.used_for), "null: nothing on this machine");
  f("problem", text_or_null(one.stored.problem), "why it cannot be read");
}

template <class Archive>
void list_fields(Archive& f, const ListedClass& one) {
  f("id", one.id);
  f("title", one.title);
  f("used_for", text_or_null(one.used_for), "null: nothing on this machine");
}

template <class Archive>
void list_fields(Archive& f, const ProfileList& list) {
  f("folder", list.folder.string());
  f("profiles", list.measured);
  f("shipped", list.shipped);
}

template <class Archive>
void list_fields(Archive& f, const ProfileNumber& n) {
  f("value", n.number.value);
  f.all_or_null(n.has_interval, [&](auto& inner) {
    inner("low", n.number.low);
    inner("high", n.number.high);
  });
}

template <class Archive>
void list_fields(Archive& f, const ComparedNumber& row) {
  f("number", row.first.name);
  f("unit", unit_name(row.first));
  f("first", row.first);
  f("second", row.second);
  f("ratio", row.ratio, "second over first");
  f("do_intervals_overlap", row.do_intervals_overlap);
}

template <class Archive>
void list_compared(Archive& f, const Profile& first, const Profile& second, const ProfileComparison& c) {
  f("first", first.id);
  f("second", second.id);
  f("numbers", c.both);
  f("only_in_first", c.only_in_first);
  f("only_in_second", c.only_in_second);
  f("num_with_intervals", c.num_with_intervals);
  f("num_agreeing", c.num_agreeing);
  f("agreement", c.num_with_intervals > 0 ? std::optional(c.agreement()) : std::nullopt, "a share");
}

}  // namespace gpuplan
