#include "validate/ranges.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

/// `count` points of one source and group each, with the same ratio.
void add(std::vector<Ratio>& ratios, const std::string& source, std::vector<double> values,
         Method method = Method::Full) {
  for (const double value : values) ratios.push_back({method, {source, source + std::to_string(ratios.size())}, value});
}

}  // namespace

TEST_CASE("the range is the quantiles of measured over predicted, and holds the prediction itself") {
  std::vector<Ratio> ratios;
  add(ratios, "a", {0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7});
  const AccuracyRange all = derive_range(ratios, 0.1, 1);
  CHECK(all.low == 0.8);                    // one of ten reaches 10 %
  CHECK(all.high == doctest::Approx(1.6));  // nine of ten reach 90 %
  CHECK(all.num_points == 10);
  std::vector<Ratio> high;
  add(high, "a", {1.2, 1.3});
  CHECK(derive_range(high, 0.1, 1).low == 1);
}

TEST_CASE("coverage of sources that were left out, by hand") {
  // without a: [1.0, 1.2] from b and c holds 1.1 of a, not 0.5; without b: [0.5, 1.2] holds 1.0; without c: [0.5, 1.1]
  // misses 1.2
  std::vector<Ratio> ratios;
  add(ratios, "a", {0.5, 1.1});
  add(ratios, "b", {1.0});
  add(ratios, "c", {1.2});
  CHECK(left_out_coverage(ratios, 0, 1) == doctest::Approx(0.5));
}

TEST_CASE("ranges are widened until sources that were left out are covered") {
  std::vector<Ratio> ratios;
  for (const auto& [source, value] :
       std::vector<std::pair<std::string, double>>{{"a", 0.8}, {"b", 0.95}, {"c", 1.05}, {"d", 1.3}})
    add(ratios, source, {value});
  const AccuracyRange fitted = fit_range(ratios);
  CHECK(fitted.coverage >= kWantedCoverage);
  CHECK(fitted.widening > 1);  // the extremes are outside whatever the others say
}

TEST_CASE("a method has its own range where enough was measured, else that of all") {
  std::vector<Ratio> ratios;
  for (const char* source : {"a", "b", "c"}) add(ratios, source, std::vector<double>(7, 1.2), Method::Lora);
  add(ratios, "d", {1.5, 1.6}, Method::Full);
  const FigureAccuracy fitted = fit_ranges(ratios);
  REQUIRE(fitted.by_method.size() == 1);
  CHECK(fitted.of(Method::Lora).high == doctest::Approx(1.2));
  CHECK(fitted.of(Method::Lora).coverage == 1);
  CHECK(&fitted.of(Method::Full) == &fitted.all);
  // 21 of Lora inside by the others of their method, the two of Full outside [1, 1.2]
  CHECK(fitted.coverage == doctest::Approx(21.0 / 23).epsilon(0.001));
}

TEST_CASE("ranges are read back as they were written") {
  FigureAccuracy figure{.all = {0.9, 1.2, 50, 4, 0.1, 1, 0.84}, .coverage = 0.82};
  figure.by_method.emplace_back(Method::Qlora, AccuracyRange{0.7, 1.3, 25, 3});
  const test::ScratchFolder scratch;
  const Accuracy read = read_accuracy(scratch.write("a.json", to_json({{{Figure::Process, figure}}}).dump()));
  REQUIRE(read.find(Figure::Process));
  CHECK(read.range(Figure::Process, Method::Qlora)->high == 1.3);
  CHECK(read.range(Figure::Process, Method::Lora)->low == 0.9);
  CHECK(read.find(Figure::Process)->coverage == 0.82);
  CHECK(read.find(Figure::Process)->all.coverage == 0.84);
  CHECK(!read.range(Figure::StepTime, Method::Lora));
}

TEST_CASE("a range that does not hold the prediction is refused") {
  const test::ScratchFolder scratch;
  FigureAccuracy figure{.all = {1.1, 1.2, 50, 4}};
  CHECK_THROWS_AS(read_accuracy(scratch.write("a.json", to_json({{{Figure::Process, figure}}}).dump())), InputError);
}
