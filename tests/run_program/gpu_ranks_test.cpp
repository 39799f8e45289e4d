// Ranks on GPUs as a user starts them, on a machine that pretends to have GPUs (tests/pretend_gpu,
// tests/fakes/nvml.cpp): gpuplan's own launcher, mpirun's and torchrun's variables, what is checked before anything is
// loaded, and what happens when ranks fail.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include <unistd.h>

#include "run_program/pretend_machine.h"
#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

constexpr const char* kTwoGpus = " --gpus 2xA6000 --strategy ddp";
constexpr const char* kLongOnGpus = "--full --max-steps 1000000";

bool has_begun_on_gpus(const SmallRun& r) {
  for (const double until = now() + kPatience; now() < until; sleep_seconds(0.02))
    if (std::ifstream file(r.at("metrics.jsonl")); file.peek() != std::ifstream::traits_type::eof()) return true;
  return false;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("gpu ranks: gpuplan starts a process per GPU, and they train, save and report as one CPU rank does") {
  const SmallRun r;
  r.report("--full --max-steps 6 --micro-batch 2 --output " + r.at("cpu"));
  const std::vector<double> expected = r.losses();
  const PretendMachine machine(r);
  for (const std::string strategy : {"ddp", "fsdp", "zero2"}) {
    CAPTURE(strategy);
    const auto report =
        r.report("--full --max-steps 6 --gpus 2xA6000 --output " + r.at(strategy) + " --strategy " + strategy);
    CHECK(worst_relative(r.losses(), expected) < 1e-4);
    CHECK(report["measured"]["persistent_bytes"] == report["predicted"]["persistent_bytes"]);
    CHECK(report["measured"]["process_bytes"].get<double>() >= report["measured"]["tensors_bytes"].get<double>());
    CHECK(std::filesystem::file_size(r.at(strategy + "/model.safetensors")) ==
          std::filesystem::file_size(r.at("cpu/model.safetensors")));
  }
  for (const char* gpu : {"gpu-0", "gpu-1"}) CHECK(std::filesystem::exists(r.at(gpu)));
}

TEST_CASE("gpu ranks: one GPU needs neither launcher nor NCCL") {
  const SmallRun r;
  const PretendMachine machine(r);
  r.report("--qlora=r=3,base=fp32 --max-steps 4 --gpus 1xA6000 --strategy single");
  CHECK(r.losses().size() == 4);
}

TEST_CASE("gpu ranks: ranks of mpirun and torchrun find each other by their launcher's variables") {
  const SmallRun r;
  const PretendMachine machine(r);
  std::vector<std::string> words{
      "mpirun", "--mca", "orte_execute_quiet", "1", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
      "-n",     "2"};
  for (const std::string& word : r.command(std::string("--full --max-steps 3") + kTwoGpus)) words.push_back(word);
  const Finished mpirun = Process(words, r.path()).wait();
  CAPTURE(mpirun.err);
  CHECK(mpirun.code == 0);
  CHECK(r.losses().size() == 3);

  const std::vector<double> expected = r.losses();
  const ScopedVariables torchrun({{"WORLD_SIZE", "2"},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"TORCHELASTIC_RUN_ID", "none"},
                                  {"MASTER_ADDR", "localhost"},
                                  {"MASTER_PORT", std::to_string(20000 + getpid() % 10000)}});
  std::filesystem::create_directory(r.at("second"));
  std::unique_ptr<Process> first, second;
  {
    const ScopedVariables rank({{"RANK", "0"}, {"LOCAL_RANK", "0"}});
    first = std::make_unique<Process>(r.command(std::string("--full --max-steps 3") + kTwoGpus), r.path());
  }
  {
    const ScopedVariables rank({{"RANK", "1"}, {"LOCAL_RANK", "1"}});
    second = std::make_unique<Process>(r.command(std::string("--full --max-steps 3") + kTwoGpus), r.path() / "second");
  }
  const Finished f = first->wait(), g = second->wait();
  CAPTURE(f.err);
  CAPTURE(g.err);
  CHECK((f.code == 0 && g.code == 0));
  CHECK(r.losses() == expected);
}

