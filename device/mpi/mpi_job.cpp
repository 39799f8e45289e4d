#include "device/mpi/mpi_job.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <mpi.h>

#include "base/error.h"

namespace gpuplan {
namespace {

std::atomic<bool> has_failed{false};

void finish_mpi() {
  int is_finished = 0;
  if (MPI_Finalized(&is_finished) == MPI_SUCCESS && !is_finished && !has_failed) MPI_Finalize();
}

}  // namespace

void start_mpi() {
  int is_started = 0, level = 0;
  MPI_Initialized(&is_started);
  if (is_started) return;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
    throw EnvError("MPI does not start");
  std::atexit(finish_mpi);
  if (level < MPI_THREAD_MULTIPLE)
    throw EnvError("this MPI does not allow calls from several threads (MPI_THREAD_MULTIPLE); " + mpi_library());
}

void give_up_mpi() { has_failed = true; }

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  give_up_mpi();
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw EnvError(fmt::format("{} failed: {}", call, std::string_view(text, std::size_t(length))));
}

void throw_if_given_up(const std::atomic<bool>& is_given_up) {
  if (is_given_up) throw EnvError("this rank has given up waiting for the others");
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, std::size_t(length));  // "Open MPI v4.1.4, package: …"
  std::string name = all.substr(0, all.find_first_of(",\n"));
  if (const auto at = name.find(" v"); at != std::string::npos) name.erase(at + 1, 1);
  return name;
}

}  // namespace gpuplan
