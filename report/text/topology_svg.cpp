#include "report/text/topology_svg.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "report/text/amounts.h"
#include "report/text/topology_text.h"

namespace gpuplan {
namespace {

constexpr double kBoxHeight = 30, kRow = 82, kMargin = 24, kTitle = 56;

struct Spot {
  double x = 0, y = 0, width = 0;
};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string_view class_of(VertexKind kind) {
  constexpr std::array<std::string_view, std::size_t(VertexKind::Count)> kClasses{"gpu", "sw",   "hb",   "mem", "nvsw",
                                                                                  "nic", "leaf", "leaf", "nvme"};
  return kClasses.at(std::size_t(kind));
}

std::string_view class_of(LinkKind kind) {
  constexpr std::array<std::string_view, std::size_t(LinkKind::Count)> kClasses{"nv",   "pcie", "nv",  "sock",
                                                                                "meml", "net",  "meml"};
  return kClasses.at(std::size_t(kind));
}

struct Picture {
  const Topology& topology;
  MachineTree tree;
  std::vector<Spot> spots;
  double leaf_width = 84, next_x = kMargin, deepest = 0;
  std::string boxes, lines, labels;

  double level_y(double level) const { return kTitle + level * kRow; }

  /// Leaves from left to right, everything else above the middle of what hangs below it.
  void place(std::uint32_t vertex, double level) {
    Spot& spot = spots[vertex];
    const auto& below = tree.children[vertex];
    spot.width = leaf_width - 10;
    spot.y = level_y(level);
    deepest = std::max(deepest, level);
    if (below.empty()) {
      spot.x = next_x;
      next_x += leaf_width;
      return;
    }
    for (const std::uint32_t child : below) place(child, level + 1);
    const double left = spots[below.front()].x, right = spots[below.back()].x + spots[below.back()].width;
    const double wanted = std::max(leaf_width - 10, std::min(right - left, 150.0));
    spot.x = (left + right) / 2 - wanted / 2;
    spot.width = wanted;
  }

  void sink_devices() {  // all devices on one line
    for (std::uint32_t v = 0; v < spots.size(); ++v)
      if (tree.children[v].empty() && tree.parent[v] != kNoVertex) spots[v].y = level_y(deepest);
  }

  void box(const Spot& at, std::string_view css, const std::string& text, const std::string& hint = {}) {
    boxes += fmt::format(
        "<g class=\"{}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" rx=\"5\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>{}</g>\n",
        css, at.x, at.y, at.width, kBoxHeight, at.x + at.width / 2, at.y + kBoxHeight / 2 + 4, escaped(text),
        hint.empty() ? "" : fmt::format("<title>{}</title>", escaped(hint)));
  }

  /// A link's ends by name, from which the page knows it again.
  std::string ends(std::uint32_t a, std::uint32_t b) const {
    return fmt::format("data-a=\"{}\" data-b=\"{}\"", escaped(topology.vertex(a).name),
                       escaped(topology.vertex(b).name));
  }

