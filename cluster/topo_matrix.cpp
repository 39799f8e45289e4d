// nvidia-smi topo -m. Cells: X itself, NV# so many NVLinks, PIX one PCIe bridge, PXB several, PHB through the host
// bridge, NODE between host bridges of a NUMA node, SYS between NUMA nodes. NVLinks hide what PCIe path two GPUs have;
// then adapters near both and the NUMA column tell. Seen in the wild: escape codes around the header, tabs turned into
// spaces, a lost leading tab.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "cluster/cluster_file.h"
#include "cluster/machine_facts.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMostLabels = 512;

struct Cell {
  PathClass path = PathClass::Sys;
  std::int64_t num_links = 0;
};

struct Matrix {
  std::vector<std::string> labels;
  std::size_t num_gpus = 0;
  std::vector<std::vector<Cell>> cells;
  std::vector<std::optional<std::int64_t>> numa;
};

/// Returns the text without "ESC [ … letter".
std::string without_escapes(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    ++i;  // '['
    while (i + 1 < line.size() && !(line[i + 1] >= '@' && line[i + 1] <= '~')) ++i;
    ++i;
  }
  return out;
}

std::vector<std::string> words(std::string_view line) {
  std::vector<std::string> out;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const auto end = std::min(line.find_first_of(" \t\r", at), line.size());
    out.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 6 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_gpu(std::string_view label) { return label.starts_with("GPU") && is_number(label.substr(3)); }

std::optional<Cell> cell_of(const std::string& word) {
  if (word.starts_with("NV") && is_number(word.substr(2))) return Cell{PathClass::NvLink, std::stol(word.substr(2))};
  static const std::map<std::string, PathClass> kPaths{
      {"X", PathClass::Self},    {"PIX", PathClass::Pix}, {"PXB", PathClass::Pxb}, {"PHB", PathClass::Phb},
      {"NODE", PathClass::Node}, {"SYS", PathClass::Sys}, {"SOC", PathClass::Sys}};
  const auto found = kPaths.find(word);
  if (found == kPaths.end()) return std::nullopt;
  return Cell{found->second, 0};
}

class MatrixReader {
 public:
  MatrixReader(std::string_view text, const std::string& file) : file_(file) {
    for (std::size_t at = 0; at <= text.size();) {
      const auto end = std::min(text.find('\n', at), text.size());
      lines_.push_back(without_escapes(text.substr(at, end - at)));
      at = end + 1;
    }
  }

  Matrix read() {
    std::size_t line = 0;
    while (line < lines_.size() && (words(lines_[line]).empty() || words(lines_[line]).front() != "GPU0")) ++line;
    if (line == lines_.size())
      fail(1, "has no header line with GPU0", "paste the whole output of 'nvidia-smi topo -m'");
    read_header(line);
    for (++line; line < lines_.size(); ++line) read_line(line);
    for (std::size_t i = 0; i < matrix_.labels.size(); ++i)
      if (matrix_.cells[i].empty())
        fail(lines_.size(), fmt::format("the row of {} is missing", matrix_.labels[i]), "the text is cut off");
    return std::move(matrix_);
  }

 private:
  [[noreturn]] void fail(std::size_t line, const std::string& problem, const std::string& hint) const {
    throw InputError(fmt::format("{}:{}", file_, line), problem, hint);
  }

  void read_header(std::size_t line) {
    for (const std::string& word : words(lines_[line])) {
      if (word == "CPU" || word == "NUMA" || word == "GPU") break;
      if (is_gpu(word) && matrix_.num_gpus == matrix_.labels.size()) ++matrix_.num_gpus;
      matrix_.labels.push_back(word);
    }
    if (matrix_.labels.size() > kMostLabels) fail(line + 1, "has too many columns", "");
    matrix_.cells.resize(matrix_.labels.size());
    matrix_.numa.resize(matrix_.labels.size());
  }

  void read_line(std::size_t line) {
    const auto row = words(lines_[line]);
    if (row.empty()) return;
    const auto label = std::find(matrix_.labels.begin(), matrix_.labels.end(), row.front());
    if (label != matrix_.labels.end()) return read_row(line, std::size_t(label - matrix_.labels.begin()), row);
    if (row.size() == 2 && row.front().ends_with(':')) {  // NIC0: mlx5_0
      const std::string name = row.front().substr(0, row.front().size() - 1);
      const auto nic = std::find(matrix_.labels.begin(), matrix_.labels.end(), name);
      if (nic != matrix_.labels.end() && !is_gpu(name)) *nic = row.back();
    }
  }

  void read_row(std::size_t line, std::size_t index, const std::vector<std::string>& row) {
    const std::size_t count = matrix_.labels.size();
    if (!matrix_.cells[index].empty()) fail(line + 1, fmt::format("{} has a second row", row.front()), "");
    if (row.size() < count + 1)
      fail(line + 1, fmt::format("the row of {} has {} of {} cells", row.front(), row.size() - 1, count),
           "the text is cut off");
    for (std::size_t i = 0; i < count; ++i) {
      const auto cell = cell_of(row[i + 1]);
      if (!cell || (cell->path == PathClass::Self) != (i == index))
        fail(line + 1, fmt::format("'{}' between {} and {} is no path", row[i + 1], row.front(), matrix_.labels[i]),
             "known: X on the diagonal, NV1 … NV18, PIX, PXB, PHB, NODE, SYS");
      matrix_.cells[index].push_back(*cell);
    }
    if (row.size() > count + 2 && is_number(row[count + 2])) matrix_.numa[index] = std::stol(row[count + 2]);
  }

  std::string file_;
  std::vector<std::string> lines_;
  Matrix matrix_;
};

PathMatrix paths_of(const Matrix& matrix) {
  PathMatrix paths{matrix.labels, matrix.num_gpus, {}, matrix.numa};
  for (const auto& row : matrix.cells) {
    paths.paths.emplace_back();
    for (const Cell& cell : row) paths.paths.back().push_back(cell.path);
  }
  return paths;
}

void add_nvlinks(MachineFacts& facts, const Matrix& matrix) {
  bool differs = false;
  for (std::size_t a = 0; a < matrix.num_gpus; ++a)
    for (std::size_t b = a + 1; b < matrix.num_gpus; ++b) {
      const std::int64_t one = matrix.cells[a][b].num_links, other = matrix.cells[b][a].num_links;
      differs |= one != other;
      if (std::min(one, other) > 0)
        facts.layout.direct_links.push_back({std::int64_t(a), std::int64_t(b), std::min(one, other), {}});
    }
  if (differs)
    facts.assumptions.push_back(
        "NVLink counts differ between the two directions (a link is down?): the lower is taken");
}

}  // namespace

MachineFacts read_topo_matrix(std::string_view text, const std::string& file) {
  const Matrix matrix = MatrixReader(text, file).read();
  MachineFacts facts;
  facts.layout = layout_of(paths_of(matrix));
  add_nvlinks(facts, matrix);
  facts.assumptions.push_back(
      "nvidia-smi topo -m names no rates: PCIe slots are as the GPUs', NUMA nodes count as sockets");
  return facts;
}

}  // namespace gpuplan
