// The collectives that a step program uses and that device libraries run.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace gpuplan {

enum class CollectiveKind : std::uint8_t { AllGather, ReduceScatter, AllReduce, Broadcast, SendRecv };
inline constexpr std::array kCollectiveKinds{CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                                             CollectiveKind::AllReduce, CollectiveKind::Broadcast,
                                             CollectiveKind::SendRecv};

std::string_view to_string(CollectiveKind kind);  // "all-gather", …, "send"
template <class Enum>
struct NameTable;  // base/name_table.h
NameTable<CollectiveKind> names_of(CollectiveKind);

/// Bytes that a bus moves per byte of the whole tensor: busbw = factor x bytes / time.
/// Source: nccl-tests doc/PERFORMANCE.md; 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather and reduce-scatter,
/// else 1.
double bus_factor(CollectiveKind kind, std::int64_t num_ranks);

}  // namespace gpuplan
