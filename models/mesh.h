// The device mesh: the axes along which ranks differ, how many ways each is cut, and which ranks a group along an axis
// has. Every set of ranks that talks is one axis: `ways` ranks, `stride` apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "base/name_table.h"
#include "base/units.h"

namespace gpuplan {

/// In rank order, the innermost first: ranks that differ along the first one alone are neighbours. The ranks of a stage
/// are laid out twice: for what all of them have, and for experts.
enum class Axis : std::uint8_t { None, Tp, Cp, DpShard, DpReplicate, Etp, Ep, ExpertData, Pp, Count };
constexpr std::size_t kNumAxes = std::size_t(Axis::Count);

struct AxisRow {
  Axis axis;
  std::string_view name;       // in answers and plan files
  bool splits_batch = false;   // its ranks train on different sequences
  bool is_pipeline = false;    // its ranks hold different units and exchange messages; others take part in collectives
  bool is_inner = false;       // its ranks are the innermost of the data parallel ones, and share their sequences
  bool divides_layer = false;  // each of its ranks does a part of a layer's work
  bool is_of_experts = false;  // of the second layout
  const char* ranks = "";      // what they are, for readers of answers
};
inline constexpr std::array kAxes{
    AxisRow{.axis = Axis::Tp, .name = "tp", .divides_layer = true, .ranks = "ranks that share each layer"},
    AxisRow{.axis = Axis::Cp,
            .name = "cp",
            .is_inner = true,
            .divides_layer = true,
            .ranks = "of the data parallel ranks, those that share each sequence"},
    AxisRow{.axis = Axis::DpShard, .name = "dp_shard", .splits_batch = true, .ranks = "ranks of a shard group"},
    AxisRow{.axis = Axis::DpReplicate,
            .name = "dp_replicate",
            .splits_batch = true,
            .ranks = "copies of a shard group, or of the model"},
    AxisRow{.axis = Axis::Etp,
            .name = "etp",
            .divides_layer = true,
            .is_of_experts = true,
            .ranks = "of the ranks of a stage, those that share each expert"},
    AxisRow{.axis = Axis::Ep,
            .name = "ep",
            .divides_layer = true,
            .is_of_experts = true,
            .ranks = "of the ranks of a stage, those that share the experts of each layer"},
    AxisRow{.axis = Axis::ExpertData,
            .name = "expert_data",
            .is_of_experts = true,
            .ranks = "of the ranks of a stage, those that have the same experts"},
    AxisRow{.axis = Axis::Pp, .name = "pp", .is_pipeline = true, .ranks = "stages"}};
static_assert(kAxes.size() + 1 == kNumAxes && kAxes.back().is_pipeline,
              "every axis has its row, and the ranks of a stage are consecutive");

constexpr bool is_pipeline(Axis axis) { return axis != Axis::None && kAxes[std::size_t(axis) - 1].is_pipeline; }

/// Says whether the ranks are laid out along it beside others, and not once more.
constexpr bool is_counted(const AxisRow& row) { return !row.is_inner && !row.is_of_experts; }
constexpr bool is_of_experts(Axis axis) { return axis != Axis::None && kAxes[std::size_t(axis) - 1].is_of_experts; }

/// None: no axis has that name.
constexpr Axis axis_named(std::string_view name) {
  for (const AxisRow& row : kAxes)
    if (row.name == name) return row.axis;
  return Axis::None;
}

/// A piece of training state is cut along one axis, and the copies of a part sum their gradients along another.
struct Domain {
  Axis shard = Axis::DpShard, replicate = Axis::DpReplicate;
};

/// Names how ranks that share a sequence come to its attention: keys and values of all come whole before it, or round a
/// ring beside it; or each gets all positions of a part of the heads (Ulysses).
enum class ContextExchange : std::uint8_t { AllGather, Ring, Heads };
NameTable<ContextExchange> names_of(ContextExchange);  // ring, all-gather, ulysses

/// A degree per axis. The number of ranks used is the product of those that are no inner ones and not of experts;
/// experts' make that of one stage once more.
class Mesh {
 public:
  struct Degree {
    Axis axis;
    std::int64_t ways;
  };
  constexpr Mesh() { ways_.fill(1); }
  /// Axes that are not named have one way.
  constexpr Mesh(std::initializer_list<Degree> degrees) : Mesh() {
    for (const Degree& d : degrees) ways_[std::size_t(d.axis)] = d.ways;
  }

