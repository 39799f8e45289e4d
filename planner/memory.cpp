#include "planner/memory.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

using namespace operand;

// Classes of tensors that a caching allocator does not mix in one segment, each with a peak of its own.
enum Pool : std::size_t { kState, kGradients, kActivations, kLogits, kWorkspace, kCommunication, kNumPools };

Pool pool_of(Category category) {
  switch (category) {
    case Category::Gradients: return kGradients;
    case Category::Activations: return kActivations;
    case Category::Logits: return kLogits;
    case Category::Workspace: return kWorkspace;
    case Category::Communication: return kCommunication;
    default: return kState;
  }
}

Pool pool_of(LocalKind kind) {
  return kind == LocalKind::Logits ? kLogits : kind == LocalKind::Workspace ? kWorkspace : kActivations;
}

/// A running total with its peak, in which a loop's net change can be repeated in O(1).
struct Meter {
  std::int64_t live{}, peak{}, at_loop{};
  bool add(std::int64_t bytes) {
    live += bytes;
    if (live <= peak) return false;
    peak = live;
    return true;
  }
  void begin_loop() { at_loop = live; }
  void end_loop(std::int64_t turns) {
    const std::int64_t net = live - at_loop;
    live += net * (turns - 1);
    if (net > 0) peak += net * (turns - 1);
  }
};

bool runs_loss(const Block& block) { return block.by_kind[std::size_t(LocalKind::Logits)].peak > 0; }

/// Forward, loss, backward or step: decided by what has run before the instruction.
PeakInstant instant_at(const StepProgram& all, const RankProgram& p, std::uint32_t at) {
  const Instruction& i = p.instructions[at];
  bool steps_before = false, backward_before = false;
  for (std::uint32_t k = at + 1; k-- > 0;) {
    const Instruction& j = p.instructions[k];
    if (j.op == OpCode::OptimizerStep) {
      steps_before = true;
      break;
    }
    if (j.op == OpCode::Call) {
      backward_before = all.blocks[j.block].runs_backward || runs_loss(all.blocks[j.block]);
      break;
    }
  }
  if (i.op == OpCode::Call && !all.blocks[i.block].runs_backward) {
    if (runs_loss(all.blocks[i.block])) return PeakInstant::LogitsAndLoss;
    for (const Operand o : all.operands_of(p, i))  // a recompute names no output
      if ((o & kByCallee) && (o & kWrite)) return PeakInstant::Forward;
    return PeakInstant::Backward;
  }
  if (steps_before) return PeakInstant::OptimizerStep;
  bool step_follows = false;  // a cast just before the first step belongs to it
  for (std::uint32_t k = at; k < p.instructions.size() && p.instructions[k].op != OpCode::Call; ++k)
    step_follows |= p.instructions[k].op == OpCode::OptimizerStep;
  if (step_follows && i.op != OpCode::ReduceScatter && i.op != OpCode::AllReduce) return PeakInstant::OptimizerStep;
  return backward_before ? PeakInstant::Backward : PeakInstant::Forward;
}

}  // namespace

Category category_of(LocalKind kind) {
  return kind == LocalKind::Logits      ? Category::Logits
         : kind == LocalKind::Workspace ? Category::Workspace
                                        : Category::Activations;
}

