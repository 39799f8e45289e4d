// How many plans `gpuplan plan` ranks per second: all cores against one, the search against an estimate of every plan
// by itself. Prints ratios of one run.
//   build/release/bench/bench_search_speed
#include <chrono>
#include <cstdio>

#include "models/catalogue.h"
#include "search/answer.h"

using namespace gpuplan;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

SearchQuestion question(const char* model, std::vector<Hardware> machines, bool is_rented) {
  SearchQuestion q;
  q.base.model = load_model(model).spec;
  q.base.dataset = {.rows = 50'000, .tokens_per_row = 800, .epochs = 3};
  q.pinned = {"packing"};
  q.machines = std::move(machines);
  q.is_rented = is_rented;
  return q;
}

/// Plans for which a verdict was reached: those whose kind is not possible at all cost nothing and do not count.
std::int64_t num_judged(const Ranking& r) {
  const auto of = [&](const char* why) { return r.rejected.contains(why) ? r.rejected.at(why) : 0; };
  return std::int64_t(r.plans.size()) + of("does not fit");
}

void print(const char* name, const Ranking& r, double seconds, unsigned threads) {
  std::printf("%-34s %8u %10ld %10ld %10ld %8.2f %12.0f %10.2f\n", name, threads, long(r.num_plans),
              long(num_judged(r)), long(r.num_built), seconds, double(num_judged(r)) / seconds,
              1e6 * seconds * threads / double(num_judged(r)));
}

void search_with(const char* name, const Space& space, unsigned threads) {
  const auto begin = Clock::now();
  const Ranking r = search(space, {.num_threads = threads, .stop = nullptr, .progress = {}}).ranking;
  print(name, r, seconds_since(begin), threads);
}

}  // namespace

int main() {
  std::printf("%-34s %8s %10s %10s %10s %8s %12s %10s\n", "question", "threads", "plans", "judged", "programs", "s",
              "judged per s", "core us");
  const auto begin = Clock::now();
  const SearchQuestion rented = question("llama-3-8b", rentable({}), true);
  std::printf("%-34s %51.2f\n", "read the catalogue", seconds_since(begin));
  const Space space(rented);
  for (const unsigned threads : {1u, 2u}) search_with("llama-3-8b, what can be rented", space, threads);

  const ClusterSpec cluster = parse_gpus("8xA100");
  const SearchQuestion own =
      question("llama-3-8b", {own_machine(cluster, default_profile(cluster.gpus.front()), "--gpus 8xA100", {})}, false);
  const Space small(own);
  search_with("llama-3-8b on 8xA100", small, 1);
  const auto start = Clock::now();
  const Ranking every = search_by_brute_force(small);
  const double seconds = seconds_since(start);
  std::printf("%-34s %8u %10ld %10s %10s %8.2f %12.0f %10.2f\n", "the same, every plan by itself", 1u,
              long(every.num_plans), "", "", seconds, double(every.num_plans) / seconds,
              1e6 * seconds / double(every.num_plans));
}
