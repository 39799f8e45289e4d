// Charts of fits: axes, which samples belong to which fit, what is drawn where.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "cluster/profile/probe.h"
#include "measured_machine.h"
#include "report/html/fit_svg.h"
#include "report/json/answers_json.h"
#include "report/profile_numbers.h"
#include "report/text/fit_plot.h"

namespace gpuplan {
namespace {

std::vector<std::string> labels(const LogAxis& axis, int most) {
  std::vector<std::string> out;
  for (const AxisMark& mark : axis_marks(axis, most)) out.push_back(mark.label);
  return out;
}

Sample timed(const Probe& probe, double seconds) {
  return {.probe = probe, .median = seconds, .low = 0.9 * seconds, .high = 1.1 * seconds, .num_runs = 20};
}

Probe forward(std::int64_t m, std::int64_t batch = 1) {
  return {.family = ProbeFamily::Gemm,
          .type = GemmType::BF16,
          .layout = GemmLayout::Forward,
          .shape = {m, 512, 512, batch}};
}

Probe all_reduce(std::int64_t bytes) {
  return {.family = ProbeFamily::Collective,
          .num_ranks = 2,
          .collective = CollectiveKind::AllReduce,
          .group_ranks = 2,
          .bytes = Bytes{bytes}};
}

Profile profile_with(const std::vector<Sample>& samples) {
  Measured measured = test::two_devices("l40s", "pcie");
  measured.samples.clear();
  for (const Sample& sample : samples) measured.samples += to_json_line(sample) + "\n";
  return {.id = "test", .file = "test.yaml", .measured = std::make_shared<Measured>(measured)};
}

const FitPlot& find(const std::vector<FitPlot>& plots, const std::string& title) {
  for (const FitPlot& plot : plots)
    if (plot.title == title) return plot;
  FAIL("no plot is called ", title);
  return plots.front();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

}  // namespace

TEST_CASE("a logarithmic axis: equal ratios are equal distances") {
  const LogAxis axis{.least = 1, .most = 100};
  CHECK(axis.share(1) == 0);
  CHECK(axis.share(10) == doctest::Approx(0.5));
  CHECK(axis.share(100) == 1);
  CHECK(axis.share(1e9) == 1);
}

TEST_CASE("marks are round, rising, within the axis and no more than asked for") {
  CHECK(labels({1, 1000, PlotUnit::FlopRate}, 4) ==
        std::vector<std::string>{"1 FLOP/s", "10 FLOP/s", "100 FLOP/s", "1 kFLOP/s"});
  CHECK(labels({1e9, 6e9, PlotUnit::ByteRate}, 4) == std::vector<std::string>{"1 GB/s", "2 GB/s", "5 GB/s"});
  CHECK(labels({1024, 1 << 20, PlotUnit::ByteCount}, 3) ==
        std::vector<std::string>{"1 KiB", "32 KiB", "1 MiB"});  // 10 powers of two: every fifth
  for (int most = 1; most < 12; ++most)
    CHECK(labels({3e6, 4e13, PlotUnit::FlopCount}, most).size() <= std::size_t(most));
}

TEST_CASE("a value in the middle of nothing still has an axis") {
  const LogAxis one = axis_of({5}, PlotUnit::FlopCount), none = axis_of({}, PlotUnit::FlopCount);
  CHECK(one.share(5) == doctest::Approx(0.5));
  CHECK(none.most > none.least);
}

TEST_CASE("a sample is drawn in the plot of its own fit, and a failed one in none") {
  Sample failed{.probe = forward(256), .failure = "out of memory"};
  const auto plots = fit_plots(profile_with({timed(forward(512), 1e-3), timed(forward(64), 1e-3),
                                             timed(forward(64, 8), 1e-3), failed, timed(all_reduce(1 << 20), 1e-3)}));
  const FitPlot& gemm = find(plots, "bf16 forward GEMM");
  REQUIRE(gemm.points.size() == 2);
  CHECK(gemm.points[0].x == doctest::Approx(2.0 * 64 * 512 * 512));  // rising
  CHECK(gemm.points[1].y == doctest::Approx(2.0 * 512 * 512 * 512 / 1e-3));
  CHECK(gemm.points[1].low == doctest::Approx(gemm.points[1].y / 1.1));
  CHECK(gemm.curve.size() == 2);
  const FitPlot& ring = find(plots, "all-reduce of 2 ranks");
  REQUIRE(ring.points.size() == 1);
  CHECK(ring.points[0].y == doctest::Approx(0x1p20 / 1e-3));  // 2 (n - 1) / n = 1 for two ranks
  CHECK(ring.style == CurveStyle::Line);
}

TEST_CASE("products without samples have no plot; other fits keep their line") {
  const auto plots = fit_plots(profile_with({}));
  for (const FitPlot& plot : plots) {
    CHECK(plot.title.find("GEMM") == std::string::npos);
    CHECK(plot.curve.size() > 1);
  }
  CHECK(plots.size() == 6 + 1 + 6);  // kernels, attention, collectives
}

TEST_CASE("as many outliers are marked as the fit counted, and they are the furthest off") {
  std::vector<Sample> samples;
  for (std::int64_t m = 64; m <= 4096; m *= 2) {
    const GemmSurface surface = test::plain_surface(GemmType::BF16, GemmLayout::Forward);
    samples.push_back(timed(forward(m), surface.time(forward(m).shape).value * (m == 1024 ? 2 : 1.01)));
  }
  const auto plots = fit_plots(profile_with(samples));
  for (const PlotPoint& point : find(plots, "bf16 forward GEMM").points)
    CHECK(point.is_outlier == (point.name.find(" 1024x") != std::string::npos));  // num_outliers is 1
}

TEST_CASE("a bad sample is named with its line") {
  Profile profile = profile_with({timed(forward(64), 1e-3)});
  Measured measured = *profile.measured;
  measured.samples += "{\"probe\": 1}\n";
  profile.measured = std::make_shared<Measured>(measured);
  CHECK_THROWS_WITH_AS(fit_plots(profile), doctest::Contains("test.yaml: samples, line 2"), InputError);
}

TEST_CASE("a chart in a terminal is as wide as the screen allows and as plain as it must be") {
  const auto plots = fit_plots(profile_with({timed(all_reduce(1 << 20), 2e-4), timed(all_reduce(1 << 24), 2e-3)}));
  const FitPlot& plot = find(plots, "all-reduce of 2 ranks");
  for (const int width : {60, 80, 200})
    for (const bool has_unicode : {true, false}) {
      const std::string text = plot_text(plot, {.width = width, .has_unicode = has_unicode});
      CAPTURE(text);
      CHECK(count(text, has_unicode ? "•" : "-o") >= 1);  // on the line
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        int characters = 0;
        for (const char c : text.substr(begin, end - begin)) characters += (c & 0xC0) != 0x80;
        CHECK(characters <= width);
        begin = end + 1;
      }
      if (!has_unicode)
        for (const char c : text) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
    }
}

TEST_CASE("an SVG has a panel per plot, a mark per point, and names that cannot end it") {
  FitPlot plot{.title = "</svg><script>",
               .x_label = "x",
               .y_label = "y",
               .points = {{1, 2, 1.9, 2.1, false, "a"}, {3, 4, 3, 5, true, "b & c"}},
               .curve = {{1, 2}, {3, 4}}};
  const std::string svg = fit_svg("<title>", "when", {plot, plot});
  CHECK(count(svg, "class=\"panel\"") == 2);
  CHECK(count(svg, "<circle class=\"point\"") == 2 + 1);  // and the legend's
  CHECK(count(svg, "class=\"out\"") == 2 + 1);
  CHECK(count(svg, "class=\"fit\"") == 2 + 1);
  CHECK(count(svg, "</svg>") == 1);
  CHECK(svg.find("<script>") == std::string::npos);
  CHECK(svg.find("b &amp; c") != std::string::npos);
  CHECK(fit_svg("t", "", {}).ends_with("</svg>\n"));
}

TEST_CASE("two profiles: numbers are matched by name, and agree where their intervals overlap") {
  const Profile a = profile_with({});
  Measured changed = *a.measured;
  changed.loads[0].gemm[0].rate = {1.15e12, 1.05e12, 1.25e12};  // 0.9 … 1.1 overlaps 1.05 … 1.25
  changed.loads[0].gemm[1].rate = {2e12, 1.9e12, 2.1e12};       // does not
  changed.collectives.pop_back();                               // two segments of two numbers
  const Profile b{.id = "other", .measured = std::make_shared<Measured>(changed)};
  const ProfileComparison same = compare_profiles(a, a), other = compare_profiles(a, b);
  CHECK(same.num_agreeing == same.num_with_intervals);
  CHECK(other.num_with_intervals == same.num_with_intervals - 4);
  CHECK(other.num_agreeing == other.num_with_intervals - 1);
  CHECK(other.only_in_first.size() == 4);
  CHECK(other.only_in_second.empty());
  CHECK(*other.both.front().ratio == doctest::Approx(1.15));
  CHECK(compare_profiles(b, a).only_in_second.size() == 4);
}

TEST_CASE("a profile as JSON has every fit and sample, with units in the keys") {
  const auto json = profile_json(profile_with({timed(forward(64), 1e-3)}));
  CHECK(json["loads"][0]["gemm"].size() == kGemmTypes.size() * kGemmLayouts.size());
  CHECK(json["loads"][0]["gemm"][0]["rate_flops_per_second"]["value"] == 1e12);
  CHECK(json["loads"][0]["gemm"][0]["launch_seconds"]["high"] == 1.1 * 10e-6);
  CHECK(json["loads"][0]["kernels"][0]["bandwidth_bytes_per_second"]["low"] == 0.9 * 50e9);
  CHECK(json["collectives"][0]["segments"][1]["from_bytes"] == 1 << 20);
  CHECK(json["measured_on"]["versions"]["NCCL"] == "2.28");
  CHECK(json["samples"][0]["probe"]["family"] == "gemm");
  CHECK(!json["summary"].empty());
}

TEST_CASE("samples as CSV: a line each, failures quoted where they must be") {
  const Sample failed{.probe = forward(256), .failure = "wrong result: 1, \"2\""};
  const std::string csv = samples_csv({timed(forward(64), 1e-3), failed});
  CHECK(count(csv, "\n") == 3);
  CHECK(csv.find("gemm,1,seconds,0.001,0.0009,0.0011,20,0,true,") != std::string::npos);
  CHECK(csv.find(",,,,,,") != std::string::npos);
  CHECK(csv.ends_with("\"wrong result: 1, \"\"2\"\"\"\n"));
}

}  // namespace gpuplan
