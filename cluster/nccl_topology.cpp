// NCCL's topology dump: <system><cpu><pci class=…> nested like the machine; a GPU is a <gpu> inside its <pci>, an
// adapter a <net> inside a <nic>. PCI classes: 0x03 GPU, 0x02 network, 0x0604 bridge (a PCIe switch), 0x0680 NVSwitch.
// Source: NVIDIA/nccl 2.30.7 src/graph/xml.cc, topo.cc.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/links.h"
#include "cluster/machine_text.h"
#include "cluster/xml_tree.h"

namespace gpuplan {
namespace {

struct GpuPart {
  std::int64_t device = 0;
  std::string bus;
  DevicePlace place;
  PcieSlot slot;
  const XmlElement* element = nullptr;
};

std::int64_t generation_of(const std::string& link_speed) {
  static const std::map<int, std::int64_t> kGenerations{{2, 1}, {5, 2}, {8, 3}, {16, 4}, {32, 5}, {64, 6}};
  const auto found = kGenerations.find(std::atoi(link_speed.c_str()));
  return found == kGenerations.end() ? 0 : found->second;
}

PcieSlot slot_of(const XmlElement& pci) {
  const auto lanes = std::clamp(std::atoi(pci.attribute("link_width").c_str()), 0, 16);
  return {generation_of(pci.attribute("link_speed")), lanes};
}

class NcclReader {
 public:
  NcclReader(const std::string& file) : file_(file), links_(LinkTable::read()) {}

  MachineFacts read(const XmlElement& system) {
    if (system.name != "system") fail(system, fmt::format("the top is <{}>, not <system>", system.name));
    for (const XmlElement& cpu : system.children)
      if (cpu.name == "cpu") read_cpu(cpu);
    if (gpus_.empty()) fail(system, "has no <gpu>");
    std::stable_sort(gpus_.begin(), gpus_.end(),
                     [](const GpuPart& a, const GpuPart& b) { return a.device < b.device; });
    for (const GpuPart& gpu : gpus_) add_gpu(gpu);
    for (std::size_t i = 0; i < gpus_.size(); ++i) add_nvlinks(i);
    if (has_nvswitch_) facts_.has_nvswitch = true, facts_.links_to_switch = links_to_switch_;
    return std::move(facts_);
  }

 private:
  [[noreturn]] void fail(const XmlElement& at, const std::string& problem) const {
    throw InputError(fmt::format("{}:{}", file_, at.line), problem, "expected is what NCCL_TOPO_DUMP_FILE writes");
  }

  void read_cpu(const XmlElement& cpu) {
    NodeLayout& layout = facts_.layout;
    layout.bridges.push_back(layout.sockets++);
    const auto bridge = std::int64_t(layout.bridges.size()) - 1;
    for (const XmlElement& child : cpu.children) read_device(child, bridge, -1);
  }

  void read_device(const XmlElement& element, std::int64_t bridge, std::int64_t parent) {
    if (element.name == "nic") return read_nets(element, bridge, parent);  // not on PCI
    if (element.name != "pci") return;
    const std::string kind = element.attribute("class");
    if (kind.empty()) fail(element, "<pci> has no class");
    if (kind.starts_with("0x0680")) return;
    for (const XmlElement& child : element.children) {
      if (child.name == "gpu") add_part(element, child, bridge, parent);
      if (child.name == "nic") read_nets(child, bridge, parent);
    }
    const bool is_switch = kind.starts_with("0x0604");
    if (is_switch) {
      const PcieSlot slot = slot_of(element);
      const BytesPerSec uplink = slot.generation > 0 && slot.lanes > 0 ? links_.host_link(slot) : BytesPerSec{};
      facts_.layout.switches.push_back({bridge, parent, uplink});
    }
    const std::int64_t above = is_switch ? std::int64_t(facts_.layout.switches.size()) - 1 : parent;
    for (const XmlElement& child : element.children) read_device_below(child, bridge, above);
  }

  void read_device_below(const XmlElement& child, std::int64_t bridge, std::int64_t above) {
    if (child.name == "pci") read_device(child, bridge, above);
  }

  void read_nets(const XmlElement& nic, std::int64_t bridge, std::int64_t parent) {
    for (const XmlElement& net : nic.children) {
      if (net.name != "net") continue;
      const double megabits = std::atof(net.attribute("speed").c_str());
      if (!(megabits > 0 && megabits < 1e9)) fail(net, "<net> has no speed");
      facts_.layout.nics.push_back({bridge, parent, BytesPerSec{megabits * 1e6 / 8}, net.attribute("name")});
    }
  }

  void add_part(const XmlElement& pci, const XmlElement& gpu, std::int64_t bridge, std::int64_t parent) {
    if (gpu.attribute("dev").empty()) fail(gpu, "<gpu> has no dev");
    if (gpus_.size() >= 1024) fail(gpu, "has too many GPUs");
    gpus_.push_back({std::atoi(gpu.attribute("dev").c_str()),
                     pci.attribute("busid"),
                     {bridge, parent, {}, {}},
                     slot_of(pci),
                     &gpu});
    const int sm = std::atoi(gpu.attribute("sm").c_str());
    if (sm > 0 && sm < 1000) facts_.compute_capability = fmt::format("{}.{}", sm / 10, sm % 10);
  }

  void add_gpu(const GpuPart& gpu) {
    facts_.layout.gpus.push_back(gpu.place);
    if (gpu.slot.generation > 0)
      facts_.pcie_generation = std::min(facts_.pcie_generation.value_or(gpu.slot.generation), gpu.slot.generation);
    if (gpu.slot.lanes > 0) facts_.pcie_lanes = std::min(facts_.pcie_lanes.value_or(gpu.slot.lanes), gpu.slot.lanes);
  }

  void add_nvlinks(std::size_t index) {
    std::int64_t to_switch = 0;
    for (const XmlElement& link : gpus_[index].element->children) {
      if (link.name != "nvlink") continue;
      const std::int64_t count = std::atoi(link.attribute("count").c_str());
      if (count < 1 || count > 64) fail(link, fmt::format("<nvlink> has the count '{}'", link.attribute("count")));
      if (link.attribute("tclass").starts_with("0x0680")) to_switch += count;
      const std::string target = link.attribute("target");
      for (std::size_t peer = index + 1; peer < gpus_.size(); ++peer)
        if (gpus_[peer].bus == target)
          facts_.layout.direct_links.push_back({std::int64_t(index), std::int64_t(peer), count, {}});
    }
    if (to_switch == 0) return;
    links_to_switch_ = has_nvswitch_ ? std::min(links_to_switch_, to_switch) : to_switch;
    has_nvswitch_ = true;
  }

  std::string file_;
  LinkTable links_;
  MachineFacts facts_;
  std::vector<GpuPart> gpus_;
  bool has_nvswitch_ = false;
  std::int64_t links_to_switch_ = 0;
};

}  // namespace

MachineFacts read_nccl_topology(std::string_view text, const std::string& file) {
  const XmlElement system = read_xml(text, file);
  return NcclReader(file).read(system);
}

}  // namespace gpuplan
