#include "validate/ranges.h"

#include <algorithm>
#include <map>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "scratch_folder.h"
#include "validate/cross_validation.h"
#include "validate/read_points.h"

using namespace gpuplan;

namespace {

const std::vector<std::string> kLora{"sharded LoRA", "LoRA", "training"}, kAll{"training"};

/// Points of one source, each a group of its own.
void add(std::vector<Ratio>& ratios, const std::string& source, std::vector<double> values,
         const std::vector<std::string>& cells = kAll) {
  for (const double value : values) ratios.push_back({cells, {source, source + std::to_string(ratios.size())}, value});
}

/// Every published point, predicted by fits without its source.
std::vector<PointResult> not_seen_results(const char* file) {
  static std::map<std::string, std::vector<Point>> points;
  points[file] = read_points(data_dir() / "validation" / file);
  PointPlanner planner(AliasTable::read());
  return not_seen(judge(points[file], planner).results, read_cross_validation());
}

}  // namespace

TEST_CASE("the range is the quantiles of measured over predicted, and holds the prediction itself") {
  std::vector<Ratio> ratios;
  add(ratios, "a", {0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7});
  const AccuracyRange all = derive_range(ratios, kAll, 0.1, 1);
  CHECK(all.low == 0.8);                    // one of ten reaches 10 %
  CHECK(all.high == doctest::Approx(1.6));  // nine of ten reach 90 %
  CHECK(all.num_points == 10);
  std::vector<Ratio> high;
  add(high, "a", {1.2, 1.3});
  CHECK(derive_range(high, kAll, 0.1, 1).low == 1);
}

TEST_CASE("coverage of sources that were left out, by hand") {
  // without a: [1.0, 1.2] from b and c holds 1.1 of a, not 0.5; without b: [0.5, 1.2] holds 1.0; without c: [0.5, 1.1]
  // misses 1.2
  std::vector<Ratio> ratios;
  add(ratios, "a", {0.5, 1.1});
  add(ratios, "b", {1.0});
  add(ratios, "c", {1.2});
  CHECK(left_out_coverage(ratios, kAll, 0, 1, "training") == doctest::Approx(0.5));
}

TEST_CASE("ranges are widened until sources that were left out are covered") {
  std::vector<Ratio> ratios;
  for (const auto& [source, value] :
       std::vector<std::pair<std::string, double>>{{"a", 0.8}, {"b", 0.95}, {"c", 1.05}, {"d", 1.3}})
    add(ratios, source, {value});
  const AccuracyRange fitted = fit_range(ratios, kAll);
  CHECK(fitted.coverage >= kWantedCoverage);
  CHECK(fitted.widening > 1);  // the extremes are outside whatever the others say
}

TEST_CASE("a cell of few sources is shrunk towards its parent") {
  // the cell has 1.2 of one source, a third of the weight at two sources per parent; all have 1.0 and 1.5 besides
  std::vector<Ratio> ratios;
  add(ratios, "a", std::vector<double>(10, 1.2), kLora);
  add(ratios, "b", {1.0}, {"unsharded LoRA", "LoRA", "training"});
  add(ratios, "c", {1.5}, {"unsharded QLoRA", "QLoRA", "training"});
  const AccuracyRange range = derive_range(ratios, kLora, 0.1, 1);
  CHECK(range.num_points == 10);
  CHECK(range.num_sources == 1);
  // a: 1/3 + 2/3 (2/4 1/2 + 2/4 1/3) = 0.61; b 0.28; c 2/3 x 2/4 x 1/3 = 0.11
  CHECK(range.low == doctest::Approx(1.0));
  CHECK(range.high == doctest::Approx(1.5));
  CHECK(derive_range(ratios, kLora, 0.12, 1).high == doctest::Approx(1.2));
}

TEST_CASE("cells go by method and sharding for memory, by task and place for time") {
  const MeasuredKind qlora{.method = Method::Qlora, .is_sharded = true, .has_several_gpus = true};
  CHECK(cells_of(Figure::Process, qlora) == std::vector<std::string>{"sharded QLoRA", "QLoRA", "training"});
  CHECK(cells_of(Figure::StepTime, qlora) ==
        std::vector<std::string>{"fine-tuning on several GPUs", "fine-tuning", "training"});
  CHECK(cells_of(Figure::StepTime, {.is_pretraining = true, .offloads = true}).front() == "pre-training with offload");
}

