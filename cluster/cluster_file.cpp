#include "cluster/cluster_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/yaml_file.h"
#include "cluster/cluster_keys.h"
#include "cluster/cluster_spec.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/host.h"
#include "cluster/machine_builder.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostPerNode = 1024;
constexpr NumberRange kPositive{.least = 1e-3};  // GB/s, Gbit/s: a link that carries nothing is a mistake

/// The kind index of one of the file's own GPUs; kinds begin with those that are used.
std::optional<std::size_t> own_kind(ClusterFile& cluster, const std::string& text) {
  for (StatedGpu& own : cluster.own_gpus) {
    if (own.name != text) continue;
    if (!own.kind) {
      own.kind = cluster.node.kinds.size();
      cluster.node.kinds.push_back(own.gpu);
    }
    return own.kind;
  }
  return std::nullopt;
}

/// The kind index of a GPU in the machine, read once.
std::optional<std::size_t> kind_index(ClusterFile& cluster, Fields& top, const std::string& key,
                                      const std::string& text) {
  if (const auto own = own_kind(cluster, text)) return own;
  const auto choice = known_gpu(text);
  if (!choice) {
    const InputError mistake = gpu_mistake(text);
    top.report(key, mistake.problem() + "; " + mistake.hint());
    return std::nullopt;
  }
  auto& kinds = cluster.node.kinds;
  const auto known = std::ranges::find_if(kinds, [&](const GpuFile& gpu) { return gpu.spec.id == choice->id; });
  if (known != kinds.end()) return std::size_t(known - kinds.begin());
  kinds.push_back(read_gpu_file(gpu_path(choice->id)));
  if (!choice->assumption.empty())
    cluster.assumptions.push_back(fmt::format("{} ({})", choice->assumption, kinds.back().spec.name));
  return kinds.size() - 1;
}

void read_gpus(Fields& top, ClusterFile& cluster) {
  std::vector<std::size_t>& ranks = cluster.node.kind_of_rank;
  if (top.is_given("gpus")) {
    if (top.is_given("gpu")) top.report("gpu", "stands beside 'gpus': give one of them");
    for (const std::string& text : top.texts("gpus"))
      if (const auto kind = kind_index(cluster, top, "gpus", text)) ranks.push_back(*kind);
    const auto stated = top.optional_integer("gpus_per_node", {.least = 1, .most = kMostPerNode});
    const auto num_listed = std::int64_t(ranks.size());
    cluster.node.gpus_per_node = stated && cluster.num_gpus == num_listed ? *stated : num_listed;
    if (stated && *stated != cluster.node.gpus_per_node)
      top.report("gpus_per_node", fmt::format("is {}, but 'gpus' lists {}", *stated, num_listed));
  } else {
    const std::string text = top.text("gpu");
    const auto kind = text.empty() ? std::nullopt : kind_index(cluster, top, "gpu", text);
    const auto count = top.integer("gpus_per_node", {.least = 1, .most = kMostPerNode});
    if (kind) ranks.assign(std::size_t(count), *kind);
    cluster.node.gpus_per_node = std::int64_t(ranks.size());
  }
}

/// Reads the rate that rings over a level were measured to reach.
StatedLink read_link(Fields& fields) {
  StatedLink link;
  if (const auto range = fields.rates("busbw_gb_s", kPositive); !range.empty())
    link.bus = *std::min_element(range.begin(), range.end());
  link.all_reduce_bus = fields.optional_rate("all_reduce_busbw_gb_s", kPositive);
  link.latency = fields.optional_time("latency_us");
  link.source = fields.optional_text("source").value_or("stated in the cluster file");
  return link;
}

void read_intra(Fields& top, Machine& node) {
  auto intra = top.optional_fields("intra");
  if (!intra) {
    if (node.gpus_per_node > 1 && !top.is_given("intra"))
      top.report("intra", "is missing: how are the GPUs of a machine linked?");
    return;
  }
  (*intra)("fabric", node.fabric);
  const bool is_mesh = node.fabric == FabricKind::NvLinkMesh || node.fabric == FabricKind::InfinityFabric;
  if (is_mesh && node.gpus_per_node > kMostInMesh)
    intra->report("fabric", fmt::format("links every GPU of a machine with every other: at most {}", kMostInMesh));
  node.pcie_generation = intra->optional_integer("pcie_generation", {.least = 1, .most = 6});
  node.pcie_lanes = intra->optional_integer("pcie_lanes", {.least = 1, .most = 16});
  node.intra = read_link(*intra);
  node.nvlink = intra->optional_rate("per_direction_gb_s", kPositive);
  node.fabric_note = intra->optional_text("note").value_or("");
  node.fabric_text = intra->optional_text("fabric_text").value_or("");
  intra->allow({"pairs", "per_pair_per_direction_gb_s", "switches", "nvls", "numa_split", "domain_gpus",
                "aggregate_tb_s", "kind"});
  intra->refuse_unknown();
}

