// The MPI job that this process is a rank of. No <mpi.h> here: headers of device/ compile where MPI is not.
#pragma once

#include <atomic>
#include <string>

namespace gpuplan {

/// Starts MPI on the first call, with threads; it is finished when the process ends, unless a call has failed. Throws
/// EnvError.
void start_mpi();
/// After a failure other ranks may wait for us for ever: MPI_Finalize would join them. mpirun ends a job whose rank
/// left early.
void give_up_mpi();

/// Throws EnvError with MPI's own words where a call did not return MPI_SUCCESS, and gives up.
void check_mpi(int code, const char* call);

/// Throws EnvError where it is so: from what waits for others.
void throw_if_given_up(const std::atomic<bool>& is_given_up);

/// "Open MPI 4.1.4".
std::string mpi_library();

}  // namespace gpuplan
