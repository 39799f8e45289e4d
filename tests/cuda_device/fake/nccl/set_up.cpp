// The functions of NCCL that gpuplan calls, between fake GPUs: setting up communicators and ending them (operations.cpp
// has the others).
//
//   GPUPLAN_FAKE_NCCL_VERSION   "2.30": which NCCL is played; before 2.30 two ranks may not share a GPU. Unset: that of
//   nccl.h GPUPLAN_FAKE_NCCL_PATIENCE  seconds that ranks wait for each other in set-up (300) GPUPLAN_FAKE_NCCL_DIE
//   "<rank>:<n>": the process of this rank is killed in its n-th operation (from 1) GPUPLAN_FAKE_NCCL_SILENT    set:
//   ranks that are gone are not noticed after set-up, as where GPUs of a machine talk directly
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>

#include <unistd.h>

#include "cuda_device/fake/nccl/comm.h"
#include "cuda_device/fake/runtime/state.h"

using namespace gpuplan::fake;

namespace {

constexpr char kMark[] = "/gpuplan_fake_nccl_";  // an id is the name of the shared memory
constexpr int kSharedGpuVersion = 23000;

int played_version() {
  const char* const text = std::getenv("GPUPLAN_FAKE_NCCL_VERSION");
  if (!text) return NCCL_VERSION_CODE;
  const char* const dot = std::strchr(text, '.');
  return 10000 * std::atoi(text) + 100 * (dot ? std::atoi(dot + 1) : 0);
}

/// Where a rank computes, in words that are the same for two ranks of one GPU.
std::string place_of(int device) {
  char host[64] = {}, bus[32] = {};
  gethostname(host, sizeof host - 1);
  cudaDeviceGetPCIBusId(bus, sizeof bus, device);
  return std::string(host) + " " + bus;
}

/// All ranks see the same, so all refuse.
ncclResult_t check_places(const std::vector<std::string>& places) {
  for (std::size_t i = 0; i < places.size() && played_version() < kSharedGpuVersion; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (places[i] == places[j])
        return refused(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(j) + " and rank " +
                                             std::to_string(i) + " both on CUDA device " + places[i]);
  return ncclSuccess;
}

/// Whether all have come or not, nobody is to come any more: the name goes.
std::vector<std::string> meet(Comm& ranks, const std::string& own_place) {
  try {
    const auto places = ranks.exchange_on_host(own_place);
    if (ranks.rank() == 0) ranks.segment().unlink();
    return places;
  } catch (const std::exception&) {
    ranks.segment().unlink();
    throw;
  }
}

ncclResult_t join(ncclComm_t* out, const std::string& name, int size, int rank, int device) {
  try {
    auto ranks = std::make_shared<Comm>(name, size, rank, device);
    const auto places = meet(*ranks, place_of(device));
    if (const auto result = check_places(places); result != ncclSuccess) {
      ranks->segment().leave();
      return result;
    }
    *out = new ncclComm{std::move(ranks)};
    return ncclSuccess;
  } catch (const std::exception& error) { return refused(ncclSystemError, error.what()); }
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = played_version();
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  const std::string name = kMark + std::to_string(getpid()) + "_" + std::to_string(random()) + std::to_string(random());
  *id = {};
  std::strncpy(id->internal, name.c_str(), sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  *comm = nullptr;
  if (size < 1 || size > kMostRanks || rank < 0 || rank >= size)
    return refused(ncclInvalidArgument, "Invalid rank requested");
  id.internal[sizeof id.internal - 1] = 0;
  if (std::strncmp(id.internal, kMark, sizeof kMark - 1) != 0)
    return refused(ncclInvalidArgument, "not an id of this NCCL");
  if (entered() != cudaSuccess) return refused(ncclUnhandledCudaError, "CUDA failed");
  return join(comm, id.internal, size, rank, current_device());
}

/// Waits for what is enqueued and for graphs, as NCCL's does.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  comm->ranks->wait_for_operations();
  comm->ranks->wait_for_graphs();
  comm->ranks->segment().leave();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  comm->ranks->abort();
  comm->ranks->wait_for_graphs();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->ranks->asynchronous_error();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->ranks->size();
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->ranks->rank();
  return ncclSuccess;
}

/// By colour, then by key, then by rank.
ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t* out, ncclConfig_t*) {
  *out = nullptr;
  Comm& all = *comm->ranks;
  const int number = all.next_split();
  std::vector<std::pair<int, int>> group;  // key, rank
  try {
    const auto words = all.exchange_on_host(std::to_string(colour) + " " + std::to_string(key));
    for (int rank = 0; rank < all.size(); ++rank) {
      char* end = nullptr;
      const long other = std::strtol(words[std::size_t(rank)].c_str(), &end, 10);
      if (other == colour) group.emplace_back(std::atoi(end), rank);
    }
  } catch (const std::exception& error) { return refused(ncclRemoteError, error.what()); }
  if (colour == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  std::sort(group.begin(), group.end());
  const auto mine = std::find(group.begin(), group.end(), std::pair(key, all.rank()));
  const std::string name = all.name() + "_" + std::to_string(number) + "_" + std::to_string(colour);
  return join(out, name, int(group.size()), int(mine - group.begin()), all.device());
}

const char* ncclGetLastError(ncclComm_t) { return last_error(); }

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "internal error - please report this issue to the NCCL developers";
  }
}

}  // extern "C"
