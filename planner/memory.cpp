#include "planner/memory.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "planner/block.h"
#include "planner/program_walk.h"

namespace gpuplan {

Category category_of(LocalKind kind) {
  return kind == LocalKind::Logits      ? Category::Logits
         : kind == LocalKind::Workspace ? Category::Workspace
                                        : Category::Activations;
}

namespace {

using namespace operand;

// Classes of tensors that a caching allocator does not mix in one segment, each with a peak of its own.
enum Pool : std::size_t { kStates, kGradients, kActivations, kLogits, kWorkspace, kCommunication, kNumPools };

constexpr std::array<Pool, std::size_t(kNumCategories)> kPools = [] {
  std::array<Pool, std::size_t(kNumCategories)> out{};  // kStates, except
  for (const auto& [category, pool] :
       {std::pair{Category::Gradients, kGradients}, std::pair{Category::Activations, kActivations},
        std::pair{Category::Logits, kLogits}, std::pair{Category::Workspace, kWorkspace},
        std::pair{Category::Communication, kCommunication}})
    out[std::size_t(category)] = pool;
  return out;
}();

Pool pool_of(LocalKind kind) { return kPools[std::size_t(category_of(kind))]; }

/// Counts what comes and goes within a micro-batch.
constexpr std::array kTransients{kActivations, kLogits, kWorkspace, kCommunication};

/// A running total with its peak.
struct Meter {
  std::int64_t live{}, peak{};
  /// Says whether it is a new peak.
  bool add(Usage usage) {
    const std::int64_t most = checked_sum(live, usage.peak);
    const bool is_peak = most > peak;
    peak = is_peak ? most : peak;
    live = checked_sum(live, usage.net);
    return is_peak;
  }
  bool add(std::int64_t bytes) { return add({bytes, bytes}); }
  void restart() { peak = live; }
};

PeakInstant instant_of(Phase phase) {
  switch (phase) {
    case Phase::Forward: return PeakInstant::Forward;
    case Phase::Head: return PeakInstant::LogitsAndLoss;
    case Phase::Recompute:
    case Phase::Backward: return PeakInstant::Backward;
    case Phase::OptimizerStep: return PeakInstant::OptimizerStep;
  }
  return {};
}

/// Says whether other models run before this instruction, while what forward saved is alive: before the head's
/// backward, before a head that is not in two, and on a stage without a head (`is_first`: nothing was found yet) before
/// backward.
bool begins_after_loss(const StepProgram& program, const Instruction& i, bool is_first) {
  if (is_first && (i.phase == Phase::Recompute || i.phase == Phase::Backward)) return true;
  if (i.op != OpCode::Call || i.phase != Phase::Head) return false;
  const bool is_split = program.made && program.made->head_backward != kNoBlock;
  return !is_split || i.block == program.made->head_backward;
}

/// Says where in a program the device's peak is.
struct PeakPlace {
  std::uint32_t instruction{};
  std::uint16_t unit{};
};

/// Live bytes per space and per pool. A repeat of micro-batches is one turn and the net change of the others, a repeat
/// of layers two.
struct Meters {
  static constexpr std::size_t kNumMeters = std::size_t(kNumSpaces) + kNumPools;
  using AllMeters = std::array<std::int64_t, kNumMeters>;

  std::array<Meter, kNumSpaces> spaces;
  std::array<Meter, kNumPools> pools;
  PeakPlace place;
  AllMeters at_loop{};
  std::array<std::int64_t, kNumPools> persistent{}, highest{};
  /// Sums of the pools' peaks in a stretch between two moments without transients, in the step and before it, and what
  /// activations and logits had of the latter.
  std::int64_t most_in_step{}, most_at_once{}, activations_at_most{};

  /// The repeat of layers that is under way.
  struct LayerTurns {
    enum Mode : std::uint8_t { First, Measured, Stretches, All } mode{};
    AllMeters live{}, net{}, peak{};  // when the turn began; its change; peaks before a turn that is measured
    PeakPlace place;                  // then
    std::array<std::int64_t, kTransients.size()> falls{};  // of each transient pool in the turns to come, at most 0
    bool has_ended_stretch{};
  } layers;

