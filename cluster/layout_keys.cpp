#include "cluster/layout_keys.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuplan {
namespace {

constexpr NumberRange kRate{.least = 1e-3};  // GB/s, Gbit/s
constexpr std::int64_t kMostDevices = 4096;

/// Numbers of GPUs or adapters of this machine.
std::vector<std::size_t> indices(Fields& fields, const std::string& key, std::size_t count) {
  std::vector<std::size_t> out;
  for (const double number : fields.numbers(key)) {
    if (number < double(count) && number == double(std::size_t(number)))
      out.push_back(std::size_t(number));
    else
      fields.report(key, fmt::format("{:g} is not one of the {} of this machine, which count from 0", number, count));
  }
  return out;
}

BytesPerSec rate(Fields& fields, const std::string& key) {
  return fields.optional_rate(key, kRate).value_or(BytesPerSec{});
}

/// Everything in slots of the sockets, in order, before switches move some of it.
void place_in_slots(NodeLayout& layout, std::int64_t num_gpus, std::int64_t sockets) {
  if (!layout.gpus.empty()) return;
  layout.sockets = sockets;
  for (std::int64_t socket = 0; socket < sockets; ++socket) layout.bridges.push_back(socket);
  for (std::int64_t gpu = 0; gpu < num_gpus; ++gpu) layout.gpus.push_back({gpu * sockets / num_gpus, -1, {}, {}});
}

void read_switches(Fields& fields, NodeLayout& layout) {
  for (Fields& row : fields.list("pcie_switches")) {
    const auto gpus = indices(row, "gpus", layout.gpus.size());
    const auto nics = indices(row, "nics", layout.nics.size());
    PcieSwitchPlace place{.uplink = rate(row, "uplink_gb_s")};
    place.bridge = row.optional_integer("socket", {.most = layout.sockets - 1})
                       .value_or(gpus.empty() ? 0 : layout.gpus[gpus.front()].bridge);
    row.refuse_unknown();
    const auto index = std::int64_t(layout.switches.size());
    for (const std::size_t gpu : gpus) layout.gpus[gpu].bridge = place.bridge, layout.gpus[gpu].pcie_switch = index;
    for (const std::size_t nic : nics) layout.nics[nic].bridge = place.bridge, layout.nics[nic].pcie_switch = index;
    layout.switches.push_back(place);
  }
  const bool some =
      std::any_of(layout.nics.begin(), layout.nics.end(), [](const DevicePlace& nic) { return nic.bridge >= 0; });
  for (DevicePlace& nic : layout.nics)
    if (some && nic.bridge < 0) nic.bridge = 0;
}

void read_direct_links(Fields& fields, NodeLayout& layout, std::size_t num_gpus) {
  for (Fields& row : fields.list("nvlinks")) {
    const auto pair = indices(row, "gpus", num_gpus);
    const auto links = row.optional_integer("links", {.least = 1, .most = 64}).value_or(1);
    const BytesPerSec reached = rate(row, "busbw_gb_s");
    row.refuse_unknown();
    if (pair.size() != 2 || pair[0] == pair[1])
      row.report("gpus", "must be two GPUs, as in [0, 1]");
    else
      layout.direct_links.push_back({std::int64_t(pair[0]), std::int64_t(pair[1]), links, reached});
  }
}

std::int64_t index(Fields& fields, const std::string& key) {
  return fields.optional_integer(key, {.most = kMostDevices}).value_or(-1);
}

std::vector<DevicePlace> read_places(Fields& fields, const std::string& key) {
  std::vector<DevicePlace> out;
  for (Fields& row : fields.list(key)) {
    out.push_back({index(row, "bridge"), index(row, "switch"),
                   row.optional_rate("gbit_s", kRate).value_or(BytesPerSec{}), row.optional_text("name").value_or("")});
    row.refuse_unknown();
  }
  return out;
}

/// Everything by its place, as gpuplan writes it: nothing is filled in.
void read_exact(Fields& fields, NodeLayout& layout) {
  layout.sockets = fields.integer("sockets", {.most = kMostDevices});
  layout.bridges.clear();
  for (const double socket : fields.is_given("host_bridges")
                                 ? fields.numbers("host_bridges", {.most = double(kMostDevices)})
                                 : std::vector<double>{})
    layout.bridges.push_back(std::int64_t(socket));
  for (Fields& row : fields.list("switches")) {
    layout.switches.push_back({index(row, "bridge"), index(row, "above"), rate(row, "uplink_gb_s")});
    row.refuse_unknown();
  }
  layout.gpus = read_places(fields, "gpus");
  if (fields.is_given("nics")) layout.nics = read_places(fields, "nics");
}

}  // namespace

void read_layout(Fields& top, Machine& node) {
  auto fields = top.optional_fields("layout");
  if (!fields || node.gpus_per_node == 0) return;
  NodeLayout& layout = node.layout;
  const bool is_exact = fields->is_given("sockets");
  if (is_exact) {
    read_exact(*fields, layout);
  } else {
    const std::int64_t usual = node.gpus_per_node > 4 ? 2 : 1;
    place_in_slots(layout, node.gpus_per_node, layout.sockets > 0 ? layout.sockets : usual);
    read_switches(*fields, layout);
  }
  read_direct_links(*fields, layout, is_exact ? std::size_t(kMostDevices) : layout.gpus.size());
  layout.memory_bandwidth = rate(*fields, "memory_gb_s");
  layout.socket_link = rate(*fields, "socket_link_gb_s");
  layout.num_nvme = fields->optional_integer("nvme", {.least = 1, .most = 64}).value_or(0);
  layout.source = fields->optional_text("source").value_or("stated in the cluster file");
  fields->allow({"kind"});
  fields->refuse_unknown();
  if (const std::string problem = problem_of(layout, node.gpus_per_node); !problem.empty())
    top.report("layout", problem);
}

}  // namespace gpuplan
