// Looked at before another program's launcher is started: programs, Python packages, GPUs, files, disk, port.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "run/gpu_check.h"

namespace gpuplan {

/// One thing that was looked at.
struct Check {
  std::string what, found;  // "torch", "1.13.0"
  std::string problem;      // empty: all is well
};

/// The Python that runs a script of Python, by its first line: "/usr/bin/python3". Empty for anything else.
std::string interpreter_of(const std::filesystem::path& program);

/// Versions of the packages that this Python has; empty where it cannot be started.
std::map<std::string, std::string> python_packages(const std::string& python, const std::vector<std::string>& packages);

/// Says whether a process of ours could listen there, on every address of this machine.
bool is_port_free(int port);
/// One that nothing listens at now. Throws EnvError.
int some_free_port();

Check check_file(const std::string& what, const std::filesystem::path& file);
/// Checks that the file system of `folder`, or of the nearest folder above it that exists, has room.
Check check_disk(const std::filesystem::path& folder, Bytes needed);
/// The plan's GPUs are here with enough free memory, as NVML says.
Check check_gpus(std::span<const GpuWanted> wanted);

}  // namespace gpuplan
