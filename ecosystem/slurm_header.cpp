#include "ecosystem/slurm_header.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "base/names.h"

namespace gpuplan {
namespace {

using Count = std::optional<std::int64_t>;

/// "4", and the first of "2-4"; below a million.
Count count_of(std::string_view text) {
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || number < 1 || number > 1'000'000) return {};
  return number;
}

/// "8", "a100:8", "gpu:8", "gpu:a100:8", "gpu".
Count gpus_of(const std::string& text, std::string& type) {
  std::vector<std::string> parts = split(text, ':');
  if (parts.size() > 1 && parts[0] == "gpu") parts.erase(parts.begin());
  if (parts.size() == 1 && parts[0] == "gpu") return 1;
  if (parts.size() > 1) type = parts[0];
  if (parts.size() == 1 && !count_of(parts[0])) {
    type = parts[0];
    return 1;
  }
  return count_of(parts.back());
}

/// "--gres=gpu:4", "--gres gpu:4", "-N 2", "-N2" of one line.
std::vector<std::pair<std::string, std::string>> options_of(std::string_view line) {
  std::vector<std::pair<std::string, std::string>> options;
  std::istringstream words{std::string(line.substr(0, line.find(" #")))};
  for (std::string word; words >> word;) {
    if (word.size() > 2 && word[0] == '-' && word[1] != '-') {
      options.emplace_back(word.substr(0, 2), word.substr(2));
    } else if (word.starts_with("-")) {
      const std::size_t equals = word.find('=');
      options.emplace_back(word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1));
    } else if (!options.empty() && options.back().second.empty()) {
      options.back().second = word;
    }
  }
  return options;
}

struct Asked {
  Count nodes, per_node, total, per_task, tasks, tasks_per_node;
};

void read_option(const std::string& name, const std::string& value, Asked& asked, std::string& type) {
  if (name == "--nodes" || name == "-N") asked.nodes = count_of(value);
  if (name == "--ntasks" || name == "-n") asked.tasks = count_of(value);
  if (name == "--ntasks-per-node") asked.tasks_per_node = count_of(value);
  if (name == "--gpus" || name == "-G") asked.total = gpus_of(value, type);
  if (name == "--gpus-per-node") asked.per_node = gpus_of(value, type);
  if (name == "--gpus-per-task") asked.per_task = gpus_of(value, type);
  if (name == "--gres")
    for (const std::string& part : split(value, ','))
      if (part.starts_with("gpu")) asked.per_node = gpus_of(part, type);
}

}  // namespace

SlurmHeader read_slurm_header(const std::string& script) {
  Asked asked;
  SlurmHeader header;
  bool has_any = false;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#SBATCH")) continue;
    has_any = true;
    for (const auto& [name, value] : options_of(std::string_view(line).substr(7)))
      read_option(name, value, asked, header.gpu_type);
  }
  if (!has_any) return header;
  header.num_nodes = asked.nodes.value_or(1);
  header.tasks_per_node = asked.tasks_per_node;
  if (asked.tasks && !asked.tasks_per_node && *asked.tasks % *header.num_nodes == 0)
    header.tasks_per_node = *asked.tasks / *header.num_nodes;
  header.gpus_per_node = asked.per_node;
  if (!asked.per_node && asked.total && *asked.total % *header.num_nodes == 0)
    header.gpus_per_node = *asked.total / *header.num_nodes;
  if (!header.gpus_per_node && asked.per_task)
    header.gpus_per_node = *asked.per_task * header.tasks_per_node.value_or(1);
  return header;
}

std::map<std::string, std::string> SlurmHeader::variables() const {
  std::map<std::string, std::string> set;
  if (num_nodes) set["SLURM_NNODES"] = set["SLURM_JOB_NUM_NODES"] = std::to_string(*num_nodes);
  if (gpus_per_node) set["SLURM_GPUS_ON_NODE"] = set["SLURM_GPUS_PER_NODE"] = std::to_string(*gpus_per_node);
  if (tasks_per_node) set["SLURM_NTASKS_PER_NODE"] = std::to_string(*tasks_per_node);
  if (tasks_per_node && num_nodes) set["SLURM_NTASKS"] = std::to_string(*tasks_per_node * *num_nodes);
  return set;
}

}  // namespace gpuplan