Peak replay(const StepProgram& all, const RankClass& rank_class) {
  const RankProgram& p = all.programs[rank_class.program];
  std::array<Meter, kNumSpaces> spaces;
  std::array<Meter, kNumPools> pools;
  for (const ProgramBuffer& b : p.buffers) {
    if (!b.is_persistent) continue;
    spaces[std::size_t(b.space)].add(b.bytes.count);
    if (b.space == MemorySpace::Device) pools[pool_of(b.category)].add(b.bytes.count);
  }
  Peak out;
  Meter& device = spaces[std::size_t(MemorySpace::Device)];
  out.resident = Bytes{device.live};
  for (std::uint32_t at = 0; at < p.instructions.size(); ++at) {
    const Instruction& i = p.instructions[at];
    if (i.op == OpCode::Repeat) {
      for (Meter& m : spaces) m.begin_loop();
      for (Meter& m : pools) m.begin_loop();
      continue;
    }
    if (i.op == OpCode::EndRepeat) {
      for (Meter& m : spaces) m.end_loop(i.frame);
      for (Meter& m : pools) m.end_loop(i.frame);
      continue;
    }
    const Operand* const begin = p.operands.data() + i.first_operand;
    const Operand* const end = begin + i.num_operands;
    bool frees = false;
    for (const Operand* o = begin; o != end; ++o) {
      frees |= (*o & kFrees) != 0;
      if (!(*o & kAllocates)) continue;
      const ProgramBuffer& b = p.buffers[id(*o)];
      if (spaces[std::size_t(b.space)].add(b.bytes.count) && b.space == MemorySpace::Device) out.instruction = at;
      if (b.space == MemorySpace::Device) pools[pool_of(b.category)].add(b.bytes.count);
    }
    if (i.op == OpCode::Call) {
      const Block& b = all.blocks[i.block];
      if (device.live + b.total.peak > device.peak) device.peak = device.live + b.total.peak, out.instruction = at;
      device.live += b.total.net;
      for (std::size_t k = 0; k < std::size_t(kNumLocalKinds); ++k) {
        Meter& m = pools[pool_of(LocalKind(k))];
        m.peak = std::max(m.peak, m.live + b.by_kind[k].peak);
        m.live += b.by_kind[k].net;
      }
    }
    if (!frees) continue;
    for (const Operand* o = begin; o != end; ++o) {
      if (!(*o & kFrees)) continue;
      const ProgramBuffer& b = p.buffers[id(*o)];
      spaces[std::size_t(b.space)].live -= b.bytes.count;
      if (b.space == MemorySpace::Device) pools[pool_of(b.category)].live -= b.bytes.count;
    }
  }
  out.tensors = Bytes{device.peak};
  for (const Meter& m : pools) out.pools += Bytes{m.peak};
  out.pools = std::max(out.pools, out.tensors);
  out.managed = Bytes{spaces[std::size_t(MemorySpace::Managed)].peak};
  out.host = Bytes{spaces[std::size_t(MemorySpace::Host)].peak};
  out.nvme = Bytes{spaces[std::size_t(MemorySpace::Nvme)].peak};
  if (!p.instructions.empty()) {
    out.unit = p.instructions[out.instruction].unit;
    out.instant = instant_at(all, p, out.instruction);
  }
  return out;
}

namespace {

/// Calls on_change(instruction, name maker, category, bytes) for every device allocation (+) and free (-), repeats
/// expanded.
template <class Initial, class Change>
void expand(const StepProgram& all, const RankProgram& p, Initial on_initial, Change on_change) {
  for (std::uint32_t b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].is_persistent && p.buffers[b].space == MemorySpace::Device) on_initial(b);
  std::uint32_t back = 0, turns = 0;
  for (std::uint32_t at = 0; at < p.instructions.size(); ++at) {
    const Instruction& i = p.instructions[at];
    if (i.op == OpCode::Repeat) {
      back = at;
      turns = i.frame;
      continue;
    }
    if (i.op == OpCode::EndRepeat) {
      if (--turns > 0) at = back;
      continue;
    }
    for (const Operand o : all.operands_of(p, i))
      if ((o & kAllocates) && p.buffers[id(o)].space == MemorySpace::Device) on_change(at, id(o), nullptr, 1);
    if (i.op == OpCode::Call) {
      const Block& block = all.blocks[i.block];
      const LayerGraph& graph = all.graphs[block.graph];
      for (const BlockEvent& e : block.events)
        if (e.kind != BlockEvent::Run) on_change(at, 0, &graph.locals[e.index], e.kind == BlockEvent::Alloc ? 1 : -1);
    }
    for (const Operand o : all.operands_of(p, i))
      if ((o & kFrees) && p.buffers[id(o)].space == MemorySpace::Device) on_change(at, id(o), nullptr, -1);
  }
}

}  // namespace

