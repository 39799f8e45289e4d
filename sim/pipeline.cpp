// The shapes that sim/tree plays.
#include "base/narrow.h"
#include "sim/tree.h"

#include <algorithm>

namespace gpuplan {
namespace {

constexpr std::int64_t kNoParent = -1;

/// The parent in a binary tree over 0 … size - 1 in which the lowest set bit of a number is its height (leaves are
/// odd).
std::int64_t parent_in_tree(std::int64_t node, std::int64_t size) {
  if (node == 0) return kNoParent;
  const std::int64_t bit = node & -node, up = (node ^ bit) | (bit << 1);
  return up < size ? up : node ^ bit;
}

/// The second tree: the first mirrored, or of an odd number shifted by one, so that leaves become inner nodes.
std::int64_t parent_in_second_tree(std::int64_t node, std::int64_t size) {
  const bool is_even = size % 2 == 0;
  const std::int64_t seen = is_even ? size - 1 - node : (node - 1 + size) % size;
  const std::int64_t parent = parent_in_tree(seen, size);
  if (parent == kNoParent) return kNoParent;
  return is_even ? size - 1 - parent : (parent + 1) % size;
}

/// The parent of every member, machine by machine: local rank `head` is in the tree, the others follow it in a chain.
/// The last machine may have fewer ranks.
std::vector<std::int64_t> parents(bool is_second, std::int64_t head, std::int64_t size, std::int64_t ranks_per_node) {
  const std::int64_t nodes = ceil_div(size, ranks_per_node);
  const auto members_of = [&](std::int64_t node) { return std::min(ranks_per_node, size - node * ranks_per_node); };
  const auto head_of = [&](std::int64_t node) { return node * ranks_per_node + head % members_of(node); };
  std::vector<std::int64_t> out(std::size_t(size), kNoParent);
  for (std::int64_t m = 0; m < size; ++m) {
    const std::int64_t node = m / ranks_per_node, local = m % ranks_per_node, members = members_of(node);
    std::int64_t& parent = out[std::size_t(m)];
    if (m != head_of(node)) {
      parent = node * ranks_per_node + (local + members - 1) % members;
      continue;
    }
    const std::int64_t up = is_second ? parent_in_second_tree(node, nodes) : parent_in_tree(node, nodes);
    if (up != kNoParent) parent = head_of(up);
  }
  return out;
}

}  // namespace

Pipeline double_tree(std::int64_t size, std::int64_t ranks_per_node) {
  Pipeline out{.num_trees = num_trees(size, ranks_per_node)};
  for (int tree = 0; tree < out.num_trees; ++tree) {
    const auto parent = parents(tree % 2 == 1, tree / 2, size, ranks_per_node);
    std::vector<std::uint32_t> up(std::size_t(size), 0), down(std::size_t(size), 0);  // of each member but the root
    for (std::int64_t m = 0; m < size; ++m) {
      if (parent[std::size_t(m)] == kNoParent) continue;
      const auto a = narrow<std::uint32_t>(m), b = narrow<std::uint32_t>(parent[std::size_t(m)]);
      up[a] = narrow<std::uint32_t>(out.edges.size());
      out.edges.push_back({.from = a, .to = b, .tree = tree});
      down[a] = narrow<std::uint32_t>(out.edges.size());
      out.edges.push_back({.from = b, .to = a, .tree = tree});
    }
    for (std::int64_t m = 0; m < size; ++m) {
      const std::int64_t p = parent[std::size_t(m)];
      if (p == kNoParent) continue;
      const bool below_root = parent[std::size_t(p)] == kNoParent;
      if (!below_root) {
        out.edges[up[std::size_t(p)]].sources.push_back(up[std::size_t(m)]);
        out.edges[down[std::size_t(m)]].sources.push_back(down[std::size_t(p)]);
        continue;
      }
      for (std::int64_t child = 0; child < size; ++child)  // the root needs all parts before it sends the sum
        if (parent[std::size_t(child)] == p) out.edges[down[std::size_t(m)]].sources.push_back(up[std::size_t(child)]);
    }
  }
  return out;
}

Pipeline chain(std::int64_t size) {
  Pipeline out;
  for (std::int64_t m = 0; m + 1 < size; ++m) {
    PipelineEdge edge{.from = narrow<std::uint32_t>(m), .to = narrow<std::uint32_t>(m + 1)};
    if (m > 0) edge.sources.push_back(narrow<std::uint32_t>(m - 1));
    out.edges.push_back(std::move(edge));
  }
  return out;
}

}  // namespace gpuplan
