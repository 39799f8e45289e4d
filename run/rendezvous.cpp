#include "run/rendezvous.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"
#include "base/sha256.h"
#include "run/rendezvous_address.h"

namespace gpuplan {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kProtocol = "gpuplan-rendezvous-2";
constexpr std::size_t kLongestLine = 4096;
constexpr auto kBetweenTries = milliseconds(100);

class Deadline {
 public:
  explicit Deadline(Seconds patience) : at_(Clock::now() + milliseconds(std::int64_t(1e3 * patience.value))) {}
  bool is_over() const { return Clock::now() >= at_; }
  /// Milliseconds that are left, at most `most`: for poll.
  int left(std::int64_t most = 1000) const {
    return narrow<int>(
        std::clamp<std::int64_t>(std::chrono::duration_cast<milliseconds>(at_ - Clock::now()).count() + 1, 0, most));
  }

 private:
  Clock::time_point at_;
};

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

/// A connected peer and what it has sent so far. Lines end with a line feed.
struct Connection {
  Socket socket;
  std::string heard;
  std::string nonces = {};  // of both sides, once they are exchanged
  Clock::time_point since = Clock::now();
  /// Reads what is there. False when the peer has disconnected, or sends too much.
  bool listen() {
    std::array<char, 512> piece{};
    const ssize_t count = recv(socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    heard.append(piece.data(), std::size_t(count));
    return count > 0 && heard.size() <= kLongestLine;
  }
  /// The next whole line, taken out of what was heard.
  std::optional<std::string> line() {
    const std::size_t end = heard.find('\n');
    if (end == std::string::npos) return {};
    std::string text = heard.substr(0, end);
    heard.erase(0, end + 1);
    return text;
  }
  void say(const std::string& text) const {
    const std::string line = text + "\n";
    static_cast<void>(
        send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL));  // short: it fits the socket's buffer
  }
};

/// HMAC of `text` as sent by `who`, bound to both nonces of this conversation.
std::string code(const RendezvousAddress& address, std::string_view who, const std::string& nonces,
                 std::string_view text) {
  return hmac_sha256_hex(address.secret, fmt::format("{}\n{}\n{}", who, nonces, text));
}

std::string new_nonce() { return new_secret().substr(0, 32); }

bool is_nonce(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Facts that both sides must agree on beside the secret.
std::string meeting(const RendezvousAddress& address, std::int64_t size) {
  return fmt::format("{} {}", size, sha256_hex(address.job).substr(0, 16));
}

struct Addresses {
  addrinfo* first = nullptr;
  std::string error;  // why there are none
  Addresses(const char* host, int port, int flags) {
    const addrinfo hints{.ai_flags = flags | AI_NUMERICSERV,
                         .ai_family = AF_UNSPEC,
                         .ai_socktype = SOCK_STREAM,
                         .ai_protocol = 0,
                         .ai_addrlen = 0,
                         .ai_addr = nullptr,
                         .ai_canonname = nullptr,
                         .ai_next = nullptr};
    const int code = getaddrinfo(host, std::to_string(port).c_str(), &hints, &first);
    if (code != 0) first = nullptr, error = code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code);
  }
  ~Addresses() {
    if (first) freeaddrinfo(first);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
};

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// --- rank 0 ---------------------------------------------------------------------------------------------------------

/// Listens at one address; closed when it cannot, with errno as it was left.
Socket listen_at(const addrinfo& at) {
  Socket s(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!s.is_open()) return s;
  const int yes = 1, no = 0;
  setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (at.ai_family == AF_INET6) setsockopt(s.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (bind(s.get(), at.ai_addr, at.ai_addrlen) == 0 && listen(s.get(), SOMAXCONN) == 0) return s;
  return Socket();
}

bool is_loopback(const addrinfo& at) {
  if (at.ai_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(at.ai_addr)->sin_addr.s_addr) >> 24) == 127;
  return at.ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(at.ai_addr)->sin6_addr);
}

/// Listens at the first of these that can be. Closed with the reason when there is none.
Socket listen_at_first(const Addresses& all, bool takes_loopback, int& reason) {
  for (const int family : {AF_INET6, AF_INET})
    for (const addrinfo* at = all.first; at; at = at->ai_next) {
      if (at->ai_family != family || (!takes_loopback && is_loopback(*at))) continue;
      if (Socket s = listen_at(*at); s.is_open()) return s;
      reason = errno;
      if (reason == EADDRINUSE) return Socket();
    }
  return Socket();
}

/// At the address by which the others know this machine. Where that is not one of its own (a translated one), or names
/// loopback here alone (Debian's 127.0.1.1 for the host name), on all of them.
Socket open_listener(const RendezvousAddress& address) {
  if (address.socket >= 0) return Socket(address.socket);
  int reason = 0;
  const Addresses named(address.host.c_str(), address.port, AI_PASSIVE);
  if (Socket s = listen_at_first(named, is_this_machine(address.host), reason); s.is_open()) return s;
  const bool may_be_elsewhere = reason != EADDRINUSE && !is_this_machine(address.host);
  const Addresses all(nullptr, address.port, AI_PASSIVE);
  if (Socket s = may_be_elsewhere ? listen_at_first(all, true, reason) : Socket(); s.is_open()) return s;
  throw EnvError(fmt::format("rank 0 cannot listen at port {} of this machine ({}): {}; {} sets another one",
                             address.port, address.text(), reason != 0 ? std::strerror(reason) : named.error,
                             kPortVariable));
}

class Server {
 public:
  Server(const RendezvousAddress& address, std::int64_t size)
      : address_(address),
        size_(size),
        listener_(open_listener(address)) {
    fcntl(listener_.get(), F_SETFL, O_NONBLOCK);  // a peer may disconnect before accept() returns
  }

