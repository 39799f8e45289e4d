#include "cluster/host.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/unit_text.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

constexpr IntRange kHostCount{.least = 1, .most = 1 << 20};
constexpr NumberRange kHostRate{.least = 0.1, .most = 1e5};

HostKind read_kind(Fields& f) {
  HostKind kind;
  kind.host = read_host_spec(f);
  kind.host.kind = f.text("kind");
  kind.host.usual_memory = f.optional_bytes("memory_gib").value_or(Bytes{});
  kind.usual_per_gpu = f.optional_bytes("memory_per_gpu_gib").value_or(Bytes{});
  kind.most_cards = f.optional_integer("most_cards", kHostCount).value_or(0);
  if (f.has("cards")) kind.cards = f.texts("cards");
  f.refuse_unknown();
  return kind;
}

const HostKind& kind_for(FabricKind fabric, std::string_view gpu_id, std::int64_t gpus_per_node) {
  const std::vector<HostKind>& kinds = HostTable::shipped().kinds;
  for (const HostKind& kind : kinds)
    if (std::ranges::find(kind.cards, gpu_id) != kind.cards.end()) return kind;
  for (const HostKind& kind : kinds)
    if (kind.most_cards == 0 || (!is_board(fabric) && gpus_per_node <= kind.most_cards)) return kind;
  throw BugError("data/hosts.yaml has no kind for any number of cards");
}

HostSpec host_of(const HostKind& kind, std::int64_t gpus_per_node) {
  HostSpec host = kind.host;
  if (kind.usual_per_gpu.count > 0) host.usual_memory = std::min(host.usual_memory, gpus_per_node * kind.usual_per_gpu);
  return host;
}

}  // namespace

const HostTable& HostTable::shipped() { return read_once<&HostTable::read>(); }

HostTable HostTable::read() {
  YamlFile file = YamlFile::read(data_dir() / "hosts.yaml");
  HostTable table;
  for (Fields& fields : file.top().list("kinds")) table.kinds.push_back(read_kind(fields));
  Fields optimizer = file.top().fields("optimizer");
  table.share_of_memory = optimizer.number("share_of_memory", {.least = 1e-3, .most = 1});
  table.unbound = BytesPerSec{optimizer.number("unbound_gb_s", kHostRate) * 1e9};
  table.vectorised_per_thread = BytesPerSec{optimizer.number("vectorised_thread_gb_s", kHostRate) * 1e9};
  optimizer.allow({"share_kind", "share_source", "unbound_source", "vectorised_source"});
  optimizer.refuse_unknown();
  file.finish();
  return table;
}

HostSpec read_host_spec(Fields& f) {
  HostSpec host;
  const auto channels = f.optional_integer("channels", kHostCount);
  const auto rate = f.optional_number("channel_gb_s", kHostRate);
  if (channels && rate) host.memory_bandwidth = BytesPerSec{double(*channels) * *rate * 1e9};
  if (channels.has_value() != rate.has_value()) f.report("channels", "and channel_gb_s go together");
  if (const auto all = f.optional_rate("memory_gb_s", kHostRate)) host.memory_bandwidth = *all;
  host.cores = f.optional_integer("cpu_cores", kHostCount).value_or(0);
  host.sockets = f.optional_integer("sockets", kHostCount).value_or(0);
  host.numa_nodes = f.optional_integer("numa_nodes", kHostCount).value_or(0);
  host.source = f.optional_text("source").value_or("");
  return host;
}

std::optional<HostSpec> find_host(std::string_view name, std::int64_t gpus_per_node) {
  for (const HostKind& kind : HostTable::shipped().kinds)
    if (squash(kind.host.kind) == squash(name)) return host_of(kind, gpus_per_node);
  return std::nullopt;
}

HostSpec usual_host(FabricKind fabric, std::string_view gpu_id, std::int64_t gpus_per_node) {
  return host_of(kind_for(fabric, gpu_id, gpus_per_node), gpus_per_node);
}

HostSpec filled(HostSpec stated, const HostSpec& usual) {
  stated.kind.clear();
  if (!stated.is_stated()) return usual;
  if (stated.usual_memory.count == 0) stated.usual_memory = usual.usual_memory;
  if (stated.memory_bandwidth.value <= 0) stated.memory_bandwidth = usual.memory_bandwidth;
  if (stated.cores == 0) stated.cores = usual.cores;
  if (stated.sockets == 0) stated.sockets = usual.sockets;
  if (stated.numa_nodes == 0) stated.numa_nodes = std::max<std::int64_t>(1, stated.sockets);
  return stated;
}

void set_host(ClusterSpec& cluster, const std::string& text) {
  if (const auto known = find_host(text, cluster.gpus_per_node)) {
    cluster.host = *known;
    return;
  }
  std::vector<std::string> names;
  for (const HostKind& kind : HostTable::shipped().kinds) names.push_back(kind.host.kind);
  if (!text.ends_with(".yaml") && !text.ends_with(".yml"))
    throw InputError(
        "--host", fmt::format("unknown host '{}'", text),
        did_you_mean(text, names,
                     fmt::format("{}, or a YAML file with the keys of a machine's host", fmt::join(names, ", "))));
  YamlFile file = YamlFile::read(text, kClusterLimit);
  Fields& f = file.top();
  if (const auto memory = f.optional_bytes("memory_gib")) cluster.host_memory = *memory;
  cluster.host = filled(read_host_spec(f), cluster.host);
  f.allow({"cpu", "note", "kind"});
  f.refuse_unknown();
  file.finish();
}

BytesPerSec vectorised_optimizer_rate(const HostSpec& host, std::int64_t num_ranks, std::int64_t threads) {
  if (host.memory_bandwidth.value <= 0) return {};
  const HostTable& table = HostTable::shipped();
  const double nodes = double(std::max<std::int64_t>({1, host.numa_nodes, num_ranks}));
  BytesPerSec memory = host.memory_bandwidth * (table.share_of_memory / nodes);
  if (host.numa_nodes > 1) memory = std::min(memory, table.unbound * (1.0 / double(num_ranks)));
  return threads > 0 ? std::min(memory, table.vectorised_per_thread * double(threads)) : memory;
}

std::string describe(const HostSpec& host) {
  const std::string kind = host.kind.empty() ? "a host" : fmt::format("a {}", host.kind);
  return fmt::format("{} of {:.3g} GB/s memory bandwidth, {} cores, {} NUMA node{}", kind,
                     host.memory_bandwidth.value / 1e9, host.cores, host.numa_nodes, host.numa_nodes == 1 ? "" : "s");
}

}  // namespace gpuplan
