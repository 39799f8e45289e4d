#include "run/gpu_check.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/unit_text.h"
#include "cluster/local_cluster.h"
#include "device/backend.h"
#include "planner/program_builder.h"

namespace gpuplan {
namespace {

/// Its id in the catalogue, or the id that `local` gives to others.
std::string product_name(const LocalGpu& gpu) {
  std::vector<std::string> assumptions;
  const auto found = find_product(gpu, assumptions);
  const GpuFile* const product = std::get_if<GpuFile>(&found);
  return product ? product->spec.id : product_id(gpu.name);
}

GpuHere here(const LocalGpu& gpu) {
  GpuHere out{.name = gpu.name,
              .product = product_name(gpu),
              .memory = gpu.memory,
              .memory_free = gpu.memory_free,
              .processes = gpu.processes};
  if (gpu.is_mig.value_or(false) && !gpu.mig_instances.empty())
    out.memory = gpu.mig_instances.front().memory, out.memory_free = gpu.mig_instances.front().memory_free;
  return out;
}

/// "2x RTX A6000, H100 SXM".
template <class Gpus>
std::string names_of(const Gpus& gpus) {
  std::string text;
  for (std::size_t i = 0, next = 0; i < gpus.size(); i = next) {
    while (next < gpus.size() && gpus[next].name == gpus[i].name) ++next;
    text += fmt::format("{}{}x {}", text.empty() ? "" : ", ", next - i, gpus[i].name);
  }
  return text;
}

/// "python3 4711 (12.3 GiB)". The name is of our own system: inside a container another process may have the number.
std::string process_text(const LocalProcess& process) {
  const std::string name = split(read_if_there(fmt::format("/proc/{}/comm", process.pid)).value_or(""), '\n').front();
  return fmt::format("{} {}{}", name.empty() ? "process" : name, process.pid,
                     process.memory ? fmt::format(" ({})", format_bytes(*process.memory)) : "");
}

std::string shortage(std::int64_t index, const GpuHere& gpu, const GpuWanted& wanted) {
  std::vector<std::string> holders;
  for (const LocalProcess& process : gpu.processes) holders.push_back(process_text(process));
  return fmt::format("GPU {} ({}): {} needed, {} of {} free{}", index, gpu.name, format_bytes(wanted.needed),
                     format_bytes(gpu.memory_free), format_bytes(gpu.memory),
                     holders.empty() ? "" : fmt::format("; held by {}", fmt::join(holders, ", ")));
}

}  // namespace

std::optional<std::vector<GpuHere>> gpus_here() {
  const auto found = find_local_machine();
  const LocalMachine* const machine = std::get_if<LocalMachine>(&found);
  if (!machine) return std::nullopt;
  std::vector<GpuHere> out;
  for (const LocalGpu& gpu : machine->gpus) {
    out.push_back(here(gpu));
    if (gpu.memory.count == 0)  // it shares the host's
      out.back().memory = machine->host_memory, out.back().memory_free = machine->host_memory_free;
  }
  return out;
}

GpuHere gpu_of(const Device& device) {
  const DeviceFacts facts = device.facts();
  LocalGpu gpu{.name = facts.name, .memory = facts.memory, .memory_free = facts.memory_free + device.overhead()};
  if (facts.architecture.starts_with("sm_") && facts.architecture.size() > 4) {  // "sm_90"
    gpu.compute_capability = facts.architecture.substr(3);
    gpu.compute_capability.insert(gpu.compute_capability.size() - 1, ".");
  }
  gpu.num_sms = facts.num_cores;
  return here(gpu);
}

std::vector<GpuWanted> gpus_wanted(const EstimateRequest& request, const EstimateResult& result,
                                   const Strategy& strategy) {
  StepProgram program;
  const Job job(request, result.model, result.framework, result.profile, strategy);
  build_step_program(program, job, {});
  std::vector<Bytes> needed;
  for (const RankClass& ranks : program.classes) needed.push_back(class_memory(job, program, ranks).tiers.process);
  std::vector<GpuWanted> out;
  for (std::int64_t rank = 0; rank < strategy.mesh.world(); ++rank) {
    const GpuSpec& spec = request.cluster.gpus[std::size_t(rank)];
    if (spec.is_plan_only)
      throw InputError("--gpus", fmt::format("{} can be planned for, and gpuplan does not run on it", spec.name),
                       "--gpus local plans for what is here");
    out.push_back({.name = spec.name, .product = spec.id, .needed = needed[program.class_of(rank)]});
  }
  return out;
}

void require_gpus(std::span<const GpuWanted> wanted, std::span<const GpuHere> here, std::int64_t first_index) {
  if (here.size() < wanted.size())
    throw InputError("--gpus",
                     fmt::format("the plan has {} ranks on GPUs, and this machine shows {}", wanted.size(),
                                 here.empty() ? "none" : names_of(here)),
                     "several machines: torchrun or srun starts a rank per GPU; CUDA_VISIBLE_DEVICES hides some");
  const auto own = here.first(wanted.size());
  const bool are_others = !std::ranges::equal(wanted, own, {}, &GpuWanted::product, &GpuHere::product);
  if (are_others)
    throw InputError("--gpus", fmt::format("the plan is for {}, and here are {}", names_of(wanted), names_of(own)),
                     "--gpus local plans for these; CUDA_VISIBLE_DEVICES chooses and orders them");
  std::vector<std::string> shortages;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (own[i].memory_free < wanted[i].needed)
      shortages.push_back(shortage(first_index + std::int64_t(i), own[i], wanted[i]));
  if (!shortages.empty()) throw EnvError(fmt::format("not enough free memory: {}", fmt::join(shortages, "; ")));
}

int gpu_index(std::int64_t local_rank, int num_visible) {
  if (num_visible == 0) throw EnvError("the driver shows this process no GPU (see CUDA_VISIBLE_DEVICES)");
  if (local_rank < num_visible) return narrow<int>(local_rank);
  if (num_visible == 1) return 0;
  throw InputError(
      "--gpus", fmt::format("this is the {}. rank on its machine, which shows it {} GPUs", local_rank + 1, num_visible),
      "start one rank per GPU; CUDA_VISIBLE_DEVICES hides some");
}

void count_gpus_by_bus() { setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0); }

void require_gpus_here(std::span<const GpuWanted> wanted) {
  const int num_visible = device_backend(DeviceKind::Cuda).num_devices();
  if (const auto here = gpus_here()) return require_gpus(wanted, *here);
  if (num_visible < std::ssize(wanted))
    throw InputError(
        "--gpus", fmt::format("the plan has {} ranks on GPUs, and this machine shows {}", wanted.size(), num_visible));
}

std::unique_ptr<Device> open_gpu(std::span<const GpuWanted> wanted, const LaunchedRank& launched) {
  DeviceBackend& backend = device_backend(DeviceKind::Cuda);
  const int index = gpu_index(launched.local_rank, backend.num_devices());
  const auto own = wanted.subspan(std::size_t(launched.rank), 1);
  if (const auto here = gpus_here(); here && std::ssize(*here) > index) {
    require_gpus(own, std::span(*here).subspan(std::size_t(index), 1), index);
    return backend.open({.index = index});
  }
  auto device = backend.open({.index = index});
  require_gpus(own, std::array{gpu_of(*device)}, index);
  return device;
}

}  // namespace gpuplan
