// The Communicator of device/mpi: blocking MPI calls as host tasks of a stream. This is what libgpuplan_mpi.so exports.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include "base/error.h"
#include "base/processor.h"
#include "device/backend.h"
#include "device/cpu/variant.h"
#include "device/mpi/mpi_job.h"
#include "device/mpi/shared_sync.h"

namespace gpuplan {

/// to[i] += from[i], on the bits of 16-bit floats, which MPI itself does not sum (kernels/narrow_sum.cpp).
using NarrowSum = void(const std::uint16_t* from, std::uint16_t* to, std::int64_t count);
namespace baseline {
NarrowSum sum_bf16, sum_f16;
}
namespace avx2 {
NarrowSum sum_bf16, sum_f16;
}
namespace avx512 {
NarrowSum sum_bf16, sum_f16;
}

namespace {

int mpi_count(std::int64_t count) {
  if (count > INT_MAX)
    throw EnvError(fmt::format("MPI counts at most {} elements in a call; {} asked", INT_MAX, count));
  return int(count);
}

/// MPI's callback: it has no state, so each type has its own.
void add_bf16(void* from, void* to, int* count, MPI_Datatype*) {
  static NarrowSum* const sum = GPUPLAN_PICK_VARIANT(sum_bf16);
  sum(static_cast<const std::uint16_t*>(from), static_cast<std::uint16_t*>(to), *count);
}
void add_f16(void* from, void* to, int* count, MPI_Datatype*) {
  static NarrowSum* const sum = GPUPLAN_PICK_VARIANT(sum_f16);
  sum(static_cast<const std::uint16_t*>(from), static_cast<std::uint16_t*>(to), *count);
}

MPI_Op make_sum(MPI_User_function* add) {
  MPI_Op op = MPI_OP_NULL;
  check_mpi(MPI_Op_create(add, 1, &op), "MPI_Op_create");
  return op;
}

/// A dtype and its sum as MPI sees them: 16 bits travel as shorts.
struct Element {
  MPI_Datatype type;
  MPI_Op sum;
};

Element element(Dtype dtype) {
  static const MPI_Op bf16 = make_sum(add_bf16), f16 = make_sum(add_f16);
  switch (dtype) {
    case Dtype::F32: return {MPI_FLOAT, MPI_SUM};
    case Dtype::BF16: return {MPI_UINT16_T, bf16};
    case Dtype::F16: return {MPI_UINT16_T, f16};
    default: break;
  }
  fail_check("dtype is fp32, bf16 or fp16", "a collective got another dtype", __FILE__, __LINE__);
}

/// One send or receive of a group.
struct Message {
  bool is_send;
  void* data;
  std::int64_t count;
  Dtype dtype;
  int peer;
};

/// A receive that MPI knows of.
struct Receive {
  MPI_Request request;
  int from;
  std::uint32_t number;  // of the messages of `from`, modulo 2^32
};

/// Waits for requests by polling with growing naps, since MPI's own waits keep a core busy. Polls often at first, as
/// most requests are done soon.
void wait_with_naps(MPI_Request* requests, int count, const std::atomic<bool>& is_given_up) {
  constexpr auto kSpin = std::chrono::microseconds(20), kLongestNap = std::chrono::microseconds(100);
  const auto begin = std::chrono::steady_clock::now();
  for (auto nap = std::chrono::microseconds(5);;) {
    int is_done = 0;
    check_mpi(MPI_Testall(count, requests, &is_done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (is_done) return;
    throw_if_given_up(is_given_up);
    if (std::chrono::steady_clock::now() - begin < kSpin) continue;
    std::this_thread::sleep_for(nap);
    nap = std::min(kLongestNap, 2 * nap);
  }
}

/// Says whether ranks outnumber cores on this machine.
bool outnumber_cores_here(MPI_Comm all) {
  MPI_Comm here = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
  cpu_set_t cores{};
  sched_getaffinity(0, sizeof cores, &cores);
  const bool has_quota = num_usable_cores() < CPU_COUNT(&cores);
  int num_ranks = 1;
  check_mpi(MPI_Comm_size(here, &num_ranks), "MPI_Comm_size");
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &cores, int(sizeof cores), MPI_BYTE, MPI_BOR, here),
            "MPI_Allreduce");  // each may be bound to its own
  MPI_Comm_free(&here);
  return num_ranks > (has_quota ? num_usable_cores() : CPU_COUNT(&cores));
}

/// Says whether ranks outnumber cores on any machine; all ranks get the same answer. Collective among `all`.
bool ranks_outnumber_cores(MPI_Comm all) {
  int is_so = outnumber_cores_here(all) ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &is_so, 1, MPI_INT, MPI_MAX, all), "MPI_Allreduce");
  return is_so != 0;
}

std::atomic<bool> is_crowded{false};

