#include "device/mpi/meeting.h"

#include <climits>
#include <ctime>
#include <random>
#include <string>
#include <utility>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/mpi/mpi_job.h"

namespace gpuplan {
namespace {

/// What rank 0 tells the others.
struct Invitation {
  std::int64_t process = 0, file = -1;
  std::uint64_t token = 0;
};

using Clock = std::chrono::steady_clock;

/// Of memory that several processes have mapped, unlike std::atomic's waits; 0.1 s at most. Source: futex(2).
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec limit{.tv_sec = 0, .tv_nsec = 100'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}
void wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool all_agree(bool is_so, MPI_Comm comm) {
  int answer = is_so ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &answer, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  return answer == 1;
}

bool are_on_one_machine(MPI_Comm comm, int num_ranks) {
  MPI_Comm here = MPI_COMM_NULL;
  int num_here = 0;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
  check_mpi(MPI_Comm_size(here, &num_here), "MPI_Comm_size");
  MPI_Comm_free(&here);
  return all_agree(num_here == num_ranks, comm);
}

/// With no name in a file system, where a killed run would leave it. -1: there is none.
int create_memory(std::size_t size) {
  int file = memfd_create("gpuplan-meeting", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, off_t(size)) != 0) close(std::exchange(file, -1));
  return file;
}

/// Another process' file, or whatever has that number where processes do not see each other. -1: there is none.
int open_memory(const Invitation& invitation) {
  if (invitation.file < 0) return -1;
  const std::string path = "/proc/" + std::to_string(invitation.process) + "/fd/" + std::to_string(invitation.file);
  return ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/// Null: it cannot be mapped, or has another size.
void* map_memory(int file, std::size_t size) {
  struct stat found {};
  if (file < 0 || fstat(file, &found) != 0 || found.st_size != off_t(size)) return nullptr;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

Meeting::Place* Meeting::open(MPI_Comm comm, int rank, int num_ranks) {
  const std::size_t size = size_of_place(num_ranks);
  Invitation invitation;
  int file = -1;
  if (rank == 0) {
    file = create_memory(size);
    invitation = {getpid(), file, std::random_device()() | std::uint64_t(std::random_device()()) << 32};
  }
  check_mpi(MPI_Bcast(&invitation, int(sizeof invitation), MPI_BYTE, 0, comm), "MPI_Bcast");
  if (rank != 0) file = open_memory(invitation);
  Place* const place = static_cast<Place*>(map_memory(file, size));
  if (rank == 0 && place) place->token = invitation.token;  // the rest is 0, as the system gives memory
  check_mpi(MPI_Barrier(comm), "MPI_Barrier");
  const bool is_everybodys = all_agree(place && place->token == invitation.token, comm);
  if (file >= 0) close(file);
  if (place && !is_everybodys) munmap(place, size);
  return is_everybodys ? place : nullptr;
}

std::unique_ptr<Meeting> Meeting::of(MPI_Comm comm, std::chrono::microseconds patience,
                                     const std::atomic<bool>& is_given_up) {
  int rank = 0, num_ranks = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &num_ranks), "MPI_Comm_size");
  if (num_ranks == 1 || !are_on_one_machine(comm, num_ranks)) return nullptr;
  Place* const place = open(comm, rank, num_ranks);
  return place ? std::unique_ptr<Meeting>(new Meeting(place, rank, num_ranks, patience, is_given_up)) : nullptr;
}

Meeting::Meeting(Place* place, int rank, int num_ranks, std::chrono::microseconds patience,
                 const std::atomic<bool>& is_given_up)
    : place_(place),
      rank_(rank),
      num_ranks_(num_ranks),
      patience_(patience),
      is_given_up_(is_given_up) {}

Meeting::~Meeting() { munmap(place_, size_of_place(num_ranks_)); }

void Meeting::wait_while(const Word& word, std::uint32_t value) const {
  const auto is_over = [&] { return word.load(std::memory_order_acquire) != value; };
  for (const auto end = Clock::now() + patience_; Clock::now() < end; pause_core())
    if (is_over()) return;
  for (; !is_over(); sleep_while(word, value)) throw_if_given_up(is_given_up_);
}

void Meeting::come(Caller caller) {
  Turn& turn = place_->turns[std::size_t(caller)];
  const std::uint32_t number = turn.number.load(std::memory_order_acquire);
  if (turn.num_here.fetch_add(1, std::memory_order_acq_rel) + 1 < std::uint32_t(num_ranks_))
    return wait_while(turn.number, number);
  turn.num_here.store(0, std::memory_order_relaxed);
  turn.number.store(number + 1, std::memory_order_release);
  wake_all(turn.number);
}

void Meeting::announce(int to) {
  num_between(rank_, to).fetch_add(1, std::memory_order_release);
  num_to(to).fetch_add(1, std::memory_order_release);
  wake_all(num_to(to));
}

std::uint32_t Meeting::num_announced(int from) const {
  return num_between(from, rank_).load(std::memory_order_acquire);
}

std::uint32_t Meeting::news() const { return num_to(rank_).load(std::memory_order_acquire); }

void Meeting::wait_for_news(std::uint32_t seen) const { wait_while(num_to(rank_), seen); }

}  // namespace gpuplan
