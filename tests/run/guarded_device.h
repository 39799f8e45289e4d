// A device whose memory the host cannot touch, made of the CPU device: its memory has no access rights but while a call
// of the device is at work, and every call ends before it returns. Whoever reads or writes it otherwise ends by
// SIGSEGV, as with a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <sys/mman.h>

#include "base/error.h"
#include "device/communicator.h"
#include "device/device.h"

namespace gpuplan::test {

/// What all buffers of a device are cut from; nothing is used twice.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t size = std::size_t(256) << 20)
      : size_(size),
        begin_(static_cast<std::byte*>(
            mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~GuardedMemory() { munmap(begin_, size_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  void* cut(Bytes size) {
    std::byte* const at = begin_ + used_;
    used_ += std::size_t(ceil_div(size.count, kAlignment) * kAlignment);
    GPUPLAN_CHECK(used_ <= size_, "the guarded memory of the tests is used up");
    return at;
  }
  bool holds(const void* at) const { return at >= begin_ && at < begin_ + size_; }

  template <class Work>
  void opened(Work work) {
    const Access access(*this);
    work();
  }

 private:
  struct Access {
    explicit Access(GuardedMemory& m) : memory(m) { mprotect(memory.begin_, memory.used_, PROT_READ | PROT_WRITE); }
    ~Access() { mprotect(memory.begin_, memory.used_, PROT_NONE); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    GuardedMemory& memory;
  };
  std::size_t size_, used_ = 0;
  std::byte* begin_;
};

class GuardedStream final : public Stream {
 public:
  GuardedStream(std::unique_ptr<Stream> inner, GuardedMemory& memory) : inner_(std::move(inner)), memory_(memory) {}
  void synchronise() override { inner_->synchronise(); }
  void run_on_host(std::function<void()> task) override {  // collectives of the tests
    at_once([&](Stream& s) { s.run_on_host(std::move(task)); });
  }
  template <class Call>
  void at_once(Call call) {
    memory_.opened([&] { call(*inner_), inner_->synchronise(); });
  }
  Stream& inner() { return *inner_; }

 private:
  std::unique_ptr<Stream> inner_;
  GuardedMemory& memory_;
};

template <class Call>
void at_once(Stream& stream, Call call) {
  static_cast<GuardedStream&>(stream).at_once(call);
}

class GuardedDevice : public Device {
 public:
  explicit GuardedDevice(std::unique_ptr<Device> inner, std::string name = "guarded")
      : name_(std::move(name)),
        inner_(std::move(inner)) {}
  const GuardedMemory& memory() const { return memory_; }

  DeviceFacts facts() const override {
    DeviceFacts facts = inner_->facts();
    facts.kind = DeviceKind::Cuda;
    facts.name = name_, facts.architecture = "sm_86";
    return facts;
  }
  Bytes overhead() const override { return inner_->overhead(); }
  Buffer allocate(Bytes size) override { return {memory_.cut(size), size, nullptr}; }
  Buffer allocate_host(Bytes size, HostMemory kind) override { return inner_->allocate_host(size, kind); }
  std::unique_ptr<Stream> create_stream() override {
    return std::make_unique<GuardedStream>(inner_->create_stream(), memory_);
  }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  void record(Event& event, Stream& s) override { inner_->record(event, inner(s)); }
  void wait(Stream& s, Event& event) override { inner_->wait(inner(s), event); }
  Seconds elapsed(Event& begin, Event& end) override { return inner_->elapsed(begin, end); }
  void copy(void* to, const void* from, Bytes size, CopyKind kind, Stream& s) override {
    GPUPLAN_CHECK(memory_.holds(to) == (kind != CopyKind::DeviceToHost), "a copy goes where its kind says");
    GPUPLAN_CHECK(memory_.holds(from) == (kind != CopyKind::HostToDevice), "a copy comes from where its kind says");
    at_once(s, [&](Stream& t) { inner_->copy(to, from, size, kind, t); });
  }
  void gemm(const GemmProblem& p, const void* a, const void* b, void* c, Stream& s) override {
    at_once(s, [&](Stream& t) { inner_->gemm(p, a, b, c, t); });
  }
  void run(const KernelCall& kernel, Stream& s) override {
    at_once(s, [&](Stream& t) { inner_->run(kernel, t); });
  }

 private:
  static Stream& inner(Stream& s) { return static_cast<GuardedStream&>(s).inner(); }
  std::string name_;
  GuardedMemory memory_;
  std::unique_ptr<Device> inner_;
};

/// Refuses memory that is not the device's, as NCCL would.
class GuardedCommunicator final : public Communicator {
 public:
  GuardedCommunicator(std::unique_ptr<Communicator> inner, const GuardedMemory& memory)
      : inner_(std::move(inner)),
        memory_(memory) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string library() const override { return inner_->library(); }
  void all_reduce_max(float* data, std::int64_t n, Stream& s) override { inner_->all_reduce_max(own(data), n, s); }
  void all_reduce(const void* from, void* to, std::int64_t n, Dtype dtype, Stream& s) override {
    inner_->all_reduce(own(from), own(to), n, dtype, s);
  }
  void all_gather(const void* from, void* to, std::int64_t n, Dtype dtype, Stream& s) override {
    inner_->all_gather(own(from), own(to), n, dtype, s);
  }
  void reduce_scatter(const void* from, void* to, std::int64_t n, Dtype dtype, Stream& s) override {
    inner_->reduce_scatter(own(from), own(to), n, dtype, s);
  }
  void broadcast(void* data, std::int64_t n, Dtype dtype, int root, Stream& s) override {
    inner_->broadcast(own(data), n, dtype, root, s);
  }
  void send(const void* data, std::int64_t n, Dtype dtype, int to, Stream& s) override {
    inner_->send(own(data), n, dtype, to, s);
  }
  void receive(void* data, std::int64_t n, Dtype dtype, int from, Stream& s) override {
    inner_->receive(own(data), n, dtype, from, s);
  }
  void begin_group() override { inner_->begin_group(); }
  void end_group() override { inner_->end_group(); }
  void barrier() override { inner_->barrier(); }
  void broadcast_host(std::span<std::byte> data, int root) override { inner_->broadcast_host(data, root); }
  double max_host(double value) override { return inner_->max_host(value); }
  void all_gather_host(std::span<const std::byte> from, std::span<std::byte> to) override {
    inner_->all_gather_host(from, to);
  }
  std::unique_ptr<Communicator> split(int colour) override {
    auto part = inner_->split(colour);
    return part ? std::make_unique<GuardedCommunicator>(std::move(part), memory_) : nullptr;
  }

 private:
  template <class Pointer>
  Pointer own(Pointer at) const {
    GPUPLAN_CHECK(memory_.holds(at), "collectives are of device memory");
    return at;
  }
  std::unique_ptr<Communicator> inner_;
  const GuardedMemory& memory_;
};

}  // namespace gpuplan::test
