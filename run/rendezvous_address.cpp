#include "run/rendezvous_address.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"
#include "run/launch.h"

namespace gpuplan {
namespace {

constexpr const char *kHostVariable = "MASTER_ADDR", *kMasterPortVariable = "MASTER_PORT", *kThisMachine = "127.0.0.1";
constexpr int kLastPort = 65535;

/// The first of these that is set.
std::string first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::string text = text_of_variable(name); !text.empty()) return text;
  return {};
}

std::optional<int> port_in(const char* name) {
  const std::string text = text_of_variable(name);
  if (text.empty()) return {};
  const std::int64_t port = parse_integer(text, name, 1);
  if (port > kLastPort) throw InputError(name, fmt::format("'{}' in the environment is no port", text), "1 to 65535");
  return narrow<int>(port);
}

/// Between the ports of services and those that Linux gives to connections (32768 on).
int port_of(const std::string& job) {
  constexpr std::uint64_t kFirst = 20000, kCount = 12000;
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return narrow<int>(kFirst + (hash ^ hash >> 32) % kCount);
}

std::string job_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::Gpuplan: return text_of_variable(kJobVariable);
    case Launcher::Torchrun:
      return fmt::format("torchrun.{}.{}", text_of_variable("TORCHELASTIC_RUN_ID"),
                         text_of_variable("TORCHELASTIC_RESTART_COUNT"));
    case Launcher::Slurm:
      return fmt::format("slurm.{}.{}", first_of({"SLURM_JOB_ID", "SLURM_JOBID"}),
                         first_of({"SLURM_STEP_ID", "SLURM_STEPID"}));
    case Launcher::Mpi: {
      const std::string id = first_of({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "HYDRA_JOBID"});
      return id.empty() ? fmt::format("mpi.{}", getppid())
                        : "mpi." + id;  // the ranks of a machine are children of one process
    }
    case Launcher::None: break;
  }
  return {};
}

/// Not set where one process per machine, or a script around it, must say it.
[[noreturn]] void throw_no_host(const char* launcher) {
  throw InputError(kHostVariable, fmt::format("is not set, and {} does not say on which machine rank 0 is", launcher),
                   "set it to the host name of rank 0 for all ranks (mpirun -x MASTER_ADDR=...)");
}

std::string host_of(const LaunchedRank& launched) {
  if (launched.launcher == Launcher::Gpuplan) return kThisMachine;
  if (std::string host = text_of_variable(kHostVariable); !host.empty()) return host;
  switch (launched.launcher) {
    case Launcher::Slurm: {
      const char* const name =
          text_of_variable("SLURM_STEP_NODELIST").empty() ? "SLURM_JOB_NODELIST" : "SLURM_STEP_NODELIST";
      if (const std::string list = text_of_variable(name); !list.empty()) return expand_nodes(list, name).front();
      throw_no_host("srun (SLURM_STEP_NODELIST)");
    }
    case Launcher::Mpi:
      if (launched.local_size == launched.size) return kThisMachine;
      throw_no_host("mpirun on several machines");
    default: throw_no_host("torchrun");
  }
}

int port_of(const LaunchedRank& launched, const std::string& job) {
  if (const auto own = port_in(kPortVariable)) return *own;
  if (launched.launcher == Launcher::Gpuplan)
    throw InputError(kPortVariable, "is not set beside GPUPLAN_RANK", "unset GPUPLAN_RANK");
  if (const auto masters = port_in(kMasterPortVariable)) return *masters == kLastPort ? kLastPort - 1 : *masters + 1;
  return port_of(job);
}

}  // namespace

std::string RendezvousAddress::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

RendezvousAddress rendezvous_address(const LaunchedRank& launched) {
  RendezvousAddress address{.host = host_of(launched), .job = job_of(launched.launcher)};
  address.port = port_of(launched, address.job);
  const std::string socket =
      launched.launcher == Launcher::Gpuplan && launched.rank == 0 ? text_of_variable(kSocketVariable) : "";
  if (!socket.empty()) {
    const std::int64_t number = parse_integer(socket, kSocketVariable, 0);
    if (!std::in_range<int>(number))
      throw InputError(kSocketVariable, fmt::format("'{}' in the environment is no open socket", socket));
    address.socket = narrow<int>(number);
  }
  return address;
}

}  // namespace gpuplan
