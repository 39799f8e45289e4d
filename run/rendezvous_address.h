// Where ranks meet, and what they must know to meet.
#pragma once

#include <string>

#include "base/units.h"
#include "run/launch.h"

namespace gpuplan {

// The address of rank 0, where ranks on GPUs meet before NCCL connects them: as their launcher lets them know it.

struct RendezvousAddress {
  std::string host;
  int port = 0;
  std::string job;           // told apart from others that may meet at the same port
  int socket = -1;           // rank 0: one that listens there already; -1: it makes its own
  std::string secret;        // that all ranks know (run/rendezvous_secret)
  std::string text() const;  // "node3:29501", "[::1]:29501"
};

inline constexpr const char *kPortVariable = "GPUPLAN_PORT", *kSocketVariable = "GPUPLAN_SOCKET",
                            *kJobVariable = "GPUPLAN_JOB";

/// host: this machine for gpuplan's own ranks and those of mpirun on one machine, else MASTER_ADDR, or of srun the
/// first node of the step. port: $GPUPLAN_PORT, else the one behind MASTER_PORT (torchrun's own store listens there),
/// else made from the job's id. Throws InputError where that is not known.
RendezvousAddress rendezvous_address(const LaunchedRank& launched);

// What ranks must know to meet: a secret that only this user's processes can have.

inline constexpr const char *kSecretVariable = "GPUPLAN_SECRET", *kSecretFileVariable = "GPUPLAN_SECRET_FILE";

/// 64 random hexadecimal digits.
std::string new_secret();

/// $GPUPLAN_SECRET (gpuplan sets it for ranks that it starts itself), else the content of $GPUPLAN_SECRET_FILE, else of
/// rendezvous.key in user_data_dir(), which rank 0 makes with mode 600 and the others wait for: homes of a cluster are
/// shared. Throws InputError for a secret that is too short or that others can read, EnvError where there is none.
std::string rendezvous_secret(const LaunchedRank& launched, Seconds patience);

}  // namespace gpuplan
