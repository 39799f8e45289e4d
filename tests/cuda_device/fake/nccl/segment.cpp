#include "cuda_device/fake/nccl/segment.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpuplan::fake {
namespace {

constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(SharedHeader) <= kHeaderBytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

std::size_t segment_bytes(int num_ranks) {
  const auto n = std::size_t(num_ranks);
  return kHeaderBytes + n * (kHostSlotBytes + kSlotBytes) + n * n * sizeof(Channel);
}

struct flock byte_lock(short kind, int rank) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

/// A new file is full of zeros, which is how everything begins.
Segment::Segment(const std::string& name, int num_ranks, int rank)
    : name_(name),
      num_ranks_(num_ranks),
      rank_(rank),
      size_(segment_bytes(num_ranks)) {
  file_ = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file_ < 0) throw std::runtime_error("cannot open " + name + ": " + std::strerror(errno));
  struct stat status {};
  fstat(file_, &status);
  if (std::size_t(status.st_size) < size_ && ftruncate(file_, off_t(size_)) != 0) {
    close(file_);
    throw std::runtime_error("cannot make " + name + ": " + std::strerror(errno));
  }
  struct flock lock = byte_lock(F_WRLCK, rank);
  if (fcntl(file_, F_OFD_SETLK, &lock) != 0) {
    close(file_);
    throw std::runtime_error("rank " + std::to_string(rank) + " has joined already");
  }
  memory_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
  header_ = reinterpret_cast<SharedHeader*>(memory_);
  int before = 0;
  if (!header_->num_ranks.compare_exchange_strong(before, num_ranks) && before != num_ranks) {
    munmap(memory_, size_);
    close(file_);
    throw std::runtime_error("another rank says that there are " + std::to_string(before) + " ranks");
  }
  header_->has_joined[std::size_t(rank)] = 1;
}

Segment::~Segment() {
  drop();
  munmap(memory_, size_);
}

char* Segment::host_slot(int rank) const { return memory_ + kHeaderBytes + std::size_t(rank) * kHostSlotBytes; }
char* Segment::slot(int rank) const { return host_slot(num_ranks_) + std::size_t(rank) * kSlotBytes; }
Channel& Segment::channel(int from, int to) const {
  return reinterpret_cast<Channel*>(slot(num_ranks_))[from * num_ranks_ + to];
}

void Segment::unlink() const { shm_unlink(name_.c_str()); }

void Segment::leave() {
  header_->has_left[std::size_t(rank_)] = 1;
  drop();
}

void Segment::drop() {
  if (file_ >= 0) close(std::exchange(file_, -1));
}

int Segment::vanished_rank() const {
  for (int rank = 0; file_ >= 0 && rank < num_ranks_; ++rank) {
    if (rank == rank_ || !header_->has_joined[std::size_t(rank)] || header_->has_left[std::size_t(rank)]) continue;
    struct flock lock = byte_lock(F_WRLCK, rank);
    if (fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK && !header_->has_left[std::size_t(rank)])
      return rank;
  }
  return -1;
}

}  // namespace gpuplan::fake