  /// Waits until all are there, or the deadline.
  bool wait(const Deadline& deadline) {
    while (std::ssize(here_) < size_ - 1) {
      if (deadline.is_over()) return false;
      look(deadline);
      drop_gone();  // also a rank that disconnected at once
    }
    return true;
  }
  void tell(const std::string& answer) const {
    for (const auto& [rank, connection] : here_) say(connection, answer);
  }
  std::string absent() const {
    std::string text;
    for (std::int64_t rank = 1; rank < size_; ++rank)
      if (!here_.contains(rank)) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
    return text;
  }

 private:
  void drop_gone() {
    for (auto one = here_.begin(); one != here_.end();) one = one->second.listen() ? std::next(one) : here_.erase(one);
  }

  void say(const Connection& connection, const std::string& answer) const {
    connection.say(code(address_, "answer", connection.nonces, answer) + " " + answer);
  }

  /// Accepts connections, and reads from those whose rank is not known yet.
  void look(const Deadline& deadline) {
    std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
    for (const Connection& connection : unknown_) watched.push_back({connection.socket.get(), POLLIN, 0});
    for (const auto& [rank, connection] : here_) watched.push_back({connection.socket.get(), POLLIN, 0});
    poll(watched.data(), watched.size(), deadline.left());
    accept_strangers();
    const auto oldest = Clock::now() - milliseconds(std::int64_t(1e3 * kStrangersPatience.value));
    std::erase_if(unknown_, [&](Connection& connection) {
      const bool is_there = connection.listen();
      return is_done(connection) || !is_there || connection.since < oldest;
    });
  }

  void accept_strangers() {
    // Ranks send immediately after connecting, so the oldest idle connection is dropped to make room.
    for (std::size_t i = 0; i < kMostStrangers / 2; ++i) {
      Socket peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!peer.is_open()) {
        if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(milliseconds(10));
        return;
      }
      if (unknown_.size() == kMostStrangers) unknown_.erase(unknown_.begin());
      unknown_.push_back({.socket = std::move(peer), .heard = {}});
    }
  }

  /// Says whether the peer was admitted or sent away, with what it has said so far.
  bool is_done(Connection& connection) {
    while (const auto line = connection.line()) {
      if (!connection.nonces.empty()) return hear_rank(connection, *line), true;
      if (!begin(connection, *line)) return true;
    }
    return false;
  }

