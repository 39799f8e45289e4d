#include "cluster/nvml.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/surroundings.h"

namespace gpuplan::nvml {
namespace {

/// Advice for people about a code.
struct Remedy {
  int code;
  std::string_view text;
};
constexpr std::array kRemedies{
    Remedy{kDriverNotLoaded,
           "the NVIDIA driver is installed but not loaded (no NVIDIA GPU, or its kernel module is missing)"},
    Remedy{kVersionMismatch,
           "the NVIDIA driver was updated while its old kernel module is still loaded: reboot, or reload the module"},
    Remedy{kNoPermission,
           "no permission to ask the NVIDIA driver: see the rights of /dev/nvidia* and the container's devices"},
    Remedy{kOperatingSystem,
           "the operating system (or its cgroups) keeps this process from /dev/nvidia*: see the container's devices"},
    Remedy{kLibraryNotFound, "the NVIDIA driver is not complete (libnvidia-ml finds no driver library)"},
};

std::vector<std::string> candidates(const std::string& file) {
  if (!file.empty()) return {file};
  if (std::string set = text_of_variable("GPUPLAN_NVML"); !set.empty()) return {std::move(set)};
  return {"libnvidia-ml.so.1", "libnvidia-ml.so", "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
}

void* open_first(const std::vector<std::string>& files) {
  for (const std::string& file : given_surroundings() ? std::vector<std::string>() : files)
    if (void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  return nullptr;
}

}  // namespace

std::unique_ptr<const Library> Library::open(const std::string& file, std::string& problem) {
  const std::vector<std::string> files = candidates(file);
  void* const handle = open_first(files);
  if (!handle) {
    problem = fmt::format("no NVIDIA driver found ({} is missing): {}", files.front(), kDescribeGpus);
    return nullptr;
  }
  std::unique_ptr<const Library> library(new Library(handle));
  problem = library->problem_of("nvmlInit_v2");
  return problem.empty() ? std::move(library) : nullptr;
}

Library::~Library() { call("nvmlShutdown"); }

std::string Library::meaning_of(int code, const char* function) const {
  if (code == kSuccess) return {};
  if (code == kFunctionNotFound)
    return fmt::format("the NVIDIA driver is too old (libnvidia-ml has no {}): {}", function, kDescribeGpus);
  for (const Remedy& row : kRemedies)
    if (row.code == code) return fmt::format("{}; or {}", row.text, kDescribeGpus);
  void* const words = dlsym(handle_.get(), "nvmlErrorString");
  const std::string text = words ? reinterpret_cast<const char* (*)(int)>(words)(code) : fmt::format("error {}", code);
  return fmt::format("the NVIDIA driver does not answer ({}: {}): {}", function, text, kDescribeGpus);
}

}  // namespace gpuplan::nvml
