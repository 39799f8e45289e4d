// Verdicts, order of pairs and picks over results that are made up, so that every count can be checked by hand.
#include <cmath>
#include <deque>

#include <doctest/doctest.h>

#include "validate/comparison.h"
#include "validate/report.h"
#include "validate/speed_report.h"

using namespace gpuplan;

namespace {

Bytes gib(double amount) { return {std::int64_t(amount * 0x1p30)}; }

/// Points stay where they are; results point at them.
class Results {
 public:
  /// A run on a GPU of 100 GiB; `measured` 0 ran out of memory. A tenth of measurements lies 15 % below, a tenth 20 %
  /// above.
  void memory(const std::string& id, double measured, double needed) {
    Point& p =
        points_.emplace_back(Point{.kind = PointKind::Memory, .id = id, .source = "s", .group = id, .method = "full"});
    p.memory = {.metric = "max_allocated", .capacity_gib = 100, .ran_out = measured == 0};
    PointResult r{.point = &p, .strategy = "single"};
    if (measured > 0) {
      p.memory.gib = measured;
      r.own = r.allocated = Comparison{"max_allocated", measured, needed};
    }
    r.tiers = MemoryTiers{.tensors = gib(needed),
                          .process = gib(needed),
                          .needed = gib(needed),
                          .capacity = gib(100),
                          .usable = gib(100)};
    r.fit = fit_of(chance_to_run(*r.tiers, AccuracyRange{.low = 0.85, .high = 1.2}));
    list.push_back(r);
  }
  /// A setting of one job, in tokens per second.
  void speed(const std::string& id, double measured, double predicted, const std::string& model = "m") {
    Point& p = points_.emplace_back(Point{
        .kind = PointKind::Speed, .id = id, .source = "s", .group = id, .model = model, .method = "full", .gpu = "g"});
    PointResult r{.point = &p, .strategy = "ddp", .own = Comparison{"tokens_per_s", measured, predicted}};
    r.throughput = Throughput{measured, predicted};
    list.push_back(r);
  }
  std::vector<PointResult> list;

 private:
  std::deque<Point> points_;
};

}  // namespace

TEST_CASE("verdicts: no credit or blame near the capacity") {
  Results r;
  r.memory("fits", 50, 60);
  r.memory("false alarm", 50, 120);
  r.memory("measured near the limit", 96, 60);
  r.memory("predicted near the limit", 50, 103);
  r.memory("tight", 50, 93);
  r.memory("oom", 0, 120);
  r.memory("dangerous", 0, 80);
  r.memory("tight, oom", 0, 108);
  const VerdictCounts v = count_verdicts(r.list);
  CHECK(v.ok_fits == 1);
  CHECK(v.ok_tight == 1);
  CHECK(v.ok_oom == 1);
  CHECK(v.oom_oom == 1);
  CHECK(v.oom_tight == 1);
  CHECK(v.oom_fits == 1);
  CHECK(v.left_out == 2);
  CHECK(v.false_alarms == std::vector<std::string>{"false alarm"});
  CHECK(v.dangerous == std::vector<std::string>{"dangerous"});
}

TEST_CASE("verdicts: points that are skipped, unsupported or without a capacity do not count") {
  Results r;
  r.memory("a", 50, 60);
  r.memory("b", 50, 120);
  r.memory("c", 0, 80);
  r.list[0].status = PointStatus::Skipped;
  r.list[1].status = PointStatus::Unsupported;
  r.list[2].tiers->capacity = {};
  const VerdictCounts v = count_verdicts(r.list);
  CHECK(v.ok_fits + v.ok_oom + v.oom_oom + v.oom_fits == 0);
  CHECK(v.left_out == 1);
}

