// Compute beside communication, and kernels behind their launches: closed forms against naive walks.
#include <algorithm>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "planner/block.h"
#include "planner/instruction_cost.h"

using namespace gpuplan;

namespace {

struct Interval {
  double begin{}, end{};
};

/// Work in steps of 1 / 64 s, each slower when its moment lies in any interval; times are multiples of that, so it is
/// exact.
double naive_finish(const std::vector<Interval>& running, double start, double work, double slowdown) {
  constexpr double kStep = 1.0 / 64;
  double now = start;
  while (work > 1e-9) {
    const bool beside =
        std::any_of(running.begin(), running.end(), [&](Interval i) { return i.begin <= now && now < i.end; });
    const double done = kStep / (beside ? 1 + slowdown : 1);
    if (done >= work) return now + work * (beside ? 1 + slowdown : 1);
    work -= done;
    now += kStep;
  }
  return now;
}

}  // namespace

TEST_CASE("compute of 4 s beside 2 s of a collective, half as fast there: 1 s of it is done in those 2 s, 5 s in all") {
  CommunicationSpans spans;
  spans.add(11, 13, 1);
  CHECK(spans.finish(10, 4, 1) == 15);
  CHECK(spans.finish(10, 4, 0) == 14);
  CHECK(spans.finish(10, 1, 1) == 11);    // ends as the collective begins
  CHECK(spans.finish(12, 4, 1) == 16.5);  // one second of overlap: half a second lost
  CHECK(spans.finish(13, 4, 1) == 17);
}

TEST_CASE("two collectives at once slow compute no more than one; touching ones are one") {
  CommunicationSpans spans;
  spans.add(0, 4, 1);
  spans.add(2, 6, 1);
  spans.add(6, 8, 1);
  CHECK(spans.finish(0, 8, 1) == 12);
}

TEST_CASE("moved by a repeat's shift, spans slow what runs then") {
  CommunicationSpans spans;
  spans.add(0, 1, 1);
  spans.add(2, 4, 1);
  spans.shift(2, 10);
  CHECK(spans.finish(1, 2, 1) == 3);
  CHECK(spans.finish(12, 1, 1) == 14);
}

TEST_CASE("spans against a walk in small steps, added in any order") {
  std::mt19937 random(7);
  const auto up_to = [&](int most) { return double(int(random() % unsigned(most))) / 64; };
  for (int round = 0; round < 300; ++round) {
    INFO(round);
    std::vector<Interval> running;
    CommunicationSpans spans;
    for (int i = 0; i < 8; ++i) {
      const double begin = up_to(512);
      running.push_back({begin, begin + up_to(96)});
      spans.add(running.back().begin, running.back().end, 0.25);
    }
    double start = 0;
    for (int call = 0; call < 4; ++call) {
      start += up_to(128);
      const double work = up_to(256);
      CHECK(spans.finish(start, work, 0.25) ==
            doctest::Approx(naive_finish(running, start, work, 0.25)).epsilon(1e-12));
    }
  }
}

TEST_CASE(
    "a collective that is known only after the compute beside it: the compute ends as late as if it had been known") {
  {
    CommunicationSpans spans;
    CHECK(spans.finish(0, 4, 1) == 4);
    CHECK(spans.add(4, 6, 1) == 0);  // behind it
    CHECK(spans.add(1, 3, 0) == 0);
  }
  {
    CommunicationSpans spans;
    CHECK(spans.finish(0, 4, 1) == 4);
    CHECK(spans.add(1, 3, 1) == 1);   // 4 s of work, 1 s of it in 2 s
    CHECK(spans.add(2, 3, 1) == 0);   // beside another one
    CHECK(spans.add(4, 40, 1) == 1);  // now it ends at 5: its last second takes two
    CHECK(spans.finish(6, 1, 1) == 8);
  }
  {
    CommunicationSpans spans;
    CHECK(spans.finish(0, 1, 1) == 1);
    CHECK(spans.finish(5, 2, 1) == 7);
    CHECK(spans.add(0, 6, 1) == 0.5);  // of the compute before the gap nothing is taken back
  }
  std::mt19937 random(13);
  const auto up_to = [&](int most) { return double(int(random() % unsigned(most))) / 64; };
  for (int round = 0; round < 300; ++round) {  // compute in one run, gathers in their order, each told after some call
    INFO(round);
    std::vector<Interval> running;
    CommunicationSpans spans;
    double gather = 0, compute = 0, work = 0;
    for (int call = 0; call < 12; ++call) {
      const double more = 0.5 + up_to(96);
      compute = spans.finish(compute, more, 0.25);
      work += more;
      if (random() % 2) continue;
      gather += up_to(64);
      running.push_back({gather, gather + up_to(96)});
      gather = running.back().end;
      compute += spans.add(running.back().begin, running.back().end, 0.25);
    }
    CHECK(compute == doctest::Approx(naive_finish(running, 0, work, 0.25)).epsilon(1e-9));
  }
}

TEST_CASE("host tail: kernels one by one behind their launches, whatever the mix of ops") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    INFO(round);
    const double dispatch = double(random() % 8), wait = double(random() % 200);  // `wait`: when the inputs are there
    double naive = 0, late = wait, total = 0;
    Seconds tail;
    std::int64_t launched = 0;
    for (int op = 0; op < 6; ++op) {
      const std::int64_t kernels = 1 + std::int64_t(random() % 4);
      const double work = double(random() % 40);
      tail = launched_end(tail, {double(launched) * dispatch}, kernels, {work}, {dispatch});
      total += work;
      for (std::int64_t k = 0; k < kernels; ++k) {
        ++launched;
        naive = std::max(naive, double(launched) * dispatch) + work / double(kernels);
        late = std::max(late, double(launched) * dispatch) + work / double(kernels);
      }
    }
    CHECK(tail.value == doctest::Approx(naive).epsilon(1e-12));
    CHECK(std::max(wait + total, tail.value) == doctest::Approx(late).epsilon(1e-12));
  }
}
