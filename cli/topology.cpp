// gpuplan topology: what hangs where in a machine, and what transfers reach.
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/flag_ranges.h"
#include "cli/output_flags.h"
#include "cluster/topology_builder.h"
#include "report/json/answers_json.h"
#include "report/text/topology_svg.h"
#include "report/text/topology_text.h"

namespace gpuplan {
namespace {

void setup_topology(CLI::App& app) {
  add_flag(app, "--cluster", "CLUSTER",
           "a machine of the catalogue, a YAML file, the text of nvidia-smi topo -m, or NCCL's topology dump");
  add_flag(app, "--gpus", "GPUS", "4xA6000, 2x4090,2x3090: the machines that these usually stand in", "Options",
           Declared::Always);
  add_flag(app, "--gpu-spec", "SPEC", "a card of --gpus as you describe it: '3060:12GiB,360GB/s,25TFLOPS'");
  add_flag(app, "--num-gpus", "N", "GPUs of --gpus, as in --gpus H100 --num-gpus 8, or used of --cluster");
  add_flag(app, "--gpu", "GPU", "GPU model, if the --cluster file does not name one");
  add_flag(app, "--from", "A", "show the way from this GPU (a rank, from 0) …", "Options", Declared::Always);
  add_flag(app, "--to", "B", "… to this one, link by link, and what limits it");
  add_flag(app, "--svg", "FILE", "write a picture");
  add_force_flag(app);
  add_flag(app, "--json", "", "the graph as JSON, in base units");
}

std::int64_t rank_of(const CLI::App& app, const char* flag, const ClusterSpec& cluster) {
  const std::int64_t rank = *given_integer(app, flag);
  if (rank >= cluster.num_gpus())
    throw InputError(flag, fmt::format("there is no GPU {}", rank),
                     fmt::format("GPUs are 0 to {}", cluster.num_gpus() - 1));
  return rank;
}

std::optional<std::pair<std::int64_t, std::int64_t>> asked_pair(const CLI::App& app, const ClusterSpec& cluster) {
  if (!is_given(app, "--from") && !is_given(app, "--to")) return std::nullopt;
  for (const char* flag : {"--from", "--to"})
    if (!is_given(app, flag)) throw InputError(flag, "is needed", "a pair is --from A --to B");
  const std::pair pair{rank_of(app, "--from", cluster), rank_of(app, "--to", cluster)};
  if (pair.first == pair.second) throw InputError("--to", "is the same GPU as --from", "name two GPUs");
  return pair;
}

int run_topology(const CLI::App& app, Console& console) {
  const auto cluster = given_machine(app);
  if (!cluster) throw InputError("", "no machine is named", "for example --cluster dgx-h100, or --gpus 4xA6000");
  constexpr std::int64_t kMostShown = 4096;
  if (cluster->num_gpus() > kMostShown)
    throw InputError("", fmt::format("{} GPUs are too many to show", cluster->num_gpus()),
                     fmt::format("at most {}", kMostShown));
  const Topology topology = build_topology(*cluster);
  const TopologyAnswer answer{*cluster, topology, asked_pair(app, *cluster)};
  console.print(is_given(app, "--json") ? json_text(topology_json(answer)) : topology_text(answer, console.screen));
  if (const auto file = given(app, "--svg"))
    write_output(*file, topology_svg(topology), console, fmt::format("the picture is in {}", *file));
  return 0;
}

}  // namespace

const Command kTopology{
    .name = "topology",
    .summary = "show how GPUs, NICs and CPUs are connected, and the bandwidth of each path",
    .usage = "--cluster CLUSTER | --gpus GPUS [OPTION]...",
    .example =
        "gpuplan topology --cluster dgx-a100-80gb\n"
        "gpuplan topology --gpus 4x4090 --from 0 --to 3\n"
        "nvidia-smi topo -m > topo.txt; gpuplan topology --cluster topo.txt --gpu A6000 --svg topo.svg",
    .first_flags = "--cluster --gpus --num-gpus --from --to --svg --json",
    .setup = setup_topology,
    .run = run_topology,
    .has_tables = true};

}  // namespace gpuplan
