#include "models/fake_hub.h"

#include <cstdlib>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace gpuplan::test {
namespace {

constexpr int kPollMs = 20;

bool is_ready(int socket, short what) {
  pollfd wanted{.fd = socket, .events = what, .revents = 0};
  return poll(&wanted, 1, kPollMs) > 0;
}

/// Until the empty line.
std::string read_request(int connection, const std::atomic<bool>& is_over) {
  std::string text;
  char piece[4096];
  while (!is_over && text.find("\r\n\r\n") == std::string::npos) {
    if (!is_ready(connection, POLLIN)) continue;
    const ssize_t bytes = recv(connection, piece, sizeof piece, 0);
    if (bytes <= 0) break;
    text.append(piece, std::size_t(bytes));
  }
  return text;
}

/// "GET /path HTTP/1.1"
std::string path_of(const std::string& request) {
  const std::size_t begin = request.find(' ') + 1;
  return request.substr(begin, request.find(' ', begin) - begin);
}

}  // namespace

std::string http_answer(int status, const std::string& body, const std::string& headers) {
  return fmt::format("HTTP/1.1 {} Of The Test\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}", status,
                     body.size(), headers, body);
}

FakeHub::FakeHub() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(listener_, 8) == 0);
  socklen_t size = sizeof address;
  REQUIRE(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

FakeHub::~FakeHub() {
  is_over_ = true;
  thread_.join();
  close(listener_);
}

std::string FakeHub::endpoint() const { return fmt::format("http://127.0.0.1:{}", port_); }

void FakeHub::on(const std::string& path, Answer answer) {
  const std::lock_guard lock(mutex_);
  answers_[path] = std::move(answer);
}

void FakeHub::on(const std::string& path, int status, const std::string& body, const std::string& headers) {
  on(path, [text = http_answer(status, body, headers)](const Send& send) { send(text); });
}

void FakeHub::add_model(const std::string& id, const std::string& config, const std::string& index) {
  const std::string base = fmt::format("/{}/resolve/main/", id);
  on(base + "config.json", 200, config);
  if (index.empty())
    on(base + "model.safetensors.index.json", 404, "Entry not found", "X-Error-Code: EntryNotFound\r\n");
  else
    on(base + "model.safetensors.index.json", 200, index);
}

std::vector<std::string> FakeHub::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FakeHub::serve() {
  while (!is_over_) {
    if (!is_ready(listener_, POLLIN)) continue;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    answer(connection);
    close(connection);
  }
}

void FakeHub::answer(int connection) {
  const std::string request = read_request(connection, is_over_);
  Answer wanted;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    const auto found = answers_.find(path_of(request));
    if (found != answers_.end()) wanted = found->second;
  }
  const Send send = [&](const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      if (is_over_) return false;
      if (!is_ready(connection, POLLOUT)) continue;
      const ssize_t n = ::send(connection, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) return false;
      done += std::size_t(n);
      bytes_sent_ += std::size_t(n);
    }
    return true;
  };
  if (wanted)
    wanted(send);
  else  // as the Hub answers who shows no token
    send(http_answer(401, "Invalid username or password.", "X-Error-Code: RepoNotFound\r\n"));
}

}  // namespace gpuplan::test
