// What CUDA allows of streams that are captured, and what becomes of a graph: the fake's own rules, by the calls of
// CUDA.
#include <doctest/doctest.h>

#include <functional>
#include <future>
#include <thread>

#include <cuda_runtime_api.h>

#include "cuda_device/fake/tests/ranks.h"

using namespace gpuplan::test;

namespace {

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}

/// Two streams and two events of a machine of its own.
struct Streams {
  Played machine{1};
  cudaStream_t first = new_stream(), second = new_stream();
  cudaEvent_t fork{}, join{};
  Streams() {
    cudaEventCreate(&fork);
    cudaEventCreate(&join);
  }
  ~Streams() {
    for (const cudaStream_t stream : {first, second}) cudaStreamDestroy(stream);
    for (const cudaEvent_t event : {fork, join}) cudaEventDestroy(event);
    cudaGetLastError();  // what was refused is not the next test's error
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  void begin() const { REQUIRE(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal) == cudaSuccess); }
  cudaError_t order(cudaStream_t before, cudaStream_t after, cudaEvent_t event) const {
    const cudaError_t status = cudaEventRecord(event, before);
    return status ? status : cudaStreamWaitEvent(after, event, 0);
  }
  /// Null when it was refused with `expected`.
  cudaGraph_t end(cudaError_t expected = cudaSuccess) const {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(first, &graph) == expected);
    CHECK((graph != nullptr) == (expected == cudaSuccess));
    return graph;
  }
  /// Both streams work as if nothing had been.
  void check_usable() const {
    for (const cudaStream_t stream : {first, second}) {
      CHECK(cudaEventRecord(fork, stream) == cudaSuccess);
      CHECK(cudaEventSynchronize(fork) == cudaSuccess);
      CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    }
  }
};

/// A function of a graph: called at each launch.
void call(void* function) { (*static_cast<std::function<void()>*>(function))(); }
cudaError_t enqueue(cudaStream_t stream, std::function<void()>& function) {
  return cudaLaunchHostFunc(stream, &call, &function);
}

cudaGraphExec_t instance_of(cudaGraph_t graph) {
  cudaGraphExec_t instance = nullptr;
  REQUIRE(cudaGraphInstantiateWithFlags(&instance, graph, 0) == cudaSuccess);
  cudaGraphDestroy(graph);
  return instance;
}

}  // namespace

TEST_CASE("branches of a graph run beside each other, and what goes after both waits for both") {
  const Streams s;
  std::promise<void> of_second, of_first;
  int num_done = 0, seen = -1;
  std::function<void()> waits = [&] { of_second.get_future().wait(), of_first.set_value(), ++num_done; };
  std::function<void()> sets = [&] { of_second.set_value(), of_first.get_future().wait(), ++num_done; };
  std::function<void()> looks = [&] { seen = num_done; };
  s.begin();
  CHECK(s.order(s.first, s.second, s.fork) == cudaSuccess);
  CHECK(enqueue(s.first, waits) == cudaSuccess);
  CHECK(enqueue(s.second, sets) == cudaSuccess);
  CHECK(s.order(s.second, s.first, s.join) == cudaSuccess);
  CHECK(enqueue(s.first, looks) == cudaSuccess);
  const cudaGraphExec_t graph = instance_of(s.end());
  CHECK(seen == -1);
  for (int launch = 0; launch < 3; ++launch) {
    num_done = 0, of_second = {}, of_first = {};
    CHECK(cudaGraphLaunch(graph, s.second) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s.second) == cudaSuccess);
    CHECK(seen == 2);
  }
  cudaGraphExecDestroy(graph);
}

TEST_CASE("a graph that is destroyed while it runs comes to its end, and two launches of one follow each other") {
  const Streams s;
  std::promise<void> gate;
  int num_calls = 0;
  std::function<void()> waits = [&, opened = gate.get_future().share()] { opened.wait(), ++num_calls; };
  s.begin();
  CHECK(enqueue(s.first, waits) == cudaSuccess);
  const cudaGraphExec_t graph = instance_of(s.end());
  CHECK(cudaGraphLaunch(graph, s.first) == cudaSuccess);
  CHECK(cudaGraphLaunch(graph, s.second) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamQuery(s.second) == cudaErrorNotReady);
  gate.set_value();
  for (const cudaStream_t stream : {s.first, s.second}) CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(num_calls == 2);
}