TEST_CASE("memory summary: unsupported points count as scoreable, skipped ones do not") {
  Results r;
  r.memory("a", 50, 55);  // +10 %
  r.memory("b", 50, 40);  // -20 %
  r.memory("c", 50, 60);
  r.memory("d", 50, 60);
  r.list[2].status = PointStatus::Unsupported;
  r.list[3].status = PointStatus::Skipped;
  const MemorySummary s = summarise_memory(r.list);
  CHECK(s.scoreable == 3);
  CHECK(s.represented == 2);
  CHECK(s.own.num_points == 2);
  CHECK(s.own.median == doctest::Approx(0.1));
  CHECK(s.own.worst == doctest::Approx(-0.2));
}

TEST_CASE("speed: the error is of the time, whatever the unit") {
  CHECK(log_time_error({"step_time_s", 2.0, 4.0}) == doctest::Approx(std::log(2.0)));    // twice the time: too slow
  CHECK(log_time_error({"tokens_per_s", 2.0, 4.0}) == doctest::Approx(-std::log(2.0)));  // twice the rate: too fast
}

TEST_CASE("speed summary and order of pairs, by hand") {
  Results r;
  r.speed("a", 100, 100);
  r.speed("b", 105, 90);       // within 10 % of a: no pair
  r.speed("c", 200, 95, "n");  // right against b, wrong against a
  const SpeedSummary s = summarise_speed(r.list);
  CHECK(s.represented == 3);
  CHECK(s.order.pairs == 2);
  CHECK(s.order.right == 1);
  CHECK(s.order_same_model.pairs == 0);
  // errors ln(measured / predicted): 0, 0.154, 0.744
  CHECK(s.median == doctest::Approx(std::log(105.0 / 90)));
  CHECK(s.p90 == doctest::Approx(std::log(200.0 / 95)));
  CHECK(s.mean_of_source_medians == doctest::Approx(s.median));
}

TEST_CASE("picks: regret is what our pick measured above the best") {
  Results r;
  r.speed("slow", 80, 200);  // our pick
  r.speed("best", 100, 150);
  r.speed("other job", 10, 10, "n");
  const PickSummary s = judge_picks(r.list, PointKind::Speed);
  REQUIRE(s.picks.size() == 1);  // one setting alone is no comparison
  CHECK(s.picks[0].picked == "slow");
  CHECK(s.picks[0].best == "best");
  CHECK(!s.picks[0].is_best());
  CHECK(s.picks[0].regret == doctest::Approx(0.25));  // 100 / 80
  CHECK(s.num_best == 0);
  CHECK(s.num_close == 0);
  CHECK(s.worst_regret == doctest::Approx(0.25));
}

TEST_CASE("plans: of jobs whose speeds differ by more than 10 %, how near our pick is to the best") {
  Results r;
  r.speed("slow", 80, 200);  // our pick: 100 / 80 = 25 % slower than the best
  r.speed("best", 100, 150);
  r.speed("near", 95, 100, "n");  // differ by 5 %: whichever is picked, no decision
  r.speed("nearer", 100, 90, "n");
  r.speed("right", 100, 100, "o");
  r.speed("wrong", 50, 60, "o");
  const PlanPicks p = judge_plans(r.list);
  CHECK(p.num_jobs == 2);
  CHECK(p.num_close == 1);
  CHECK(p.median_regret == doctest::Approx(0));  // the lower of 0 and 0.25
}

TEST_CASE("picks: of memory the least, at the same batch and length") {
  Results r;
  r.memory("a", 50, 55);
  r.memory("b", 40, 45);
  const PickSummary s = judge_picks(r.list, PointKind::Memory);
  REQUIRE(s.picks.size() == 1);
  CHECK(s.picks[0].is_best());
  CHECK(s.num_close == 1);
}

TEST_CASE("tables by source, method and strategy hold every point that counts once") {
  Results r;
  r.memory("a", 50, 55);
  r.memory("b", 50, 40);
  for (const Grouping grouping : {Grouping::Source, Grouping::Method, Grouping::Strategy}) {
    const auto rows = memory_by(r.list, grouping);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].summary.scoreable == 2);
  }
  CHECK(memory_by(r.list, Grouping::Strategy)[0].key == "single");
}
