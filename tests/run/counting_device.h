// A device that counts what is allocated and freed through it, and passes every call on: memory measured by nobody who
// planned it.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "device/device.h"

namespace gpuplan::test {

/// Of one rank, whose streams may allocate and free from other threads.
class MemoryCount {
 public:
  void add(std::int64_t bytes) {
    const std::int64_t now = live_ += bytes;
    for (std::int64_t seen = peak_; seen < now && !peak_.compare_exchange_weak(seen, now);) {}
    ++num_allocations_;
  }
  void remove(std::int64_t bytes) { live_ -= bytes; }
  Bytes live() const { return {live_}; }
  Bytes peak() const { return {peak_}; }
  std::int64_t num_allocations() const { return num_allocations_; }

 private:
  std::atomic<std::int64_t> live_{0}, peak_{0}, num_allocations_{0};
};

/// Passes every call on.
class DeviceWrapper : public Device {
 public:
  explicit DeviceWrapper(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}
  Buffer allocate(Bytes size) override { return inner_->allocate(size); }
  DeviceFacts facts() const override { return inner_->facts(); }
  Bytes overhead() const override { return inner_->overhead(); }
  Buffer allocate_host(Bytes size, HostMemory kind) override { return inner_->allocate_host(size, kind); }
  std::unique_ptr<Stream> create_stream() override { return inner_->create_stream(); }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  void record(Event& event, Stream& stream) override { inner_->record(event, stream); }
  void wait(Stream& stream, Event& event) override { inner_->wait(stream, event); }
  Seconds elapsed(Event& begin, Event& end) override { return inner_->elapsed(begin, end); }
  void copy(void* to, const void* from, Bytes size, CopyKind kind, Stream& s) override {
    inner_->copy(to, from, size, kind, s);
  }
  void gemm(const GemmProblem& p, const void* a, const void* b, void* c, Stream& s) override {
    inner_->gemm(p, a, b, c, s);
  }
  void run(const KernelCall& kernel, Stream& s) override { inner_->run(kernel, s); }

 private:
  std::unique_ptr<Device> inner_;
};

class CountingDevice final : public DeviceWrapper {
 public:
  using DeviceWrapper::DeviceWrapper;
  const std::shared_ptr<MemoryCount>& count() const { return count_; }
  Buffer allocate(Bytes size) override {
    Buffer own = DeviceWrapper::allocate(size);
    count_->add(size.count);
    void* const data = own.data();
    return {data, size, std::shared_ptr<void>(data, [own, size, count = count_](void*) { count->remove(size.count); })};
  }

 private:
  std::shared_ptr<MemoryCount> count_ = std::make_shared<MemoryCount>();
};

}  // namespace gpuplan::test
