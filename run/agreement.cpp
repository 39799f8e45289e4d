#include "run/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/sha256.h"
#include "run/files/checkpoints.h"

namespace gpuplan {
namespace {

struct Digest {
  std::array<char, 64> hex{};
  std::int64_t size = 0;
  bool operator==(const Digest&) const = default;
};

Digest digest_of(const std::string& text) {
  Digest digest{.hex = {}, .size = std::ssize(text)};
  std::ranges::copy(sha256_hex(text), digest.hex.begin());
  return digest;
}

/// Gathers every rank's text, by rank.
std::vector<std::string> gather_texts(Communicator& world, const std::string& own, std::int64_t longest) {
  std::string padded = own, all(std::size_t(world.size() * longest), ' ');
  padded.resize(std::size_t(longest), ' ');
  world.all_gather_host(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> out;
  for (int r = 0; r < world.size(); ++r) out.push_back(all.substr(std::size_t(r * longest), std::size_t(longest)));
  return out;
}

/// "/latest checkpoint" and so on: the first entry that is not the same in both.
std::string first_difference(const nlohmann::json& a, const nlohmann::json& b) {
  const nlohmann::json left = a.flatten(), right = b.flatten();
  for (const auto& [name, value] : left.items())
    if (!right.contains(name) || right[name] != value) return name;
  for (const auto& [name, value] : right.items())
    if (!left.contains(name)) return name;
  return "";
}

std::string value_at(const nlohmann::json& document, const std::string& name) {
  const nlohmann::json flat = document.flatten();
  return flat.contains(name) && !flat[name].is_null() ? flat[name].dump() : "none";
}

}  // namespace

void require_alike(Communicator* world, const nlohmann::json& own, const std::string& hint) {
  if (!world) return;
  const std::string text = own.dump();
  const Digest digest = digest_of(text);
  std::vector<Digest> digests(std::size_t(world->size()));
  world->all_gather_host(std::as_bytes(std::span(&digest, 1)), std::as_writable_bytes(std::span(digests)));
  const auto other = std::ranges::find_if(digests, [&](const Digest& d) { return d != digests.front(); });
  if (other == digests.end()) return;
  const std::int64_t longest = std::ranges::max(digests, {}, &Digest::size).size;
  const std::vector<std::string> texts = gather_texts(*world, text, longest);
  if (digest == digests.front())
    throw PeerFailed(fmt::format("rank {} does not agree with rank 0", other - digests.begin()));
  const auto first = nlohmann::json::parse(texts.front());
  const std::string name = first_difference(own, first);
  throw InputError(fmt::format("rank {}", world->rank()),
                   fmt::format("sees another {} than rank 0: {}, and rank 0 {}", name.substr(1), value_at(own, name),
                               value_at(first, name)),
                   hint);
}

std::int64_t new_run_id(Communicator* world) {
  std::random_device random;
  std::int64_t id = (std::int64_t(random()) << 16 | std::int64_t(random() & 0xffffU)) & ((std::int64_t{1} << 48) - 1);
  if (world) world->broadcast_host(std::as_writable_bytes(std::span(&id, 1)), 0);
  return id;
}

}  // namespace gpuplan
