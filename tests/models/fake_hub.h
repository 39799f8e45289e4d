// A server on loopback that answers as the Hugging Face Hub does, or as badly as a test wants: plain sockets, one
// thread, one request per connection.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "environment_variable.h"

namespace gpuplan::test {

class FakeHub {
 public:
  /// Sends bytes; false when the other side has gone or the test is over.
  using Send = std::function<bool(const std::string& bytes)>;
  using Answer = std::function<void(const Send& send)>;

  FakeHub();
  ~FakeHub();
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;

  std::string endpoint() const;  // "http://127.0.0.1:41234"
  /// What a path is answered with; any other is a repository that does not exist.
  void on(const std::string& path, Answer answer);
  void on(const std::string& path, int status, const std::string& body, const std::string& headers = {});
  /// The files of a model: config.json, and the index when it is not empty.
  void add_model(const std::string& id, const std::string& config, const std::string& index = {});
  /// Requests so far, headers and all.
  std::vector<std::string> requests() const;
  std::size_t bytes_sent() const { return bytes_sent_; }

 private:
  void serve();
  void answer(int connection);

  int listener_ = -1, port_ = 0;
  std::atomic<bool> is_over_{};
  std::atomic<std::size_t> bytes_sent_{};
  mutable std::mutex mutex_;  // of the two below
  std::map<std::string, Answer> answers_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

/// A whole answer: status line, length, headers ("X-Error-Code: GatedRepo\r\n"), body.
std::string http_answer(int status, const std::string& body, const std::string& headers = {});

}  // namespace gpuplan::test
