#undef _FORTIFY_SOURCE  // its longjmp takes one from stack to stack for an attack
#include "cuda_device/emulated/emulator.h"

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include <ucontext.h>

gpuplan::emulation::Index threadIdx, blockIdx, blockDim;
gpuplan::emulation::Gpu gpuplan::emulation::g_gpu;

namespace gpuplan::emulation {
namespace {

enum class Waits { No, ForWarp, ForBlock, Done };
constexpr std::size_t kStack = 128 * 1024, kGuard = 4096;
constexpr unsigned char kNan = 0xFF;  // in every byte: NaN in all formats
constexpr unsigned kWarp = 32;

struct Copy {
  void* to;
  const void* from;
  std::size_t size;
};

/// Made once, for one thread of every block that comes. After its first turn it is entered and left by jumps, which
/// need no system call.
struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack;
  jmp_buf where;
  bool has_begun = false;
  Waits waits = Waits::No;
  unsigned num_exchanges = 0;
  std::vector<Copy> copies;
};

struct Block {
  std::deque<Fiber> fibers;  // those of the largest block so far; the first num_threads are this one's
  unsigned num_threads = 0;
  std::vector<unsigned char> exchange;  // of each warp two
  std::vector<unsigned char> shared;    // the dynamic one and kGuard bytes behind it
  jmp_buf scheduler;
  const std::function<void()>* body = nullptr;
};
Block g_block;

Fiber& current() { return g_block.fibers[threadIdx.x]; }

void wait(Waits what) {
  Fiber& fiber = current();
  fiber.waits = what;
  if (_setjmp(fiber.where) == 0) _longjmp(g_block.scheduler, 1);
}

void run_fiber() {
  while (true) {
    (*g_block.body)();
    wait(Waits::Done);
  }
}

void begin(Fiber& fiber) {
  fiber.has_begun = true;
  fiber.stack.reset(new char[kStack]);
  getcontext(&fiber.context);
  fiber.context.uc_stack = {.ss_sp = fiber.stack.get(), .ss_flags = 0, .ss_size = kStack};
  makecontext(&fiber.context, &run_fiber, 0);
  setcontext(&fiber.context);
}

void resume(unsigned thread) {
  threadIdx.x = thread;
  Fiber& fiber = g_block.fibers[thread];
  if (_setjmp(g_block.scheduler) != 0) return;
  if (fiber.has_begun)
    _longjmp(fiber.where, 1);
  else
    begin(fiber);
}

/// Lets fibers [begin, end) go on when all of them wait for `what`, or are done.
void release(std::size_t begin, std::size_t end, Waits what) {
  for (std::size_t i = begin; i < end; ++i)
    if (g_block.fibers[i].waits != what && g_block.fibers[i].waits != Waits::Done) return;
  for (std::size_t i = begin; i < end; ++i)
    if (g_block.fibers[i].waits == what) g_block.fibers[i].waits = Waits::No;
}

/// As far as a warp gets alone. The order of its threads turns round each time: what relies on an order, or on other
/// warps keeping pace, where a barrier is missing, fails.
void run_warp(unsigned begin, unsigned end) {
  bool has_run = true;
  for (bool is_forward = true; has_run; is_forward = !is_forward) {
    has_run = false;
    for (unsigned i = begin; i < end; ++i) {
      const unsigned thread = is_forward ? i : end - 1 - (i - begin);
      if (g_block.fibers[thread].waits != Waits::No) continue;
      resume(thread);
      has_run = true;
    }
    release(begin, end, Waits::ForWarp);
  }
}

bool are_all_done() {
  for (unsigned thread = 0; thread < g_block.num_threads; ++thread)
    if (g_block.fibers[thread].waits != Waits::Done) return false;
  return true;
}

}  // namespace

void wait_for_warp() { wait(Waits::ForWarp); }
void wait_for_block() { wait(Waits::ForBlock); }

void* next_exchange(std::size_t size) {
  if (size > kExchange) std::abort();
  const std::size_t number = threadIdx.x / kWarp * 2 + current().num_exchanges++ % 2;
  return &g_block.exchange[number * kExchange];
}

void* dynamic_shared() { return g_block.shared.data(); }
void set_dynamic_shared(std::size_t size) { g_block.shared.assign(size + kGuard, kNan); }

/// What a block wrote behind its shared memory would be found by no other check.
void check_dynamic_shared() {
  for (auto byte = g_block.shared.end() - kGuard; byte != g_block.shared.end(); ++byte)
    if (*byte != kNan) std::abort();
  std::fill(g_block.shared.begin(), g_block.shared.end(), kNan);
}

void copy_later(void* to, const void* from, std::size_t size) { current().copies.push_back({to, from, size}); }
void copy_now() {
  for (const Copy& copy : current().copies)
    if (copy.from)
      std::memcpy(copy.to, copy.from, copy.size);
    else
      std::memset(copy.to, 0, copy.size);
  current().copies.clear();
}

void run_block(unsigned num_threads, const std::function<void()>& body) {
  blockDim.x = num_threads;
  g_block.body = &body;
  const unsigned num_warps = (num_threads + kWarp - 1) / kWarp;
  g_block.exchange.resize(num_warps * 2 * kExchange);
  g_block.num_threads = num_threads;
  while (g_block.fibers.size() < num_threads) g_block.fibers.emplace_back();
  for (unsigned thread = 0; thread < num_threads; ++thread) {
    Fiber& fiber = g_block.fibers[thread];
    fiber.waits = Waits::No;
    fiber.num_exchanges = 0;
    fiber.copies.clear();
  }
  for (bool is_forward = true; !are_all_done(); is_forward = !is_forward) {
    for (unsigned i = 0; i < num_warps; ++i) {
      const unsigned first = (is_forward ? i : num_warps - 1 - i) * kWarp;
      run_warp(first, std::min(first + kWarp, num_threads));
    }
    release(0, num_threads, Waits::ForBlock);
  }
  check_dynamic_shared();
}

}  // namespace gpuplan::emulation
