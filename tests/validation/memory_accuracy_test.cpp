// What the estimate claims on published measurements today. The report docs/accuracy.md says it in full.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/json_file.h"
#include "cluster/gpu_catalogue.h"
#include "planner/cost.h"
#include "validate/cross_validation.h"
#include "validate/read_points.h"
#include "validate/speed_report.h"

using namespace gpuplan;

namespace {

struct Judged {
  std::vector<Point> points;
  std::vector<PointResult> results;
};

const Judged& judged(const char* file) {
  static std::map<std::string, Judged> known;
  const auto found = known.find(file);
  if (found != known.end()) return found->second;
  Judged& out = known[file];
  out.points = read_points(data_dir() / "validation" / file);
  PointPlanner planner(AliasTable::read());
  out.results = judge(out.points, planner).results;
  return out;
}

template <class Accept>
std::vector<PointResult> those(const std::vector<PointResult>& results, Accept accept) {
  std::vector<PointResult> out;
  std::copy_if(results.begin(), results.end(), std::back_inserter(out), accept);
  return out;
}

/// Runs whose GPUs share no layer and no model: axes beside data parallelism have figures of their own.
bool is_data_parallel(const PointResult& r) { return r.point->degrees.empty(); }

/// One gist of eight A800 takes about twice as long as other sources let expect where ZeRO-3 or the host is in it, and
/// no switch that it states says why. It is held apart so that the laws of the others stay as narrow as they were.
bool is_gist(const PointResult& r) { return r.point->source.starts_with("chenyaofo gist"); }

const PointResult& result_of(const std::string& id) {
  const auto& results = judged("memory.jsonl").results;
  return *std::find_if(results.begin(), results.end(), [&](const PointResult& r) { return r.point->id == id; });
}

}  // namespace

TEST_CASE("memory of published runs: medians and p90, macro-weighted") {
  const MemorySummary s = summarise_memory(judged("memory.jsonl").results);
  MESSAGE("own " << s.own.median << " / " << s.own.p90 << ", allocated " << s.allocated.median << " / "
                 << s.allocated.p90 << ", process " << s.process.median << " / " << s.process.p90 << "; "
                 << s.represented << " of " << s.scoreable);
  CHECK(s.represented == s.scoreable);
  CHECK(s.own.median <= 0.05);
  CHECK(s.own.p90 <= 0.16);
  CHECK(s.allocated.median <= 0.05);
  CHECK(s.allocated.p90 <= 0.14);
}

TEST_CASE("verdicts on published runs: no run that worked is refused") {
  const VerdictCounts v = count_verdicts(judged("memory.jsonl").results);
  CHECK(v.ok_oom == 0);
  CHECK(v.oom_fits == 0);
}

TEST_CASE("mixtures of experts, encoders and peaks of loading are scored, each apart") {
  std::map<std::string, MemorySummary> headings;
  for (const MemoryRow& row : memory_by_heading(judged("memory.jsonl").results)) headings[row.key] = row.summary;
  const MemorySummary &experts = headings["mixture of experts"], &encoders = headings["encoder and decoder"],
                      &loading = headings["the whole model beside its shard while loading"];
  CHECK(experts.represented >= 20);
  CHECK(experts.own.median <= 0.08);
  CHECK(encoders.represented >= 4);
  CHECK(encoders.own.median <= 0.25);
  CHECK(loading.represented >= 15);
  CHECK(loading.own.median <= 0.20);
}

TEST_CASE(
    "full fine-tuning bounded by a foreach step is exact: 10 bytes per parameter in pure bf16, 20 with fp32 masters") {
  // Mistral-7B on one GPU: 7,241,732,096 x 10 = 72.4 GB; measured 67.46 GiB = 72.43e9
  for (const char* id : {"fms-accel-base-mistral-7b-v0.1-full-none-bs4-1gpu",
                         "fms-accel-liger-mistral-7b-v0.1-full-foak-fast-kernels-bs4-4gpu"}) {
    const PointResult& r = result_of(id);
    REQUIRE(r.own);
    CHECK(r.own->predicted == doctest::Approx(r.own->measured).epsilon(0.005));
  }
}

TEST_CASE("speed of sources that the fit has not seen") {
  const SpeedSummary s = summarise_speed(not_seen(judged("speed.jsonl").results, read_cross_validation()));
  MESSAGE("median " << s.median << ", p90 " << s.p90 << ", by source " << s.mean_of_source_medians);
  CHECK(s.median <= 0.09);
  CHECK(s.p90 <= 0.30);
  CHECK(s.mean_of_source_medians <= 0.09);
}

TEST_CASE("ZeRO-2 and ZeRO-3, and fine-tuning on several GPUs, of sources that the fit has not seen") {
  const std::vector<PointResult> unseen = not_seen(judged("speed.jsonl").results, read_cross_validation());
  const auto summary = [&](const std::string& what, auto accept) {
    const SpeedSummary s = summarise_speed(those(unseen, accept));
    MESSAGE(what << ": " << s.represented << " points, median " << s.median << ", p90 " << s.p90);
    return s;
  };
  const auto is_zero = [](const PointResult& r) { return r.strategy == "zero2" || r.strategy == "zero3"; };
  const SpeedSummary zero =
      summary("ZeRO-2 and ZeRO-3", [&](const PointResult& r) { return is_zero(r) && !is_gist(r); });
  CHECK(zero.median <= 0.15);
  CHECK(zero.p90 <= 0.45);
  const SpeedSummary gist = summary("the gist's", [&](const PointResult& r) { return is_zero(r) && is_gist(r); });
  CHECK(gist.represented >= 7);
  CHECK(gist.p90 <= 0.80);
  const SpeedSummary several = summary("fine-tuning on several GPUs", [](const PointResult& r) {
    return r.point->method != "pretrain" && r.point->num_gpus > 1;
  });
  CHECK(several.median <= 0.105);
  CHECK(several.p90 <= 0.40);
}

