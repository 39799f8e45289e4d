// What libgpuplan_mpi.so exports.
#include "device/backend.h"

#include <fmt/format.h>

#include "base/error.h"
#include "device/mpi/mpi_job.h"

namespace gpuplan {
namespace {

class MpiBackend final : public CollectiveBackend {
 public:
  std::string make_id() override { return {}; }
  std::unique_ptr<Communicator> join(Device&, const Rendezvous& rendezvous) override {
    auto world = mpi_world();
    if (rendezvous.size > 1 && rendezvous.size != world->size())
      throw EnvError(fmt::format("{} ranks were asked for, and MPI knows {}: start them with mpirun -n {}",
                                 rendezvous.size, world->size(), rendezvous.size));
    return world;
  }
};

}  // namespace
}  // namespace gpuplan

extern "C" __attribute__((visibility("default"))) gpuplan::CollectiveBackend* gpuplan_collective_backend(int abi) {
  static gpuplan::MpiBackend backend;
  return abi == gpuplan::kDeviceAbi ? &backend : nullptr;
}
