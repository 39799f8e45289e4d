#include "cluster/cpu_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/processor.h"
#include "base/yaml_file.h"
#include "cluster/cluster_spec.h"
#include "cluster/links.h"

namespace gpuplan {
namespace {

struct CoreRates {
  FlopsPerSec fp32;
  BytesPerSec memory;
  Bytes own, collectives;  // of a process
  std::string isa, source;
};

/// "MemTotal:  16384 kB": the kernel writes kB and means KiB.
std::optional<Bytes> meminfo_field(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ":")) {
      std::istringstream fields(line.substr(name.size() + 1));
      std::int64_t kib = -1;
      fields >> kib;
      if (kib >= 0) return Bytes{kib << 10};
    }
  return std::nullopt;
}

CoreRates core_rates(const HostFacts& host) {
  YamlFile file = YamlFile::read(data_dir() / "cpu.yaml");
  CoreRates rates;
  rates.memory = file.top().optional_rate("memory_bandwidth_gb_s").value_or(BytesPerSec{});
  rates.own = file.top().optional_bytes("own_memory_mib").value_or(Bytes{});
  rates.collectives = file.top().optional_bytes("collectives_memory_mib").value_or(Bytes{});
  for (Fields& row : file.top().list("isa")) {
    const auto flag = row.optional_text("flag");
    const bool has_it = !flag || std::find(host.cpu_flags.begin(), host.cpu_flags.end(), *flag) != host.cpu_flags.end();
    if (!has_it || rates.fp32.value > 0) continue;
    rates.fp32 = row.optional_flops("fp32_gflops").value_or(FlopsPerSec{});
    rates.isa = flag.value_or("scalar");
    rates.source = row.text("source");
  }
  file.finish();
  return rates;
}

}  // namespace

std::filesystem::path proc_folder() {
  const std::string set = text_of_variable("GPUPLAN_PROC");
  return set.empty() ? "/proc" : set;
}

std::variant<HostFacts, std::string> find_host_facts(const std::filesystem::path& proc) {
  HostFacts host;
  host.num_cores = num_usable_cores();
  const std::string file = (proc / "meminfo").string();
  const auto meminfo = read_if_there(file);
  if (!meminfo) return fmt::format("{} cannot be read, so the memory of this host is not known", file);
  for (const auto& [name, into] : {std::pair("MemTotal", &host.memory), {"MemAvailable", &host.memory_available}}) {
    const auto bytes = meminfo_field(*meminfo, name);
    if (!bytes) return fmt::format("{} does not state {}", file, name);
    *into = *bytes;
  }
  auto processor = find_processor_facts(proc / "cpuinfo");
  if (!processor)
    return fmt::format("{} cannot be read, so the processor of this host is not known", (proc / "cpuinfo").string());
  host.cpu_name = std::move(processor->name);
  host.cpu_flags = std::move(processor->flags);
  return host;
}

HostFacts read_host_facts(const std::filesystem::path& proc) {
  auto found = find_host_facts(proc);
  if (const std::string* const problem = std::get_if<std::string>(&found)) throw EnvError(*problem);
  return std::get<HostFacts>(std::move(found));
}

ClusterSpec cpu_cluster(std::int64_t num_ranks, const HostFacts& host) {
  const CoreRates core = core_rates(host);
  const double cores_per_rank = double(host.num_cores) / double(num_ranks);
  GpuSpec rank{.id = "cpu",
               .name = "CPU rank of this host",
               .vendor = "host",
               .architecture = "cpu",
               .compute_capability = core.isa,
               .form_factor = "host"};
  rank.device_memory = rank.framework_memory = Bytes{host.memory_available.count / num_ranks};
  rank.memory_bandwidth = core.memory * cores_per_rank;
  rank.fp32 = rank.gemm_fp32 = core.fp32 * cores_per_rank;
  rank.own_memory = core.own, rank.collectives_memory = core.collectives;
  rank.is_cpu = true;
  rank.source = "data/cpu.yaml";

  ClusterSpec cluster;
  cluster.gpus.add(rank, std::size_t(num_ranks));
  cluster.gpus_per_node = num_ranks;
  cluster.fabric = num_ranks > 1 ? FabricKind::SharedMemory : FabricKind::None;
  cluster.fabric_text = num_ranks > 1 ? describe_fabric(cluster.fabric, rank) : "one CPU rank";
  if (num_ranks > 1) cluster.intra = LinkTable::shipped().ring({.spec = rank}, cluster.fabric, num_ranks, {}, {});
  cluster.host_link = rank.memory_bandwidth;
  cluster.host_memory = host.memory;
  cluster.host_cores = host.num_cores;
  cluster.assumptions.push_back(fmt::format(
      "{} cores of this host ({}) at {:.3g} GFLOP/s fp32 and {:.3g} GB/s each where nothing was measured: {}",
      host.num_cores, core.isa, core.fp32.value / 1e9, core.memory.value / 1e9, core.source));
  cluster.assumptions.push_back(
      fmt::format("the memory available now is shared out among {} {}", num_ranks, num_ranks == 1 ? "rank" : "ranks"));
  return cluster;
}

}  // namespace gpuplan
