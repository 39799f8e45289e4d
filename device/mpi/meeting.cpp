#include "device/mpi/meeting.h"

#include <climits>
#include <random>
#include <string>
#include <utility>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpuplan {
namespace {

/// What rank 0 tells the others.
struct Invitation {
  std::int64_t process = 0, file = -1;
  std::uint64_t token = 0;
};

using Clock = std::chrono::steady_clock;

/// Of memory that several processes have mapped, unlike std::atomic's waits. Source: futex(2).
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}
void wake_all(const std::atomic<std::uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool all_agree(bool is_so, MPI_Comm comm) {
  int answer = is_so ? 1 : 0;
  return MPI_Allreduce(MPI_IN_PLACE, &answer, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && answer == 1;
}

bool are_on_one_machine(MPI_Comm comm) {
  MPI_Comm here = MPI_COMM_NULL;
  int size = 0, size_here = 0;
  if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) != MPI_SUCCESS) return false;
  MPI_Comm_size(comm, &size);
  MPI_Comm_size(here, &size_here);
  MPI_Comm_free(&here);
  return size_here == size;
}

}  // namespace

Meeting::Place* Meeting::open(MPI_Comm comm, int rank, int num_ranks) {
  const std::size_t size = size_of_place(num_ranks);
  Invitation invitation;
  int file = -1;
  if (rank == 0) {
    file = memfd_create("gpuplan-meeting", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, off_t(size)) != 0) close(std::exchange(file, -1));
    invitation = {getpid(), file, std::random_device()() | std::uint64_t(std::random_device()()) << 32};
  }
  MPI_Bcast(&invitation, int(sizeof invitation), MPI_BYTE, 0, comm);
  if (rank != 0 && invitation.file >= 0) {  // with no name in a file system there is nothing that a killed run could leave there
    const std::string path = "/proc/" + std::to_string(invitation.process) + "/fd/" + std::to_string(invitation.file);
    file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  struct stat found {};
  const bool has_room = file >= 0 && fstat(file, &found) == 0 && found.st_size == off_t(size);
  void* const memory = !has_room ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  Place* const place = memory == MAP_FAILED ? nullptr : static_cast<Place*>(memory);
  if (rank == 0 && place) place->token = invitation.token;  // the rest is 0, as the system gives memory
  MPI_Barrier(comm);
  const bool is_it = place && place->token == invitation.token;
  const bool is_everybodys = all_agree(is_it, comm);
  if (file >= 0) close(file);
  if (place && !is_everybodys) munmap(place, size);
  return is_everybodys ? place : nullptr;
}

std::unique_ptr<Meeting> Meeting::of(MPI_Comm comm, std::chrono::microseconds patience) {
  int rank = 0, num_ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &num_ranks);
  if (num_ranks == 1 || !are_on_one_machine(comm)) return nullptr;
  Place* const place = open(comm, rank, num_ranks);
  return place ? std::unique_ptr<Meeting>(new Meeting(place, rank, num_ranks, patience)) : nullptr;
}

Meeting::Meeting(Place* place, int rank, int num_ranks, std::chrono::microseconds patience)
    : place_(place),
      rank_(rank),
      num_ranks_(num_ranks),
      patience_(patience),
      num_expected_(std::size_t(num_ranks)) {}

Meeting::~Meeting() { munmap(place_, size_of_place(num_ranks_)); }

template <class Condition>
void Meeting::wait(const Word& word, Condition is_over) const {
  for (const auto end = Clock::now() + patience_; Clock::now() < end; pause_core())
    if (is_over()) return;
  for (;;) {
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (is_over()) return;
    sleep_while(word, seen);
  }
}

void Meeting::come() {
  const std::uint32_t turn = place_->turn.load(std::memory_order_acquire);
  if (place_->num_here.fetch_add(1, std::memory_order_acq_rel) + 1 == std::uint32_t(num_ranks_)) {
    place_->num_here.store(0, std::memory_order_relaxed);
    place_->turn.store(turn + 1, std::memory_order_release);
    return wake_all(place_->turn);
  }
  wait(place_->turn, [&] { return place_->turn.load(std::memory_order_acquire) != turn; });
}

void Meeting::announce(int to) {
  num_between(rank_, to).fetch_add(1, std::memory_order_release);
  num_to(to).fetch_add(1, std::memory_order_release);
  wake_all(num_to(to));
}

void Meeting::expect(int from) {
  const std::uint32_t wanted = ++num_expected_[std::size_t(from)];
  const Word& under_way = num_between(from, rank_);
  wait(num_to(rank_), [&] { return std::int32_t(under_way.load(std::memory_order_acquire) - wanted) >= 0; });
}

}  // namespace gpuplan
