// `gpuplan run` on fake GPUs, from the command line down to the calls of CUDA, cuBLASLt and NCCL: what it learns is what CPU ranks learn,
// and what fails is told in one line.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

constexpr Shape kSmall{.hidden = 64, .ffn = 96, .layers = 2, .heads = 4};  // heads of 16, as the GPU's attention takes them

/// An environment variable until the end of the scope.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

/// Four A6000, known to NVML and to CUDA.
class Machine {
 public:
  explicit Machine(const SmallRun& r) : machine_("GPUPLAN_FAKE_NVML_MACHINE", r.scratch().write("machine.json", description()).string()) {}

 private:
  static std::string description() {
    nlohmann::json gpus;
    for (int i = 0; i < 4; ++i)
      gpus.push_back({{"name", "NVIDIA RTX A6000"}, {"memory_mib", 49140}, {"uuid", "GPU-" + std::to_string(i)},
                      {"bus_id", "00000000:0" + std::to_string(i + 1) + ":00.0"}});
    return nlohmann::json{{"driver", "580.65"}, {"gpus", gpus}}.dump();
  }
  Setting machine_, nvml_{"GPUPLAN_NVML", GPUPLAN_FAKE_FOLDER "/libnvidia-ml.so.1"}, folder_{"GPUPLAN_LIBRARY_DIR", GPUPLAN_FAKE_FOLDER},
      gpus_{"GPUPLAN_FAKE_GPUS", "4 NVIDIA RTX A6000, 8.6, 49140"};
};

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Learned {
  std::vector<double> losses;
  std::size_t saved_bytes = 0;
};

Learned learned(const SmallRun& r, const std::string& flags, const std::string& output) {
  r.report("--max-steps 3 --output " + r.at(output) + " " + flags);
  std::size_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(r.at(output)))
    if (file.path().extension() == ".safetensors") bytes += file.file_size();
  return {r.losses(), bytes};
}

}  // namespace

TEST_CASE("fake GPUs learn what CPU ranks learn, whatever the strategy") {
  const SmallRun r(kSmall);
  int number = 0;
  for (const std::string kind : {"--full", "--lora=r=4", "--qlora=r=4,base=fp32"}) {
    const Learned expected = learned(r, kind + " --micro-batch 2", "cpu" + kind);
    const Machine machine(r);
    for (const std::string where : {"1xA6000 --strategy single --micro-batch 2", "2xA6000 --strategy ddp", "2xA6000 --strategy fsdp",
                                    "1xA6000 --strategy zero2 --offload optimizer --micro-batch 2", "2xA6000 --strategy zero1 --offload optimizer",
                                    "2xA6000 --strategy fsdp --checkpointing full --offload params,optimizer,activations"}) {
      if (kind.starts_with("--qlora") && where.find("params") != std::string::npos) continue;  // refused
      CAPTURE(kind);
      CAPTURE(where);
      const Learned got = learned(r, kind + " --gpus " + where, "gpu" + std::to_string(number++));
      CHECK(worst_relative(got.losses, expected.losses) < 1e-4);
      CHECK(got.saved_bytes == expected.saved_bytes);
    }
  }
}

TEST_CASE("biases and their gradients go along with products, and learn the same where they cannot") {
  constexpr std::size_t kLayers = 2, kBiases = 3 * kLayers, kSteps = 3, kPasses = 2;
  Shape qwen2 = kSmall;
  qwen2.family = "qwen2", qwen2.layers = kLayers;
  const SmallRun r(qwen2);
  for (const std::string kind : {"--full", "--lora=r=4"}) {
    CAPTURE(kind);
    const std::string flags = kind + " --lr 2e-2 --micro-batch 2 --grad-accum " + std::to_string(kPasses);
    const Learned expected = learned(r, flags, "cpu" + kind);
    const Machine machine(r);
    const std::string where = flags + " --gpus 1xA6000 --strategy single";
    {
      const Setting log("GPUPLAN_FAKE_EPILOGUES", r.at("epilogues" + kind));
      CHECK(worst_relative(learned(r, where, "gpu" + kind).losses, expected.losses) < 1e-4);
      const std::vector<std::string> used = lines_of(r.at("epilogues" + kind));
      CHECK(std::count(used.begin(), used.end(), "bias 0") == kBiases * kPasses * kSteps);
      CHECK(std::count(used.begin(), used.end(), "sums of B 0") == (kind == "--full" ? kBiases * kSteps : 0));  // later passes add
    }
    const Setting none("GPUPLAN_FAKE_CUDA_FAILURE", "no-epilogues"), log("GPUPLAN_FAKE_EPILOGUES", r.at("none" + kind));
    CHECK(worst_relative(learned(r, where, "plain" + kind).losses, expected.losses) < 1e-4);
    CHECK(lines_of(r.at("none" + kind)).empty());
  }
}

TEST_CASE("four fake GPUs in bf16 learn what one does, nearly") {
  const SmallRun r(kSmall);
  const Machine machine(r);
  const std::string flags = "--full --precision bf16";
  const Learned one = learned(r, flags + " --gpus 1xA6000 --micro-batch 4", "one"), four = learned(r, flags + " --gpus 4xA6000 --strategy zero2", "four");
  CHECK(worst_relative(four.losses, one.losses) < 0.02);
}

TEST_CASE("what fails on a GPU ends the run in words, with exit code 3") {
  struct Failure {
    const char *variable, *value, *words;
  };
  const SmallRun r(kSmall);
  const Machine machine(r);
  for (const Failure& failure : {
           Failure{"GPUPLAN_FAKE_CUDA_FAILURE", "driver-too-old", "the NVIDIA driver is for CUDA 11.4, and this build needs "},
           Failure{"GPUPLAN_FAKE_CUDA_FAILURE", "no-kernel-image", "this build has no kernels for NVIDIA RTX A6000 (sm_86)"},
           Failure{"GPUPLAN_FAKE_CUDA_FAILURE", "out-of-memory-at:4", "out of memory on GPU "},
           Failure{"GPUPLAN_FAKE_CUDA_FAILURE", "lost-at-launch:200", "unspecified launch failure (cudaErrorLaunchFailure)"},
           Failure{"GPUPLAN_FAKE_NCCL_DIE", "1:12", "was killed by signal 9"},
           Failure{"GPUPLAN_FAKE_GPUS", "1 NVIDIA RTX A6000, 8.6, 49140", "refuses several ranks on one GPU"}}) {
    const std::string before = std::getenv(failure.variable) ? std::getenv(failure.variable) : "";
    {
      const Setting setting(failure.variable, failure.value);
      const Finished run = r.run("--full --gpus 2xA6000 --strategy ddp");
      CAPTURE(failure.value);
      CHECK(run.code == 3);
      check_has(run.err, failure.words);
    }
    if (!before.empty()) setenv(failure.variable, before.c_str(), 1);
  }
}

TEST_CASE("a rank that dies where NCCL does not notice ends the run all the same") {
  const SmallRun r(kSmall);
  const Machine machine(r);
  const Setting silent("GPUPLAN_FAKE_NCCL_SILENT", "1"), death("GPUPLAN_FAKE_NCCL_DIE", "1:12");
  const Finished run = r.run("--full --gpus 2xA6000 --strategy fsdp");
  CHECK(run.code == 3);
  check_has(run.err, "was killed by signal 9 (Killed); the others were stopped");
}