/// `sockets` and how many GPUs are on each, in order: numa_split: [4, 4].
void read_sockets(Fields& host, Machine& node) {
  NodeLayout& layout = node.layout;
  layout.sockets = host.optional_integer("sockets", {.least = 1, .most = 1024}).value_or(0);
  const auto split = host.numbers("numa_split");
  for (std::size_t socket = 0; socket < split.size(); ++socket) {
    layout.bridges.push_back(std::int64_t(socket));
    for (double i = 0; i < std::min(split[socket], double(kMostPerNode)); ++i)
      layout.gpus.push_back({std::int64_t(socket), -1, {}, {}});
  }
  if (!split.empty() && std::int64_t(layout.gpus.size()) != node.gpus_per_node)
    host.report("numa_split", fmt::format("places {} of {} GPUs", layout.gpus.size(), node.gpus_per_node));
  if (!split.empty() && layout.sockets == 0) layout.sockets = std::int64_t(split.size());
}

void read_host(Fields& top, Machine& node) {
  auto host = top.optional_fields("host");
  if (!host) return;
  node.host_memory = host->optional_bytes("memory_gib").value_or(Bytes{});
  node.host_link = host->optional_rate("link_gb_s", kPositive);
  node.host_cores = host->optional_integer("cores", {.most = kMostGpus}).value_or(0);
  read_sockets(*host, node);
  node.host = read_host_spec(*host);
  node.host.usual_memory = host->optional_bytes("usual_memory_gib").value_or(Bytes{});
  node.host.kind = host->optional_text("kind").value_or("");
  if (!node.host.kind.empty() && !find_host(node.host.kind, node.gpus_per_node))
    host->report("kind", "is no kind of data/hosts.yaml");
  host->allow({"vcpus", "cpu", "cpus", "pcie", "trays", "gpus_per_tray", "note"});
  host->refuse_unknown();
}

void read_nics(Fields& inter, ClusterFile& cluster) {
  Fields nics = inter.fields("nics");
  const auto count = nics.integer("count", {.least = 1, .most = kMostPerNode});
  const double gbit = nics.number("gbit_s", kPositive);
  nics.refuse_unknown();
  cluster.node.layout.nics.assign(std::size_t(count), {-1, -1, BytesPerSec{gbit * 1e9 / 8}, {}});
  cluster.has_network = true;
}

void read_network(Fields& top, ClusterFile& cluster) {
  auto inter = top.optional_fields("inter");
  if (!inter) return;
  cluster.node.inter = read_link(*inter);
  auto layout_fields = top.optional_fields("layout");
  const bool is_said_elsewhere = cluster.node.inter.bus || (layout_fields && layout_fields->has("nics"));
  if (!is_said_elsewhere || inter->is_given("nics")) read_nics(*inter, cluster);
  cluster.has_network |= cluster.node.inter.bus.has_value();
  NodeLayout& layout = cluster.node.layout;
  layout.leaf_nodes = inter->optional_integer("leaf_nodes", {.least = 1, .most = kMostGpus}).value_or(0);
  layout.oversubscription = inter->optional_number("oversubscription", {.least = 1, .most = 1000}).value_or(1);
  inter->allow({"network", "headline_gbit_s", "note", "source", "kind", "nics"});
  inter->refuse_unknown();
}

/// A GPU's share of the adapters, wherever these are listed.
void share_adapters(ClusterFile& cluster) {
  if (!problem_of(cluster.node.layout, cluster.node.gpus_per_node).empty()) return;  // reported where it is read
  const BytesPerSec all = rate_of_used_adapters(cluster.node.layout);
  if (all.value <= 0) return;
  cluster.has_network = true;
  cluster.node.nic_per_gpu = all / double(std::max<std::int64_t>(1, cluster.node.gpus_per_node));
}

