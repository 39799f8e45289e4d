// The shared object's only export.
#include "device/backend.h"

#include <cstring>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "device/cuda/check.h"
#include "device/nccl/nccl_communicator.h"
#include "device/nccl/unique_id_text.h"

namespace gpuplan::nccl {
namespace {

ncclUniqueId new_id() {
  ncclUniqueId id{};
  nccl_check(ncclGetUniqueId(&id), "making an id for the group of ranks");
  return id;
}

ncclUniqueId id_of(const Rendezvous& rendezvous) {
  if (rendezvous.size == 1 && rendezvous.id.empty()) return new_id();
  const auto bytes = bytes_of_hex(rendezvous.id, sizeof(ncclUniqueId));
  if (!bytes) throw EnvError("the id of the group of ranks is not one that NCCL made on rank 0");
  ncclUniqueId id{};
  std::memcpy(&id, bytes->data(), sizeof id);
  return id;
}

/// NCCL before 2.30 takes one rank per GPU; its own words for that are "invalid usage".
void check_joined(ncclResult_t result, const Rendezvous& rendezvous) {
  if (result != ncclSuccess && failure_text(result, nullptr).find("Duplicate GPU") != std::string::npos)
    throw EnvError(fmt::format(
        "NCCL {} refuses several ranks on one GPU (2.30 and later take them): start one rank per GPU", version_text()));
  nccl_check(result, fmt::format("joining as rank {} of {}", rendezvous.rank, rendezvous.size));
}

class NcclBackend final : public CollectiveBackend {
 public:
  std::string make_id() override {
    const ncclUniqueId id = new_id();
    return hex_text(std::as_bytes(std::span(&id, 1)));
  }

  std::unique_ptr<Communicator> join(Device& device, const Rendezvous& rendezvous) override {
    auto control = native_stream_of(device);
    cuda::cuda_check(cudaSetDevice(control->device_index()), "selecting the GPU");
    ncclComm_t comm = nullptr;
    check_joined(ncclCommInitRank(&comm, rendezvous.size, id_of(rendezvous), rendezvous.rank), rendezvous);
    return std::make_unique<NcclCommunicator>(device, std::move(control), comm);
  }
};

}  // namespace
}  // namespace gpuplan::nccl

extern "C" __attribute__((visibility("default"))) gpuplan::CollectiveBackend* gpuplan_collective_backend(int abi) {
  static gpuplan::nccl::NcclBackend backend;
  return abi == gpuplan::kDeviceAbi ? &backend : nullptr;
}
