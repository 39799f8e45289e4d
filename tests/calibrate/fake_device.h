// A device and a group of ranks whose truth is known: real results (small sizes only), times of a virtual clock with
// noise and outliers, and wrong results, failures and a lost device on demand.
#pragma once

#include <algorithm>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "calibrate/probes/values.h"
#include "device/communicator.h"
#include "device/device.h"
#include "device/products.h"
#include "device/quantisation.h"

namespace gpuplan::test {

/// Times as they are before noise, and what goes wrong.
struct FakeTruth {
  double launch = 2e-6, flops = 1e11, attention_flops = 3e10, bandwidth = 1e10, copy_bandwidth = 5e9;
  double alpha = 1e-5, link_bandwidth = 2e9;  // of collectives
  double under_collective = 1.5;              // products take so much longer beside one
  double noise = 0, outliers = 0;             // share of the time; share of calls that take 1.5 to 5 times as long
  bool is_wrong = false;                      // every result
  bool is_lost = false;                       // every call fails from the first product on
  bool has_results = true;                    // of products; false for sizes that would take the tests' time
  Bytes blas_workspace, communicator;         // that a stream holds from its first product on, and a communicator
  Bytes memory{std::int64_t(1) << 40};        // allocations beyond it fail
};

inline void put_number(std::byte* to, Dtype dtype, double value) {
  const auto bits = std::bit_cast<std::uint32_t>(float(value));
  const std::uint32_t stored = dtype == Dtype::BF16 ? (bits + 0x7fff + ((bits >> 16) & 1)) >> 16 : bits;
  std::memcpy(to, &stored, std::size_t(size_of(dtype)));
}

class FakeDevice;

/// Work waits until the stream is synchronised; then the clock moves.
class FakeStream : public Stream {
 public:
  explicit FakeStream(FakeDevice& device) : device_(device) {}
  ~FakeStream() override;
  void synchronise() override;
  void run_on_host(std::function<void()> task) override { push(0, false, std::move(task)); }
  void push(double seconds, bool is_collective, std::function<void()> work) {
    tasks_.push_back({seconds, is_collective, std::move(work)});
  }
  bool has_collective() const {
    return std::any_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return task.is_collective; });
  }
  double now = 0;
  Bytes workspace;

 private:
  struct Task {
    double seconds;
    bool is_collective;
    std::function<void()> work;
  };
  FakeDevice& device_;
  std::deque<Task> tasks_;
};

/// What one record marks: an event may be recorded again before the stream has come there.
struct FakeMark {
  FakeStream* stream = nullptr;
  bool is_reached = false;
  double time = 0;
};

struct FakeEvent : Event {
  void synchronise() override {}
  std::shared_ptr<FakeMark> mark = std::make_shared<FakeMark>();  // of the latest record
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(FakeTruth with = {}, std::uint64_t seed = 1) : truth(with), random_(seed) {}
  FakeTruth truth;
  Bytes allocated, of_communicators;
  std::vector<FakeStream*> streams;
  const void *last_a = nullptr, *last_b = nullptr;  // operands of the latest product

