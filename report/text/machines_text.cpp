// Machines of the catalogue for people: the list, and one explained.
#include <fmt/format.h>

#include "base/unit_text.h"
#include "cluster/host.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/table.h"

namespace gpuplan {
namespace {

std::string network_text(const MachineReport& report) {
  return report.network.bandwidth.value > 0 ? format_rate(report.network.bandwidth) : "";
}

/// "235 GB/s, 212 GB/s while a step trains (source)": a benchmark moves larger messages, and nothing beside them.
std::string ring_text(const MachineReport& report) {
  const LinkCost& ring = report.machine.intra;
  if (report.machine.gpus_per_node < 2) return "";
  const bool is_less = report.ring_of_steps.value < ring.bandwidth.value;
  return fmt::format("{}{} ({})", format_rate(ring.bandwidth),
                     is_less ? fmt::format(", {} while a step trains", format_rate(report.ring_of_steps)) : "",
                     ring.source);
}
std::string memory_text(const ClusterSpec& m) { return m.host_memory.count > 0 ? format_bytes(m.host_memory) : ""; }

}  // namespace

std::string machines_text(const std::vector<MachineReport>& reports, const Screen& screen) {
  Table table{.columns = {{"machine"},
                          {"GPUs", Align::Right},
                          {"GPU"},
                          {"links"},
                          {"network", Align::Right, 2},
                          {"host", Align::Right, 1}},
              .rows = {}};
  for (const MachineReport& report : reports) {
    const ClusterSpec& m = report.machine;
    table.add({{report.id, Ink::Strong},
               {std::to_string(m.gpus_per_node)},
               {m.gpus.front().id},
               {m.fabric_text},
               {network_text(report)},
               {memory_text(m)}});
  }
  return render(table, screen) +
         paint(
             wrap("--cluster NAME plans on one of them, --num-gpus N on several or on a part. Network: what a ring of "
                  "several of them reaches per GPU (in wide tables).",
                  prose_width(screen), "", ""),
             Ink::Faint, screen);
}

std::string machine_text(const MachineReport& report, const Screen& screen) {
  const ClusterSpec& m = report.machine;
  return paint(report.id, Ink::Strong, screen) + fmt::format(" ({})\n", m.name) +
         render(
             std::vector<Fact>{
                 {"GPUs", fmt::format("{} x {}", m.gpus_per_node, m.gpus.front().name)},
                 {"links", m.fabric_text},
                 {"a ring reaches", ring_text(report)},
                 {"network",
                  report.network.bandwidth.value > 0
                      ? fmt::format("{} per GPU ({})", format_rate(report.network.bandwidth), report.network.source)
                      : "none: one machine"},
                 {"host memory", memory_text(m)},
                 {"host", describe(m.host)},
                 {"price", m.price_per_gpu_hour ? fmt::format("{} per GPU and hour ({})",
                                                              format_usd(*m.price_per_gpu_hour), m.price_source)
                                                : ""},
                 {"more", fmt::format("gpuplan topology --cluster {}", report.id)}},
             2, screen);
}

}  // namespace gpuplan
