#include "run/preflight.h"

#include <array>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/child_process.h"
#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAskPackages = R"(
import json, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
)";

/// Binds a socket to `port` of every address; its port, or 0.
int bound_port(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return 0;
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(narrow<std::uint16_t>(port));
  socklen_t size = sizeof address;
  const bool is_bound = bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(listener, 1) == 0 &&
                        getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(listener);
  return is_bound ? int(ntohs(address.sin_port)) : 0;
}

}  // namespace

std::string interpreter_of(const fs::path& program) {
  const auto file = open_if_there(program);
  const std::string head = file ? file->read(0, 256) : "";
  const std::string_view text = head;
  if (!text.starts_with("#!")) return {};
  std::string_view line = trim(text.substr(2, text.find('\n') - 2));
  if (line.starts_with("/usr/bin/env ")) line = trim(line.substr(13));
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  const std::string name = fs::path(word).filename().string();
  return name.starts_with("python") ? std::string(word) : "";
}

std::map<std::string, std::string> python_packages(const std::string& python,
                                                   const std::vector<std::string>& packages) {
  std::vector<std::string> command{python, "-c", kAskPackages};
  command.insert(command.end(), packages.begin(), packages.end());
  std::map<std::string, std::string> found;
  const auto answer = output_of(command);
  if (!answer) return found;
  const auto json = nlohmann::json::parse(*answer, nullptr, false);
  if (!json.is_object()) return found;
  for (const auto& [name, version] : json.items())
    if (version.is_string()) found[name] = version.get<std::string>();
  return found;
}

bool is_port_free(int port) { return bound_port(port) == port; }

int some_free_port() {
  const int port = bound_port(0);
  if (port == 0) throw EnvError("no port is free on this machine");
  return port;
}

Check check_file(const std::string& what, const fs::path& file) {
  return {.what = what,
          .found = file.string(),
          .problem = is_there(file) ? "" : fmt::format("{}: no such file or folder", file.string())};
}

Check check_disk(const fs::path& folder, Bytes needed) {
  std::error_code failed;
  fs::path there = absolute_path(folder);
  while (!there.empty() && !is_there(there) && there != there.root_path()) there = there.parent_path();
  const fs::space_info space = fs::space(there, failed);
  if (failed) return {.what = "disk", .found = "not known", .problem = ""};
  const Bytes free{std::int64_t(std::min<std::uintmax_t>(space.available, INT64_MAX))};
  return {.what = "disk",
          .found = fmt::format("{} free at {}", format_bytes(free), there.string()),
          .problem = free < needed ? fmt::format("{}: {} needed to save, {} free", there.string(), format_bytes(needed),
                                                 format_bytes(free))
                                   : ""};
}

Check check_gpus(std::span<const GpuWanted> wanted) {
  const auto here = gpus_here();
  if (!here) return {.what = "GPUs", .found = "none", .problem = "no NVIDIA driver answers on this machine"};
  Check check{.what = "GPUs", .found = fmt::format("{} here", here->size()), .problem = ""};
  try {
    require_gpus(wanted, *here);
  } catch (const InputError& error) { check.problem = error.what(); } catch (const EnvError& error) {
    check.problem = error.what();
  }
  return check;
}

}  // namespace gpuplan