/// Reads what this very card sustains, where that differs from the catalogue's product.
void read_overrides(Fields& top, ClusterFile& cluster) {
  auto fields = top.optional_fields("gpu_overrides");
  if (!fields) return;
  const auto bf16 = fields->optional_number("gemm_bf16_tflops", {.least = 1e-3});
  const auto fp16 = fields->optional_number("gemm_fp16_tflops", {.least = 1e-3});
  if (!bf16 && !fp16) fields->report("gemm_bf16_tflops", "is missing");
  const std::string source = fields->text("source"), kind = fields->optional_text("kind").value_or("stated");
  fields->refuse_unknown();
  for (GpuFile& gpu : cluster.node.kinds) {
    const FlopsPerSec before = gpu.spec.gemm_bf16;
    gpu.spec.gemm_bf16 = FlopsPerSec{bf16.value_or(fp16.value_or(0)) * 1e12};
    gpu.spec.gemm_fp16 = FlopsPerSec{fp16.value_or(bf16.value_or(0)) * 1e12};
    cluster.assumptions.push_back(fmt::format("best GEMM of these {} {:.4g} TFLOP/s instead of {:.4g} ({}: {})",
                                              gpu.spec.name, gpu.spec.gemm_bf16.value / 1e12, before.value / 1e12, kind,
                                              source));
  }
}

void read_price(Fields& top, ClusterFile& cluster) {
  cluster.states_price = top.has("price_usd_h");
  cluster.usd_per_hour = top.optional_number("price_usd_h", {.most = 1e9});
  cluster.usd_per_gpu_hour = top.optional_number("price_usd_gpu_h", {.most = 1e9});
  if (cluster.states_price && cluster.usd_per_gpu_hour)
    top.report("price_usd_gpu_h", "stands beside 'price_usd_h': give one of them");
  cluster.price_source = top.optional_text("price_source").value_or("stated in the cluster file");
}

/// `num_gpus` of these machines: part of one, or as many as needed.
Machine sized(const ClusterFile& cluster, std::int64_t num_gpus) {
  Machine machine = cluster.node;
  const auto per_node = machine.gpus_per_node;
  if (num_gpus > kMostGpus)
    throw InputError("--cluster", fmt::format("{} GPUs are too many", num_gpus), fmt::format("at most {}", kMostGpus));
  if (num_gpus > per_node && !cluster.has_network)
    throw InputError("--cluster",
                     fmt::format("{} has {} GPUs and no network, {} were asked for", cluster.id, per_node, num_gpus),
                     "describe the network in a cluster file under 'inter:'");
  machine.kind_of_rank.clear();
  for (std::int64_t rank = 0; rank < num_gpus; ++rank)
    machine.kind_of_rank.push_back(cluster.node.kind_of_rank[std::size_t(rank) % cluster.node.kind_of_rank.size()]);
  machine.gpus_per_node = std::min(per_node, num_gpus);
  return machine;
}

/// The kinds that are really used, so that a part of a mixed machine is not slowed by what it left out.
void drop_unused_kinds(Machine& machine) {
  std::vector<GpuFile> kept;
  std::vector<std::size_t> new_index(machine.kinds.size());
  for (std::size_t i = 0; i < machine.kinds.size(); ++i) {
    if (std::count(machine.kind_of_rank.begin(), machine.kind_of_rank.end(), i) == 0) continue;
    new_index[i] = kept.size();
    kept.push_back(machine.kinds[i]);
  }
  for (std::size_t& kind : machine.kind_of_rank) kind = new_index[kind];
  machine.kinds = std::move(kept);
}

void set_price(ClusterSpec& spec, const ClusterFile& cluster, const Machine& machine) {
  if (cluster.usd_per_gpu_hour) {
    spec.price_per_gpu_hour = cluster.usd_per_gpu_hour;
    spec.price_source = cluster.price_source;
    return;
  }
  if (!cluster.states_price) return price_from_catalogue(spec, machine);
  if (!cluster.usd_per_hour) return;
  spec.price_per_gpu_hour = *cluster.usd_per_hour * double(spec.num_nodes()) / double(spec.num_gpus());
  spec.price_source =
      fmt::format("{:.5g} USD per hour for a whole machine: {}", *cluster.usd_per_hour, cluster.price_source);
}

fs::path find_cluster_file(const std::string& text) {
  const fs::path folder = data_dir() / "clusters";
  const auto ids = list_clusters();
  for (const std::string& id : ids)
    if (squash(id) == squash(text)) return folder / (id + ".yaml");
  const bool is_path = text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml");
  if (is_path || is_file(text)) return text;
  throw InputError("--cluster", fmt::format("unknown machine '{}'", text),
                   did_you_mean(text, ids, "give the id of a machine in data/clusters or a YAML file"));
}

}  // namespace

std::vector<std::string> list_clusters() {
  std::vector<std::string> ids;
  for (const fs::path& file : files_in(data_dir() / "clusters", ".yaml")) ids.push_back(file.stem().string());
  return ids;
}

