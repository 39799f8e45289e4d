#include "search/offers.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

const Hardware* find(const std::vector<Hardware>& all, const std::string& flags) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const Hardware& h) { return h.flags == flags; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

TEST_CASE("every machine that can be rented has a price, cheapest first, and can be run by gpuplan") {
  const std::vector<Hardware> all = rentable({});
  CHECK(all.size() > 40);
  for (const Hardware& machine : all) {
    CAPTURE(machine.flags);
    REQUIRE_FALSE(machine.offers.empty());
    CHECK_FALSE(machine.cluster.gpus.front().is_plan_only);
    for (std::size_t i = 0; i < machine.offers.size(); ++i) {
      CHECK(machine.offers[i].usd_per_gpu_hour.value() > 0);
      CHECK_FALSE(machine.offers[i].is_spot);
      if (i > 0) CHECK(*machine.offers[i - 1].usd_per_gpu_hour <= *machine.offers[i].usd_per_gpu_hour);
    }
  }
  CHECK(find(all, "--gpus 1xh100-sxm"));
  CHECK(find(all, "--cluster aws-p5.48xlarge"));
  CHECK_FALSE(find(all, "--cluster dgx-h100"));  // nobody rents it out
}

TEST_CASE("estimate takes the price of the offer that plan takes") {
  for (const Hardware& machine : rentable({})) {
    const std::string_view prefix = "--gpus ";
    if (!machine.flags.starts_with(prefix)) continue;
    CAPTURE(machine.flags);
    CHECK(parse_gpus(machine.flags.substr(prefix.size())).price_per_gpu_hour.value() ==
          doctest::Approx(machine.offers.front().usd_per_gpu_hour.value()));
  }
}

TEST_CASE("a vendor sells what its offer says") {
  const std::vector<Hardware> lambda = rentable({.vendor = "Lambda"});
  for (const Hardware& machine : lambda)
    for (const Offer& offer : machine.offers) CHECK(offer.vendor == "lambda");
  CHECK(find(lambda, "--gpus 1xh100-pcie"));
  CHECK_FALSE(find(lambda, "--gpus 8xh100-pcie"));  // cards that it lets one at a time
  CHECK_FALSE(find(lambda, "--gpus 2xa10"));
  CHECK(find(lambda, "--gpus 4xrtx-a6000"));
  CHECK_FALSE(find(lambda, "--gpus 8xrtx-a6000"));
  REQUIRE(find(lambda, "--cluster lambda-8x-a100-80gb"));
  CHECK(find(lambda, "--cluster lambda-8x-a100-80gb")->offers.front().date == "2026");  // as other prices of its source
  CHECK(find(lambda, "--gpus 4xrtx-a6000")->offers.front().name == "lambda on-demand");
  const std::vector<Hardware> aws = rentable({.vendor = "aws"});
  CHECK(find(aws, "--gpus 1xa10g"));        // g5.xlarge has one
  CHECK_FALSE(find(aws, "--gpus 4xa10g"));  // four are g5.12xlarge, with its links
  CHECK(find(aws, "--cluster aws-g5.12xlarge"));
  CHECK_THROWS_AS(rentable({.vendor = "nosuchcloud"}), InputError);
}

TEST_CASE("prices of the user's own file stand in place of the catalogue's") {
  const test::ScratchFolder scratch;
  const auto file = scratch.path() / "prices.yaml";
  write_file_atomically(file,
                        "prices:\n- {gpu: H100, vendor: ours, usd_per_gpu_hour: 1.25}\n"
                        "- {gpu: 4090, vendor: other, usd_per_gpu_hour: 0.2, kind: spot}\n");
  const std::vector<Hardware> all = rentable({.vendor = {}, .takes_spot = false, .prices = file});
  REQUIRE(find(all, "--gpus 8xh100-sxm"));
  CHECK(find(all, "--gpus 8xh100-sxm")->offers.front().usd_per_gpu_hour == 1.25);
  CHECK_FALSE(find(all, "--gpus 1xrtx-4090"));  // spot alone, and spot was not asked for
  write_file_atomically(file, "prices:\n- {gpu: H1000, vendor: ours, usd_per_gpu_hour: 1.25}\n");
  CHECK_THROWS_AS(rentable({.vendor = {}, .takes_spot = false, .prices = file}), InputError);
}

TEST_CASE("spot machines are cheaper by the hour and slower by what restarts cost") {
  const std::vector<Hardware> all = rentable({.vendor = "aws", .takes_spot = true});
  const Hardware* machine = find(all, "--cluster aws-p5.48xlarge");
  REQUIRE(machine);
  const auto spot =
      std::find_if(machine->offers.begin(), machine->offers.end(), [](const Offer& o) { return o.is_spot; });
  REQUIRE(spot != machine->offers.end());
  const auto usual =
      std::find_if(machine->offers.begin(), machine->offers.end(), [](const Offer& o) { return !o.is_spot; });
  REQUIRE(usual != machine->offers.end());
  CHECK(*spot->usd_per_gpu_hour < *usual->usd_per_gpu_hour);
}

TEST_CASE("restarts cost what Young's interval says") {
  // 0.36 interruptions an hour are 1e-4 per second; writing 5 GB at 1 GB/s takes 5 s, so t = sqrt(2 * 5 / 1e-4) = 316 s
  // and 1 + 5 / 316.2 + 1e-4 * (158.1 + 600) = 1.0916
  const SpotTerms terms{.share_of_on_demand = 0.4,
                        .interruptions_per_hour = 0.36,
                        .restart = {600},
                        .checkpoint_rate = {1e9},
                        .source = {}};
  CHECK(spot_slowdown(terms, Bytes{5'000'000'000}, 1) == doctest::Approx(1.0916).epsilon(1e-4));
  CHECK(spot_slowdown(terms, Bytes{5'000'000'000}, 4) > spot_slowdown(terms, Bytes{5'000'000'000}, 1));
  CHECK(spot_slowdown({}, Bytes{5'000'000'000}, 8) == 1);
}