DetailedPeak replay_detailed(const StepProgram& all, const RankClass& rank_class, std::int64_t num_layers) {
  const RankProgram& p = all.programs[rank_class.program];
  std::int64_t live = 0, peak = 0;
  std::size_t change = 0, peak_change = 0;
  const auto bytes_of_change = [&](std::uint32_t buffer, const Local* local) {
    return local ? local->bytes().count : p.buffers[buffer].bytes.count;
  };
  expand(
      all, p,
      [&](std::uint32_t b) {
        live += p.buffers[b].bytes.count;
        peak = live;
      },
      [&](std::uint32_t, std::uint32_t b, const Local* local, int sign) {
        live += sign * bytes_of_change(b, local);
        ++change;
        if (live > peak) peak = live, peak_change = change;
      });
  // second pass: what is alive at that change, by name
  struct Alive {
    std::int64_t bytes{}, count{};
    Category category{};
  };
  std::map<std::string, Alive> alive;
  const auto put = [&](const std::string& name, Category category, std::int64_t bytes, int sign) {
    Alive& a = alive[name];
    a.category = category;
    a.bytes += sign * bytes;
    a.count += sign;
  };
  const auto name_of = [&](const ProgramBuffer& b) {
    const bool is_layer = b.unit != 0 && b.unit <= num_layers;
    return is_layer ? fmt::format("layer {}", to_string(b.role)) : buffer_name(b, num_layers);
  };
  change = 0;
  expand(
      all, p, [&](std::uint32_t b) { put(name_of(p.buffers[b]), p.buffers[b].category, p.buffers[b].bytes.count, 1); },
      [&](std::uint32_t, std::uint32_t b, const Local* local, int sign) {
        if (++change > peak_change) return;
        if (local)
          put(local->name, category_of(local->kind), local->bytes().count, sign);
        else
          put(name_of(p.buffers[b]), p.buffers[b].category, p.buffers[b].bytes.count, sign);
      });
  DetailedPeak out{.tensors = Bytes{peak}};
  for (const auto& [name, a] : alive) {
    if (a.bytes == 0) continue;
    out.by_category[std::size_t(a.category)] += Bytes{a.bytes};
    out.items.push_back({name, Bytes{a.bytes}, a.category, a.count});
  }
  std::stable_sort(out.items.begin(), out.items.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

std::vector<CurvePoint> memory_curve(const StepProgram& all, const RankClass& rank_class, std::size_t max_points) {
  const RankProgram& p = all.programs[rank_class.program];
  std::vector<CurvePoint> full;
  std::int64_t live = 0;
  expand(
      all, p, [&](std::uint32_t b) { live += p.buffers[b].bytes.count; },
      [&](std::uint32_t at, std::uint32_t b, const Local* local, int sign) {
        live += sign * (local ? local->bytes().count : p.buffers[b].bytes.count);
        full.push_back({at, Bytes{live}});
      });
  if (full.size() <= max_points || max_points == 0) return full;
  std::vector<CurvePoint> out;  // the highest of each stretch keeps the shape and the peak
  const std::size_t stretch = (full.size() + max_points - 1) / max_points;
  for (std::size_t i = 0; i < full.size(); i += stretch) {
    const auto begin = full.begin() + std::ptrdiff_t(i),
               end = full.begin() + std::ptrdiff_t(std::min(i + stretch, full.size()));
    out.push_back(
        *std::max_element(begin, end, [](const CurvePoint& a, const CurvePoint& b) { return a.live < b.live; }));
  }
  return out;
}

std::string describe(PeakInstant instant, std::uint16_t unit, std::int64_t num_layers) {
  switch (instant) {
    case PeakInstant::Forward: return fmt::format("forward of {}", unit_name(unit, num_layers));
    case PeakInstant::LogitsAndLoss: return "logits and loss";
    case PeakInstant::Backward: return fmt::format("backward of {}", unit_name(unit, num_layers));
    case PeakInstant::OptimizerStep: return "optimizer step";
    case PeakInstant::Resident: return "resident state";
  }
  return {};
}

Bytes bytes_sent(const StepProgram& all, const RankClass& rank_class) {
  const RankProgram& p = all.programs[rank_class.program];
  Bytes total;
  std::int64_t turns = 1;
  for (const Instruction& i : p.instructions) {
    if (i.op == OpCode::Repeat) turns = i.frame;
    if (i.op == OpCode::EndRepeat) turns = 1;
    const std::int64_t n = all.mesh.ways(i.axis);
    const Bytes once{i.work.count / std::max<std::int64_t>(1, n) * (n - 1)};
    if (i.op == OpCode::AllGather || i.op == OpCode::ReduceScatter) total += once * turns;
    if (i.op == OpCode::AllReduce) total += 2 * once * turns;
    if (i.op == OpCode::Send) total += i.work * turns;
  }
  return total;
}

}  // namespace gpuplan
