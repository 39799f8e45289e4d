// How much a product suffers while an all-reduce runs beside it: its time under collectives on a second stream over its
// time alone.
#include <cmath>

#include "calibrate/probes/workload.h"

namespace gpuplan {
namespace {

struct Beside {
  Workload workload;
  std::unique_ptr<Stream> stream;  // goes first, and waits for work that uses the operands
};

/// Products in a row, timed while `num_collectives` that were enqueued first are under way.
Seconds time_under(ProbeBench& bench, const Beside& product, const Beside& collective, std::int64_t num_products,
                   std::int64_t num_collectives) {
  const auto begin = bench.device.create_event(), end = bench.device.create_event();
  const bool is_cpu = bench.device.facts().kind == DeviceKind::Cpu;
  if (is_cpu) {  // whose thread for products may not run at all while the other one communicates
    bench.device.record(*begin, *product.stream);
    product.stream->synchronise();
  }
  for (std::int64_t i = 0; i < num_collectives; ++i) collective.workload.call();
  if (!is_cpu) bench.device.record(*begin, *product.stream);
  for (std::int64_t i = 0; i < num_products; ++i) product.workload.call();
  bench.device.record(*end, *product.stream);
  try {
    product.stream->synchronise();
  } catch (...) {
    collective.stream->synchronise();  // which others take part in: ranks go on together
    throw;
  }
  collective.stream->synchronise();
  return bench.device.elapsed(*begin, *end);
}

}  // namespace

void run_overlap(const Probe& probe, ProbeBench& bench, Sample& sample) {
  const double alone = time_workload(gemm_workload, probe, bench).statistics.median;
  const Probe all_reduce = all_reduce_probe(probe.num_ranks, probe.bytes, probe.dtype);
  const double collective_alone = time_workload(collective_workload, all_reduce, bench).statistics.median;
  Beside product, collective;
  run_in_step(bench.ranks, [&] {
    product.stream = bench.device.create_stream_for(StreamUse::Compute);
    collective.stream = bench.device.create_stream_for(StreamUse::Communication);
    product.workload = gemm_workload(probe, bench, *product.stream);
    collective.workload = collective_workload(all_reduce, bench, *collective.stream);
    product.stream->synchronise();
  });
  // Collectives must outlast the products: twice their time alone, and one more. All ranks know the same times.
  const SampledTime under = time_in_step(bench, [&](std::int64_t num_products) {
    const double wanted = 2 * alone * double(num_products) / collective_alone;
    return time_under(bench, product, collective, num_products, std::int64_t(std::ceil(wanted)) + 1);
  });
  fill_in(sample, under);
  sample.overlapped = under.statistics.median / alone;
}

}  // namespace gpuplan