  DeviceFacts facts() const override {
    return {.kind = DeviceKind::Cpu,
            .name = "fake",
            .architecture = "avx512",
            .memory = truth.memory,
            .memory_free = truth.memory - allocated - of_communicators - overhead(),
            .num_cores = 2,
            .gemm_types = {GemmType::F32, GemmType::BF16}};
  }
  /// Workspaces go with their stream; what a communicator takes only free memory tells. As on a GPU.
  Bytes overhead() const override {
    Bytes sum{1000};
    for (const FakeStream* stream : streams) sum += stream->workspace;
    return sum;
  }
  Buffer allocate(Bytes size) override {
    if (allocated + size > truth.memory) throw EnvError("out of memory: " + std::to_string(size.count) + " bytes");
    auto* const data = new std::byte[std::size_t(size.count)];
    allocated += size;
    return Buffer(data, size, std::shared_ptr<void>(data, [this, size](void* p) {
                    delete[] static_cast<std::byte*>(p);
                    allocated -= size;
                  }));
  }
  Buffer allocate_host(Bytes size, HostMemory kind) override {
    Buffer buffer = allocate(size);
    if (kind == HostMemory::Pageable) pageable_.push_back(buffer.data());
    return buffer;
  }
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<FakeStream>(*this); }
  std::unique_ptr<Event> create_event() override { return std::make_unique<FakeEvent>(); }
  void record(Event& event, Stream& stream) override {
    auto& on = static_cast<FakeStream&>(stream);
    const auto mark = static_cast<FakeEvent&>(event).mark = std::make_shared<FakeMark>(FakeMark{.stream = &on});
    on.push(0, false, [mark, &on] { mark->time = on.now, mark->is_reached = true; });
  }
  void wait(Stream& stream, Event& event) override {
    auto& on = static_cast<FakeStream&>(stream);
    on.push(0, false, [mark = static_cast<FakeEvent&>(event).mark, &on] {
      if (!mark->is_reached) mark->stream->synchronise();
      on.now = std::max(on.now, mark->time);
    });
  }
  Seconds elapsed(Event& begin, Event& end) override {
    return {static_cast<FakeEvent&>(end).mark->time - static_cast<FakeEvent&>(begin).mark->time};
  }
  void copy(void* to, const void* from, Bytes size, CopyKind kind, Stream& stream) override {
    const double rate = kind == CopyKind::DeviceToDevice ? truth.bandwidth / 2 : truth.copy_bandwidth;
    enqueue(stream, truth.launch + double(size.count) / rate, [=, this] {
      std::memcpy(to, from, std::size_t(size.count));
      if (truth.is_wrong && kind == CopyKind::DeviceToDevice) spoil(to);
    });
    // A GPU may let the host wait for such a copy, and with it for all that comes before in the stream.
    for (const void* data : {static_cast<const void*>(to), from})
      if (std::find(pageable_.begin(), pageable_.end(), data) != pageable_.end()) return stream.synchronise();
  }
  void gemm(const GemmProblem& problem, const void* a, const void* b, void* c, Stream& stream) override {
    auto& on = static_cast<FakeStream&>(stream);
    on.workspace = truth.blas_workspace;
    last_a = a, last_b = b;
    enqueue(stream, truth.launch + problem.flops() / truth.flops, [=, this, &on] {
      const bool is_beside =
          std::any_of(streams.begin(), streams.end(), [&](FakeStream* s) { return s != &on && s->has_collective(); });
      if (is_beside) on.now += (truth.under_collective - 1) * (truth.launch + problem.flops() / truth.flops);
      if (truth.has_results)
        multiply(problem, static_cast<const std::byte*>(a), static_cast<const std::byte*>(b),
                 static_cast<std::byte*>(c));
      if (truth.is_wrong) spoil(c);
    });
  }
  void run(const KernelCall& kernel, Stream& stream) override {
    std::visit([&](const auto& k) { play(k, stream); }, kernel);
  }

  /// Work of so many seconds, before noise.
  void enqueue(Stream& stream, double seconds, std::function<void()> work, bool is_collective = false) {
    if (truth.is_lost) work = [] { throw EnvError("the device fell off the bus"); };
    static_cast<FakeStream&>(stream).push(seconds * noise(), is_collective, std::move(work));
  }

 private:
  /// What no probe runs.
  template <class Kernel>
  void play(const Kernel&, Stream&) {
    throw BugError("the fake device has no such kernel");
  }
  void play(const kernels::Attention& k, Stream& stream) {
    enqueue(stream, truth.launch + k.shape.flops() / truth.attention_flops, [=, this] {
      for (std::int64_t head = 0; head < k.shape.heads; ++head)
        for (std::int64_t i = 0; i < k.shape.seq; ++i) attend(k, head, i);
      if (truth.is_wrong) spoil(k.out);
    });
  }
  void play(const kernels::Softmax& k, Stream& stream) {
    const Dtype dtype = k.scores.dtype;
    kernel(stream, 2 * bytes_of(k.blocks * k.queries * k.keys, dtype), k.scores.data, [=] {
      for (std::int64_t row = 0; row < k.blocks * k.queries; ++row) {
        double sum = 0;
        for (std::int64_t j = 0; j < k.keys; ++j) {
          const double weight = j <= row % k.queries ? std::exp(get(k.scores.data, dtype, row * k.keys + j)) : 0;
          set(k.scores.data, dtype, row * k.keys + j, weight);
          sum += weight;
        }
        for (std::int64_t j = 0; j < k.keys; ++j)
          set(k.scores.data, dtype, row * k.keys + j, get(k.scores.data, dtype, row * k.keys + j) / sum);
      }
    });
  }
  void play(const kernels::Empty&, Stream& stream) {
    enqueue(stream, truth.launch, [] {});
  }
  void play(const kernels::FillUniform& k, Stream& stream) {
    // The numbers repeat, as filling 64 MiB one by one would take the tests' time.
    constexpr std::int64_t kPeriod = 65521;
    enqueue(stream, 0, [=] {
      auto* const data = static_cast<std::byte*>(k.to.data);
      const std::int64_t size = size_of(k.to.dtype), piece = std::min(k.count, kPeriod);
      for (std::int64_t i = 0; i < piece; ++i)
        put_number(data + i * size, k.to.dtype, double(uniform(k.seed, std::uint64_t(i), k.low, k.high)));
      for (std::int64_t i = piece; i < k.count; i += piece)
        std::memcpy(data + i * size, data, std::size_t(std::min(piece, k.count - i) * size));
    });
  }
  /// With the factor 0 alone: what hands operands over to other cores.
  void play(const kernels::AddScaled& k, Stream& stream) {
    if (k.factor != 0) throw BugError("the fake device adds nothing");
    enqueue(stream, 0, [] {});
  }
  void play(const kernels::RmsNorm& k, Stream& stream) {
    const Dtype dtype = k.y.dtype;
    kernel(stream, 2 * bytes_of(k.rows * k.hidden, dtype), k.y.data, [=] {
      for (std::int64_t r = 0; r < k.rows; ++r) {
        double squares = 0;
        for (std::int64_t i = 0; i < k.hidden; ++i) squares += std::pow(get(k.x.data, dtype, r * k.hidden + i), 2);
        const double scale = 1 / std::sqrt(squares / double(k.hidden) + double(k.epsilon));
        for (std::int64_t i = 0; i < k.hidden; ++i)
          set(k.y.data, dtype, r * k.hidden + i,
              get(k.x.data, dtype, r * k.hidden + i) * scale * get(k.weight.data, dtype, i));
      }
    });
  }
  void play(const kernels::SwiGlu& k, Stream& stream) {
    const Dtype dtype = k.out.dtype;
    kernel(stream, 3 * bytes_of(k.count, dtype), k.out.data, [=] {
      for (std::int64_t i = 0; i < k.count; ++i) {
        const double g = get(k.gate.data, dtype, i);
        set(k.out.data, dtype, i, g / (1 + std::exp(-g)) * get(k.up.data, dtype, i));
      }
    });
  }
  void play(const kernels::CrossEntropy& k, Stream& stream) {
    const auto [logits, dtype] = k.logits;
    kernel(stream, 2 * bytes_of(k.rows * k.vocab, dtype), logits, [k] {
      const auto [values, type] = k.logits;
      for (std::int64_t r = 0; r < k.rows; ++r) {
        double sum = 0;
        for (std::int64_t i = 0; i < k.vocab; ++i) sum += std::exp(get(values, type, r * k.vocab + i));
        k.losses[r] = float(std::log(sum) - get(values, type, r * k.vocab + k.labels[r]));
        for (std::int64_t i = 0; i < k.vocab; ++i)
          set(values, type, r * k.vocab + i,
              (std::exp(get(values, type, r * k.vocab + i)) / sum - (i == k.labels[r] ? 1 : 0)) * double(*k.scale));
      }
    });
  }
  void play(const kernels::AdamWUpdate& k, Stream& stream) {
    kernel(stream, 6 * bytes_of(k.count, Dtype::F32) + bytes_of(k.count, k.gradient.dtype), k.weight.data, [k] {
      auto *const weight = static_cast<float*>(k.weight.data), *const m = static_cast<float*>(k.m.data),
                  *const v = static_cast<float*>(k.v.data);
      const double beta1 = double(k.step.beta1), beta2 = double(k.step.beta2);
      for (std::int64_t i = 0; i < k.count; ++i) {
        const double g = get(k.gradient.data, k.gradient.dtype, i);
        m[i] = float(beta1 * double(m[i]) + (1 - beta1) * g);
        v[i] = float(beta2 * double(v[i]) + (1 - beta2) * g * g);
        const double spread = std::sqrt(double(v[i])) * double(k.step.root) + double(k.step.epsilon);
        weight[i] = float(double(weight[i]) * double(k.step.decay) - double(k.step.rate) * double(m[i]) / spread);
      }
    });
  }
  void play(const kernels::Nf4Dequantise& k, Stream& stream) {
    const Dtype dtype = k.out.dtype;
    const Bytes traffic = bytes_of(k.count, dtype) + Bytes{k.count / 2} + bytes_of(k.count / kNf4Block, Dtype::F32);
    kernel(stream, traffic, k.out.data, [=] {
      for (std::int64_t i = 0; i < k.count; ++i) {
        const int code = i % 2 == 0 ? k.codes[i / 2] >> 4 : k.codes[i / 2] & 15;
        set(k.out.data, dtype, i, double(kNf4Levels[code]) * double(k.absmax_scales[i / kNf4Block]));
      }
    });
  }

  static double get(const void* data, Dtype dtype, std::int64_t i) {
    return number_at(static_cast<const std::byte*>(data) + i * size_of(dtype), dtype);
  }
  static void set(void* data, Dtype dtype, std::int64_t i, double value) {
    put_number(static_cast<std::byte*>(data) + i * size_of(dtype), dtype, value);
  }
  static void spoil(void* data) { std::memset(data, 0x41, 4); }  // 12.08 in fp32: plausible, and wrong
  void kernel(Stream& stream, Bytes traffic, void* result, std::function<void()> work) {
    enqueue(stream, truth.launch + double(traffic.count) / truth.bandwidth, [this, result, work = std::move(work)] {
      work();
      if (truth.is_wrong) spoil(result);
    });
  }
  double noise() {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> unit;
    const double factor = truth.noise > 0 ? std::exp(truth.noise * normal(random_)) : 1;
    return truth.outliers > 0 && unit(random_) < truth.outliers ? factor * (1.5 + 3.5 * unit(random_)) : factor;
  }
  static void multiply(const GemmProblem& p, const std::byte* a, const std::byte* b, std::byte* c) {
    const Dtype dtype = operand_dtype(p.type);
    for (std::int64_t batch = 0; batch < p.batch; ++batch)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < p.n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < p.k; ++l) {
            const std::int64_t at_a = p.layout == GemmLayout::WeightGradient ? l * p.m + i : i * p.k + l;
            const std::int64_t at_b = p.layout == GemmLayout::Forward ? j * p.k + l : l * p.n + j;
            sum += get(a, dtype, batch * p.m * p.k + at_a) * get(b, dtype, batch * p.n * p.k + at_b);
          }
          set(c, p.output, (batch * p.m + i) * p.n + j, double(p.alpha) * sum);
        }
  }
  static void attend(const kernels::Attention& k, std::int64_t head, std::int64_t i) {
    const AttentionShape& s = k.shape;
    const auto at = [&](std::int64_t row) { return (row * s.heads + head) * s.head_size; };
    std::vector<double> result(std::size_t(s.head_size), 0.0);
    double sum = 0;
    for (std::int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (std::int64_t l = 0; l < s.head_size; ++l)
        score += get(k.q, s.dtype, at(i) + l) * get(k.k, s.dtype, at(j) + l);
      const double weight = std::exp(score / std::sqrt(double(s.head_size)));
      sum += weight;
      for (std::int64_t l = 0; l < s.head_size; ++l) result[std::size_t(l)] += weight * get(k.v, s.dtype, at(j) + l);
    }
    for (std::int64_t l = 0; l < s.head_size; ++l) set(k.out, s.dtype, at(i) + l, result[std::size_t(l)] / sum);
  }

  std::mt19937_64 random_;
  std::vector<const void*> pageable_;
};

