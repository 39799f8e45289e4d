// Our Device::gemm beside the libraries one would otherwise call, fp32, in one run: Eigen (compiled for this machine),
// OpenBLAS (opened at run time, its core type chosen by itself and set by hand) and oneDNN's sgemm. GFLOP/s of the best
// of several rounds, in which the libraries take turns; all work on the same matrices. A turn is a row of calls that
// are enqueued on one stream and waited for once, as ours are used (what a single call costs more is the dispatch
// latency, which calibration measures by itself); so all libraries compute on the same OpenMP team, and no second one
// spins beside it.
//   chrt -f 10 build/release/bench/bench_gemm_peers [threads]     default: 1, then 2
// Not beside another program of real-time priority: teams that wait by spinning then keep each other from running.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <oneapi/dnnl/dnnl.h>
#include <Eigen/Core>

#include "device/backend.h"

using namespace gpuplan;

namespace {

using Clock = std::chrono::steady_clock;
using Product = std::function<void(const GemmProblem&, const float* a, const float* b, float* c)>;

struct Peer {
  const char* name = "";
  Product multiply;
};

// Row-major operands as they lie in memory, and which of them the product takes transposed.
bool a_is_transposed(const GemmProblem& p) { return p.layout == GemmLayout::WeightGradient; }
bool b_is_transposed(const GemmProblem& p) { return p.layout == GemmLayout::Forward; }

void eigen(const GemmProblem& p, const float* a, const float* b, float* c) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix> out(c, p.m, p.n);
  if (p.layout == GemmLayout::Forward)
    out.noalias() = Eigen::Map<const Matrix>(a, p.m, p.k) * Eigen::Map<const Matrix>(b, p.n, p.k).transpose();
  else if (p.layout == GemmLayout::InputGradient)
    out.noalias() = Eigen::Map<const Matrix>(a, p.m, p.k) * Eigen::Map<const Matrix>(b, p.k, p.n);
  else
    out.noalias() = Eigen::Map<const Matrix>(a, p.k, p.m).transpose() * Eigen::Map<const Matrix>(b, p.k, p.n);
}

void onednn(const GemmProblem& p, const float* a, const float* b, float* c) {
  const bool ta = a_is_transposed(p), tb = b_is_transposed(p);
  dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', p.m, p.n, p.k, 1, a, ta ? p.m : p.k, b, tb ? p.k : p.n, 0, c, p.n);
}

/// What is called of OpenBLAS; null pointers when it is not installed.
struct OpenBlas {
  char* (*core_name)() = nullptr;
  void (*set_num_threads)(int) = nullptr;
  void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                int ldb, float beta, float* c, int ldc) = nullptr;
};

OpenBlas open_openblas() {
  OpenBlas blas;
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return blas;
  blas.core_name = reinterpret_cast<decltype(blas.core_name)>(dlsym(library, "openblas_get_corename"));
  blas.set_num_threads = reinterpret_cast<decltype(blas.set_num_threads)>(dlsym(library, "openblas_set_num_threads"));
  blas.sgemm = reinterpret_cast<decltype(blas.sgemm)>(dlsym(library, "cblas_sgemm"));
  return blas;
}

/// The core that OpenBLAS takes this processor for when it is opened with `core_type` set (null: unset), asked in a
/// process of its own, because it decides only once. Empty without OpenBLAS.
std::string openblas_core(const char* core_type) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    if (core_type)
      setenv("OPENBLAS_CORETYPE", core_type, 1);
    else
      unsetenv("OPENBLAS_CORETYPE");
    const OpenBlas blas = open_openblas();
    const char* const name = blas.core_name ? blas.core_name() : "";
    _exit(write(ends[1], name, std::strlen(name)) < 0);
  }
  close(ends[1]);
  char text[64] = {};
  const auto length = read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return length > 0 ? text : "";
}