  void line(double x1, double y1, double x2, double y2, const TopologyLink& link, const std::string& attributes) {
    lines += fmt::format(
        "<path class=\"{}\" {} d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\"><title>{}: {}, "
        "{}</title></path>\n",
        class_of(link.kind), attributes, x1, y1, x1, (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2, to_string(link.kind),
        format_rate(link.capacity), escaped(link.source));
  }

  void label(double x, double y, const std::string& text, std::string_view css = "rate") {
    labels += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", css, x, y, escaped(text));
  }

  double middle(std::uint32_t v) const { return spots[v].x + spots[v].width / 2; }

  std::string name_of(std::uint32_t v) const {
    const TopologyVertex& vertex = topology.vertex(v);
    if (vertex.kind == VertexKind::Memory) return fmt::format("memory of socket {}", vertex.index);
    const bool is_narrow = leaf_width < 60;
    if (vertex.kind == VertexKind::Gpu && is_narrow) return std::to_string(vertex.index);
    if (vertex.kind == VertexKind::PcieSwitch) return is_narrow ? "sw" : fmt::format("switch {}", vertex.index);
    if (vertex.kind == VertexKind::HostBridge) return is_narrow ? "root" : fmt::format("host bridge {}", vertex.index);
    if (vertex.kind == VertexKind::Nic && is_narrow) return fmt::format("n{}", vertex.index);
    return vertex.name;
  }

  void draw_tree() {
    for (std::uint32_t v = 0; v < spots.size(); ++v) {
      if (spots[v].width <= 0) continue;
      box(spots[v], class_of(topology.vertex(v).kind), name_of(v), topology.vertex(v).name);
      if (tree.parent[v] == kNoVertex) continue;
      const Spot& up = spots[tree.parent[v]];
      const TopologyLink* link = link_between(topology, v, tree.parent[v]);
      if (!link) continue;
      line(middle(v), spots[v].y, up.x + up.width / 2, up.y + kBoxHeight, *link, ends(v, tree.parent[v]));
      if (leaf_width >= 60) label(middle(v), spots[v].y - 6, format_rate(link->capacity));
    }
    for (std::uint32_t l = 0; l < topology.num_links(); ++l) {
      const std::uint32_t a = topology.source(l), b = topology.target(l);
      if (topology.link(l).kind != LinkKind::Socket || a > b || tree.sockets.size() > 4 || a >= spots.size() ||
          spots[a].width <= 0)
        continue;
      const double y = spots[a].y + kBoxHeight / 2, x1 = spots[a].x + spots[a].width, x2 = spots[b].x;
      lines += fmt::format("<path class=\"sock\" {} d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", ends(a, b), x1, y, x2);
      label((x1 + x2) / 2, y - 6, format_rate(topology.link(l).capacity));
    }
  }

  /// NVSwitch as a bar below the GPUs, direct links as arcs.
  double draw_fabric(double y) {
    if (tree.nvswitch != kNoVertex && !tree.gpus.empty()) {
      double left = 1e9, right = 0;
      for (const std::uint32_t gpu : tree.gpus)
        left = std::min(left, spots[gpu].x), right = std::max(right, spots[gpu].x + spots[gpu].width);
      const TopologyLink* link = link_between(topology, tree.gpus.front(), tree.nvswitch);
      for (const std::uint32_t gpu : tree.gpus)
        line(middle(gpu), spots[gpu].y + kBoxHeight, middle(gpu), y + 34, *link, ends(gpu, tree.nvswitch));
      box({left, y + 34, right - left}, "nvsw",
          fmt::format("NVSwitch, {} from and to each GPU", format_rate(link->capacity)));
      return y + 34 + kBoxHeight;
    }
    double lowest = y;
    for (std::uint32_t l = 0; l < topology.num_links(); ++l) {
      const std::uint32_t a = topology.source(l), b = topology.target(l);
      if (a >= b || b >= spots.size() || topology.vertex(a).kind != VertexKind::Gpu ||
          topology.vertex(b).kind != VertexKind::Gpu)
        continue;
      if (spots[a].width <= 0 || spots[b].width <= 0) continue;
      const double depth = 18 + 0.16 * (middle(b) - middle(a)), bottom = spots[a].y + kBoxHeight;
      lines += fmt::format(
          "<path class=\"nv\" {} d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\"><title>{}: "
          "{}</title></path>\n",
          ends(a, b), middle(a), bottom, middle(a), bottom + depth, middle(b), bottom + depth, middle(b), bottom,
          to_string(topology.link(l).kind), format_rate(topology.link(l).capacity));
      if (tree.gpus.size() <= 4)
        label((middle(a) + middle(b)) / 2, bottom + depth * 0.75 + 14, format_rate(topology.link(l).capacity));
      lowest = std::max(lowest, bottom + depth + 12);
    }
    return lowest;
  }

  double draw_network(double y) {
    if (topology.num_nodes <= 1 || tree.nics.empty()) return y;
    const Spot bar{kMargin, y + 44, next_x - kMargin - 10};
    double sum = 0;
    for (const std::uint32_t nic : tree.nics)
      for (std::uint32_t l = 0; l < topology.num_links(); ++l)
        if (topology.source(l) == nic && topology.link(l).kind == LinkKind::Network) {
          sum += topology.link(l).capacity.value;
          line(middle(nic), spots[nic].y + kBoxHeight, middle(nic), bar.y, topology.link(l),
               ends(nic, topology.target(l)));
        }
    box(bar, "leaf",
        fmt::format("network of {} machines, {} from each", topology.num_nodes, format_rate(BytesPerSec{sum})));
    return bar.y + kBoxHeight;
  }

  void legend(double y) {
    struct Entry {
      LinkKind kind;
      const char* text;
    };
    double x = kMargin;
    for (const Entry& row : {Entry{LinkKind::Pcie, "PCIe"}, Entry{LinkKind::NvLink, "NVLink, Infinity Fabric"},
                             Entry{LinkKind::Memory, "memory"}, Entry{LinkKind::Socket, "between sockets"},
                             Entry{LinkKind::Network, "network"}}) {
      bool is_used = false;
      for (std::uint32_t l = 0; l < topology.num_links(); ++l)
        is_used |= class_of(topology.link(l).kind) == class_of(row.kind);
      if (!is_used) continue;
      lines += fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}h22\"/>\n", class_of(row.kind), x, y);
      label(x + 28, y + 4, row.text, "rate start");
      x += 50 + 6.4 * double(std::string_view(row.text).size());
    }
  }
};

constexpr std::string_view kStyle =
    "<style>.gptopo text{font:12px system-ui,sans-serif;text-anchor:middle;fill:#1c2733}.gptopo "
    ".rate{font-size:10.5px;fill:#4a5866;"
    "paint-order:stroke;stroke:#fff;stroke-width:3px}.gptopo .start{text-anchor:start}.gptopo "
    ".title{font-size:16px;font-weight:600;text-anchor:start}"
    ".gptopo .sub{font-size:12px;text-anchor:start;fill:#4a5866}.gptopo rect{stroke:#5b6b7a;fill:#eef1f4}.gptopo "
    ".back{fill:#fff;stroke:none}.gptopo .gpu "
    "rect{fill:#d9ecd0;stroke:#4e8a34}"
    ".gptopo .nic rect{fill:#fbe6c8;stroke:#b7791f}.gptopo .mem rect{fill:#dfe7f7;stroke:#4666a8}.gptopo .nvsw "
    "rect{fill:#c4e3b6;stroke:#4e8a34}"
    ".gptopo .leaf rect{fill:#fbe6c8;stroke:#b7791f}.gptopo .nvme rect{fill:#eee4f3;stroke:#7d5a92}"
    ".gptopo path{fill:none;stroke-width:2}.gptopo .pcie{stroke:#5b6b7a}.gptopo .nv{stroke:#4e8a34;stroke-width:3}"
    ".gptopo .meml{stroke:#4666a8}.gptopo .sock{stroke:#a8325b;stroke-width:3}.gptopo .net{stroke:#b7791f}"
    // as wide as the window that shows it, in its colours
    ".gptopo{max-width:100%;height:auto}@media(prefers-color-scheme:dark){.gptopo{background:#14161a}.gptopo "
    "text{fill:#e8eaee}.gptopo .rate{fill:#a6adba;stroke:#14161a}.gptopo .sub{fill:#a6adba}.gptopo "
    "rect{stroke:#8d95a3;fill:#1e2127}.gptopo .back{fill:#14161a}.gptopo .gpu rect,.gptopo .nvsw "
    "rect{fill:#1d3a1a;stroke:#7cc05c}.gptopo .nic rect,.gptopo .leaf rect{fill:#40300f;stroke:#e0a548}.gptopo .mem "
    "rect{fill:#1b2a4a;stroke:#7f9fe0}.gptopo .nvme rect{fill:#33233c;stroke:#b992d0}.gptopo "
    ".pcie{stroke:#8d95a3}.gptopo .nv{stroke:#7cc05c}.gptopo .meml{stroke:#7f9fe0}.gptopo .sock{stroke:#e06a94}.gptopo "
    ".net{stroke:#e0a548}}</style>\n";

}  // namespace

