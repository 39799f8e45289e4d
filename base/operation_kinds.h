// The operations that device libraries run and a profile says how long they take, by kind: matrix products (number
// format, and which side of a linear layer they serve) and collectives.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace gpuplan {

/// Operands and how they are multiplied; accumulation is always in fp32.
enum class GemmType : std::uint8_t { F32, TF32, BF16, F16, F8 };
inline constexpr std::array kGemmTypes{GemmType::F32, GemmType::TF32, GemmType::BF16, GemmType::F16, GemmType::F8};

/// All matrices are row-major and C is [m, n]:
///   Forward         C = A B^T   A [m, k], B [n, k]    y = x W^T, and scores = q k^T
///   InputGradient   C = A B     A [m, k], B [k, n]    dx = dy W, and p v
///   WeightGradient  C = A^T B   A [k, m], B [k, n]    dW = dy^T x
enum class GemmLayout : std::uint8_t { Forward, InputGradient, WeightGradient };
inline constexpr std::array kGemmLayouts{GemmLayout::Forward, GemmLayout::InputGradient, GemmLayout::WeightGradient};

std::string_view to_string(GemmType type);      // "fp32", "tf32", "bf16", "fp16", "fp8"
std::string_view to_string(GemmLayout layout);  // "forward", "input-gradient", "weight-gradient"
NameTable<GemmType> names_of(GemmType);
NameTable<GemmLayout> names_of(GemmLayout);

/// Type in which the operands are stored.
Dtype operand_dtype(GemmType type);

/// Collectives of a step program.
enum class CollectiveKind : std::uint8_t { AllGather, ReduceScatter, AllReduce, Broadcast, SendRecv, AllToAll };
inline constexpr std::array kCollectiveKinds{CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                                             CollectiveKind::AllReduce, CollectiveKind::Broadcast,
                                             CollectiveKind::SendRecv,  CollectiveKind::AllToAll};

std::string_view to_string(CollectiveKind kind);  // "all-gather", …, "all-to-all"
NameTable<CollectiveKind> names_of(CollectiveKind);

/// Bytes that a bus moves per byte of the whole tensor, of all to all of a rank's: busbw = factor x bytes / time.
/// Source: nccl-tests doc/PERFORMANCE.md; 2 (n - 1) / n for all-reduce, 1 for broadcast and send, else (n - 1) / n.
double bus_factor(CollectiveKind kind, std::int64_t num_ranks);

}  // namespace gpuplan