/// The widest core type that this processor runs and this OpenBLAS knows.
std::string right_core() {
  const bool is_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  if (!is_avx512) return "Haswell";
  for (const char* core : {"SapphireRapids", "Cooperlake"})
    if (__builtin_cpu_supports("avx512bf16") && strcasecmp(openblas_core(core).c_str(), core) == 0) return core;
  return "SkylakeX";
}

/// OpenBLAS as a peer, or nothing.
std::vector<Peer> openblas_peers(int num_threads, const OpenBlas& blas) {
  if (!blas.sgemm) return {};
  if (blas.set_num_threads) blas.set_num_threads(num_threads);
  return {{"OpenBLAS", [sgemm = blas.sgemm](const GemmProblem& p, const float* a, const float* b, float* c) {
             const bool ta = a_is_transposed(p), tb = b_is_transposed(p);
             sgemm(101, ta ? 112 : 111, tb ? 112 : 111, int(p.m), int(p.n), int(p.k), 1, a, int(ta ? p.m : p.k), b,
                   int(tb ? p.k : p.n), 0, c, int(p.n));
           }}};
}

double seconds(const Peer& peer, const GemmProblem& p, const float* a, const float* b, float* c, int calls,
               Stream& stream) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) peer.multiply(p, a, b, c);
  stream.synchronise();
  return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
}

/// Best times, one per peer. Idle threads of libgomp spin for about 15 ms: a turn begins after they have stopped.
std::vector<double> measure(const std::vector<Peer>& peers, const GemmProblem& p, const float* a, const float* b,
                            float* c, Stream& stream) {
  constexpr double kTurn = 0.01;
  std::vector<double> best(peers.size(), 1e9);
  for (int round = 0; round < 5; ++round)
    for (std::size_t i = 0; i < peers.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(35));
      const double first = seconds(peers[i], p, a, b, c, 1, stream);  // warms up: packing buffers, threads
      const int calls = std::max(1, std::min(2000, int(kTurn / first)));
      best[i] = std::min(best[i], seconds(peers[i], p, a, b, c, calls, stream));
    }
  return best;
}

constexpr GemmProblem kProblems[] = {
    {.m = 1024, .n = 1024, .k = 1024, .layout = GemmLayout::Forward},
    {.m = 1024, .n = 1024, .k = 1024, .layout = GemmLayout::InputGradient},
    {.m = 1024, .n = 1024, .k = 1024, .layout = GemmLayout::WeightGradient},
    {.m = 2048, .n = 2048, .k = 2048, .layout = GemmLayout::Forward},
    {.m = 512, .n = 2048, .k = 576, .layout = GemmLayout::Forward},
    {.m = 256, .n = 32000, .k = 256, .layout = GemmLayout::Forward},
    {.m = 256, .n = 256, .k = 256, .layout = GemmLayout::Forward},
    {.m = 64, .n = 64, .k = 64, .layout = GemmLayout::Forward},
    {.m = 1000, .n = 777, .k = 333, .layout = GemmLayout::Forward},
    {.m = 1024, .n = 8, .k = 2048, .layout = GemmLayout::Forward},
    {.m = 1024, .n = 16, .k = 2048, .layout = GemmLayout::Forward},
    {.m = 1024, .n = 2048, .k = 16, .layout = GemmLayout::Forward},
    {.m = 1024, .n = 2048, .k = 16, .layout = GemmLayout::InputGradient},
    {.m = 16, .n = 2048, .k = 1024, .layout = GemmLayout::WeightGradient},
    {.m = 2048, .n = 16, .k = 1024, .layout = GemmLayout::WeightGradient},
    {.m = 16, .n = 2048, .k = 2048, .layout = GemmLayout::Forward},
    {.m = 4, .n = 2048, .k = 2048, .layout = GemmLayout::Forward},
    {.m = 1, .n = 4096, .k = 4096, .layout = GemmLayout::Forward},
    {.m = 1, .n = 4096, .k = 4096, .layout = GemmLayout::InputGradient},
};

