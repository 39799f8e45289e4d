// The fields of the measured part of a profile, each struct's in one list for the reader and the writer alike.
#pragma once

#include "cluster/profile/measured.h"

namespace gpuplan {

template <class Fields, class Quality>
void list_quality(Fields& f, Quality& q) {
  f("points", q.num_points);
  f("outliers", q.num_outliers);
  f("median_error", q.median_error);
  f("p90_error", q.p90_error);
  f("held_out_median", q.held_out_median);
  f("held_out_p90", q.held_out_p90);
}

template <class Fields, class Surface>
void list_surface(Fields& f, Surface& s) {
  f("type", s.type);
  f("layout", s.layout);
  f("regime", s.regime);
  for (const GemmParameter& parameter : kGemmParameters)
    if (parameter.is_in_all_profiles || f.has(parameter.name.data())) f(parameter.name.data(), s.*parameter.member);
  f("tile_m", s.tile_m);
  f("tile_n", s.tile_n);
  f("num_units", s.num_units);
  f("correction", s.correction);
  f("least", s.range.least);
  f("most", s.range.most);
  list_quality(f, s.quality);
}

template <class Fields, class Rate>
void list_kernel(Fields& f, Rate& r) {
  f("kernel", r.kernel);
  f("dtype", r.dtype);
  f("launch_s", r.launch);
  f("bandwidth_byte_s", r.bandwidth);
  f("least_bytes", r.least);
  f("most_bytes", r.most);
  list_quality(f, r.quality);
  f("curve_bytes_s", r.curve);
}

template <class Fields, class Rate>
void list_attention(Fields& f, Rate& r) {
  f("kernel", r.kernel);
  f("dtype", r.dtype);
  f("head_size", r.head_size);
  f("launch_s", r.launch);
  f("rate_flop_s", r.rate);
  list_quality(f, r.quality);
}

template <class Fields, class Scalar>
void list_scalar(Fields& f, Scalar& s) {
  f("name", s.name);
  f("unit", s.unit);
  f("ranks", s.num_ranks);
  f("value", s.value);
  list_quality(f, s.quality);
}

template <class Fields, class Errors>
void list_held_out(Fields& f, Errors& e) {
  f("what", e.what);
  f("points", e.num_points);
  f("median", e.median);
  f("p90", e.p90);
}

template <class Fields, class Segment>
void list_segment(Fields& f, Segment& s) {
  f("from_bytes", s.from);
  f("alpha_s", s.alpha);
  f("bandwidth_byte_s", s.bandwidth);
}

template <class Fields, class Curve>
void list_curve(Fields& f, Curve& c) {
  f("kind", c.kind);
  f("ranks", c.num_ranks);
  f("scope", c.scope);
  f("correction", c.correction);
  f("least_bytes", c.least);
  f("most_bytes", c.most);
  list_quality(f, c.quality);
}

template <class Fields, class On>
void list_machine(Fields& f, On& on) {
  f("kind", on.kind);
  f("device", on.device);
  f("gpu", on.gpu);
  f("architecture", on.architecture);
  f("fabric", on.fabric);
  f("num_devices", on.num_devices);
  f("num_cores", on.num_cores);
  f("memory_bytes", on.memory);
  f("date", on.date);
}

inline constexpr auto kSurface = [](auto& f, auto& s) { list_surface(f, s); };
inline constexpr auto kKernel = [](auto& f, auto& r) { list_kernel(f, r); };
inline constexpr auto kAttention = [](auto& f, auto& r) { list_attention(f, r); };
inline constexpr auto kScalar = [](auto& f, auto& s) { list_scalar(f, s); };
inline constexpr auto kHeldOut = [](auto& f, auto& e) { list_held_out(f, e); };
inline constexpr auto kSegment = [](auto& f, auto& s) { list_segment(f, s); };

inline constexpr auto kCurve = [](auto& f, auto& c) { list_curve(f, c); };
inline constexpr auto kMachine = [](auto& f, auto& on) { list_machine(f, on); };

}  // namespace gpuplan