inline FakeStream::~FakeStream() {
  try {
    synchronise();
  } catch (const std::exception&) {  // told where it was waited for
  }
  std::erase(device_.streams, this);
}

inline void FakeStream::synchronise() {
  if (std::find(device_.streams.begin(), device_.streams.end(), this) == device_.streams.end())
    device_.streams.push_back(this);
  while (!tasks_.empty()) {
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    now += task.seconds;
    task.work();
  }
}

/// Ranks that are threads of this process.
struct FakeGroup {
  explicit FakeGroup(int num_ranks)
      : size(num_ranks),
        meeting(num_ranks),
        data(std::size_t(num_ranks)),
        values(std::size_t(num_ranks)) {}
  int size;
  std::barrier<> meeting;
  std::vector<const void*> data;
  std::vector<double> values;
  std::map<int, std::shared_ptr<FakeGroup>> parts;  // by colour
  std::mutex parts_mutex;
};

class FakeCommunicator : public Communicator {
 public:
  FakeCommunicator(std::shared_ptr<FakeGroup> group, int rank, FakeDevice& device)
      : group_(std::move(group)),
        rank_(rank),
        device_(device) {
    device_.of_communicators += device_.truth.communicator;
  }
  ~FakeCommunicator() override { device_.of_communicators -= device_.truth.communicator; }
  FakeCommunicator(const FakeCommunicator&) = delete;
  FakeCommunicator& operator=(const FakeCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }
  std::string library() const override { return "fake"; }