TEST_CASE("gpu ranks: a rank that is killed or hangs ends the run, and it is said") {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const SmallRun r;
    const PretendMachine machine(r);
    Process run(r.command(std::string(kLongOnGpus) + kTwoGpus), r.path());
    REQUIRE(has_begun_on_gpus(r));
    const pid_t rank = run.rank(1, "GPUPLAN_RANK");
    REQUIRE(rank != 0);
    kill(rank, signal);
    const Finished f = run.wait();
    CHECK(f.code == 3);
    check_has(f.err, signal == SIGKILL ? "rank 1 (process " + std::to_string(rank) + ") was killed"
                                       : "rank 1 (process " + std::to_string(rank) + ") has not answered");
    CHECK(run.num_processes() == 0);
  }
}

TEST_CASE("gpu ranks: a supervisor that is killed takes its ranks with it") {
  const SmallRun r;
  const PretendMachine machine(r);
  Process run(r.command(std::string(kLongOnGpus) + kTwoGpus), r.path());
  REQUIRE(has_begun_on_gpus(r));
  run.signal(SIGKILL);
  run.wait();
  for (const double until = now() + kPatience; now() < until && run.num_processes() > 0;) sleep_seconds(0.05);
  CHECK(run.num_processes() == 0);
}

TEST_CASE("gpu ranks: what asks a run to end, or a rank of it, saves on all, and --resume goes on from there") {
  for (const auto& [signal, is_to_rank] :
       {std::pair{SIGINT, false}, std::pair{SIGHUP, false}, std::pair{SIGUSR2, false}, std::pair{SIGTERM, true},
        std::pair{SIGUSR1, true}}) {
    CAPTURE(signal);
    const SmallRun r;
    const PretendMachine machine(r);
    const std::string flags = "--full --schedule constant --gpus 2xA6000 --strategy fsdp --output " + r.at("out");
    Process run(r.command(flags + " --max-steps 1000000"), r.path());
    REQUIRE(has_begun_on_gpus(r));
    if (is_to_rank)
      kill(run.rank(1, "GPUPLAN_RANK"), signal);
    else
      run.signal(signal);
    const Finished f = run.wait();
    CAPTURE(f.err);
    CHECK(f.code == 3);
    if (!is_to_rank) check_has(f.err, "saving after this step");
    const auto done = std::int64_t(r.metrics().size());
    CHECK(std::filesystem::exists(r.at("out/checkpoint-" + std::to_string(done))));
    CHECK(r.run(flags + " --resume --max-steps " + std::to_string(done + 3)).code == 0);
    CHECK(std::int64_t(r.metrics().size()) == done + 3);
  }
}

TEST_CASE("gpu ranks: what all ranks meet is said once, what one meets is said by that one, at once") {
  const SmallRun r;
  const PretendMachine machine(r);
  const Finished all = r.run(std::string("--full --lr 1e18 --clip 0") + kTwoGpus);
  CHECK(all.code == 3);
  CHECK_MESSAGE(count_of(all.err, "diverged") == 1, all.err);
  r.scratch().write("taken", "a file where a folder is wanted");  // rank 0 alone writes the model
  const Finished one = r.run(std::string("--full --max-steps 2 --output ") + r.at("taken") + kTwoGpus);
  CHECK(one.code == 3);
  check_has(one.err, "taken");
}

TEST_CASE("gpu ranks: a rank that runs out of memory says so, once, while the others wait for it") {
  for (const char* gpu : {"0", "1"}) {
    const SmallRun r;
    const PretendMachine machine(r);
    const ScopedVariables full(std::map<std::string, std::string>{{"GPUPLAN_PRETEND_FULL", gpu}});
    const Finished f = r.run(std::string("--full --max-steps 2") + kTwoGpus);
    CHECK(f.code == 3);
    CHECK_MESSAGE(count_of(f.err, std::string("out of memory on GPU ") + gpu) == 1, f.err);
    CHECK_MESSAGE(count_of(f.err, "gpuplan:") == 1, f.err);
  }
}

