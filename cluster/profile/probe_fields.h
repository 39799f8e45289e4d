// The fields of probes and samples, listed once: the lines of JSON that workers, journals and profiles keep are written
// and read by these lists, and the samples of `gpuplan profiles show --json` are made of them.
#pragma once

#include "base/archive.h"
#include "cluster/profile/probe.h"

namespace gpuplan {

inline constexpr IntRange kSampleCount{0, std::int64_t(1) << 50};  // what is more is a torn or foreign file

template <class Archive, class P>
void list_product(Archive& f, P& probe) {
  f("type", probe.type);
  f("layout", probe.layout);
  f("m", probe.shape.m, kSampleCount);
  f("n", probe.shape.n, kSampleCount);
  f("k", probe.shape.k, kSampleCount);
  f("batch", probe.shape.batch, kSampleCount);
}

/// Every field that the probe's family uses, and no other.
template <class Archive, class P>
void list_probe(Archive& f, P& probe) {
  using enum ProbeFamily;
  const bool knows_family = f("family", probe.family);
  f("ranks", probe.num_ranks, kSampleCount);
  const auto is = [&](auto... families) { return knows_family && ((probe.family == families) || ...); };
  f.all_if(is(Gemm, Overlap), [&](auto& inner) { list_product(inner, probe); });
  f.all_if(is(Attention), [&](auto& inner) {
    inner("attention", probe.attention);
    inner("dtype", probe.dtype);
    inner("heads", probe.shape.batch, kSampleCount);
    inner("length", probe.shape.m, kSampleCount);
    inner("head_size", probe.shape.k, kSampleCount);
  });
  f.all_if(is(Memory), [&](auto& inner) {
    inner("kernel", probe.kernel);
    inner("dtype", probe.dtype);
    inner("rows", probe.rows, kSampleCount);
    inner("width", probe.width, kSampleCount);
  });
  f.all_if(is(Dispatch), [&](auto& inner) { inner("dispatch", probe.dispatch); });
  f.all_if(is(Copy), [&](auto& inner) {
    inner("path", probe.path);
    inner("peer", probe.peer, IntRange{0, 1 << 20});
  });
  f.all_if(is(Overhead), [&](auto& inner) { inner("overhead", probe.overhead); });
  f.all_if(is(Collective), [&](auto& inner) {
    inner("collective", probe.collective);
    inner("scope", probe.scope);
    inner("group_ranks", probe.group_ranks, kSampleCount);
    inner("dtype", probe.dtype);
  });
  f.all_if(is(Copy, Collective, Overlap), [&](auto& inner) { inner("bytes", probe.bytes); });
}

/// One that failed has no figures.
template <class Archive, class S>
void list_sample(Archive& f, S& sample) {
  f.object("probe", [&](auto& inner) { list_probe(inner, sample.probe); });
  f.optional("failure", sample.failure);
  f.all_if(sample.is_ok(), [&](auto& inner) {
    inner("median", sample.median);
    inner("low", sample.low);
    inner("high", sample.high);
    inner("runs", sample.num_runs, kSampleCount);
    inner("outliers", sample.num_outliers, kSampleCount);
    inner.optional("converged", sample.is_converged);
    inner.all_if(sample.probe.family == ProbeFamily::Overlap, [&](auto& one) { one("overlapped", sample.overlapped); });
  });
}

}  // namespace gpuplan
