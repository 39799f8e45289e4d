#include "base/collective_kind.h"

#include "base/name_table.h"

namespace gpuplan {
namespace {

constexpr std::array kNames{NameRow<CollectiveKind>{"all-gather", CollectiveKind::AllGather},
                            NameRow<CollectiveKind>{"reduce-scatter", CollectiveKind::ReduceScatter},
                            NameRow<CollectiveKind>{"all-reduce", CollectiveKind::AllReduce},
                            NameRow<CollectiveKind>{"broadcast", CollectiveKind::Broadcast},
                            NameRow<CollectiveKind>{"send", CollectiveKind::SendRecv}};

}  // namespace

NameTable<CollectiveKind> names_of(CollectiveKind) { return {"collective", kNames}; }
std::string_view to_string(CollectiveKind kind) { return names_of(kind).name_of(kind); }

double bus_factor(CollectiveKind kind, std::int64_t num_ranks) {
  if (kind == CollectiveKind::Broadcast || kind == CollectiveKind::SendRecv) return 1;
  return double(kind == CollectiveKind::AllReduce ? 2 * (num_ranks - 1) : num_ranks - 1) / double(num_ranks);
}

}  // namespace gpuplan
