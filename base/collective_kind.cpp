#include "base/collective_kind.h"

#include "base/named_values.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 5> kNames{"all-gather", "reduce-scatter", "all-reduce", "broadcast", "send"};

}  // namespace

std::string_view to_string(CollectiveKind kind) { return kNames[std::size_t(kind)]; }

CollectiveKind parse_collective_kind(std::string_view text, std::string_view where) {
  return parse_named(kCollectiveKinds, text, where, "collective");
}

double bus_factor(CollectiveKind kind, std::int64_t num_ranks) {
  if (kind == CollectiveKind::Broadcast || kind == CollectiveKind::SendRecv) return 1;
  return double(kind == CollectiveKind::AllReduce ? 2 * (num_ranks - 1) : num_ranks - 1) / double(num_ranks);
}

}  // namespace gpuplan