TEST_CASE("ranges are read back as they were written, and a cell that was not measured has its parent's") {
  FigureAccuracy figure;
  figure.cells.push_back({0.9, 1.2, 50, 4, 0.1, 1, 0.84, "training"});
  figure.cells.push_back({0.7, 1.3, 25, 3, 0.1, 1, 0.82, "QLoRA"});
  Accuracy written{.figures = {{Figure::Process, figure}}, .pretraining_frameworks = {"megatron"}};
  const test::ScratchFolder scratch;
  const Accuracy read = read_accuracy(scratch.write("a.json", to_json(written).dump()));
  CHECK(read.range(Figure::Process, {.method = Method::Qlora})->high == 1.3);
  CHECK(read.range(Figure::Process, {.method = Method::Qlora})->cell == "QLoRA");
  CHECK(read.range(Figure::Process, {.method = Method::Lora})->low == 0.9);
  CHECK(read.range(Figure::Process, {.method = Method::Lora})->coverage == 0.84);
  CHECK(read.pretraining_frameworks == written.pretraining_frameworks);
  CHECK(!read.range(Figure::StepTime, {}));
}

TEST_CASE("a range that does not hold the prediction is refused") {
  const test::ScratchFolder scratch;
  FigureAccuracy figure;
  figure.cells.push_back({1.1, 1.2, 50, 4, 0.1, 1, 0.84, "training"});
  CHECK_THROWS_AS(read_accuracy(scratch.write("a.json", to_json({{{Figure::Process, figure}}, {}}).dump())),
                  InputError);
}

TEST_CASE("a prediction not seen is the shipped one times its ratio; of rates, over it") {
  Point point{.kind = PointKind::Speed, .id = "x"};
  PointResult result{.point = &point};
  result.own = Comparison{"tokens_per_s", 100, 80, {}};
  result.throughput = Throughput{100, 80};
  const auto slower = not_seen({result}, {.command = {}, .date = {}, .ratios = {{"x", 1.25}}});
  CHECK(slower.front().own->predicted == doctest::Approx(64));
  CHECK(slower.front().throughput->predicted == doctest::Approx(64));
  CHECK(not_seen({result}, {}).front().own->predicted == 80);
}

TEST_CASE("every scored speed point was predicted without its source") {
  const CrossValidation shipped = read_cross_validation();
  for (const PointResult& r : not_seen_results("speed.jsonl"))
    if (r.status == PointStatus::Scored) CHECK_MESSAGE(shipped.ratios.contains(r.point->id), r.point->id);
}

// Of the points of sources that neither fit nor range has seen, 75 to 90 % lie inside: for every method, and for
// fine-tuning and pre-training apart. A group adds up its cells, each by its own range.
TEST_CASE("ranges hold 75 to 90 % of the points of sources that were left out") {
  constexpr double kLeast = 0.75, kMost = 0.90;
  constexpr std::size_t kEnough = 20;
  for (const auto& [figure, file] : {std::pair{Figure::Tensors, "memory.jsonl"},
                                     {Figure::Process, "memory.jsonl"},
                                     {Figure::StepTime, "speed.jsonl"}}) {
    const std::vector<Ratio> ratios = ratios_of(not_seen_results(file), figure);
    const FigureAccuracy fitted = fit_ranges(ratios);
    std::map<std::string, std::vector<std::string>> chains;
    for (const Ratio& r : ratios) chains[r.cells[0]] = r.cells;
    std::map<std::string, std::pair<double, std::size_t>> inside;  // of each group: points inside, points
    for (const auto& [cell, chain] : chains) {
      auto shown = chain;  // a cell of few sources is shown its parent's range
      while (!fitted.find(shown.front())) shown.erase(shown.begin());
      const AccuracyRange& range = *fitted.find(shown.front());
      const double coverage = left_out_coverage(ratios, shown, range.tail, range.widening, cell);
      const auto points = std::size_t(std::count_if(ratios.begin(), ratios.end(),
                                                    [&, &cell = cell](const Ratio& r) { return r.cells[0] == cell; }));
      MESSAGE(fmt::format("{} {}: {} points by the range of {}, {:.3f} to {:.3f}, {:.0f} % inside", to_string(figure),
                          cell, points, range.cell, range.low, range.high, 100 * coverage));
      inside[chain[1]].first += coverage * double(points);
      inside[chain[1]].second += points;
    }
    for (const auto& [group, counts] : inside) {
      const double share = counts.first / double(counts.second);
      MESSAGE(fmt::format("{} {}: {} points, {:.1f} % inside", to_string(figure), group, counts.second, 100 * share));
      if (counts.second < kEnough) continue;
      CHECK(share >= kLeast);
      CHECK(share <= kMost + 0.005);
    }
  }
}