  /// Answers a nonce by one of ours, and shows that we know the secret. Another program gets no answer.
  bool begin(Connection& connection, const std::string& line) const {
    const std::string start = std::string(kProtocol) + " ";
    if (!line.starts_with(start) || !is_nonce(std::string_view(line).substr(start.size()))) return false;
    const std::string own = new_nonce();
    connection.nonces = line.substr(start.size()) + own;
    connection.say(start + own + " " + code(address_, "rank 0", connection.nonces, ""));
    return true;
  }

  void hear_rank(Connection& connection, const std::string& line) {
    const std::size_t space = line.rfind(' ');
    const std::string said = line.substr(0, space);
    if (space == std::string::npos ||
        !is_same_digest(line.substr(space + 1), code(address_, "rank", connection.nonces, said)))
      return;  // who does not know the secret gets no answer
    const std::optional<std::int64_t> rank = rank_in(said);
    if (!rank) return say(connection, "no ranks of another job meet here, or of another number");
    if (here_.contains(*rank)) return say(connection, fmt::format("no rank {} is here already", *rank));
    here_.emplace(*rank, std::move(connection));
  }

  /// "<rank> <number of ranks> <job>".
  std::optional<std::int64_t> rank_in(const std::string& said) const {
    std::istringstream in(said);
    std::int64_t rank = 0;
    std::string rest;
    if (!(in >> rank) || !std::getline(in >> std::ws, rest) || rest != meeting(address_, size_)) return {};
    return rank > 0 && rank < size_ ? std::optional(rank) : std::nullopt;
  }

  const RendezvousAddress& address_;
  std::int64_t size_;
  Socket listener_;
  std::vector<Connection> unknown_;
  std::map<std::int64_t, Connection> here_;
};

std::string serve(const RendezvousAddress& address, std::int64_t size, const std::function<std::string()>& make_id,
                  Seconds patience) {
  Server server(address, size);
  if (!server.wait(Deadline(patience))) {
    const std::string who = server.absent();
    server.tell(fmt::format("no rank {} did not come", who));
    throw EnvError(fmt::format("rank {} did not come to {} within {:g} s", who, address.text(), patience.value));
  }
  std::string id;
  try {
    id = make_id();
  } catch (...) {
    server.tell("no rank 0 has failed");
    throw;
  }
  server.tell("id " + id);
  return id;
}

// --- the others -----------------------------------------------------------------------------------------------------

/// Linux may connect a socket to itself where nobody listens at a port it gives out.
bool is_itself(int socket) {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 && own_size == peer_size &&
         std::memcmp(&own, &peer, own_size) == 0;
}

/// Connected; closed with `why` when not.
Socket connect_to(const addrinfo& at, const Deadline& deadline, std::string& why) {
  constexpr int kOneTry = 5000;  // ms: behind a firewall that drops packets, no answer comes at all
  Socket s(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s.is_open()) return why = std::strerror(errno), Socket();
  int error = connect(s.get(), at.ai_addr, at.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd watched{s.get(), POLLOUT, 0};
    socklen_t size = sizeof error;
    if (poll(&watched, 1, deadline.left(kOneTry)) != 1)
      error = ETIMEDOUT;
    else
      getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0 && is_itself(s.get())) error = ECONNREFUSED;
  if (error == 0) return s;
  return why = std::strerror(error), Socket();
}

Socket reach(const RendezvousAddress& address, const Deadline& deadline, std::string& why) {
  const Addresses all(address.host.c_str(), address.port, 0);
  if (!all.first) why = all.error;
  for (const addrinfo* at = all.first; at; at = at->ai_next)
    if (Socket s = connect_to(*at, deadline, why); s.is_open()) return s;
  return Socket();
}

/// The answer of rank 0; nothing with `why` when there is none.
std::optional<std::string> hear(Connection& connection, const Deadline& deadline, std::string& why) {
  for (; !deadline.is_over();) {
    pollfd watched{connection.socket.get(), POLLIN, 0};
    if (poll(&watched, 1, deadline.left()) != 1) continue;
    const bool is_there = connection.listen();
    if (auto line = connection.line()) return line;
    if (!is_there) return why = "it hung up", std::nullopt;
  }
  return why = "it did not answer", std::nullopt;
}

