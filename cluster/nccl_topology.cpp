// NCCL's topology dump: <system><cpu><pci class=…> nested like the machine; a GPU is a <gpu> inside its <pci>, an
// adapter a <net> inside a <nic>. PCI classes: 0x03 GPU, 0x02 network, 0x0604 bridge (a PCIe switch), 0x0680 NVSwitch.
// Source: NVIDIA/nccl 2.30.7 src/graph/xml.cc, topo.cc.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "base/error.h"
#include "cluster/cluster_file.h"
#include "cluster/links.h"

namespace gpuplan {
namespace {

constexpr int kDeepest = 32;  // NCCL's own trees have 7 levels
constexpr std::size_t kMostElements = 100'000;
constexpr const char* kExpected = "expected is what NCCL_TOPO_DUMP_FILE writes";

using Element = pugi::xml_node;

struct GpuPart {
  std::int64_t device = 0;
  std::string bus;
  DevicePlace place;
  PcieSlot slot;
  Element element;
};

std::string_view name_of(Element element) { return element.name(); }
std::string text_of(Element element, const char* key) { return element.attribute(key).as_string(); }

std::int64_t generation_of(const std::string& link_speed) {
  static const std::map<int, std::int64_t> kGenerations{{2, 1}, {5, 2}, {8, 3}, {16, 4}, {32, 5}, {64, 6}};
  const auto found = kGenerations.find(std::atoi(link_speed.c_str()));
  return found == kGenerations.end() ? 0 : found->second;
}

PcieSlot slot_of(Element pci) {
  const auto lanes = std::clamp(std::atoi(text_of(pci, "link_width").c_str()), 0, 16);
  return {generation_of(text_of(pci, "link_speed")), lanes};
}

class NcclReader {
 public:
  NcclReader(std::string_view text, const std::string& file) : text_(text), file_(file), links_(LinkTable::shipped()) {}

  MachineFacts read() {
    const auto result = document_.load_buffer(text_.data(), text_.size());
    if (!result) fail(result.offset, fmt::format("is not XML, or is cut off: {}", result.description()));
    check_size();
    const Element system = document_.document_element();
    if (name_of(system) != "system") fail(system, fmt::format("the top is <{}>, not <system>", system.name()));
    for (const Element cpu : system.children())
      if (name_of(cpu) == "cpu") read_cpu(cpu);
    if (gpus_.empty()) fail(system, "has no <gpu>");
    std::ranges::stable_sort(gpus_, [](const GpuPart& a, const GpuPart& b) { return a.device < b.device; });
    for (const GpuPart& gpu : gpus_) add_gpu(gpu);
    for (std::size_t i = 0; i < gpus_.size(); ++i) add_nvlinks(i);
    if (has_nvswitch_) facts_.has_nvswitch = true, facts_.links_to_switch = links_to_switch_;
    return std::move(facts_);
  }

 private:
  [[noreturn]] void fail(std::ptrdiff_t offset, const std::string& problem) const {
    const auto end = std::min(text_.size(), std::size_t(std::max<std::ptrdiff_t>(0, offset)));
    const auto line = 1 + std::count(text_.begin(), text_.begin() + std::ptrdiff_t(end), '\n');
    throw InputError(fmt::format("{}:{}", file_, line), problem, kExpected);
  }
  [[noreturn]] void fail(Element at, const std::string& problem) const { fail(at.offset_debug(), problem); }

  /// Refuses what would be deep or long to walk through.
  void check_size() {
    struct Limits : pugi::xml_tree_walker {
      std::size_t count = 0;
      int deepest = 0;
      bool for_each(Element& /*node*/) override {
        deepest = std::max(deepest, depth());
        return ++count <= kMostElements && deepest <= kDeepest;
      }
    } limits;
    document_.traverse(limits);
    if (limits.deepest > kDeepest) fail(0, "is nested too deep");
    if (limits.count > kMostElements) fail(0, "has too many elements");
    if (!document_.document_element()) fail(0, "has no element");
    if (document_.document_element().next_sibling()) fail(0, "has more than one element at the top");
  }