  void all_reduce(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& stream) override {
    run(stream, bytes_of(count, dtype), send, receive, [=, this] { sum(receive, 0, count, dtype); });
  }
  void all_reduce_max(float* data, std::int64_t count, Stream& stream) override {
    run(stream, bytes_of(count, Dtype::F32), data, data, [] { throw BugError("maxima are not measured"); });
  }
  void all_gather(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& stream) override {
    run(stream, bytes_of(count * size(), dtype), send, receive, [=, this] {
      const std::size_t part = std::size_t(bytes_of(count, dtype).count);
      for (int r = 0; r < size(); ++r)
        std::memcpy(static_cast<std::byte*>(receive) + std::size_t(r) * part, group_->data[std::size_t(r)], part);
    });
  }
  void reduce_scatter(const void* send, void* receive, std::int64_t count, Dtype dtype, Stream& stream) override {
    run(stream, bytes_of(count * size(), dtype), send, receive,
        [=, this] { sum(receive, rank_ * count, count, dtype); });
  }
  void broadcast(void* data, std::int64_t count, Dtype dtype, int root, Stream& stream) override {
    run(stream, bytes_of(count, dtype), data, data, [=, this] {
      if (rank_ != root) std::memcpy(data, group_->data[std::size_t(root)], std::size_t(bytes_of(count, dtype).count));
    });
  }
  void send(const void* data, std::int64_t count, Dtype dtype, int to, Stream& stream) override {
    if (messages_) return void(messages_->sent[to] = data);
    run(stream, bytes_of(count, dtype), data, nullptr, [] {});
  }
  void receive(void* data, std::int64_t count, Dtype dtype, int from, Stream& stream) override {
    if (messages_) {
      messages_->received.push_back({from, data, std::size_t(bytes_of(count, dtype).count)});
      messages_->stream = &stream;
      return;
    }
    run(stream, bytes_of(count, dtype), nullptr, data,
        [=, this] { std::memcpy(data, group_->data[std::size_t(from)], std::size_t(bytes_of(count, dtype).count)); });
  }
  void begin_group() override { messages_ = std::make_shared<Messages>(); }
  /// All ranks send each other what they have, at once.
  void end_group() override {
    const std::shared_ptr<Messages> own = std::exchange(messages_, nullptr);
    if (own->received.empty()) return;
    Bytes all;
    for (const Received& r : own->received) all += Bytes{std::int64_t(r.size)};
    run(*own->stream, all, own.get(), own->received.front().data, [own, this] {
      for (const Received& r : own->received)
        std::memcpy(r.data, static_cast<const Messages*>(group_->data[std::size_t(r.from)])->sent.at(rank_), r.size);
    });
  }
  void barrier() override { group_->meeting.arrive_and_wait(); }
  void broadcast_host(std::span<std::byte> data, int root) override {
    share(data.data());
    if (rank_ != root) std::memcpy(data.data(), group_->data[std::size_t(root)], data.size());
    barrier();
  }
  void all_gather_host(std::span<const std::byte> own, std::span<std::byte> all) override {
    group_->data[std::size_t(rank_)] = own.data();
    barrier();
    for (int r = 0; r < size(); ++r)
      std::memcpy(all.data() + std::size_t(r) * own.size(), group_->data[std::size_t(r)], own.size());
    barrier();
  }
  double max_host(double value) override {
    group_->values[std::size_t(rank_)] = value;
    barrier();
    const double most = *std::max_element(group_->values.begin(), group_->values.end());
    barrier();
    return most;
  }
  std::unique_ptr<Communicator> split(int colour) override {
    std::vector<int> members;
    for (int r = 0; r < size(); ++r) {
      int other = colour;
      broadcast_host(std::as_writable_bytes(std::span(&other, 1)), r);
      if (other == colour) members.push_back(r);
    }
    if (members.front() == rank_) {  // one rank of each colour, at once
      const std::lock_guard lock(group_->parts_mutex);
      group_->parts[colour] = std::make_shared<FakeGroup>(int(members.size()));
    }
    barrier();
    const auto self = std::find(members.begin(), members.end(), rank_) - members.begin();
    return std::make_unique<FakeCommunicator>(group_->parts.at(colour), int(self), device_);
  }