  Mesh& set(Axis axis, std::int64_t ways) {
    ways_[std::size_t(axis)] = ways;
    return *this;
  }
  std::int64_t ways(Axis axis) const { return ways_[std::size_t(axis)]; }
  /// Between neighbours of a group along `axis`, in ranks.
  std::int64_t stride(Axis axis) const {
    std::int64_t inner = 1;
    for (const AxisRow& row : kAxes)
      if (row.axis < axis && (is_of_experts(axis) ? row.is_of_experts : is_counted(row))) inner *= ways(row.axis);
    return axis == Axis::None ? 1 : inner;
  }
  /// Says where `rank` stands in its group along `axis`.
  std::int64_t place(std::int64_t rank, Axis axis) const { return rank / stride(axis) % ways(axis); }

  std::int64_t world() const { return product(is_counted); }
  /// Ranks that may share the experts: those that share layers, of a shard group or of all copies.
  std::int64_t ranks_of_experts() const {
    return ways(Axis::Tp) * (ways(Axis::DpShard) > 1 ? ways(Axis::DpShard) : ways(Axis::DpReplicate));
  }
  /// Lays the ranks of a stage out for `ways` that share the experts, each cut among `cut` of them. Requires: the
  /// product divides them.
  Mesh& set_expert_ways(std::int64_t ways, std::int64_t cut = 1) {
    return set(Axis::Etp, cut).set(Axis::Ep, ways).set(Axis::ExpertData, ceil_div(ranks_of_experts(), ways * cut));
  }
  bool shares_experts() const { return ways(Axis::Ep) * ways(Axis::Etp) > 1; }
  /// Machines that those who share the experts stand on.
  std::int64_t expert_machines() const { return expert_machines_; }
  Mesh& set_expert_machines(std::int64_t machines) {
    expert_machines_ = machines;
    return *this;
  }
  /// State of experts is cut, and copied, as that of the rest is, among the ranks that have the same experts.
  Domain experts_domain(const Domain& rest = {}) const {
    if (!shares_experts()) return rest;
    const bool is_cut = ways(rest.shard) > 1;
    return {is_cut ? Axis::ExpertData : Axis::None, is_cut ? rest.replicate : Axis::ExpertData};
  }
  std::int64_t num_stages() const {
    return product([](const AxisRow& row) { return row.is_pipeline; });
  }
  std::int64_t ranks_per_stage() const {
    return product([](const AxisRow& row) { return !row.is_pipeline && is_counted(row); });
  }
  /// Ranks, or groups of ranks, that each have sequences of their own.
  std::int64_t batch_replicas() const {
    return product([](const AxisRow& row) { return row.splits_batch; }) / ranks_per_sequence();
  }
  /// `rank` belongs to the group of this number.
  std::int64_t batch_replica(std::int64_t rank) const {
    std::int64_t index = 0, inner = 1;
    for (const AxisRow& row : kAxes)
      if (row.splits_batch) index += inner * place(rank, row.axis), inner *= ways(row.axis);
    return index / ranks_per_sequence();
  }
  /// State of this domain is cut into so many parts, and so many ranks of a stage hold each.
  std::int64_t shard_ways(const Domain& domain = {}) const { return ways(domain.shard); }
  std::int64_t copies(const Domain& domain = {}) const { return ways(domain.replicate); }

  /// Ranks that share a layer hold their part of the sequence between its products too (Megatron's sequence
  /// parallelism).
  bool splits_sequence() const { return splits_sequence_; }
  Mesh& set_splits_sequence(bool splits) {
    splits_sequence_ = splits;
    return *this;
  }

  /// The data parallel ranks that share each sequence.
  std::int64_t ranks_per_sequence() const {
    return product([](const AxisRow& row) { return row.is_inner; });
  }
  ContextExchange context_exchange() const { return context_exchange_; }
  Mesh& set_context_exchange(ContextExchange exchange) {
    context_exchange_ = exchange;
    return *this;
  }

  /// The degrees that divide the work of a layer: ranks along these axes have the same sequences and units.
  Mesh within_layers() const {
    Mesh out;
    out.splits_sequence_ = splits_sequence_;
    out.context_exchange_ = context_exchange_;
    out.expert_machines_ = expert_machines_;
    for (const AxisRow& row : kAxes)
      if (row.divides_layer) out.ways_[std::size_t(row.axis)] = ways(row.axis);
    return out;
  }

  bool operator==(const Mesh&) const = default;

 private:
  template <class Counts>
  std::int64_t product(Counts counts) const {
    std::int64_t out = 1;
    for (const AxisRow& row : kAxes)
      if (counts(row)) out *= ways(row.axis);
    return out;
  }

  std::array<std::int64_t, kNumAxes> ways_{};
  std::int64_t expert_machines_ = 1;
  bool splits_sequence_ = false;
  ContextExchange context_exchange_{};
};

}  // namespace gpuplan