TEST_CASE("a stream that has work and does not join is an error of the end; one that joined, or has none, is not") {
  const Streams s;
  std::function<void()> nothing = [] {};
  s.begin();
  CHECK(s.order(s.first, s.second, s.fork) == cudaSuccess);
  CHECK(enqueue(s.second, nothing) == cudaSuccess);
  s.end(cudaErrorStreamCaptureUnjoined);
  s.check_usable();
  s.begin();
  CHECK(s.order(s.first, s.second, s.fork) == cudaSuccess);
  cudaGraphDestroy(s.end());
  s.check_usable();
}

TEST_CASE("an event of a capture means nothing outside, until it is recorded anew") {
  const Streams s;
  s.begin();
  CHECK(cudaEventRecord(s.join, s.first) == cudaSuccess);
  CHECK(cudaEventQuery(s.join) == cudaErrorCapturedEvent);
  cudaGraphDestroy(s.end());
  CHECK(cudaStreamWaitEvent(s.second, s.join, 0) == cudaErrorCapturedEvent);
  CHECK(cudaEventSynchronize(s.join) == cudaErrorCapturedEvent);
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, s.join, s.join) == cudaErrorCapturedEvent);
  CHECK(s.order(s.first, s.second, s.join) == cudaSuccess);
  CHECK(cudaEventSynchronize(s.join) == cudaSuccess);
  s.check_usable();
}

TEST_CASE("what a captured stream may not do invalidates the capture, which ends without a graph") {
  const Streams s;
  const cudaStream_t third = new_stream();
  void* memory = nullptr;
  char pageable[16] = {};
  REQUIRE(cudaMalloc(&memory, 16) == cudaSuccess);
  CHECK(cudaEventRecord(s.join, s.second) == cudaSuccess);
  std::function<void()> nothing = [] {};
  struct Refusal {
    const char* what;
    std::function<cudaError_t()> call;
    cudaError_t expected;
  };
  void* more = nullptr;
  for (const Refusal& refusal :
       {Refusal{"wait for uncaptured work", [&] { return cudaStreamWaitEvent(s.first, s.join, 0); },
                cudaErrorStreamCaptureIsolation},
        Refusal{"synchronise", [&] { return cudaStreamSynchronize(s.first); }, cudaErrorStreamCaptureUnsupported},
        Refusal{"query", [&] { return cudaStreamQuery(s.first); }, cudaErrorStreamCaptureUnsupported},
        Refusal{"wait for another stream", [&] { return cudaStreamSynchronize(third); },
                cudaErrorStreamCaptureUnsupported},
        Refusal{"query an event", [&] { return cudaEventQuery(s.join); }, cudaErrorStreamCaptureUnsupported},
        Refusal{"allocate", [&] { return cudaMalloc(&more, 16); }, cudaErrorStreamCaptureUnsupported},
        Refusal{"free", [&] { return cudaFree(memory); }, cudaErrorStreamCaptureUnsupported},
        Refusal{"copy pageable memory",
                [&] { return cudaMemcpyAsync(memory, pageable, 16, cudaMemcpyHostToDevice, s.first); },
                cudaErrorStreamCaptureUnsupported}}) {
    CAPTURE(refusal.what);
    s.begin();
    CHECK(refusal.call() == refusal.expected);
    CHECK(enqueue(s.first, nothing) == cudaErrorStreamCaptureInvalidated);
    s.end(cudaErrorStreamCaptureInvalidated);
    s.check_usable();
  }
  CHECK(cudaFree(memory) == cudaSuccess);
  cudaStreamDestroy(third);
}

TEST_CASE("two captures do not meet, and a capture ends where and in whose thread it began") {
  const Streams s;
  const cudaStream_t third = new_stream();
  s.begin();
  CHECK(cudaStreamBeginCapture(s.first, cudaStreamCaptureModeThreadLocal) == cudaErrorIllegalState);
  CHECK(cudaStreamBeginCapture(third, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(s.order(s.first, third, s.fork) == cudaErrorStreamCaptureMerge);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(third, &graph) == cudaErrorStreamCaptureInvalidated);
  s.end(cudaErrorStreamCaptureInvalidated);

  s.begin();
  CHECK(s.order(s.first, s.second, s.fork) == cudaSuccess);
  CHECK(cudaStreamEndCapture(s.second, &graph) == cudaErrorStreamCaptureUnmatched);
  s.end(cudaErrorStreamCaptureInvalidated);

  s.begin();
  std::thread([&] {
    CHECK(cudaStreamEndCapture(s.first, &graph) == cudaErrorStreamCaptureWrongThread);
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, 16) == cudaSuccess);  // only the capturing thread may not
    CHECK(cudaFree(memory) == cudaSuccess);
  }).join();
  cudaGraphDestroy(s.end());
  CHECK(cudaStreamEndCapture(s.first, &graph) == cudaErrorIllegalState);
  cudaStreamDestroy(third);
}
