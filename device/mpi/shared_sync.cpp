#include "device/mpi/shared_sync.h"

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

#include "base/files.h"
#include "device/mpi/mpi_job.h"
#include "device/pause_core.h"

namespace gpuplan {
namespace {

/// Place of the memory that rank 0 made, for the others.
struct MemoryFile {
  std::int64_t process = 0, file = -1;
  std::uint64_t token = 0;
};

using Clock = std::chrono::steady_clock;

/// Sleeps for at most 0.1 s. Works on memory that several processes have mapped, unlike std::atomic's waits. Source:
/// futex(2).
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec limit{.tv_sec = 0, .tv_nsec = 100'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}
void wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
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

/// A file descriptor, or -1. The memory has no name in a file system, where a killed run would leave it.
int create_memory(std::size_t size) {
  int file = memfd_create("gpuplan-ranks", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, off_t(size)) != 0) close(std::exchange(file, -1));
  return file;
}

/// Rank 0's file descriptor opened here, or -1. In another container it may be any other file of that number.
int open_memory(const MemoryFile& made) {
  if (made.file < 0) return -1;
  const std::string path = "/proc/" + std::to_string(made.process) + "/fd/" + std::to_string(made.file);
  return open_own(path, O_RDWR | O_NONBLOCK);
}

/// Null: it cannot be mapped, or has another size.
void* map_memory(int file, std::size_t size) {
  struct stat found {};
  if (file < 0 || fstat(file, &found) != 0 || found.st_size != off_t(size)) return nullptr;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

SharedSync::Memory* SharedSync::open(MPI_Comm comm, int rank, int num_ranks) {
  const std::size_t size = memory_size(num_ranks);
  MemoryFile made;
  int file = -1;
  if (rank == 0) {
    file = create_memory(size);
    made = {getpid(), file, std::random_device()() | std::uint64_t(std::random_device()()) << 32};
  }
  check_mpi(MPI_Bcast(&made, int(sizeof made), MPI_BYTE, 0, comm), "MPI_Bcast");
  if (rank != 0) file = open_memory(made);
  Memory* const memory = static_cast<Memory*>(map_memory(file, size));
  if (rank == 0 && memory) memory->token = made.token;  // the rest is 0, as the system gives memory
  check_mpi(MPI_Barrier(comm), "MPI_Barrier");
  const bool is_shared_by_all = all_agree(memory && memory->token == made.token, comm);
  if (file >= 0) close(file);
  if (memory && !is_shared_by_all) munmap(memory, size);
  return is_shared_by_all ? memory : nullptr;
}

std::unique_ptr<SharedSync> SharedSync::create(MPI_Comm comm, std::chrono::microseconds patience,
                                               const std::atomic<bool>& is_given_up) {
  int rank = 0, num_ranks = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &num_ranks), "MPI_Comm_size");
  if (num_ranks == 1 || !are_on_one_machine(comm, num_ranks)) return nullptr;
  Memory* const memory = open(comm, rank, num_ranks);
  return memory ? std::unique_ptr<SharedSync>(new SharedSync(memory, rank, num_ranks, patience, is_given_up)) : nullptr;
}

SharedSync::SharedSync(Memory* memory, int rank, int num_ranks, std::chrono::microseconds patience,
                       const std::atomic<bool>& is_given_up)
    : memory_(memory),
      rank_(rank),
      num_ranks_(num_ranks),
      patience_(patience),
      is_given_up_(is_given_up) {}

SharedSync::~SharedSync() { munmap(memory_, memory_size(num_ranks_)); }

void SharedSync::wait_while(const Word& word, std::uint32_t value) const {
  const auto is_over = [&] { return word.load(std::memory_order_acquire) != value; };
  for (const auto end = Clock::now() + patience_; Clock::now() < end; pause_core())
    if (is_over()) return;
  for (; !is_over(); sleep_while(word, value)) throw_if_given_up(is_given_up_);
}

void SharedSync::barrier(Caller caller) {
  Barrier& barrier = memory_->barriers[std::size_t(caller)];
  const std::uint32_t generation = barrier.generation.load(std::memory_order_acquire);
  if (barrier.num_arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < std::uint32_t(num_ranks_))
    return wait_while(barrier.generation, generation);
  barrier.num_arrived.store(0, std::memory_order_relaxed);
  barrier.generation.store(generation + 1, std::memory_order_release);
  wake_all(barrier.generation);
}

void SharedSync::announce(int to) {
  num_between(rank_, to).fetch_add(1, std::memory_order_release);
  num_to(to).fetch_add(1, std::memory_order_release);
  wake_all(num_to(to));
}

std::uint32_t SharedSync::num_announced(int from) const {
  return num_between(from, rank_).load(std::memory_order_acquire);
}

std::uint32_t SharedSync::num_announced() const { return num_to(rank_).load(std::memory_order_acquire); }

void SharedSync::wait_for_message(std::uint32_t seen) const { wait_while(num_to(rank_), seen); }

}  // namespace gpuplan
