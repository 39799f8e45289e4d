// gpuplan machines: lists, searches and explains the machines of data/clusters.
#include <algorithm>

#include <fmt/format.h>

#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cluster/cluster_file.h"
#include "report/catalogue_report.h"
#include "report/text/answers_text.h"

namespace gpuplan {
namespace {

void setup_machines(CLI::App& app) {
  app.add_option("query")
      ->type_name("QUERY")
      ->description("part of a name or of its GPU's; explained when it is exactly one machine")
      ->group("Options");
}

bool matches(const ClusterSpec& machine, const std::string& id, const std::string& query) {
  const std::string wanted = squash(query);
  const GpuSpec& gpu = machine.gpus.front();
  return std::ranges::any_of(std::array{id, machine.name, gpu.id, gpu.name},
                             [&](const std::string& text) { return squash(text).find(wanted) != std::string::npos; });
}

int run_machines(const CLI::App& app, Console& console) {
  const std::string query = given(app, "query").value_or("");
  std::vector<MachineReport> found;
  for (const std::string& id : list_clusters()) {
    MachineReport report = report_machine(id);
    if (!query.empty() && squash(id) == squash(query)) {
      found = {std::move(report)};
      break;
    }
    if (query.empty() || matches(report.machine, id, query)) found.push_back(std::move(report));
  }
  if (found.empty()) {
    console.tell(
        fmt::format("no machine matches '{}': 'gpuplan machines' lists them; --cluster also takes a file, "
                    "and the text of nvidia-smi topo -m",
                    query));
    return 1;
  }
  console.print(found.size() == 1 ? machine_text(found.front(), console.screen) : machines_text(found, console.screen));
  return 0;
}

}  // namespace

const Command kMachines{.name = "machines",
                        .summary = "list, search and explain machines of the catalogue",
                        .usage = "[QUERY]",
                        .example =
                            "gpuplan machines 3090\n"
                            "gpuplan machines dgx-h100",
                        .setup = setup_machines,
                        .run = run_machines,
                        .has_tables = true};

}  // namespace gpuplan
