// `gpuplan run` without --gpus on a machine that has none: one rank with all cores, or one per core.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/processor.h"
#include "cli/program.h"
#include "device/mpi_command.h"
#include "execute/commands.h"

using namespace gpuplan;

namespace {

using Words = std::vector<std::string>;

/// Tokens per second that `estimate` says of the strategy that it would take.
double predicted(Words question, std::int64_t ranks) {
  question.insert(question.begin(), "estimate");
  question.insert(question.end(), {"--framework", "native", "--gpus", fmt::format("{}xcpu", ranks), "--json"});
  std::ostringstream out, err;
  REQUIRE_MESSAGE(run(question, out, err) <= 1, err.str());
  const auto answer = nlohmann::json::parse(out.str());
  double most = 0;
  for (const auto& strategy : answer["strategies"])
    if (const auto& speed = strategy["tokens_per_second"]; speed.is_number())
      most = std::max(most, speed.get<double>());
  return most;
}

}  // namespace

TEST_CASE("cpu ranks: without --gpus, one rank or one per core is taken, whichever estimate says is faster") {
  const std::int64_t cores = num_usable_cores();
  if (cores == 1 || !has_mpirun()) {
    MESSAGE("skipped: there is one core, or no mpirun");
    return;
  }
  const std::string all = fmt::format("{}xcpu", cores);
  const Words demo{"--model", (data_dir() / "demo").string(), "--full", "--seq-len", "32"};
  int num_one = 0, num_all = 0;
  for (const Words& more : {Words{}, Words{"--strategy", "single"}, Words{"--strategy", "ddp"}}) {
    Words question = demo;
    question.insert(question.end(), more.begin(), more.end());
    const double one = more == Words{"--strategy", "ddp"} ? 0 : predicted(question, 1);
    const double several = predicted(question, cores);
    CAPTURE(one);
    CAPTURE(several);
    const bool is_one = one >= several;
    question.insert(question.begin(), "run");
    CHECK(fastest_cpu_ranks(question) == (is_one ? "1xcpu" : all));
    ++(is_one ? num_one : num_all);
  }
  CHECK(num_one > 0);
  CHECK(num_all > 0);
}
