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
#include "base/sha256.h"

namespace gpuplan {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kProtocol = "gpuplan-rendezvous-1";
constexpr std::size_t kLongestLine = 4096;
constexpr auto kBetweenTries = milliseconds(100);

class Deadline {
 public:
  explicit Deadline(Seconds patience) : at_(Clock::now() + milliseconds(std::int64_t(1e3 * patience.value))) {}
  bool is_over() const { return Clock::now() >= at_; }
  /// Milliseconds that are left, at most `most`: for poll.
  int left(std::int64_t most = 1000) const {
    return int(
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
  /// Reads what is there. False when the peer has disconnected, or sends too much.
  bool listen() {
    std::array<char, 512> piece{};
    const ssize_t count = recv(socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    heard.append(piece.data(), std::size_t(count));
    return count > 0 && heard.size() <= kLongestLine;
  }
  std::optional<std::string> line() const {
    const std::size_t end = heard.find('\n');
    return end == std::string::npos ? std::nullopt : std::optional(heard.substr(0, end));
  }
  void say(const std::string& text) const {
    const std::string line = text + "\n";
    static_cast<void>(
        send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL));  // short: it fits the socket's buffer
  }
};

/// How a line of either side begins: what both must agree on.
std::string greeting(const RendezvousAddress& address, std::int64_t size) {
  return fmt::format("{} {} {}", kProtocol, sha256_hex(address.job).substr(0, 16), size);
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

/// On every address of this machine, for both families where it has them; of a loopback host on that alone.
Socket open_listener(const RendezvousAddress& address) {
  if (address.socket >= 0) return Socket(address.socket);
  const Addresses all(is_this_machine(address.host) ? address.host.c_str() : nullptr, address.port, AI_PASSIVE);
  int reason = 0;
  for (const int family : {AF_INET6, AF_INET})
    for (const addrinfo* at = all.first; at; at = at->ai_next) {
      if (at->ai_family != family) continue;
      if (Socket s = listen_at(*at); s.is_open()) return s;
      reason = errno;
      if (reason == EADDRINUSE) break;
    }
  throw EnvError(fmt::format("rank 0 cannot listen at port {} of this machine ({}): {}; {} sets another one",
                             address.port, address.text(), all.first ? std::strerror(reason) : all.error,
                             kPortVariable));
}

class Server {
 public:
  Server(const RendezvousAddress& address, std::int64_t size)
      : address_(address),
        size_(size),
        greeting_(greeting(address, size)),
        listener_(open_listener(address)) {
    fcntl(listener_.get(), F_SETFL, O_NONBLOCK);  // a peer may disconnect before accept() returns
  }

  /// Until all are there, or the deadline.
  bool wait(const Deadline& deadline) {
    while (std::ssize(here_) < size_ - 1) {
      if (deadline.is_over()) return false;
      look(deadline);
      drop_gone();  // also a rank that disconnected at once
    }
    return true;
  }
  void tell(const std::string& answer) const {
    for (const auto& [rank, connection] : here_) connection.say(greeting_ + " " + answer);
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

  /// Accepts connections, and reads from those whose rank is not known yet.
  void look(const Deadline& deadline) {
    std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
    for (const Connection& connection : unknown_) watched.push_back({connection.socket.get(), POLLIN, 0});
    for (const auto& [rank, connection] : here_) watched.push_back({connection.socket.get(), POLLIN, 0});
    poll(watched.data(), watched.size(), deadline.left());
    if (Socket peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)); peer.is_open())
      unknown_.push_back({.socket = std::move(peer), .heard = {}});
    std::erase_if(unknown_, [&](Connection& connection) { return !connection.listen() || is_done(connection); });
  }

  /// Whether the peer was admitted or sent away.
  bool is_done(Connection& connection) {
    const auto line = connection.line();
    if (!line) return false;
    const std::optional<std::int64_t> rank = rank_in(*line);
    if (!line->starts_with(kProtocol)) return true;  // another program gets no answer
    const std::string answer = !rank                   ? "no another job, or number of ranks, is meant"
                               : here_.contains(*rank) ? fmt::format("no rank {} is here already", *rank)
                                                       : "";
    if (!answer.empty()) return connection.say(greeting_ + " " + answer), true;
    here_.emplace(*rank, std::move(connection));
    return true;
  }

  std::optional<std::int64_t> rank_in(const std::string& line) const {
    if (!line.starts_with(greeting_ + " ")) return {};
    std::istringstream in(line.substr(greeting_.size()));
    std::int64_t rank = 0;
    return in >> rank && rank > 0 && rank < size_ ? std::optional(rank) : std::nullopt;
  }

  const RendezvousAddress& address_;
  std::int64_t size_;
  std::string greeting_;
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

std::string id_in(const std::string& line, const RendezvousAddress& address, std::int64_t rank, std::int64_t size) {
  const std::string expected = greeting(address, size) + " ";
  if (line.starts_with(expected + "id ")) return line.substr(expected.size() + 3);
  if (!line.starts_with(kProtocol))
    throw EnvError(
        fmt::format("something else than gpuplan listens at {}: {} sets another port", address.text(), kPortVariable));
  if (!line.starts_with(expected))
    throw EnvError(fmt::format("ranks of another job meet at {}, or of another number than {}: {} sets another port",
                               address.text(), size, kPortVariable));
  throw EnvError(fmt::format("rank {} was sent away from {}: {}", rank, address.text(),
                             line.substr(std::min(line.size(), expected.size() + 3))));
}

std::string connect_and_ask(const RendezvousAddress& address, std::int64_t rank, std::int64_t size, Seconds patience) {
  const Seconds kAnswer{10};  // rank 0 has the same patience from its own start on, and says who was missing
  const Deadline deadline(patience), last(patience + kAnswer);
  for (std::string why;;) {
    if (Connection connection{.socket = reach(address, deadline, why), .heard = {}}; connection.socket.is_open()) {
      connection.say(fmt::format("{} {}", greeting(address, size), rank));
      if (const auto line = hear(connection, last, why)) return id_in(*line, address, rank, size);
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