TEST_CASE(
    "gpu ranks: other GPUs than the plan's, too few, and memory that others hold are told before anything is loaded") {
  const SmallRun r;
  {
    const PretendMachine full(r, 49000);
    const Finished f = r.run(std::string("--full --max-steps 2") + kTwoGpus);
    CHECK(f.code == 3);
    check_has(f.err, "GPU 1 (NVIDIA RTX A6000)");
    check_has(f.err, "needed, 140 MiB of");
    check_has(f.err, " 1 (47.9 GiB)");
    CHECK(count_of(f.err, "not enough free memory") == 1);
  }
  {
    const PretendMachine mixed(r, 0, "NVIDIA H200");
    const Finished f = r.run(std::string("--full --max-steps 2") + kTwoGpus);
    CHECK(f.code == 2);
    check_has(f.err, "the plan is for 2x NVIDIA RTX A6000 (Ampere), and here are 1x NVIDIA RTX A6000, 1x NVIDIA H200");
  }
  {
    const PretendMachine two(r);
    const Finished f = r.run("--full --max-steps 2 --gpus 4xA6000 --strategy ddp");
    CHECK(f.code == 2);
    check_has(f.err, "4 ranks");
    check_has(f.err, "torchrun");
  }
  for (const char* gpu : {"gpu-0", "gpu-1"}) CHECK(!std::filesystem::exists(r.at(gpu)));  // none was opened
}

TEST_CASE("gpu ranks: without NVML the opened GPU is compared with the plan") {
  const SmallRun r;
  const PretendMachine machine(r);
  const ScopedVariables none(
      {{"GPUPLAN_NVML", "/nonexistent/libnvidia-ml.so.1"}, {"GPUPLAN_PRETEND_NAME", "NVIDIA H200"}});
  const Finished f = r.run(std::string("--full --max-steps 2") + kTwoGpus);
  CHECK(f.code == 2);
  check_has(f.err, "here are 1x NVIDIA H200");
  CHECK_MESSAGE(count_of(f.err, "the plan is for") == 1, f.err);
}

TEST_CASE("gpu ranks: --gpus local is all GPUs of this machine, and without a driver that is said") {
  const SmallRun r;
  const std::string flags = "--full --max-steps 3 --strategy ddp --gpus local";
  const PretendMachine machine(r);
  r.report(flags);
  CHECK(r.losses().size() == 3);
  for (const char* gpu : {"gpu-0", "gpu-1"}) CHECK(std::filesystem::remove(r.at(gpu)));
  const ScopedVariables none(std::map<std::string, std::string>{{"GPUPLAN_NVML", "/nonexistent/libnvidia-ml.so.1"}});
  const Finished f = r.run(flags + " --metrics " + r.at("none.jsonl"));
  CHECK(f.code == 3);
  check_has(f.err, "no NVIDIA driver found");
  CHECK_MESSAGE(count_of(f.err, "gpuplan:") == 1, f.err);
  for (const char* file : {"none.jsonl", "gpu-0", "gpu-1"}) CHECK(!std::filesystem::exists(r.at(file)));
}

TEST_CASE("gpu ranks: a plan that does not fit is refused before any GPU is opened") {
  const SmallRun r;
  const PretendMachine machine(r);
  const Finished f = r.run("--full --model llama-3-70b --max-steps 2 --gpus 1xA6000");
  CHECK(f.code == 2);
  check_has(f.err, "the plan: does not fit: ");
  for (const char* none : {"metrics.jsonl", "gpu-0"}) CHECK(!std::filesystem::exists(r.at(none)));
}