/// Requires that rank 0, as it greets, knows the secret; both nonces are the connection's then. Throws for another
/// program.
void require_rank_0(Connection& connection, const std::string& line, const std::string& own_nonce,
                    const RendezvousAddress& address) {
  std::istringstream in(line);
  std::string protocol, nonce, proof;
  in >> protocol >> nonce >> proof;
  if (protocol != kProtocol || !is_nonce(nonce))
    throw EnvError(
        fmt::format("something else than gpuplan listens at {}: {} sets another port", address.text(), kPortVariable));
  connection.nonces = own_nonce + nonce;
  if (!is_same_digest(proof, code(address, "rank 0", connection.nonces, "")))
    throw EnvError(
        fmt::format("who listens at {} knows another secret: ranks of another user or job? {} sets another "
                    "port, {} the secret",
                    address.text(), kPortVariable, kSecretVariable));
}

std::string id_in(const Connection& connection, const std::string& line, const RendezvousAddress& address,
                  std::int64_t rank) {
  const std::size_t space = line.find(' ');
  const std::string answer = space == std::string::npos ? "" : line.substr(space + 1);
  if (!is_same_digest(line.substr(0, space), code(address, "answer", connection.nonces, answer)))
    throw EnvError(fmt::format("the answer from {} is not of rank 0, or was changed on its way", address.text()));
  if (answer.starts_with("id ")) return answer.substr(3);
  throw EnvError(fmt::format("rank {} was sent away from {}: {}; {} sets another port", rank, address.text(),
                             answer.substr(std::min<std::size_t>(answer.size(), 3)), kPortVariable));
}

/// The id; nothing with `why` when rank 0 hung up or kept quiet.
std::optional<std::string> ask(Connection& connection, const RendezvousAddress& address, std::int64_t rank,
                               std::int64_t size, const Deadline& deadline, std::string& why) {
  const std::string nonce = new_nonce();
  connection.say(fmt::format("{} {}", kProtocol, nonce));
  const auto greeting = hear(connection, deadline, why);
  if (!greeting) return {};
  require_rank_0(connection, *greeting, nonce, address);
  const std::string said = fmt::format("{} {}", rank, meeting(address, size));
  connection.say(said + " " + code(address, "rank", connection.nonces, said));
  const auto answer = hear(connection, deadline, why);
  return answer ? std::optional(id_in(connection, *answer, address, rank)) : std::nullopt;
}

std::string connect_and_ask(const RendezvousAddress& address, std::int64_t rank, std::int64_t size, Seconds patience) {
  const Seconds kAnswer{10};  // rank 0 has the same patience from its own start on, and says who was missing
  const Deadline deadline(patience), last(patience + kAnswer);
  for (std::string why;;) {
    if (Connection connection{.socket = reach(address, deadline, why), .heard = {}}; connection.socket.is_open()) {
      if (auto id = ask(connection, address, rank, size, last, why)) return *std::move(id);
    }
    if (deadline.is_over())
      throw EnvError(fmt::format("rank {} could not reach rank 0 at {} within {:g} s: {}", rank, address.text(),
                                 patience.value, why));
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace

LocalListener::LocalListener() {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  descriptor_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor_ < 0 || bind(descriptor_, reinterpret_cast<const sockaddr*>(&at), size) != 0 ||
      listen(descriptor_, SOMAXCONN) != 0 || getsockname(descriptor_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    throw EnvError(fmt::format("no port of 127.0.0.1 can be opened for the ranks to meet: {}", std::strerror(errno)));
  port_ = ntohs(at.sin_port);
}

LocalListener::~LocalListener() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string exchange_id(const RendezvousAddress& address, std::int64_t rank, std::int64_t size,
                        const std::function<std::string()>& make_id, Seconds patience) {
  return rank == 0 ? serve(address, size, make_id, patience) : connect_and_ask(address, rank, size, patience);
}

}  // namespace gpuplan
