#include "cuda_device/fake/machine.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace gpuplan::fake {
namespace {

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) {
    const auto begin = part.find_first_not_of(' ');
    if (begin != std::string::npos) parts.push_back(part.substr(begin, part.find_last_not_of(' ') + 1 - begin));
  }
  return parts;
}

/// "2", "1 Tesla T4, 7.5, 15360"
void add_gpus(std::vector<Gpu>& gpus, const std::string& kind) {
  const auto facts = parts_of(kind, ',');
  Gpu gpu;
  std::size_t end = 0;
  const int count = std::stoi(facts.at(0), &end);
  if (const auto name = facts[0].find_first_not_of(' ', end); name != std::string::npos)
    gpu.name = facts[0].substr(name);
  if (facts.size() > 1) {
    gpu.major = std::stoi(facts[1], &end);
    gpu.minor = std::stoi(facts[1].substr(end + 1));
  }
  if (facts.size() > 2) gpu.memory = std::stoll(facts[2]) << 20;
  gpus.insert(gpus.end(), std::size_t(count), gpu);
}

void add_failure(Machine& machine, const std::string& failure) {
  const auto colon = failure.find(':');
  const std::string what = failure.substr(0, colon);
  const int number = colon == std::string::npos ? 0 : std::stoi(failure.substr(colon + 1));
  if (what == "driver-absent")
    machine.driver = Driver::Absent;
  else if (what == "driver-too-old")
    machine.driver = Driver::TooOld;
  else if (what == "no-kernel-image")
    machine.has_kernels = false;
  else if (what == "no-epilogues")
    machine.has_epilogues = false;
  else if (what == "out-of-memory-at" && number > 0)
    machine.fail_allocation = number;
  else if (what == "lost-at-launch" && number > 0)
    machine.lose_gpu_at_launch = number;
  else if (what == "capture-breaks-at" && number > 0)
    machine.break_capture_at = number;
  else if (what == "capture-breaks-on")
    machine.break_capture_on = number;
  else
    throw std::invalid_argument("GPUPLAN_FAKE_CUDA_FAILURE: " + failure);
}

}  // namespace

std::vector<Gpu> parse_gpus(std::string_view text) {
  std::vector<Gpu> gpus;
  try {
    for (const auto& kind : parts_of(text, ';')) add_gpus(gpus, kind);
  } catch (const std::exception&) { throw std::invalid_argument("GPUPLAN_FAKE_GPUS: " + std::string(text)); }
  return gpus;
}

Machine machine_of_environment() {
  Machine machine;
  if (const char* const gpus = std::getenv("GPUPLAN_FAKE_GPUS")) machine.gpus = parse_gpus(gpus);
  if (const char* const failures = std::getenv("GPUPLAN_FAKE_CUDA_FAILURE"))
    for (const auto& failure : parts_of(failures, ',')) add_failure(machine, failure);
  return machine;
}

}  // namespace gpuplan::fake
