// How NCCL's id comes from rank 0 to all others: over TCP, one line each way. Rank 0 listens; the others connect, say
// which rank they are, and get the id when all are connected.
#pragma once

#include <functional>
#include <string>

#include "base/units.h"
#include "run/rendezvous_address.h"

namespace gpuplan {

/// A socket that listens on a free port of this machine alone, for ranks that are started with its number.
class LocalListener {
 public:
  LocalListener();  // throws EnvError
  ~LocalListener();
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;
  int descriptor() const { return descriptor_; }
  int port() const { return port_; }

 private:
  int descriptor_ = -1, port_ = 0;
};

inline constexpr Seconds kRendezvousPatience{120};  // machines start their ranks within seconds of each other

/// Collective among `size` ranks: what `make_id` gives on rank 0, on all of them. Throws EnvError naming the address:
/// who did not come, who could not be reached and why, what else listens there, a port that is taken.
std::string exchange_id(const RendezvousAddress& address, std::int64_t rank, std::int64_t size,
                        const std::function<std::string()>& make_id, Seconds patience = kRendezvousPatience);

}  // namespace gpuplan
