#include "base/environment.h"
#include "run/rendezvous_address.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/user_folders.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShortestSecret = 16, kLongestSecret = 4096;  // characters

std::string checked(std::string secret, const std::string& where) {
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() >= kShortestSecret) return secret;
  throw InputError(where, fmt::format("is a secret of {} characters", secret.size()),
                   fmt::format("at least {}: `openssl rand -hex 32` makes one", kShortestSecret));
}

/// Nothing where the file is not there yet.
std::optional<std::string> read_secret(const fs::path& path) {
  const int file = open_own(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0 && errno == ENOENT) return {};
  if (file < 0) throw InputError(path.string(), fmt::format("cannot be read: {}", std::strerror(errno)));
  struct stat status {};
  const bool is_known = fstat(file, &status) == 0;
  std::string text(kLongestSecret, '\0');
  const ssize_t size = is_known && S_ISREG(status.st_mode) ? read(file, text.data(), text.size()) : 0;
  close(file);
  if (!is_known || !S_ISREG(status.st_mode)) throw InputError(path.string(), "is not a regular file");
  if (status.st_uid != geteuid() || (status.st_mode & 077) != 0)
    throw InputError(path.string(), "is a secret that other users can read or have made",
                     fmt::format("chmod 600 {}", path.string()));
  text.resize(std::size_t(std::max<ssize_t>(size, 0)));
  return checked(std::move(text), path.string());
}

/// Whole under its name or not there; one that another run has just made stays.
void make_secret(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  fs::path temporary;
  const int file = open_temporary(path, temporary);  // mode 600
  if (file < 0)
    throw EnvError(fmt::format("{}: the ranks' secret cannot be written: {}; set {} to the same text for all ranks",
                               path.string(), std::strerror(errno), kSecretVariable));
  const std::string text = new_secret() + "\n";
  const bool is_whole = write(file, text.data(), text.size()) == std::ssize(text) && fsync(file) == 0;
  close(file);
  if (is_whole) fs::create_hard_link(temporary, path, error);  // the caller reads what is there then
  unlink(temporary.c_str());
}

}  // namespace

std::string new_secret() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 8; ++i) text += fmt::format("{:08x}", random());
  return text;
}

std::string rendezvous_secret(const LaunchedRank& launched, Seconds patience) {
  if (const auto own = variable(kSecretVariable)) return checked(*own, kSecretVariable);
  const fs::path named = text_of_variable(kSecretFileVariable);
  const fs::path path = !named.empty() ? named : user_data_dir() / "rendezvous.key";
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::int64_t(1e3 * patience.value));
  for (;;) {
    if (auto secret = read_secret(path)) return *std::move(secret);
    if (launched.rank == 0 && named.empty()) make_secret(path);
    if (std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw EnvError(fmt::format(
      "{}: the ranks' secret is not there. Where machines do not share this folder, copy the file of rank 0 "
      "(mode 600), or set {} to the same text for all ranks",
      path.string(), kSecretVariable));
}

}  // namespace gpuplan
