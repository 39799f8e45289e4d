#include "cuda_device/fake/nccl/comm.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

namespace gpuplan::fake {
namespace {

std::mutex& error_mutex() {
  static std::mutex& only = *new std::mutex;
  return only;
}
std::string& error_text() {
  static std::string& only = *new std::string;
  return only;
}

/// Fast when the others are near, and kind to them when they are not.
class Patience {
 public:
  void pass() {
    if (++turns_ < 200)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  int turns_ = 0;
};

/// Seconds that ranks wait for each other in set-up.
std::chrono::seconds set_up_patience() {
  const char* const seconds = std::getenv("GPUPLAN_FAKE_NCCL_PATIENCE");
  return std::chrono::seconds(seconds ? std::atoi(seconds) : 300);
}

/// GPUPLAN_FAKE_NCCL_DIE="<rank>:<n>": this rank's process is killed in its n-th operation.
void die_if_told(int rank, std::uint64_t ticket) {
  const char* const told = std::getenv("GPUPLAN_FAKE_NCCL_DIE");
  if (told && std::to_string(rank) + ":" + std::to_string(ticket + 1) == told) std::raise(SIGKILL);
}

bool have_all_come(const Steps& steps, int num_ranks, std::uint64_t step) {
  return std::all_of(steps.begin(), steps.begin() + num_ranks, [&](const auto& own) { return own >= step; });
}

}  // namespace

void remember_error(const std::string& text) {
  const std::lock_guard lock(error_mutex());
  error_text() = text;
}
ncclResult_t refused(ncclResult_t result, const std::string& why) {
  remember_error(why);
  return result;
}
const char* last_error() {
  thread_local std::string copy;
  const std::lock_guard lock(error_mutex());
  copy = error_text();
  return copy.c_str();
}

Comm::Comm(const std::string& name, int num_ranks, int rank, int device)
    : name_(name),
      rank_(rank),
      size_(num_ranks),
      device_(device),
      segment_(name, num_ranks, rank) {}

std::vector<std::string> Comm::exchange_on_host(const std::string& mine) {
  const auto give_up = std::chrono::steady_clock::now() + set_up_patience();
  const auto come_together = [&] {
    auto& steps = segment_.header().host_steps;
    steps[std::size_t(rank_)] = ++host_step_;
    for (Patience patience; !have_all_come(steps, size_, host_step_); patience.pass()) {
      if (const int gone = segment_.vanished_rank(); gone >= 0)
        throw std::runtime_error("rank " + std::to_string(gone) + " closed its connection");
      if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("the other ranks did not come");
    }
  };
  std::strncpy(segment_.host_slot(rank_), mine.c_str(), kHostSlotBytes - 1);
  come_together();
  std::vector<std::string> words;
  for (int rank = 0; rank < size_; ++rank) words.emplace_back(segment_.host_slot(rank));
  come_together();
  return words;
}

void Comm::wait(const std::function<bool()>& is_over) {
  for (Patience patience; !is_over(); patience.pass())
    if (is_aborted_) throw Interrupted{};
}

void Comm::step() {
  auto& steps = segment_.header().stream_steps;
  steps[std::size_t(rank_)] = ++stream_step_;
  wait([&] { return have_all_come(steps, size_, stream_step_); });
}

void Comm::agree(const Call& mine) {
  std::memcpy(segment_.slot(rank_), &mine, sizeof mine);
  step();
  bool do_agree = true;
  for (int rank = 0; rank < size_; ++rank) {
    Call other;
    std::memcpy(&other, segment_.slot(rank), sizeof other);
    do_agree &= other == mine;
  }
  step();
  if (do_agree) return;
  fail(ncclInvalidUsage, "rank " + std::to_string(rank_) + " does not make the call that another rank makes");
  throw Interrupted{};
}

void Comm::run(std::uint64_t ticket, const std::function<void()>& operation) {
  std::unique_lock lock(mutex_);
  served_.wait(lock, [&] { return next_served_ == ticket || is_aborted_; });
  lock.unlock();
  die_if_told(rank_, ticket);
  try {
    if (!is_aborted_ && error_ == ncclSuccess) operation();
  } catch (const Interrupted&) {  // told through asynchronous_error(), or wanted
  }
  lock.lock();
  ++next_served_;
  served_.notify_all();
}

void Comm::wait_for_operations() {
  std::unique_lock lock(mutex_);
  served_.wait(lock, [&] { return next_served_ == next_ticket_; });
}

std::shared_ptr<void> Comm::graph_reference() {
  ++graph_references_;
  return {this, [](void* comm) { --static_cast<Comm*>(comm)->graph_references_; }};
}

/// NCCL waits for ever; a test is told why it hangs.
void Comm::wait_for_graphs() {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  for (Patience patience; graph_references_ > 0; patience.pass())
    if (std::chrono::steady_clock::now() > give_up) {
      std::fputs("fake NCCL: a communicator is ended while graphs still have its operations\n", stderr);
      std::abort();
    }
}

void Comm::abort() {
  {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    served_.notify_all();
  }
  segment_.drop();
}

void Comm::fail(ncclResult_t error, const std::string& text) {
  remember_error(text);
  error_ = error;
}

ncclResult_t Comm::asynchronous_error() {
  if (error_ == ncclSuccess && !std::getenv("GPUPLAN_FAKE_NCCL_SILENT"))
    if (const int gone = segment_.vanished_rank(); gone >= 0)
      fail(ncclRemoteError, "rank " + std::to_string(gone) + " closed its connection");
  return error_;
}

}  // namespace gpuplan::fake