ClusterFile read_cluster_file(const fs::path& path, const std::optional<std::string>& gpu) {
  const bool is_ours = is_shipped(path);
  const std::string text = is_ours ? "" : read_file(path, kClusterLimit);
  const MachineTextKind kind = is_ours ? MachineTextKind::Yaml : kind_of_text(text);
  if (kind != MachineTextKind::Yaml) return read_machine_text(text, kind, path.string(), gpu);
  if (gpu) throw InputError("--gpu", fmt::format("{} names its GPUs itself", path.string()), "leave --gpu away");
  YamlFile file = is_ours ? YamlFile::read(path, kClusterLimit)
                          : YamlFile::parse(text, path.string());  // read once: it may be a pipe
  Fields& top = file.top();
  ClusterFile cluster;
  cluster.id = top.optional_text("id").value_or(path.stem().string());
  cluster.name = top.optional_text("name").value_or(cluster.id);
  cluster.file = path.string();
  cluster.own_gpus = read_gpu_specs(top);
  cluster.num_gpus = top.optional_integer("num_gpus", {.least = 1, .most = kMostGpus});
  read_gpus(top, cluster);
  cluster.num_nodes = top.optional_integer("num_nodes", {.least = 1, .most = kMostGpus}).value_or(1);
  read_intra(top, cluster.node);
  read_host(top, cluster.node);
  read_network(top, cluster);
  read_layout(top, cluster.node);
  share_adapters(cluster);
  read_overrides(top, cluster);
  read_price(top, cluster);
  const auto& kinds = cluster.node.kinds;
  const bool is_cpu =
      std::any_of(kinds.begin(), kinds.end(), [](const GpuFile& product) { return product.spec.is_cpu; });
  if (is_cpu && !cluster.node.host_link) top.report("host", "link_gb_s is missing, and CPU ranks have no PCIe slot");
  if (cluster.num_nodes > 1 && !cluster.has_network)
    top.report("num_nodes", "several machines need a network: add 'inter:'");
  for (std::string& assumed : top.texts("assumptions")) cluster.assumptions.push_back(std::move(assumed));
  top.allow({"node_shape", "source", "notes"});
  top.refuse_unknown();
  file.finish("the keys are explained in data/clusters/README.md");
  if (cluster.node.kind_of_rank.empty())
    throw InputError(path.string(), "the machine has no GPU", "list them under 'gpu' or 'gpus'");
  return cluster;
}

ClusterSpec load_cluster(const std::string& preset_or_file, std::optional<std::int64_t> num_gpus,
                         const std::optional<std::string>& gpu) {
  const ClusterFile cluster = read_cluster_file(find_cluster_file(std::string(trim(preset_or_file))), gpu);
  if (num_gpus && *num_gpus < 1)
    throw InputError("--cluster", fmt::format("{} GPUs are too few", *num_gpus), "must be 1 or more");
  const auto all = cluster.num_gpus.value_or(cluster.num_nodes * cluster.node.gpus_per_node);
  Machine machine = sized(cluster, num_gpus.value_or(all));
  drop_unused_kinds(machine);
  ClusterSpec spec = build_cluster(machine);
  if (spec.ranks_per_node(spec.num_gpus()) > 1 && spec.fabric != FabricKind::None && spec.intra.bandwidth.value <= 0)
    throw InputError(cluster.file,
                     fmt::format("intra.fabric: {} has no {}", spec.gpus.front().name, to_string(spec.fabric)),
                     "name another fabric, or say what rings reach: busbw_gb_s");
  spec.name = cluster.name;
  const bool is_preset = fs::path(cluster.file).parent_path() == data_dir() / "clusters";
  spec.file = is_preset ? cluster.id : cluster.file;
  spec.assumptions = cluster.assumptions;
  if (!is_preset && std::ranges::count(list_clusters(), cluster.id) > 0)
    spec.assumptions.push_back(fmt::format("{} is read from {}, not from the catalogue", cluster.id, cluster.file));
  set_price(spec, cluster, machine);
  const auto whole = spec.num_nodes() * cluster.node.gpus_per_node;
  if (spec.num_gpus() != whole && spec.num_gpus() != cluster.num_gpus)
    spec.assumptions.push_back(fmt::format("{} of the {} GPUs of {} {} are used{}", spec.num_gpus(), whole,
                                           spec.num_nodes(), spec.num_nodes() == 1 ? "machine" : "machines",
                                           cluster.usd_per_hour ? "; the whole is paid" : ""));
  return spec;
}

}  // namespace gpuplan
