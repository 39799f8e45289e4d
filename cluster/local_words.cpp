#include "cluster/local_words.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/unit_text.h"

namespace gpuplan {
namespace {

bool is_mixed(const LocalMachine& machine) {
  return std::any_of(machine.gpus.begin(), machine.gpus.end(),
                     [&](const LocalGpu& gpu) { return gpu.name != machine.gpus.front().name; });
}

/// "GPU 1 12.3 GiB (process 4711)".
std::string use_text(std::size_t index, const LocalGpu& gpu) {
  std::vector<std::string> owners;
  for (const LocalProcess& process : gpu.processes) owners.push_back(fmt::format("{}", process.pid));
  const std::string who = owners.empty() ? "" : fmt::format(" (process {})", fmt::join(owners, ", "));
  return fmt::format("GPU {} {}{}", index, format_bytes(memory_in_use(gpu)), who);
}

void say_use(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  constexpr Bytes kWorthSaying{256LL << 20};  // below that it is the driver's and the desktop's
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    if (memory_in_use(machine.gpus[i]) >= kWorthSaying) texts.push_back(use_text(i, machine.gpus[i]));
  if (!texts.empty())
    assumptions.push_back(fmt::format("memory in use now, not counted as free: {}", fmt::join(texts, ", ")));
}

void say_source(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  std::string version = machine.driver_version.empty() ? "" : " " + machine.driver_version;
  if (!machine.cuda_version.empty()) version += fmt::format(" (CUDA {})", machine.cuda_version);
  assumptions.push_back(fmt::format(
      "GPUs, links and free memory are what the driver{} says, rates of links the usual ones: calibrate measures them",
      version));
}

/// What works less well than these GPUs could.
void say_oddities(const LocalMachine& machine, std::vector<std::string>& assumptions) {
  assumptions.insert(assumptions.end(), machine.notes.begin(), machine.notes.end());
  const bool is_waiting = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                      [](const LocalGpu& gpu) { return gpu.fabric && !gpu.fabric->is_ready; });
  if (is_waiting)
    assumptions.push_back("the NVLink fabric is not ready: CUDA starts when nvidia-fabricmanager has done its work");
  std::set<std::int64_t> cliques;
  for (const LocalGpu& gpu : machine.gpus)
    if (gpu.fabric && gpu.fabric->is_ready) cliques.insert(gpu.fabric->clique);
  if (cliques.size() > 1)
    assumptions.push_back("the GPUs are in several NVLink partitions: between those there is no NVLink");
  const char* const order = std::getenv("CUDA_DEVICE_ORDER");
  if (is_mixed(machine) && (!order || std::string_view(order) != "PCI_BUS_ID"))
    assumptions.push_back("ranks are in PCI order; CUDA counts so with CUDA_DEVICE_ORDER=PCI_BUS_ID");
}

}  // namespace

Bytes memory_in_use(const LocalGpu& gpu) {
  return std::max(Bytes{}, gpu.memory - gpu.memory_free - gpu.memory_reserved.value_or(Bytes{}));
}

std::vector<std::string> words_on(const LocalMachine& machine) {
  std::vector<std::string> out;
  say_oddities(machine, out);
  say_use(machine, out);
  say_source(machine, out);
  return out;
}

}  // namespace gpuplan
