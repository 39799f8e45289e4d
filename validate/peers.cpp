#include "validate/peers.h"

#include "base/files.h"
#include "base/json_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr auto kPeer = [](Fields& row, Peer& peer) {
  row("tool", peer.tool);
  row("scope", peer.scope);
  row("median", peer.median);
  row("p90", peer.p90);
};

}  // namespace

Peers read_peers(const std::filesystem::path& file) {
  const json content = read_json_file(file);
  Fields fields(content, file.string());
  Peers peers{.source = fields.text("source")};
  fields.objects("memory", peers.memory, kPeer);
  fields.objects("speed", peers.speed, kPeer);
  fields.finish();
  return peers;
}

Peers read_peers() { return read_peers(data_dir() / "validation" / "peers.json"); }

}  // namespace gpuplan
