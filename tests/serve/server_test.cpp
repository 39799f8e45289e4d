// The server in this process, with /bin/cat in the place of the program that answers: it says what it was asked.
// GPUPLAN_SERVE_REQUESTS is how many requests the long test sends; a sixth of them are hostile.
#include "serve/server.h"

#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

using namespace gpuplan;

namespace {

/// A server that runs while this lives.
class Running {
 public:
  explicit Running(std::vector<std::string> command = {"/bin/cat"}, double seconds = 60) {
    ServeOptions options;
    options.command = std::move(command);
    options.answer_seconds = seconds;
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    thread_ = std::thread([options, end = ends[1]] {
      serve(options, [end](std::int64_t port) { CHECK(write(end, &port, sizeof port) == sizeof port); });
    });
    REQUIRE(read(ends[0], &port_, sizeof port_) == sizeof port_);
    for (const int end : ends) close(end);
  }
  ~Running() {
    kill(getpid(), SIGINT);  // as Ctrl-C
    thread_.join();
  }
  std::int64_t port() const { return port_; }

 private:
  std::thread thread_;
  std::int64_t port_ = 0;
};

int connection_to(std::int64_t port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(std::uint16_t(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return file;
}

enum class Then : std::uint8_t { Waits, HangsUp };

/// Sends `text`; returns all that comes until the other side ends the connection.
std::string exchange(std::int64_t port, std::string_view text, Then then = Then::Waits) {
  const int file = connection_to(port);
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = send(file, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) break;  // refused before it was read
    sent += std::size_t(count);
  }
  if (then == Then::HangsUp) shutdown(file, SHUT_WR);
  std::string out, piece(64 << 10, '\0');
  for (ssize_t count = 0; (count = recv(file, piece.data(), piece.size(), 0)) > 0;)
    out.append(piece, 0, std::size_t(count));
  close(file);
  return out;
}

std::string get(std::int64_t port, const std::string& target, const std::string& headers = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n{}\r\n", target, port, headers);
}

std::string post(std::int64_t port, const std::string& body) {
  return fmt::format(
      "POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      port, body.size(), body);
}

/// Reads one answer of a connection that stays open.
std::string answer_on(int file) {
  std::string out;
  char next = 0;
  while (out.find("\r\n\r\n") == std::string::npos && recv(file, &next, 1, 0) == 1) out += next;
  return out;
}

std::size_t num_open_files() {
  return std::size_t(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

bool is_alive(std::int64_t port) { return exchange(port, get(port, "/")).starts_with("HTTP/1.1 200"); }

/// Requests of somebody who means harm, or does not speak HTTP.
std::string hostile(std::int64_t port, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto bytes = [&](std::size_t count) {
    std::string out(count, '\0');
    for (char& c : out) c = char(random());
    return out;
  };
  switch (seed % 12) {
    case 0: return bytes(1 + random() % 4000);
    case 1: return "GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n";
    case 2: return get(port, "/" + std::string(40'000, 'a'));
    case 3: return get(port, "/../../../../etc/passwd");
    case 4:
      return fmt::format("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX: {}\r\n\r\n", port, std::string(100'000, 'x'));
    case 5: return "POST /api/answer HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n";
    case 6: return "POST /api/answer HTTP/1.1\r\nContent-Length: -1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    case 7: return get(port, "/api/answer?argument=gpus", "Origin: http://attacker.example\r\n");
    case 8: return get(port, "/api/answer?argument=%" + bytes(3));
    case 9: return "GET http://attacker.example/ HTTP/1.1\r\nHost: attacker.example\r\n\r\n";
    case 10: return post(port, "").substr(0, 40 + random() % 60);  // and hangs up
    default: return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(200);
  }
}

}  // namespace

TEST_CASE("serve: a question goes to a process of its own, and its answer comes back") {
  const Running server;
  const std::string question = R"({"arguments":["gpus"]})",
                    answer = exchange(server.port(), post(server.port(), question));
  CHECK(answer.starts_with("HTTP/1.1 200"));
  CHECK(answer.ends_with("\r\n\r\n" + question));
  CHECK(answer.find("Content-Security-Policy: default-src 'none'") != std::string::npos);
  const std::string large(3 << 20, 'x');
  CHECK(exchange(server.port(), post(server.port(), large)).ends_with(large));
  CHECK(exchange(server.port(), get(server.port(), "/api/answer?argument=gpus")).ends_with(question));
}

TEST_CASE("serve: a connection answers several requests") {
  const Running server;
  const int file = connection_to(server.port());
  for (int i = 0; i < 3; ++i) {
    const std::string asked = fmt::format("HEAD /style.css HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", server.port());
    REQUIRE(send(file, asked.data(), asked.size(), 0) == ssize_t(asked.size()));
    CHECK(answer_on(file).starts_with("HTTP/1.1 200"));
  }
  close(file);
}

TEST_CASE("serve: what takes too long, says nothing or does not start is told") {
  {
    const Running server({"/bin/sleep", "600"}, 0.2);
    CHECK(exchange(server.port(), post(server.port(), "{}")).starts_with("HTTP/1.1 504"));
  }
  {
    const Running server({"/bin/false"});
    CHECK(exchange(server.port(), post(server.port(), "{}")).starts_with("HTTP/1.1 500"));
  }
  const Running server({"/nowhere/gpuplan"});
  CHECK(exchange(server.port(), post(server.port(), "{}")).starts_with("HTTP/1.1 500"));
  CHECK(is_alive(server.port()));
}

TEST_CASE("serve: a question that nobody waits for any more makes room for others") {
  const Running server({"/bin/sleep", "600"});
  for (int i = 0; i < 4; ++i) {  // twice as many as are answered at once
    const int file = connection_to(server.port());
    const std::string asked = post(server.port(), "{}");
    REQUIRE(send(file, asked.data(), asked.size(), 0) == ssize_t(asked.size()));
    close(file);
  }
  CHECK(is_alive(server.port()));
}

TEST_CASE("serve: a body that is too long is refused") {
  const Running server;
  CHECK(exchange(server.port(), post(server.port(), std::string(kMostQuestionBytes + 1, 'x'))).find("HTTP/1.1 200") ==
        std::string::npos);
  CHECK(is_alive(server.port()));
}

TEST_CASE("serve: hostile requests among others crash nothing, reach nothing and leave nothing open") {
  const char* const wanted = std::getenv("GPUPLAN_SERVE_REQUESTS");
  const std::int64_t num_requests = wanted ? std::stoll(wanted) : 1200;
  const Running server;
  const std::string question = R"({"arguments":["gpus"]})";
  REQUIRE(is_alive(server.port()));
  const std::size_t before = num_open_files();
  std::int64_t num_answered = 0, num_hostile = 0;
  for (std::int64_t i = 0; i < num_requests; ++i) {
    if (i % 6 == 5) {
      const std::string answer = exchange(server.port(), hostile(server.port(), std::uint64_t(i / 6)), Then::HangsUp);
      CHECK_MESSAGE(answer.find("HTTP/1.1 200") == std::string::npos, "hostile request ", i / 6);
      ++num_hostile;
    } else if (i % 6 == 0) {
      num_answered += exchange(server.port(), post(server.port(), question)).ends_with(question) ? 1 : 0;
    } else {
      num_answered += exchange(server.port(), get(server.port(), "/main.js")).starts_with("HTTP/1.1 200") ? 1 : 0;
    }
  }
  CHECK(num_answered == num_requests - num_hostile);
  CHECK(is_alive(server.port()));
  CHECK(num_open_files() <= before + 4);
}

TEST_CASE("serve: an address that is none, or is taken, is refused") {
  ServeOptions options;
  options.host = "somewhere";
  CHECK_THROWS_AS(serve(options, [](std::int64_t) {}), InputError);
  const Running server;
  options.host = "127.0.0.1";
  options.port = server.port();
  CHECK_THROWS_AS(serve(options, [](std::int64_t) {}), EnvError);
}