 private:
  struct Received {
    int from;
    void* data;
    std::size_t size;
  };
  /// Holds the messages of a group.
  struct Messages {
    std::map<int, const void*> sent;  // by receiver
    std::vector<Received> received;
    Stream* stream = nullptr;
  };
  void share(const void* data) {
    group_->data[std::size_t(rank_)] = data;
    barrier();
  }
  void run(Stream& stream, Bytes bytes, const void* send, void* result, std::function<void()> work) {
    const double seconds = device_.truth.alpha + double(bytes.count) / device_.truth.link_bandwidth;
    device_.enqueue(
        stream, seconds,
        [this, send, result, work = std::move(work)] {
          share(send);
          work();
          if (result && device_.truth.is_wrong) std::memset(result, 0x41, 4);
          barrier();
        },
        true);
  }
  void sum(void* receive, std::int64_t first, std::int64_t count, Dtype dtype) const {
    for (std::int64_t i = 0; i < count; ++i) {
      double total = 0;
      for (const void* data : group_->data)
        total += number_at(static_cast<const std::byte*>(data) + (first + i) * size_of(dtype), dtype);
      put_number(static_cast<std::byte*>(receive) + i * size_of(dtype), dtype, total);
    }
  }

  std::shared_ptr<Messages> messages_;  // of the group that has begun
  std::shared_ptr<FakeGroup> group_;
  int rank_;
  FakeDevice& device_;
};

}  // namespace gpuplan::test