std::string topology_svg(const Topology& topology) {
  Picture picture{topology, first_machine(topology), {}, 84, kMargin, 0, {}, {}, {}};
  picture.spots.resize(topology.num_vertices());
  if (picture.tree.gpus.size() + picture.tree.nics.size() > 40) picture.leaf_width = 34;
  for (const std::uint32_t socket : picture.tree.sockets) {
    picture.place(socket, 0);
    picture.next_x += 34;
  }
  picture.next_x -= 34;
  picture.sink_devices();
  picture.draw_tree();
  double y = picture.draw_fabric(picture.level_y(picture.deepest) + kBoxHeight);
  y = picture.draw_network(y);
  picture.legend(y + 34);
  const double width = std::max(560.0, picture.next_x + kMargin), height = y + 56;
  const std::string peers = topology.has_peer_to_peer ? "" : "; GPUs reach each other through host memory only";
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"gptopo\" viewBox=\"0 0 {:.0f} {:.0f}\" "
             "width=\"{:.0f}\" height=\"{:.0f}\" role=\"img\">\n",
             width, height, width, height) +
         std::string(kStyle) +
         fmt::format("<rect class=\"back\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n", width, height) +
         fmt::format("<text class=\"title\" x=\"{:.0f}\" y=\"26\">{}</text>\n", kMargin, escaped(topology.title)) +
         fmt::format(
             "<text class=\"sub\" x=\"{:.0f}\" y=\"44\">{}rates of one direction, as transfers reach them{}</text>\n",
             kMargin, topology.num_nodes > 1 ? fmt::format("one of {} machines; ", topology.num_nodes) : "", peers) +
         picture.lines + picture.boxes + picture.labels + "</svg>\n";
}

}  // namespace gpuplan
