#include "cuda_device/fake/tests/ranks.h"

#include <cstdlib>
#include <numeric>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpuplan::test {
namespace {

void join_and_work(int gpu, const Rendezvous& rendezvous, const RankWork& work) {
  const auto device = device_backend(DeviceKind::Cuda).open({.index = gpu});
  const auto ranks = collective_backend(DeviceKind::Cuda).join(*device, rendezvous);
  work(*device, *ranks);
}

struct Started {
  pid_t process = 0;
  int output = -1;  // the end of a pipe that we read
};

Started start_rank(const std::string& test_case) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::string program = "/proc/self/exe", filter = "--test-case=" + test_case, all = "--no-skip";
  char* const arguments[] = {program.data(), filter.data(), all.data(), nullptr};
  Started started{.output = ends[0]};
  if (posix_spawn(&started.process, "/proc/self/exe", &actions, nullptr, arguments, environ) != 0) std::abort();
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  return started;
}

Ended wait_for(const Started& started) {
  Ended ended;
  char some[4096];
  for (ssize_t size = 0; (size = read(started.output, some, sizeof some)) > 0;)
    ended.output.append(some, std::size_t(size));
  close(started.output);
  int status = 0;
  waitpid(started.process, &status, 0);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

}  // namespace

Setting::Setting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
Setting::~Setting() { unsetenv(name_); }

std::vector<int> one_gpu_each(int num_ranks) {
  std::vector<int> gpus(static_cast<std::size_t>(num_ranks));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

std::vector<std::string> in_threads(const std::vector<int>& gpus, const RankWork& work) {
  device_backend(DeviceKind::Cuda);  // opened by one thread
  const std::string id = collective_backend(DeviceKind::Cuda).make_id();
  std::vector<std::string> errors(gpus.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        join_and_work(gpus[rank], {.rank = int(rank), .size = int(gpus.size()), .id = id}, work);
      } catch (const std::exception& error) { errors[rank] = error.what(); }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

std::vector<Ended> in_processes(int num_ranks, int num_gpus, const std::string& test_case) {
  const Setting id("GPUPLAN_TEST_ID", collective_backend(DeviceKind::Cuda).make_id());
  const Setting size("GPUPLAN_TEST_SIZE", std::to_string(num_ranks)),
      gpus("GPUPLAN_FAKE_GPUS", std::to_string(num_gpus));
  std::vector<Started> started;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Setting own("GPUPLAN_TEST_RANK", std::to_string(rank));
    started.push_back(start_rank(test_case));
  }
  std::vector<Ended> ended;
  for (const Started& rank : started) ended.push_back(wait_for(rank));
  return ended;
}

void as_own_rank(const RankWork& work) {
  const int rank = std::atoi(std::getenv("GPUPLAN_TEST_RANK")), size = std::atoi(std::getenv("GPUPLAN_TEST_SIZE"));
  const int gpu = rank % device_backend(DeviceKind::Cuda).num_devices();
  join_and_work(gpu, {.rank = rank, .size = size, .id = std::getenv("GPUPLAN_TEST_ID")}, work);
}

}  // namespace gpuplan::test
