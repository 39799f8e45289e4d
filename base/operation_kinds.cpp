#include "base/operation_kinds.h"

#include "base/name_table.h"

namespace gpuplan {
namespace {

constexpr std::array kTypes{NameRow<GemmType>{"fp32", GemmType::F32}, NameRow<GemmType>{"tf32", GemmType::TF32},
                            NameRow<GemmType>{"bf16", GemmType::BF16}, NameRow<GemmType>{"fp16", GemmType::F16},
                            NameRow<GemmType>{"fp8", GemmType::F8}};
constexpr std::array kLayouts{NameRow<GemmLayout>{"forward", GemmLayout::Forward},
                              NameRow<GemmLayout>{"input-gradient", GemmLayout::InputGradient},
                              NameRow<GemmLayout>{"weight-gradient", GemmLayout::WeightGradient}};
constexpr std::array kCollectives{NameRow<CollectiveKind>{"all-gather", CollectiveKind::AllGather},
                                  NameRow<CollectiveKind>{"reduce-scatter", CollectiveKind::ReduceScatter},
                                  NameRow<CollectiveKind>{"all-reduce", CollectiveKind::AllReduce},
                                  NameRow<CollectiveKind>{"broadcast", CollectiveKind::Broadcast},
                                  NameRow<CollectiveKind>{"send", CollectiveKind::SendRecv},
                                  NameRow<CollectiveKind>{"all-to-all", CollectiveKind::AllToAll}};
constexpr std::array kOperands{Dtype::F32, Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::F8E4M3};  // by GemmType

}  // namespace

NameTable<GemmType> names_of(GemmType) { return {"GEMM type", kTypes}; }
NameTable<GemmLayout> names_of(GemmLayout) { return {"GEMM layout", kLayouts}; }
std::string_view to_string(GemmType type) { return names_of(type).name_of(type); }
std::string_view to_string(GemmLayout layout) { return names_of(layout).name_of(layout); }
Dtype operand_dtype(GemmType type) { return kOperands[std::size_t(type)]; }

NameTable<CollectiveKind> names_of(CollectiveKind) { return {"collective", kCollectives}; }
std::string_view to_string(CollectiveKind kind) { return names_of(kind).name_of(kind); }

double bus_factor(CollectiveKind kind, std::int64_t num_ranks) {
  if (kind == CollectiveKind::Broadcast || kind == CollectiveKind::SendRecv) return 1;
  return double(kind == CollectiveKind::AllReduce ? 2 * (num_ranks - 1) : num_ranks - 1) / double(num_ranks);
}

}  // namespace gpuplan
