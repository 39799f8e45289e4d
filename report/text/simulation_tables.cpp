#include "report/text/simulation_tables.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/text/activity_look.h"
#include "report/text/simulation_facts.h"

namespace gpuplan {
namespace {

std::string busy_cell(SimTime busy, SimTime step) {
  if (busy.ps == 0 || step.ps == 0) return "";
  return fmt::format("{} {:3.0f} %", format_duration(busy.seconds()), 100.0 * double(busy.ps) / double(step.ps));
}

}  // namespace

Table streams_table(const Simulation& simulation, std::size_t max_rows) {
  Table table{.columns = {{"  GPU"}}, .rows = {}};
  for (int s = 0; s < kNumStreams; ++s) table.columns.push_back({std::string(name_of(StreamId(s))), Align::Right});
  table.columns.push_back({"sent", Align::Right, 1});
  table.columns.push_back({"tensors at peak", Align::Right, 2});
  for (std::size_t i = 0; i < std::min(max_rows, simulation.ranks.size()); ++i) {
    const SimulatedRank& rank = simulation.ranks[i];
    std::vector<Cell> row{{"  " + rank.name + (rank.stands_for > 1 ? fmt::format(" × {}", rank.stands_for) : "")}};
    for (const SimTime busy : rank.busy) row.push_back({busy_cell(busy, simulation.step)});
    row.push_back({rank.sent.count > 0 ? format_bytes(rank.sent) : ""});
    row.push_back({format_bytes(rank.peak)});
    table.add(std::move(row));
  }
  return without_empty_columns(std::move(table));
}

Table links_table(const Simulation& simulation, std::size_t max_rows) {
  Table table{.columns = {{"  link"}, {"in use", Align::Right}, {"of its capacity", Align::Right}}, .rows = {}};
  for (std::size_t i = 0; i < std::min(max_rows, simulation.links.size()); ++i) {
    const LinkUseSummary& link = simulation.links[i];
    table.add({{"  " + link_name(simulation, link.link)},
               {fmt::format("{:.0f} %", 100 * link.busy)},
               {fmt::format("{:.0f} %", 100 * link.utilisation)}});
  }
  return table;
}

}  // namespace gpuplan
