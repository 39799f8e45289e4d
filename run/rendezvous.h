// How NCCL's id comes from rank 0 to all others, over TCP. Rank 0 listens; the others connect, both sides show that
// they know the ranks' secret, the others say which rank they are and get the id when all are connected:
//
//   rank   gpuplan-rendezvous-2 <its nonce>
//   rank 0 gpuplan-rendezvous-2 <its nonce> <code of both nonces>
//   rank   <rank> <number of ranks> <job> <code of that and both nonces>
//   rank 0 <code of the rest and both nonces> id <id>, or no <reason>
//
// Codes are HMAC-SHA256 under the secret; each begins with who says it, so that none can be played back. A stranger
// learns nothing, not even which job meets there. The lines are not encrypted, as NCCL's own traffic is not.
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

/// Connections that have not shown the secret: the oldest goes when there are more, or when it took too long.
inline constexpr std::size_t kMostStrangers = 128;
inline constexpr Seconds kStrangersPatience{5};

/// Collective among `size` ranks: what `make_id` gives on rank 0, on all of them. Throws EnvError naming the address:
/// who did not come, who could not be reached and why, what else listens there, another secret, a port that is taken.
std::string exchange_id(const RendezvousAddress& address, std::int64_t rank, std::int64_t size,
                        const std::function<std::string()>& make_id, Seconds patience = kRendezvousPatience);

}  // namespace gpuplan
