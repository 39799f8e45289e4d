// CPU ranks are processes that MPI brought together; GPUs are threads of one process.
#include "calibrate/worker.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <thread>

#include <sys/prctl.h>
#include <unistd.h>

#include "base/archive.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/processor.h"
#include "calibrate/probes/rotation.h"
#include "calibrate/session.h"
#include "device/backend.h"

namespace gpuplan {
namespace {

template <class Archive, class Facts>
void list_device(Archive& f, Facts& facts) {
  std::vector<std::vector<std::string>> versions;  // [name, version]
  for (const auto& [name, version] : facts.versions) versions.push_back({name, version});
  f("kind", facts.kind);
  f("name", facts.name);
  f("architecture", facts.architecture);
  f("memory", facts.memory);
  f("memory_free", facts.memory_free);
  f("num_cores", facts.num_cores);
  f("gemm_types", facts.gemm_types);
  f("versions", versions);
  f("warnings", facts.warnings);
  if constexpr (Archive::kReads)
    for (const auto& row : versions) {
      if (row.size() == 2)
        facts.versions.emplace_back(row[0], row[1]);
      else
        f.report("versions", "must be pairs of a name and a version");
    }
}

template <class Archive, class Facts>
void list_facts(Archive& f, Facts& facts) {
  f.object("device", [&](auto& device) { list_device(device, facts.device); });
  f("num_devices", facts.num_devices);
  f("has_collectives", facts.has_collectives);
  f("collectives_problem", facts.collectives_problem);
}

/// Connection of rank 0: lines come from it and samples go to it.
struct Client {
  std::istream& in;
  std::ostream& out;
};

std::optional<std::string> read_line(Client& client) {
  client.out << kWorkerReady << std::endl;
  std::string line;
  return std::getline(client.in, line) ? std::optional(line) : std::nullopt;
}

/// The next line, on every rank; none at the end of input.
std::optional<std::string> next_line(Client& client, Communicator* ranks) {
  const bool is_first = !ranks || ranks->rank() == 0;
  std::optional<std::string> line = is_first ? read_line(client) : std::nullopt;
  if (!ranks) return line;
  std::int64_t length = line ? std::ssize(*line) : -1;
  ranks->broadcast_host(std::as_writable_bytes(std::span(&length, 1)), 0);
  if (length < 0) return std::nullopt;
  if (!line) line.emplace(std::size_t(length), ' ');
  if (length > 0) ranks->broadcast_host(std::as_writable_bytes(std::span(*line)), 0);
  return line;
}

/// One rank's loop.
int serve(ProbeBench& bench, Client& client) {
  const bool is_first = !bench.ranks || bench.ranks->rank() == 0;
  while (const auto line = next_line(client, bench.ranks)) {
    bool is_lost = false;
    const Sample sample = run_probe(probe_from_json(*line, "standard input"), bench, is_lost);
    if (is_first) client.out << to_json_line(sample) << std::endl;
    if (is_lost) return kWorkerLost;
  }
  return 0;
}

/// An equal share of the cores that this process may use.
int threads_per_rank(std::int64_t num_ranks) { return std::max(1, narrow<int>(num_usable_cores() / num_ranks)); }

int serve_cpu(std::int64_t num_ranks, const SamplingRule& rule, Client& client) {
  const auto device = device_backend(DeviceKind::Cpu).open({.num_threads = threads_per_rank(num_ranks)});
  std::unique_ptr<Communicator> ranks;
  if (num_ranks > 1) {
    ranks = collective_backend(DeviceKind::Cpu).join(*device, {.size = narrow<int>(num_ranks)});
    bind_to_share_of_cores(ranks->rank(), num_ranks);  // as `gpuplan run` does; streams start their threads later
  }
  ProbeBench bench{.device = *device, .ranks = ranks.get(), .peers = {device.get()}, .rule = rule};
  return serve(bench, client);
}

/// One GPU. The others are opened too, for copies to them: their contexts cost what every job with several GPUs pays.
int serve_one_gpu(const SamplingRule& rule, Client& client) {
  DeviceBackend& backend = device_backend(DeviceKind::Cuda);
  std::vector<std::unique_ptr<Device>> devices;
  ProbeBench bench{.device = *devices.emplace_back(backend.open({})), .rule = rule};
  for (int i = 1; i < backend.num_devices(); ++i) devices.push_back(backend.open({.index = i}));
  for (const auto& device : devices) bench.peers.push_back(device.get());
  return serve(bench, client);
}

/// Runs a rank; an exception ends the process, since the other threads would wait for this rank for ever. The session
/// tells the reason.
int run_or_exit(int rank, const std::function<int(int rank)>& run_rank) {
  try {
    return run_rank(rank);
  } catch (const std::exception& error) {
    say_to_stderr("rank " + std::to_string(rank) + ": " + error.what() + "\n");
    _exit(kWorkerLost);
  }
}

int serve_gpus(int num_ranks, const SamplingRule& rule, Client& client) {
  DeviceBackend& backend = device_backend(DeviceKind::Cuda);
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> peers;
  for (int i = 0; i < num_ranks; ++i) peers.push_back(devices.emplace_back(backend.open({.index = i})).get());
  CollectiveBackend& collectives = collective_backend(DeviceKind::Cuda);
  const std::string id = collectives.make_id();
  const auto run_rank = [&](int rank) {
    const auto ranks = collectives.join(*peers[std::size_t(rank)], {.rank = rank, .size = num_ranks, .id = id});
    ProbeBench bench{.device = *peers[std::size_t(rank)], .ranks = ranks.get(), .peers = peers, .rule = rule};
    return serve(bench, client);
  };
  std::vector<std::jthread> others;
  for (int rank = 1; rank < num_ranks; ++rank) others.emplace_back([&run_rank, rank] { run_or_exit(rank, run_rank); });
  return run_or_exit(0, run_rank);
}

/// One group of ranks, until the end of input.
int serve_probes(DeviceKind kind, std::int64_t num_ranks, bool is_quick, std::istream& in, std::ostream& out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // ranks of an mpirun that was killed must not stay behind
  Client client{in, out};
  const SamplingRule rule = sampling_rule(is_quick);
  if (kind == DeviceKind::Cpu) return serve_cpu(num_ranks, rule, client);
  return num_ranks == 1 ? serve_one_gpu(rule, client) : serve_gpus(narrow<int>(num_ranks), rule, client);
}

}  // namespace

WorkerFacts WorkerFacts::identity() const {
  WorkerFacts out = *this;
  out.device.memory_free = {};
  return out;
}

WorkerFacts read_worker_facts(DeviceKind kind) {
  DeviceBackend& backend = device_backend(kind);
  WorkerFacts facts{.num_devices = backend.num_devices()};
  facts.device = backend.open({})->facts();
  try {
    collective_backend(kind);
    facts.has_collectives = true;
  } catch (const EnvError& error) { facts.collectives_problem = error.what(); }
  return facts;
}

std::string to_json_line(const WorkerFacts& facts) {
  FieldWriter out;
  list_facts(out, facts);
  return json_line(out.take());
}

WorkerFacts worker_facts_from_json(const std::string& line, const std::string& where) {
  const nlohmann::json object = parse_json(line, where);
  Fields fields(object, where);
  WorkerFacts facts;
  list_facts(fields, facts);
  fields.finish();
  return facts;
}

int run_worker(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out) {
  if (arguments.size() < 2) throw InputError(kWorkerCommand, "is started by 'gpuplan calibrate'", "run that instead");
  const DeviceKind kind = parse_name<DeviceKind>(arguments[0], kWorkerCommand);
  if (arguments[1] == "facts") {
    out << to_json_line(read_worker_facts(kind)) << "\n";
    return 0;
  }
  const bool is_quick = arguments.size() > 2 && arguments[2] == "quick";
  return serve_probes(kind, parse_integer(arguments[1], kWorkerCommand, 1), is_quick, in, out);
}

}  // namespace gpuplan