class MpiCommunicator final : public Communicator {
 public:
  /// Takes over a communicator that is this object's own.
  explicit MpiCommunicator(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    sync_ = SharedSync::create(comm_, std::chrono::microseconds(is_crowded ? 0 : 10), is_given_up_);
    num_received_.resize(std::size_t(size_));
  }
  ~MpiCommunicator() override {
    // this rank alone may have failed, and the others wait in a call that it will not make
    if (std::uncaught_exceptions() > 0) {
      give_up_mpi();
      return;
    }
    int is_finished = 0;
    if (MPI_Finalized(&is_finished) == MPI_SUCCESS && !is_finished) MPI_Comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override { return mpi_library(); }

  void all_reduce(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& stream) override {
    stream.run_on_host([=, this] {
      const Element e = element(dtype);
      wait_before_collective();
      check_mpi(MPI_Allreduce(send == receive ? MPI_IN_PLACE : send, receive, mpi_count(count), e.type, e.sum, comm_),
                "MPI_Allreduce");
    });
  }
  void all_reduce_max(float* data, std::int64_t count, Stream& stream) override {
    stream.run_on_host([=, this] {
      wait_before_collective();
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, mpi_count(count), MPI_FLOAT, MPI_MAX, comm_), "MPI_Allreduce");
    });
  }
  void all_gather(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& stream) override {
    stream.run_on_host([=, this] {
      wait_before_collective();
      const MPI_Datatype type = element(dtype).type;
      const void* const own = static_cast<const char*>(receive) + bytes_of(count, dtype).count * rank_;
      check_mpi(MPI_Allgather(send == own ? MPI_IN_PLACE : send, mpi_count(count), type, receive, mpi_count(count),
                              type, comm_),
                "MPI_Allgather");
    });
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& stream) override {
    stream.run_on_host([=, this] { reduce_scatter_now(send, receive, count, dtype); });
  }
  void broadcast(void* data, std::int64_t count, Dtype dtype, int root, Stream& stream) override {
    stream.run_on_host([=, this] {
      wait_before_collective();
      check_mpi(MPI_Bcast(data, mpi_count(count), element(dtype).type, root, comm_), "MPI_Bcast");
    });
  }
  void send(const void* data, std::int64_t count, Dtype dtype, int to, Stream& stream) override {
    if (group_) return add_to_group({true, const_cast<void*>(data), count, dtype, to}, stream);
    stream.run_on_host([=, this] { exchange({{true, const_cast<void*>(data), count, dtype, to}}); });
  }
  void receive(void* data, std::int64_t count, Dtype dtype, int from, Stream& stream) override {
    if (group_) return add_to_group({false, data, count, dtype, from}, stream);
    stream.run_on_host([=, this] { exchange({{false, data, count, dtype, from}}); });
  }
  void begin_group() override {
    GPUPLAN_CHECK(!group_, "groups of messages do not nest");
    group_.emplace();
  }
  void end_group() override {
    GPUPLAN_CHECK(group_, "the end of a group that has not begun");
    const Group group = *std::exchange(group_, std::nullopt);
    if (group.stream) group.stream->run_on_host([messages = group.messages, this] { exchange(messages); });
  }

  void barrier() override { check_mpi(MPI_Barrier(comm_), "MPI_Barrier"); }
  // Hosts exchange a few numbers a step. They wait asleep, since the first stage of a pipeline may come half a step
  // after the last.
  void broadcast_host(std::span<std::byte> data, int root) override {
    wait_for_all(SharedSync::Caller::Host);
    constexpr std::size_t kPiece = std::size_t(1) << 30;  // bytes: MPI counts in int
    for (; !data.empty(); data = data.subspan(std::min(kPiece, data.size())))
      check_mpi(MPI_Bcast(data.data(), int(std::min(kPiece, data.size())), MPI_BYTE, root, comm_), "MPI_Bcast");
  }
  double max_host(double value) override {
    wait_for_all(SharedSync::Caller::Host);
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, comm_), "MPI_Allreduce");
    return value;
  }
  void all_gather_host(std::span<const std::byte> own, std::span<std::byte> all) override {
    wait_for_all(SharedSync::Caller::Host);
    const int bytes = mpi_count(std::ssize(own));
    check_mpi(MPI_Allgather(own.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, comm_), "MPI_Allgather");
  }
  void abort() noexcept override {
    is_given_up_ = true;
    give_up_mpi();
  }
  std::unique_ptr<Communicator> split(int colour) override {
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(comm_, colour < 0 ? MPI_UNDEFINED : colour, rank_, &part), "MPI_Comm_split");
    if (part == MPI_COMM_NULL) return nullptr;
    return std::make_unique<MpiCommunicator>(part);
  }

 private:
  /// Returns when all of the group have called it. MPI itself would spin on a core that they, or this rank's own work,
  /// need.
  void wait_for_all(SharedSync::Caller caller) {
    if (sync_) return sync_->barrier(caller);
    MPI_Request all = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(comm_, &all), "MPI_Ibarrier");
    wait_with_naps(&all, 1, is_given_up_);
  }
  /// Runs before each collective on a stream. Ranks of several machines that have a core each go straight to MPI and
  /// spin there: all would wait for every nap of one.
  void wait_before_collective() {
    if (sync_ || is_crowded) wait_for_all(SharedSync::Caller::Stream);
  }

  struct Group {
    std::vector<Message> messages;
    Stream* stream = nullptr;  // of all of them
  };
  void add_to_group(const Message& message, Stream& stream) {
    GPUPLAN_CHECK(!group_->stream || group_->stream == &stream, "a group of messages is on one stream");
    group_->stream = &stream;
    group_->messages.push_back(message);
  }

  /// All go on together; returns when the last is done. Polls for those that are under way, as moving them may need
  /// this rank, and sleeps until more are: every look costs a core that shares its units with this one (a pipeline's
  /// stage was 28 % slower).
  void exchange(const std::vector<Message>& messages) {
    std::vector<MPI_Request> sent;
    std::vector<Receive> receives;
    for (const Message& m : messages) {
      MPI_Request request = MPI_REQUEST_NULL;
      const MPI_Datatype type = element(m.dtype).type;
      if (m.is_send) {
        check_mpi(MPI_Isend(m.data, mpi_count(m.count), type, m.peer, 0, comm_, &request), "MPI_Isend");
        if (sync_) sync_->announce(m.peer);
        sent.push_back(request);
      } else {
        check_mpi(MPI_Irecv(m.data, mpi_count(m.count), type, m.peer, 0, comm_, &request), "MPI_Irecv");
        receives.push_back({request, m.peer, ++num_received_[std::size_t(m.peer)]});
      }
    }
    wait_with_naps(sent.data(), int(sent.size()), is_given_up_);
    while (!receives.empty()) receive_some(receives);
  }

  /// Takes those that are under way off the list when they are done; sleeps first where none is.
  void receive_some(std::vector<Receive>& receives) {
    const std::uint32_t seen = sync_ ? sync_->num_announced() : 0;
    const auto first = std::partition(receives.begin(), receives.end(), [&](const Receive& r) {
      return sync_ && std::int32_t(sync_->num_announced(r.from) - r.number) < 0;
    });
    if (first == receives.end()) return sync_->wait_for_message(seen);
    std::vector<MPI_Request> requests;
    std::transform(first, receives.end(), std::back_inserter(requests), [](const Receive& r) { return r.request; });
    wait_with_naps(requests.data(), int(requests.size()), is_given_up_);
    receives.erase(first, receives.end());
  }

  /// `receive` may be this rank's part of `send`, as with NCCL. MPI forbids that, so the sum then goes by a buffer.
  void reduce_scatter_now(const void* send, void* receive, std::int64_t count, Dtype dtype) {
    wait_before_collective();
    const Element e = element(dtype);
    const std::int64_t size = bytes_of(count, dtype).count;
    const bool is_in_place = receive == static_cast<const char*>(send) + size * rank_;
    std::vector<char> buffer(is_in_place ? std::size_t(size) : 0);
    check_mpi(
        MPI_Reduce_scatter_block(send, is_in_place ? buffer.data() : receive, mpi_count(count), e.type, e.sum, comm_),
        "MPI_Reduce_scatter_block");
    if (is_in_place) std::memcpy(receive, buffer.data(), buffer.size());
  }

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  std::atomic<bool> is_given_up_{false};
  std::unique_ptr<SharedSync> sync_;         // null where ranks share no memory
  std::vector<std::uint32_t> num_received_;  // of each rank, those under way included
  std::optional<Group> group_;               // between begin_group and end_group
};

/// The communicator of all ranks of this job.
std::unique_ptr<Communicator> mpi_world() {
  start_mpi();
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &own), "MPI_Comm_dup");
  is_crowded = ranks_outnumber_cores(own);
  return std::make_unique<MpiCommunicator>(own);
}

class MpiBackend final : public CollectiveBackend {
 public:
  std::string make_id() override { return {}; }
  std::unique_ptr<Communicator> join(Device&, const Rendezvous& rendezvous) override {
    auto world = mpi_world();
    if (rendezvous.size > 1 && rendezvous.size != world->size())
      throw EnvError(fmt::format("{} ranks were asked for, and MPI knows {}: start them with mpirun -n {}",
                                 rendezvous.size, world->size(), rendezvous.size));
    return world;
  }
};

}  // namespace
}  // namespace gpuplan

extern "C" __attribute__((visibility("default"))) gpuplan::CollectiveBackend* gpuplan_collective_backend(int abi) {
  static gpuplan::MpiBackend backend;
  return abi == gpuplan::kDeviceAbi ? &backend : nullptr;
}
