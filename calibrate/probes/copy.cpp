// Copies between host and device and between devices. Checked byte for byte.
#include <algorithm>

#include "base/error.h"
#include "calibrate/probes/values.h"
#include "calibrate/probes/workload.h"

namespace gpuplan {
namespace {

struct Copying {
  Buffer from, to;
  CopyKind kind{};
};

HostMemory host_memory(CopyPath path) {
  return path == CopyPath::PinnedToDevice || path == CopyPath::DeviceToPinned ? HostMemory::Pinned
                                                                              : HostMemory::Pageable;
}

Device& peer_of(const Probe& probe, ProbeBench& bench) {
  const auto self = std::find(bench.peers.begin(), bench.peers.end(), &bench.device) - bench.peers.begin();
  const auto num_devices = std::ssize(bench.peers);
  if (probe.peer <= 0 || probe.peer >= num_devices)
    throw EnvError("this process has no device " + std::to_string(probe.peer));
  return *bench.peers[std::size_t((self + probe.peer) % num_devices)];
}

Copying prepare(const Probe& probe, ProbeBench& bench) {
  Device& device = bench.device;
  switch (probe.path) {
    case CopyPath::HostToDevice:
    case CopyPath::PinnedToDevice:
      return {device.allocate_host(probe.bytes, host_memory(probe.path)), device.allocate(probe.bytes),
              CopyKind::HostToDevice};
    case CopyPath::DeviceToHost:
    case CopyPath::DeviceToPinned:
      return {device.allocate(probe.bytes), device.allocate_host(probe.bytes, host_memory(probe.path)),
              CopyKind::DeviceToHost};
    case CopyPath::Peer:
      return {device.allocate(probe.bytes), peer_of(probe, bench).allocate(probe.bytes), CopyKind::DeviceToDevice};
  }
  return {};
}

/// CUDA may let the host wait for copies of pageable memory (CUDA runtime API, "API synchronization behavior").
bool blocks_host(CopyPath path) { return path != CopyPath::Peer && host_memory(path) == HostMemory::Pageable; }

/// Bytes of either side, wherever they are.
std::vector<std::byte> contents(const Copying& copying, bool is_source, const HostView& view) {
  const Buffer& buffer = is_source ? copying.from : copying.to;
  const bool is_on_host = copying.kind == (is_source ? CopyKind::HostToDevice : CopyKind::DeviceToHost);
  if (is_on_host) return {buffer.as<std::byte>(), buffer.as<std::byte>() + buffer.size().count};
  return view.bytes(buffer.data(), buffer.size());
}

void fill(Copying& copying, Device& device, Stream& stream) {
  const std::int64_t count = copying.from.size().count / size_of(Dtype::F32);
  if (copying.kind == CopyKind::HostToDevice)  // random numbers are made on the device
    device.run(kernels::FillUniform{{copying.to.data(), Dtype::F32}, count, -1, 1, 3}, stream);
  else
    device.run(kernels::FillUniform{{copying.from.data(), Dtype::F32}, count, -1, 1, 3}, stream);
  if (copying.kind == CopyKind::HostToDevice)
    device.copy(copying.from.data(), copying.to.data(), copying.from.size(), CopyKind::DeviceToHost, stream);
  stream.synchronise();
  if (copying.kind == CopyKind::HostToDevice)
    device.run(kernels::FillUniform{{copying.to.data(), Dtype::F32}, count, -1, 1, 4}, stream);
}

}  // namespace

Workload copy_workload(const Probe& probe, ProbeBench& bench, Stream& stream) {
  const auto copying = std::make_shared<Copying>(prepare(probe, bench));
  Device* const device = &bench.device;
  fill(*copying, *device, stream);
  const auto call = [copying, device, &stream] {
    device->copy(copying->to.data(), copying->from.data(), copying->from.size(), copying->kind, stream);
  };
  const auto check = [copying, device, &stream] {
    const HostView view(*device, stream);
    if (contents(*copying, true, view) != contents(*copying, false, view)) throw WrongResult{"the copy differs"};
  };
  return {.call = call, .check = check, .blocks_host = blocks_host(probe.path)};
}

}  // namespace gpuplan