TEST_CASE("QLoRA of sources that the fit has not seen is no slower than predicted on the whole, nor quicker") {
  // Dequantisation reads 0.52 bytes and writes 2 for each weight, three times a step with checkpointing. A kernel
  // cannot move less; a factor above 3 would hide something else in it.
  for (const SpeedRow& row :
       speed_by(not_seen(judged("speed.jsonl").results, read_cross_validation()), Grouping::Method)) {
    if (row.key != "qlora") continue;
    MESSAGE("qlora: " << row.summary.represented << " points, median " << row.summary.median << ", bias "
                      << row.summary.bias);
    CHECK(row.summary.represented >= 70);
    CHECK(row.summary.median <= 0.08);
    CHECK(std::abs(row.summary.bias) <= 0.05);
  }
  for (const std::string gpu : {"a100-sxm-80gb", "h100-sxm", "rtx-4090", "rtx-a6000"}) {
    const CostModel model = make_cost_model(find_gpu(gpu, nullptr), default_profile(gpu), {.dtype = Dtype::BF16});
    CHECK(model.dequant_bytes >= 1);
    CHECK(model.dequant_bytes <= 3);
  }
}

TEST_CASE("no constant without which unseen sources are predicted as well: median, p90 and mean error") {
  const nlohmann::json ablation = read_json_file(data_dir() / "validation" / "ablation.json");
  const auto is_no_worse = [&](const nlohmann::json& without) {
    for (const char* figure : {"median", "p90", "mean"})
      if (without.at(figure) > ablation.at("all").at(figure)) return false;
    return true;
  };
  for (const auto& [name, without] : ablation.at("constants").items()) CHECK_MESSAGE(!is_no_worse(without), name);
}

TEST_CASE("verdicts on the scored speed points: seven runs that happened are refused, each explained in the README") {
  std::vector<std::string> refused;
  for (const PointResult& r : judged("speed.jsonl").results)
    if (r.status == PointStatus::Scored && r.fit < Fit::Tight) {
      MESSAGE(r.point->id << ": " << double(r.tiers->needed.count) / 0x1p30 << " of "
                          << double(r.tiers->usable.count) / 0x1p30 << " GiB");
      refused.push_back(r.point->id);
    }
  const std::string readme = read_file(data_dir() / "validation" / "README.md");
  CHECK(refused.size() <= 7);
  for (const std::string& id : refused) CHECK_MESSAGE(readme.find("| `" + id + "` |") != std::string::npos, id);
}

TEST_CASE("speed of published runs whose layers, sequences or stages are divided") {
  std::vector<PointResult> divided;
  for (const char* file : {"speed.jsonl", "axes_speed.jsonl"})
    for (const PointResult& r : those(judged(file).results, [](const PointResult& p) { return !is_data_parallel(p); }))
      divided.push_back(r);
  const SpeedSummary s = summarise_speed(divided);
  MESSAGE("median " << s.median << ", p90 " << s.p90 << ", sources " << s.mean_of_source_medians << ", order "
                    << s.order.share() << "; " << s.represented << " of " << s.scoreable);
  CHECK(double(s.represented) >= 0.87 * double(s.scoreable));
  CHECK(s.median <= 0.10);
  CHECK(s.p90 <= 0.25);
  CHECK(s.mean_of_source_medians <= 0.10);
}

TEST_CASE("speed of published runs: median and p90 of |ln|, and the order of settings") {
  const SpeedSummary s = summarise_speed(those(judged("speed.jsonl").results, is_data_parallel));
  MESSAGE("median " << s.median << ", p90 " << s.p90 << ", order " << s.order.share() << "; " << s.represented << " of "
                    << s.scoreable);
  CHECK(double(s.represented) >= 0.7 * double(s.scoreable));
  CHECK(s.median <= 0.065);
  CHECK(s.p90 <= 0.23);
  CHECK(s.mean_of_source_medians <= 0.08);
  CHECK(s.order.share() >= 0.95);
  CHECK(s.order_same_model.share() >= 0.90);
}

TEST_CASE("speed by method: adapters, on several GPUs too") {
  for (const SpeedRow& row : speed_by(those(judged("speed.jsonl").results,
                                            [](const PointResult& r) { return is_data_parallel(r) && !is_gist(r); }),
                                      Grouping::Method)) {
    MESSAGE(row.key << ": " << row.summary.represented << " points, median " << row.summary.median << ", p90 "
                    << row.summary.p90);
    if (row.key == "lora and qlora") {
      CHECK(row.summary.represented == 117);
      CHECK(row.summary.median <= 0.085);
      CHECK(row.summary.p90 <= 0.29);
    }
    if (row.key == "lora and qlora, several GPUs") {
      CHECK(row.summary.represented == 48);
      CHECK(row.summary.median <= 0.115);
      CHECK(row.summary.p90 <= 0.40);
    }
    if (row.key == "pretrain") CHECK(row.summary.p90 <= 0.20);
  }
}
