// data/validation/peers.json: what other tools reach on the same points.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpuplan {

struct Peer {
  std::string tool, scope;
  double median{}, p90{};  // memory: of |error|; speed: of |ln(predicted / measured)|
};

struct Peers {
  std::string source;
  std::vector<Peer> memory, speed;
};

/// Throws InputError naming the file.
Peers read_peers(const std::filesystem::path& file);
Peers read_peers();

}  // namespace gpuplan