  template <class Use>
  void each(Use use) {
    std::size_t k = 0;
    for (Meter& m : spaces) use(m, k++);
    for (Meter& m : pools) use(m, k++);
  }
  AllMeters all_live() {
    AllMeters out{};
    each([&](const Meter& m, std::size_t k) { out[k] = m.live; });
    return out;
  }
  void begin_repeat(const Instruction& repeat) {
    if (!repeats_layers(repeat)) {
      at_loop = all_live();
      return;
    }
    layers = {};
    layers.live = all_live();
  }
  std::uint32_t skips(const Instruction& repeat, std::uint32_t left) {
    if (repeats_layers(repeat)) return skips_layers(repeat, left);
    each([&](Meter& m, std::size_t k) {
      const std::int64_t net = checked_product(m.live - at_loop[k], std::int64_t(left));
      m.live = checked_sum(m.live, net);
      if (net > 0) m.peak = checked_sum(m.peak, net);
    });
    return left;
  }
  /// The second turn is measured by itself: all after the first begin behind a turn of their own kind, and the peak of
  /// the last one is as much above that of the second as the turns between them leave behind.
  std::uint32_t skips_layers(const Instruction& repeat, std::uint32_t left) {
    using enum LayerTurns::Mode;
    if (layers.mode == All) return 0;
    if (layers.mode == First) {
      begin_second_turn(left);
      return 0;
    }
    each([&](Meter& m, std::size_t k) {
      const std::int64_t net = checked_product(layers.net[k], std::int64_t(left));
      m.live = checked_sum(m.live, net);
      if (layers.mode == Measured)
        m.peak = std::max(layers.peak[k], checked_sum(m.peak, std::max<std::int64_t>(net, 0)));
      if (layers.mode == Stretches && k >= std::size_t(kNumSpaces)) m.peak = checked_sum(m.peak, net);
    });
    if (layers.mode == Measured) {
      if (spaces[std::size_t(MemorySpace::Device)].peak == layers.peak[std::size_t(MemorySpace::Device)])
        place = layers.place;
      else
        place.unit = narrow<std::uint16_t>(place.unit + std::int64_t(left) * repeat.unit_step);
    }
    layers = {};
    return left;
  }
  void begin_second_turn(std::uint32_t left) {
    using enum LayerTurns::Mode;
    const AllMeters live = all_live();
    for (std::size_t k = 0; k < kNumMeters; ++k) layers.net[k] = live[k] - layers.live[k];
    if (layers.has_ended_stretch) {
      // Later stretches are like the second turn's where transients come and go within a turn, and no higher where
      // nothing grows.
      bool is_alike = std::all_of(layers.net.begin(), layers.net.end(), [](std::int64_t net) { return net <= 0; });
      for (const Pool k : kTransients) is_alike &= layers.net[std::size_t(kNumSpaces) + k] == 0;
      layers.mode = is_alike ? Stretches : All;
      return;
    }
    layers.mode = Measured;
    layers.place = place;
    for (std::size_t k = 0; k < kTransients.size(); ++k)
      layers.falls[k] = checked_product(std::min<std::int64_t>(0, layers.net[std::size_t(kNumSpaces) + kTransients[k]]),
                                        std::int64_t(left - std::min(left, 1u)));
    each([&](Meter& m, std::size_t k) { layers.peak[k] = std::exchange(m.peak, m.live); });
  }
  /// A turn that is measured ends a stretch, or one after it will: then all turns are run.
  void stop_measuring() {
    if (layers.mode != LayerTurns::Mode::Measured) return;
    const std::int64_t highest_here = spaces[std::size_t(MemorySpace::Device)].peak;
    if (highest_here <= layers.peak[std::size_t(MemorySpace::Device)]) place = layers.place;
    each([&](Meter& m, std::size_t k) { m.peak = std::max(m.peak, layers.peak[k]); });
    layers.mode = LayerTurns::Mode::All;
  }
  /// Says whether it is a new peak of the device.
  bool allocate(const ProgramBuffer& b) {
    const bool is_peak = spaces[std::size_t(b.space)].add(b.bytes.count) && b.space == MemorySpace::Device;
    if (b.space == MemorySpace::Device) pools[kPools[std::size_t(b.category)]].add(b.bytes.count);
    return is_peak;
  }
  void free(const ProgramBuffer& b) {
    spaces[std::size_t(b.space)].live -= b.bytes.count;
    if (b.space == MemorySpace::Device) pools[kPools[std::size_t(b.category)]].live -= b.bytes.count;
  }
  void end_of_persistent() {
    for (std::size_t k = 0; k < kNumPools; ++k) persistent[k] = pools[k].live;
  }
  void end_stretch_without_transients(bool is_step) {
    bool is_idle = true, will_be_idle = true;
    for (std::size_t k = 0; k < kTransients.size(); ++k) {
      const std::int64_t above = pools[kTransients[k]].live - persistent[kTransients[k]];
      is_idle &= above <= 0;
      will_be_idle &= above + layers.falls[k] <= 0;
    }
    if (will_be_idle) stop_measuring();
    if (is_idle) end_stretch(is_step);
  }
  void end_stretch(bool is_step) {
    layers.has_ended_stretch = true;
    std::int64_t sum = 0;
    const std::int64_t activations = pools[kActivations].peak + pools[kLogits].peak;
    for (std::size_t k = 0; k < kNumPools; ++k) {
      sum += pools[k].peak;
      highest[k] = std::max(highest[k], pools[k].peak);
      pools[k].restart();
    }
    if (is_step)
      most_in_step = std::max(most_in_step, sum);
    else if (sum > most_at_once)
      most_at_once = sum, activations_at_most = activations;
  }
  bool call(const Block& b) {
    for (std::size_t k = 0; k < std::size_t(kNumLocalKinds); ++k) pools[pool_of(LocalKind(k))].add(b.by_kind[k]);
    return spaces[std::size_t(MemorySpace::Device)].add(b.total);
  }
};

}  // namespace

Peak replay(const StepProgram& all, const RankClass& rank_class) {
  const RankProgram& p = all.programs[rank_class.program];
  Meters meters;
  Peak out;
  for (const ProgramBuffer& b : p.buffers) {
    if (b.is_persistent) {
      meters.allocate(b);
      const bool is_weight = b.category == Category::Weights || b.category == Category::Adapters;
      if (is_weight && b.space == MemorySpace::Device) out.weights += b.bytes;
    }
    if (b.role == BufferRole::StepTemporary) out.step_temporaries = std::max(out.step_temporaries, b.bytes);
    if (b.role == BufferRole::StepGradient) out.step_gradient = std::max(out.step_gradient, b.bytes);
  }
  meters.end_of_persistent();
  const auto peak_of = [&](MemorySpace space) { return Bytes{meters.spaces[std::size_t(space)].peak}; };
  out.resident = peak_of(MemorySpace::Device);
  const ProgramBuffer* const buffers = p.buffers.data();
  walk(
      p,
      [&](const ProgramCursor& at) {
        const Instruction& i = at.instruction();
        const std::span<const Operand> operands = at.operands();
        if (begins_after_loss(all, i, out.at_loss.count == 0))
          out.at_loss = std::max(out.at_loss, Bytes{meters.spaces[std::size_t(MemorySpace::Device)].live});
        bool frees = false, is_peak = false;
        for (const Operand o : operands) {
          frees |= (o & kFrees) != 0;
          if (o & kAllocates) is_peak |= meters.allocate(buffers[id(o)]);
        }
        if (runs_block(i)) is_peak |= meters.call(all.blocks[i.block]);
        if (is_peak) meters.place = {at.index(), at.unit()};
        if (!frees) return;
        for (const Operand o : operands)
          if (o & kFrees) meters.free(buffers[id(o)]);
        meters.end_stretch_without_transients(i.phase == Phase::OptimizerStep);
      },
      meters);
  meters.end_stretch(!p.instructions.empty() && p.instructions.back().phase == Phase::OptimizerStep);
  out.train = out.step = out.tensors = peak_of(MemorySpace::Device);
  out.trained_resident = out.resident;
  for (const std::int64_t bytes : meters.highest) out.pools += Bytes{bytes};
  out.pools = std::max(out.pools, out.tensors);
  out.joined_pools = Bytes{meters.most_at_once}, out.joined_step = Bytes{meters.most_in_step};
  out.joined_activations = Bytes{meters.activations_at_most};
  out.managed = peak_of(MemorySpace::Managed);
  out.host = peak_of(MemorySpace::Host);
  out.nvme = peak_of(MemorySpace::Nvme);
  if (!p.instructions.empty()) {
    out.instruction = meters.place.instruction, out.unit = meters.place.unit;
    out.instant = instant_of(p.instructions[meters.place.instruction].phase);
  }
  return out;
}

std::vector<Peak> replay_all(const StepProgram& program) {
  std::vector<Peak> peaks;
  for (const RankClass& c : program.classes) peaks.push_back(replay(program, c));
  return peaks;
}

Bytes resident_bytes(const RankProgram& p) {
  Bytes sum;
  for (const ProgramBuffer& b : p.buffers)
    if (b.is_persistent && b.space == MemorySpace::Device) sum += b.bytes;
  return sum;
}

DetailedPeak replay_detailed(const StepProgram& all, const RankClass& rank_class, std::int64_t num_layers,
                             Moment moment) {
  const RankProgram& p = all.programs[rank_class.program];
  std::int64_t live = resident_bytes(p).count, peak = moment == Moment::Loss ? 0 : live;
  std::size_t change = 0, peak_change = 0;
  const auto each_change = [&](auto use) {
    OneMicroBatch one;
    walk(
        p,
        [&](const ProgramCursor& at) {
          if (moment == Moment::Loss && begins_after_loss(all, at.instruction(), peak == 0) && live > peak)
            peak = live, peak_change = change;
          each_device_change(all, p, at, use);
        },
        one);
  };
  each_change([&](const DeviceChange& c) {
    live += c.bytes;
    ++change;
    if (moment == Moment::Peak && live > peak) peak = live, peak_change = change;
  });
  // second pass: what is alive at that change, by name
  struct Alive {
    std::int64_t bytes{}, count{};
    Category category{};
  };
  std::map<std::pair<std::string, std::int64_t>, Alive> alive;  // by name and size: a tower's are of another size
  std::vector<Alive*> of_buffer(p.buffers.size());              // its entry, once it is named
  std::unordered_map<const Local*, Alive*> of_local;
  const auto put = [](Alive& a, Category category, std::int64_t bytes, int sign) {
    a.category = category;
    a.bytes += bytes;
    a.count += sign;
  };
  const auto put_buffer = [&](std::size_t id, std::int64_t bytes, int sign) {
    const ProgramBuffer& b = p.buffers[id];
    const bool is_layer = b.unit != 0 && b.unit <= num_layers;
    if (!of_buffer[id])
      of_buffer[id] =
          &alive[{is_layer ? fmt::format("layer {}", to_string(b.role)) : buffer_name(b, num_layers), std::abs(bytes)}];
    put(*of_buffer[id], b.category, bytes, sign);
  };
  for (std::size_t id = 0; id < p.buffers.size(); ++id)
    if (const ProgramBuffer& b = p.buffers[id]; b.is_persistent && b.space == MemorySpace::Device)
      put_buffer(id, b.bytes.count, 1);
  change = 0;
  live = std::numeric_limits<std::int64_t>::min();  // no moment is chosen anew
  each_change([&](const DeviceChange& c) {
    if (++change > peak_change) return;
    if (!c.local) return put_buffer(c.buffer, c.bytes, c.sign);
    Alive*& known = of_local[c.local];
    if (!known) known = &alive[{c.local->name, std::abs(c.bytes)}];
    put(*known, category_of(c.local->kind), c.bytes, c.sign);
  });
  // A gradient that layers hand on is allocated as a buffer and freed as a local of the next layer, or the reverse.
  // Then one name has too little and another as much too much.
  for (auto& [key, freed] : alive) {
    if (freed.bytes >= 0) continue;
    const auto covers = [&, &freed = freed](const auto& other) {
      return other.second.category == freed.category && other.second.bytes >= -freed.bytes &&
             other.second.count >= -freed.count;
    };
    auto same = std::find_if(alive.begin(), alive.end(), [&, &freed = freed](const auto& other) {
      return covers(other) && other.second.bytes == -freed.bytes;
    });
    if (same == alive.end()) same = std::find_if(alive.begin(), alive.end(), covers);
    if (same == alive.end()) continue;
    same->second.bytes += freed.bytes;
    same->second.count += freed.count;
    freed.bytes = freed.count = 0;
  }
  DetailedPeak out{.tensors = Bytes{peak}};
  for (const auto& [key, a] : alive) {
    if (a.bytes == 0) continue;
    out.by_category[std::size_t(a.category)] += Bytes{a.bytes};
    if (out.items.empty() || out.items.back().name != key.first)
      out.items.push_back({key.first, Bytes{}, a.category, 0});
    out.items.back().bytes += Bytes{a.bytes};
    out.items.back().count += a.count;
  }
  std::ranges::stable_sort(out.items, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

std::string describe(PeakInstant instant, std::uint16_t unit, std::int64_t num_layers) {
  switch (instant) {
    case PeakInstant::Forward: return fmt::format("forward of {}", unit_name(unit, num_layers));
    case PeakInstant::LogitsAndLoss: return "logits and loss";
    case PeakInstant::Backward: return fmt::format("backward of {}", unit_name(unit, num_layers));
    case PeakInstant::OptimizerStep: return "optimizer step";
    case PeakInstant::Resident: return "resident state";
    case PeakInstant::Loading: return "loading";
    case PeakInstant::Evaluation: return "evaluation";
    case PeakInstant::Saving: return "saving";
    case PeakInstant::OtherModel: return "pass of another model";
    case PeakInstant::Generation: return "generation of answers";
  }
  return {};
}

Bytes bytes_sent(const StepProgram& all, const RankClass& rank_class) {
  RepeatedSum<Bytes> sent;
  walk(
      all.programs[rank_class.program],
      [&](const ProgramCursor& at) {
        const Instruction& i = at.instruction();
        const std::int64_t n = std::max<std::int64_t>(1, all.mesh.ways(i.axis));
        const Bytes once{i.work.count / n * (n - 1)};
        if (i.op == OpCode::AllGather || i.op == OpCode::ReduceScatter || i.op == OpCode::AllToAll) sent.total += once;
        if (i.op == OpCode::AllReduce) sent.total += 2 * once;
        if (i.op == OpCode::Send) sent.total += i.work;
      },
      sent);
  return sent.total;
}

}  // namespace gpuplan