  void read_cpu(Element cpu) {
    NodeLayout& layout = facts_.layout;
    layout.bridges.push_back(layout.sockets++);
    const auto bridge = std::int64_t(layout.bridges.size()) - 1;
    for (const Element child : cpu.children()) read_device(child, bridge, -1);
  }

  void read_device(Element element, std::int64_t bridge, std::int64_t parent) {
    if (name_of(element) == "nic") return read_nets(element, bridge, parent);  // not on PCI
    if (name_of(element) != "pci") return;
    const std::string kind = text_of(element, "class");
    if (kind.empty()) fail(element, "<pci> has no class");
    if (kind.starts_with("0x0680")) return;
    for (const Element child : element.children()) {
      if (name_of(child) == "gpu") add_part(element, child, bridge, parent);
      if (name_of(child) == "nic") read_nets(child, bridge, parent);
    }
    const bool is_switch = kind.starts_with("0x0604");
    if (is_switch) {
      const PcieSlot slot = slot_of(element);
      const BytesPerSec uplink = slot.generation > 0 && slot.lanes > 0 ? links_.host_link(slot) : BytesPerSec{};
      facts_.layout.switches.push_back({bridge, parent, uplink});
    }
    const std::int64_t above = is_switch ? std::int64_t(facts_.layout.switches.size()) - 1 : parent;
    for (const Element child : element.children()) read_device_below(child, bridge, above);
  }

  void read_device_below(Element child, std::int64_t bridge, std::int64_t above) {
    if (name_of(child) == "pci") read_device(child, bridge, above);
  }

  void read_nets(Element nic, std::int64_t bridge, std::int64_t parent) {
    for (const Element net : nic.children()) {
      if (name_of(net) != "net") continue;
      const double megabits = std::atof(text_of(net, "speed").c_str());
      if (!(megabits > 0 && megabits < 1e9)) fail(net, "<net> has no speed");
      facts_.layout.nics.push_back({bridge, parent, BytesPerSec{megabits * 1e6 / 8}, text_of(net, "name")});
    }
  }

  void add_part(Element pci, Element gpu, std::int64_t bridge, std::int64_t parent) {
    if (text_of(gpu, "dev").empty()) fail(gpu, "<gpu> has no dev");
    if (gpus_.size() >= 1024) fail(gpu, "has too many GPUs");
    gpus_.push_back(
        {std::atoi(text_of(gpu, "dev").c_str()), text_of(pci, "busid"), {bridge, parent, {}, {}}, slot_of(pci), gpu});
    const int sm = std::atoi(text_of(gpu, "sm").c_str());
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
    for (const Element link : gpus_[index].element.children()) {
      if (name_of(link) != "nvlink") continue;
      const std::int64_t count = std::atoi(text_of(link, "count").c_str());
      if (count < 1 || count > 64) fail(link, fmt::format("<nvlink> has the count '{}'", text_of(link, "count")));
      if (text_of(link, "tclass").starts_with("0x0680")) to_switch += count;
      const std::string target = text_of(link, "target");
      for (std::size_t peer = index + 1; peer < gpus_.size(); ++peer)
        if (gpus_[peer].bus == target)
          facts_.layout.direct_links.push_back({std::int64_t(index), std::int64_t(peer), count, {}});
    }
    if (to_switch == 0) return;
    links_to_switch_ = has_nvswitch_ ? std::min(links_to_switch_, to_switch) : to_switch;
    has_nvswitch_ = true;
  }

  std::string_view text_;
  std::string file_;
  pugi::xml_document document_;
  LinkTable links_;
  MachineFacts facts_;
  std::vector<GpuPart> gpus_;
  bool has_nvswitch_ = false;
  std::int64_t links_to_switch_ = 0;
};

}  // namespace

MachineFacts read_nccl_topology(std::string_view text, const std::string& file) {
  return NcclReader(text, file).read();
}

}  // namespace gpuplan
