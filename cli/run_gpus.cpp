#include "cli/run_gpus.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/exit_codes.h"
#include "run/meeting_place.h"
#include "run/rendezvous.h"

namespace gpuplan {

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

void require_gpus_here(std::span<const GpuWanted> wanted) {
  const int num_visible = device_backend(DeviceKind::Cuda).num_devices();
  if (const auto here = gpus_here()) return require_gpus(wanted, *here);
  if (num_visible < std::ssize(wanted))
    throw InputError(
        "--gpus", fmt::format("the plan has {} ranks on GPUs, and this machine shows {}", wanted.size(), num_visible));
}

Rendezvous meet(DeviceKind kind, const LaunchedRank& launched, std::int64_t size) {
  Rendezvous meeting{.rank = int(launched.rank), .size = int(size), .id = {}};
  if (kind == DeviceKind::Cuda && size > 1)
    meeting.id =
        exchange_id(meeting_place(launched), launched.rank, size, [&] { return collective_backend(kind).make_id(); });
  return meeting;
}

void end_when_stuck(bool speaks) {
  constexpr auto kPatience = std::chrono::seconds(15);
  int code = kWorldFailed;
  std::string reason = "this rank failed";
  try {
    throw;
  } catch (const InputError& error) { reason = error.what(), code = kWrongInput; } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {}
  std::thread([=] {
    std::this_thread::sleep_for(kPatience);
    if (speaks) std::fputs(("gpuplan: " + reason + "\n").c_str(), stderr);
    std::_Exit(code);
  }).detach();
}

}  // namespace gpuplan
