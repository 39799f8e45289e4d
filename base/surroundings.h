// A question is answered from its words, and from files, variables, the clock and cores. The program asks the machine
// for them; `answer` (cli/program.h) gives a world of its own, in which nothing else exists.
//
// base/ is the only place that asks: base/files.h (paths), base/environment.h (variables), base/date.h (the clock),
// base/processor.h (cores), base/child_process.h (other programs), base/https.h (the network).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace gpuplan {

/// Paths are compared as text without "." and "..". The facts of a machine are files, too: /proc/meminfo. The shipped
/// data (data_dir()) are read from the disk all the same.
struct Surroundings {
  std::map<std::string, std::string> files;      // content by path
  std::map<std::string, std::string> variables;  // of the environment
  std::int64_t now = 0;                          // seconds since 1970 began, UTC
  int num_cores = 1;
  std::map<std::string, std::string> written;  // what an answer wrote, which it can read again
};

/// Null where the machine is asked.
Surroundings* given_surroundings();

/// Answers everything in this process from `given` alone while it lives. One at a time.
class WithSurroundings {
 public:
  explicit WithSurroundings(Surroundings& given);
  ~WithSurroundings();
  WithSurroundings(const WithSurroundings&) = delete;
  WithSurroundings& operator=(const WithSurroundings&) = delete;

 private:
  std::lock_guard<std::mutex> only_;
};

/// Time for which what was read stays true: as long as data_dir() is the same folder, or for one question, as files of
/// the user do.
enum class StaysTrue : std::uint8_t { InDataFolder, InQuestion };
std::uint64_t version_of(StaysTrue how_long);

/// Returns what `Read()` does. It is called once, and again when that is no longer true; a reference is good until
/// then.
template <auto Read, StaysTrue kHowLong = StaysTrue::InDataFolder>
const auto& read_once() {
  struct Kept {
    std::uint64_t version;
    decltype(Read()) value;
  };
  static std::mutex mutex;
  static std::unique_ptr<const Kept> owner;
  static std::atomic<const Kept*> kept{nullptr};
  const std::uint64_t version = version_of(kHowLong);
  if (const Kept* const found = kept.load(std::memory_order_acquire); found && found->version == version)
    return found->value;
  const std::lock_guard lock(mutex);
  if (!owner || owner->version != version) {
    auto next = std::unique_ptr<const Kept>(new Kept{version, Read()});
    kept.store(next.get(), std::memory_order_release);
    owner = std::move(next);
  }
  return owner->value;
}

}  // namespace gpuplan