void print_header(const std::vector<Peer>& peers, int num_threads) {
  std::printf("\n%d thread%s: GFLOP/s%*s", num_threads, num_threads == 1 ? "" : "s", 18, "");
  for (const Peer& peer : peers) std::printf("%10s", peer.name);
  std::printf("   ours / best\n");
}

/// Shapes where ours is more than a tenth below the best.
int compare(int num_threads, const OpenBlas& blas) {
  Eigen::setNbThreads(num_threads);
  const auto device = device_backend(DeviceKind::Cpu).open({.num_threads = num_threads});
  const auto stream = device->create_stream();
  std::vector<Peer> peers{{"Eigen", eigen}, {"sgemm", onednn}};
  for (Peer& peer : openblas_peers(num_threads, blas)) peers.push_back(std::move(peer));
  for (Peer& peer : peers)
    peer.multiply = [call = peer.multiply, &stream](const GemmProblem& p, const float* a, const float* b, float* c) {
      stream->run_on_host([=] { call(p, a, b, c); });
    };
  peers.insert(peers.begin(), {"ours", [&](const GemmProblem& p, const float* a, const float* b, float* c) {
                                 device->gemm(p, a, b, c, *stream);
                               }});
  print_header(peers, num_threads);
  int num_short = 0;
  for (const GemmProblem& p : kProblems) {
    const Buffer a = device->allocate(p.a_bytes()), b = device->allocate(p.b_bytes()),
                 c = device->allocate(p.c_bytes());
    device->run(kernels::FillUniform{{a.data(), Dtype::F32}, p.m * p.k, -1, 1, 1}, *stream);
    device->run(kernels::FillUniform{{b.data(), Dtype::F32}, p.n * p.k, -1, 1, 2}, *stream);
    stream->synchronise();
    const std::vector<double> times = measure(peers, p, a.as<float>(), b.as<float>(), c.as<float>(), *stream);
    std::printf("%-15s %5lld x %5lld x %5lld   ", std::string(to_string(p.layout)).c_str(), (long long)p.m,
                (long long)p.n, (long long)p.k);
    double best = times[0];
    for (const double time : times) {
      std::printf("%10.1f", p.flops() / time * 1e-9);
      best = std::min(best, time);
    }
    num_short += best / times[0] < 0.9;
    std::printf("   %.2f%s\n", best / times[0], best / times[0] < 0.9 ? "  <- short" : "");
    std::fflush(stdout);
  }
  return num_short;
}

OpenBlas prepare_openblas() {
  const std::string own = openblas_core(nullptr);
  if (own.empty()) {
    std::printf("OpenBLAS: skipped, libopenblas.so.0 was not found\n");
    return {};
  }
  const char* const set = std::getenv("OPENBLAS_CORETYPE");
  const std::string core = set ? set : right_core();
  setenv("OPENBLAS_CORETYPE", core.c_str(), 1);
  setenv("OPENBLAS_THREAD_TIMEOUT", "20",
         0);  // 2^20 cycles; its idle threads would spin for 100 ms, into the next turn
  std::printf("OpenBLAS takes this processor for %s; set to %s it answers %s\n", own.c_str(), core.c_str(),
              openblas_core(core.c_str()).c_str());
  return open_openblas();
}

}  // namespace

int main(int argc, char** argv) {
  const OpenBlas blas = prepare_openblas();
  const DeviceFacts facts = device_backend(DeviceKind::Cpu).open({})->facts();
  std::printf("%s, oneDNN %s (%s)\n", facts.name.c_str(), facts.versions.front().second.c_str(),
              facts.architecture.c_str());
  for (const std::string& warning : facts.warnings) std::printf("warning: %s\n", warning.c_str());
  int num_short = 0;
  for (const int num_threads : argc > 1 ? std::vector<int>{std::atoi(argv[1])} : std::vector<int>{1, 2})
    num_short += compare(num_threads, blas);
  std::printf("\n%d of the shapes above are more than 10 %% below the best library\n", num_short);
}
