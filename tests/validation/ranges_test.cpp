#include "validate/ranges.h"

#include <algorithm>
#include <cmath>
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

TEST_CASE("the range of a new source, by hand: pooled mean and variance, Student's t, a new offset") {
  // ln: -0.1, 0, 0.1 and 0.2 of four sources: median 0, median deviation 0.1, so that nothing is far out (0.44).
  // variance (0.01 + 0 + 0.01 + 0.04) / 4 = 0.015; t of 3 degrees of freedom at 90 % 1.63774;
  // half 1.63774 sqrt(0.015 (1 + 1/4)) = 0.22426
  std::vector<Ratio> ratios;
  for (const auto& [source, value] :
       std::vector<std::pair<std::string, double>>{{"a", -0.1}, {"b", 0}, {"c", 0.1}, {"d", 0.2}})
    add(ratios, source, {std::exp(value)});
  const AccuracyRange all = derive_range(ratios, kAll);
  CHECK(all.low == doctest::Approx(std::exp(-0.22426)).epsilon(2e-3));  // to three decimals, outwards
  CHECK(all.high == doctest::Approx(std::exp(0.22426)).epsilon(2e-3));
  CHECK(all.num_points == 4);
  CHECK(all.num_sources == 4);
}

TEST_CASE("a range holds the prediction itself, and a point far out widens it no further than three deviations") {
  std::vector<Ratio> high;
  for (const char* const source : {"a", "b", "c"}) add(high, source, {1.2, 1.21});
  CHECK(derive_range(high, kAll).low == 1);
  const auto with_last = [](double last) {
    std::vector<Ratio> ratios;
    for (const auto& [source, value] :
         std::vector<std::pair<std::string, double>>{{"a", 0.9}, {"b", 1}, {"c", 1.1}, {"d", 1.05}, {"e", last}})
      add(ratios, source, {value});
    return derive_range(ratios, kAll).high;
  };
  CHECK(with_last(3) == with_last(30));
  CHECK(with_last(1.2) < with_last(3));
}

TEST_CASE("coverage of sources that were left out, by hand") {
  // Without a, ln 0 and 1.6 are left: the lower median 0, the deviations' 0, so the range is 0: 1.0 inside, 1.01 not.
  // Without b, a and c give a range about 0.01 that holds 0. Without c nothing reaches 1.6. The sources' shares are
  // 1/2, 1 and 0.
  std::vector<Ratio> ratios;
  add(ratios, "a", {1.0, 1.01});
  add(ratios, "b", {1.0});
  add(ratios, "c", {5.0});
  CHECK(left_out_coverage(ratios, kAll, "training") == doctest::Approx(0.5));
  // One source is left, whose range holds its median and 1: of a 2 of 2 by c's and 1 of 2 by b's, of b 1 of 1 twice,
  // of c 0 of 1 twice: 3/4, 1 and 0.
  CHECK(left_out_coverage(ratios, kAll, "training", 2) == doctest::Approx(1.75 / 3));
}

TEST_CASE("a cell of few sources borrows mean and variance from its parent") {
  std::vector<Ratio> ratios;
  add(ratios, "a", std::vector<double>(10, 1.2), kLora);
  for (const auto& [source, value] :
       std::vector<std::pair<std::string, double>>{{"b", 0.9}, {"c", 1.0}, {"d", 1.1}, {"e", 1.05}})
    add(ratios, source, {value}, {"unsharded QLoRA", "QLoRA", "training"});
  const AccuracyRange all = derive_range(ratios, kAll), own = derive_range(ratios, kLora);
  CHECK(own.num_points == 10);
  CHECK(own.num_sources == 1);
  CHECK(own.high > all.high);  // its mean is drawn to 1.2 ...
  CHECK(own.low < 1.2);        // ... and its range is no point, although its own points do not scatter
}

TEST_CASE("a kind of model has its own range where it was measured, and an unlike run a wider one") {
  std::vector<Ratio> ratios;
  for (const auto& [source, value] :
       std::vector<std::pair<std::string, double>>{{"a", 0.95}, {"b", 1.0}, {"c", 1.02}, {"d", 1.05}})
    add(ratios, source, {value});
  ratios.push_back({{}, {"e", "e"}, 0.7, {"mixture of experts", "adamw"}});
  Accuracy accuracy{.figures = {{Figure::Process, fit_ranges(ratios)}}, .pretraining_frameworks = {}};
  const AccuracyRange usual = *accuracy.range(Figure::Process, {.traits = {"adamw"}}),
                      experts = *accuracy.range(Figure::Process, {.traits = {"mixture of experts", "adamw"}}),
                      muon = *accuracy.range(Figure::Process, {.traits = {"muon"}});
  CHECK(experts.low < usual.low);
  CHECK(experts.unmeasured.empty());
  CHECK(muon.low < usual.low);
  CHECK(muon.high > usual.high);
  CHECK(muon.unmeasured == "muon");
  CHECK(usual.unmeasured.empty());
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
  figure.cells.push_back({0.9, 1.2, 50, 4, 0.84, 0.83, "training"});
  figure.cells.push_back({0.7, 1.3, 25, 3, 0.82, 0.81, "QLoRA"});
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
  figure.cells.push_back({1.1, 1.2, 50, 4, 0.84, 0.83, "training"});
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

// A source that neither fit nor range has seen has 8 of 10 of its points inside: for every method, and for fine-tuning
// and pre-training apart; the measured shares are of 5 to 10 sources.
TEST_CASE("ranges hold the points of sources that were left out, one and two of them") {
  constexpr double kLeast = 0.70, kMost = 0.95;
  constexpr std::size_t kEnough = 20;
  for (const auto& [figure, file] : {std::pair{Figure::Tensors, "memory.jsonl"},
                                     {Figure::Process, "memory.jsonl"},
                                     {Figure::StepTime, "speed.jsonl"}}) {
    const std::vector<Ratio> ratios = ratios_of(not_seen_results(file), figure);
    for (const std::string group : {"full training", "LoRA", "QLoRA", "fine-tuning", "pre-training"}) {
      const auto points = std::size_t(std::count_if(ratios.begin(), ratios.end(), [&](const Ratio& r) {
        return std::find(r.cells.begin(), r.cells.end(), group) != r.cells.end();
      }));
      if (points < kEnough) continue;
      for (const int num_left_out : {1, 2}) {
        const double share = left_out_coverage(ratios, {group, "training"}, group, num_left_out);
        MESSAGE(fmt::format("{} {}: {} points, {:.1f} % inside, {} left out", to_string(figure), group, points,
                            100 * share, num_left_out));
        CHECK(share >= kLeast);
        CHECK(share <= kMost);
      }
    }
  }
}
