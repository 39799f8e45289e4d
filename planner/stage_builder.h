// How one stage's program is built: state in groups, the schedule, gathers, gradients, steps. Internal to the planner;
// the entry point is program_builder.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "base/narrow.h"
#include "planner/block.h"
#include "planner/job.h"
#include "planner/pipeline_schedule.h"
#include "planner/state_sizes.h"
#include "planner/step_program.h"
#include "planner/unit_layout.h"

namespace gpuplan {

/// One stop of the schedule, the same in every micro-batch. `unit` is local to the stage.
struct ScheduleStep {
  Phase phase{};  // a backward begins with its recompute
  std::uint16_t unit{};
  bool begins_chunk{}, ends_chunk{};
};

/// Current names of a group's buffers, which the schedule gives them.
struct GroupHandles {
  std::uint32_t gathered_trained{}, gathered_frozen{}, flat_trained{}, flat_frozen{};
  std::uint32_t gathered_rest{};  // of an engine that gathers parameters: what is not fetched ahead
  std::uint32_t full_gradient{}, gradient{};
  std::uint32_t host_gradient{};  // where an offloaded optimizer reads it
  std::uint32_t reduced_whole{};  // ZeRO-1: unsharded gradient that stays until the step
  std::uint32_t is_held{};        // 1: its weights are gathered or cast
  std::uint32_t is_current{};     // 1: what other ranks stepped has been gathered in this step
  std::uint32_t is_in_bucket{};   // 1: its gradient was copied there and waits for the reduction
  std::uint32_t accumulated{};    // sum of the gradients of micro-batches that are not reduced
};
using GroupWords = std::array<std::uint32_t, sizeof(GroupHandles) / sizeof(std::uint32_t)>;

/// Tensors that are gathered, reduced and stepped together: an FSDP unit, a DDP bucket, a ZeRO module. Buffer ids, 0:
/// none.
struct Group : GroupHandles {
  StateSizes sizes;
  Domain domain;
  std::uint16_t unit{};  // for names
  std::uint32_t trained{}, frozen{}, master{}, state{}, paged{};
  std::uint32_t bucket{}, main_gradient{};
  std::int64_t messages = 1;  // of one gather of what is trained; FSDP reduces as it gathers
  std::int64_t frozen_messages = 1;
  double ahead = 1;               // share of what is gathered that is fetched before the group's own call
  Bytes rest;                     // the most that is fetched during that call beside it
  std::int64_t elements_after{};  // gathered between this group's forward and its backward
  std::int64_t count = 1;         // it, and those like it that are not walked
  bool keeps_after_forward{}, is_root{}, needs_copy_out{};
  bool is_of_experts{};  // that ranks share
  bool has_gradient() const { return sizes.trained_elements > 0 || sizes.full_gradient.count > 0; }
};

/// Holds what the units of a stage call.
struct Unit {
  LayerBlocks blocks;                                   // of a layer
  BlockId whole = kNoBlock, whole_backward = kNoBlock;  // of an end of the model
  std::uint16_t group{}, second{};  // whose weights it uses; the second of a tied head, a wrapped rest or experts
  bool has_second{}, has_experts{}, is_checkpointed{}, keeps_input{}, makes_dx{};
  bool makes_memory{},
      reads_memory{};  // the bridge after an encoder, a deepstack block; a layer that reads what they made
  Bytes input, output, memory;
  bool operator==(const Unit&) const = default;
};

/// Units of a stage that follow each other in the model, [first, last] of the model's.
struct UnitRange {
  std::uint16_t first{}, last{};
};

/// One of them while it is built: local units, and the steps of the schedule that run them. The head runs as backward
/// begins.
struct Chunk {
  std::uint16_t first{}, last{};
  std::size_t forward{}, backward{}, end{};
};

/// Names that belong to a unit: its input, that input's gradient and its copy on the host, then those of its group.
/// Padded, so that a few vector instructions do for a unit.
constexpr std::size_t kSlotWords = 16;
static_assert(3 + std::tuple_size_v<GroupWords> <= kSlotWords);
using SlotWords = std::array<std::uint32_t, kSlotWords>;

/// A unit has two slots where its experts are a group of their own.
constexpr std::size_t kMostSlots = 2;

constexpr std::uint16_t kNoGroup = 0xffff;

/// Lanes of gradients: dense ones, and those of experts that ranks share, which go to other ranks and fill buckets
/// apart.
constexpr std::size_t kNumLanes = 2;

/// Kinds of layers that alternate with a longer period than this are not folded.
constexpr std::size_t kMostPeriod = 8;
constexpr std::uint32_t kNeverUsed = 0xffffffff;

/// Layers in the middle of a long run of alike ones are not walked. The stage that is walked is shorter by them, and
/// every walk has to pass their place in a repeat, which gets their turns.
struct Gap {
  std::size_t at{};        // the unit behind them, of the shorter stage
  std::size_t missing{};   // so many; 0: none
  std::size_t period = 1;  // they are alike after so many units
};

/// Turns that follow: of layers that are walked, and of some that are not.
struct TurnsAhead {
  std::uint32_t walked{}, missing{};
  std::uint32_t all() const { return walked + missing; }
};

/// Where a turn of some layers ended in the program, and the state of the builder then (stage_folding.cpp).
struct TurnMark {
  std::size_t instructions{}, operands{}, buffers{};
  std::size_t oldest{}, num_slots{};   // units (or groups) that the state is about, in the order of the walk
  std::vector<std::uint32_t> handles;  // names: of the buffers of these units, and of the rest
  std::array<std::int64_t, 3 + 2 * kNumLanes + std::size_t(kNumStreams)> values{};  // the same in every turn
  std::array<std::size_t, 3 + kNumLanes> grown{};  // sizes of lists that a turn appends to
};

/// An operand of a repeat: its buffer, and how far a turn moves that.
struct MovingOperand {
  std::uint32_t buffer{}, step{}, operand{};
};

/// Storage of a builder, reused from plan to plan: a search builds tens of thousands per second.
struct StageScratch {
  std::vector<Group> groups;
  std::vector<std::uint32_t> alike;  // of each layer of the stage: equal where the builder may treat them alike
  std::vector<Unit> units;
  std::vector<std::uint16_t> unit_ids;  // of the model, by local unit
  std::vector<Chunk> chunks;
  std::vector<ScheduleStep> schedule;
  std::vector<std::uint32_t> visited_x, visited_tokens;  // of each micro-batch between its visits
  std::vector<std::uint32_t> sent;                       // by each visit; 0: it has no message
  std::vector<std::uint32_t> places;                     // of what visits receive, while it is not there (place_of)
  std::vector<std::uint32_t> held_to_end;                // of a step
  std::vector<std::uint32_t> outputs;                    // of the model, of each micro-batch
  std::vector<std::uint32_t> x, dx, host_x, casts, kept, issued;  // issued: gathers that the next call awaits
  std::array<std::vector<std::uint32_t>, kNumLanes> pending;  // by lane: groups whose gradients wait for their bucket
  std::array<std::vector<std::uint32_t>, kNumStreams> held;
  std::vector<Operand> operands, part_operands;
  std::vector<std::uint32_t> last_use, num_freed;   // of each buffer: its operand; of each operand: buffers
  std::vector<MovingOperand> moving;                // of a turn, that name buffers which come and go
  std::vector<std::uint16_t> labels, group_labels;  // units that are built alike have the same
  std::array<TurnMark, 2 * kMostPeriod + 1> marks;  // the latest turns, in a ring
};
StageScratch& stage_scratch();

/// Sizes of a model's units on a rank, which all its stages have in common.
struct SizedState {
  StateSizes before, after;         // of what stands before and behind the layers
  std::vector<StateSizes> kinds;    // of one layer of each kind, but for experts that ranks share
  std::vector<StateSizes> experts;  // of these; empty: nobody shares them
  struct Messages {
    Bytes all, largest;
  };
  std::array<Messages, kNumLanes> messages;  // gradients that are reduced; the second: of experts that ranks share
  std::int64_t trained_elements{};           // that a rank steps
  std::int64_t trained_tensors{};            // of the whole model
};
void size_state(SizedState& out, const Job& job);

/// An instruction holds 16 bits: a layer of tens of thousands of messages counts as 65,535.
std::uint16_t num_messages(std::int64_t count);

/// A folding builder walks all layers of a stage, or leaves out what it may.
enum class Walked : std::uint8_t { All, Few };

/// Builds the program of one stage (all ranks of a job without pipeline) by walking its schedule.
class StageBuilder {
 public:
  StageBuilder(RankProgram& program, const Job& job, const SizedState& sizes, Layers layers, Walked walked)
      : p_(program),
        in_(job),
        z_(sizes),
        n_(job.numerics),
        rules_(job.rules),
        engine_(job.engine()),
        traits_(traits_of(job.strategy.engine)),
        s_(stage_scratch()),
        layout_(job.rules.layout),
        folds_(layers == Layers::Folded),
        cuts_(walked == Walked::Few) {}

  /// `chunks` are the model's units of this stage, the number of which is `stage`. False: layers that were left out are
  /// not like others, or a buffer of a repeat is freed in some turns alone. Then more has to be walked, or the layers
  /// written out.
  [[nodiscard]] bool run(const ModelBlocks& blocks, std::span<const UnitRange> chunks, std::int64_t stage);

 private:
  const Recipe& recipe() const { return in_.recipe(); }
  bool trains() const { return recipe().pass == Pass::Train; }
  std::uint16_t num_layers() const { return narrow<std::uint16_t>(in_.model.num_layers()); }
  std::uint16_t unit_id(std::size_t local) const { return s_.unit_ids[local]; }
  /// Place of a unit of the model in the stage that is walked. Of a stage of one chunk.
  std::size_t local_of(std::int64_t unit) const {
    const auto local = std::size_t(std::max<std::int64_t>(0, unit - first_));
    return local < cut_.at + cut_.missing ? std::min(local, cut_.at) : local - cut_.missing;
  }
  bool is_embedding(std::size_t local) const { return unit_id(local) == 0; }
  bool is_head(std::size_t local) const { return unit_id(local) == num_layers() + 1; }
  bool has_embedding() const { return first_ == 0; }
  bool has_head() const { return last_ == num_layers() + 1; }
  const Chunk& chunk() const { return s_.chunks[chunk_]; }
  bool begins_model() const { return is_embedding(chunk().first); }
  bool ends_model() const { return is_head(chunk().last); }
  bool gathers() const { return rules_.gathers(); }
  bool gathers(const Group& g) const { return g.is_of_experts ? rules_.of_experts().gathers() : gathers(); }
  /// The host steps a copy of weights that stay on the device: the master.
  bool steps_host_copy() const { return rules_.steps_host_copy; }
  /// ZeRO++'s quantised weights. Source: CUDAQuantizer of deepspeed/runtime/zero/partition_parameters.py.
  bool gathers_int8(const Group& g) const { return engine_.gathers_int8 && ways(g) > 1; }
  bool wraps_adapters() const { return engine_.wraps_adapters && recipe().is_adapter(); }
  bool waits_for_prefetch() const {
    return engine_.waits_for_prefetch && (!engine_.wraps_adapters || recipe().is_adapter());
  }
  /// FSDP1 puts its hook for resharding a unit without trained weights on the unit's input, until backward ends
  /// (_register_post_backward_reshard_only_hook and _finalize_params of torch/distributed/fsdp/_runtime_utils.py). The
  /// hook names the input's node in the graph (torch/autograd/graph.py register_multi_grad_hook); of a reentrant
  /// checkpoint that is a leaf, which keeps itself and its gradient.
  bool keeps_frozen_inputs(const Group& g) const {
    return traits_.hooks_frozen_inputs && ways(g) > 1 && wraps_adapters() &&
           in_.framework.layers.checkpoints_reentrantly;
  }
  bool casts() const { return !layout_.shards_weights && n_.casts_weights && !steps_host_copy(); }
  const FrameworkPipeline& pipeline() const { return in_.framework.pipeline; }
  /// Weights are gathered once in a step, and gradients reduced behind the last backward of a chunk.
  bool keeps_gathered() const { return is_pipeline_ && pipeline().keeps_gathered && gathers(); }
  bool reduces_each_micro_batch() const { return layout_.shards_gradients && !engine_.syncs_last_only; }
  /// A group's state is cut into so many parts, and so many copies of a part sum their gradients.
  std::int64_t ways(const Group& g) const { return in_.strategy.mesh.shard_ways(g.domain); }
  std::int64_t copies(const Group& g) const { return in_.strategy.mesh.copies(g.domain); }
  /// A gradient keeps its place when it is reduced, in a buffer that stays.
  bool reduces_in_place() const {
    return engine_.reduces_in_place && !layout_.shards_gradients && optimizer_space() == MemorySpace::Device;
  }
  /// Every rank holds weights of which it steps its part, and gathers the others where it uses them.
  bool gathers_at_use(const Group& g) const {
    return engine_.gathers_at_use && is_scattered(g) && !layout_.shards_weights && g.trained;
  }
  bool is_scattered(const Group& g) const { return layout_.shards_optimizer && ways(g) > 1; }
  /// The bucket of DeepSpeed's stages 1 and 2, of one rank too: gradients are copied there, and reduced when it is
  /// full.
  bool fills_bucket() const { return engine_.buckets.size != 0 && !layout_.shards_weights; }
  const GradientBuckets& bucket_rule() const { return engine_.buckets_of(layout_.shards_weights); }
  /// Gradients of this lane wait until they fill a bucket.
  bool waits_for_bucket(std::size_t lane) const {
    const Domain& domain = lane == 0 ? rules_.domain : rules_.experts;
    const Mesh& mesh = in_.strategy.mesh;
    return !layout_.shards_weights && mesh.copies(domain) * mesh.shard_ways(domain) > 1;
  }
  Bytes bucket_bytes() const { return bytes_of(bucket_rule().elements(in_.model.spec.hidden_size), n_.compute); }

  // buffers
  std::uint32_t add(Category category, BufferRole role, std::uint16_t unit, Bytes bytes, bool persistent = false,
                    MemorySpace space = MemorySpace::Device);
  Placement& placement(std::uint32_t id, Axis axis) { return p_.buffers[id].placement[std::size_t(axis)]; }
  /// A gradient of the group, which its copies have still to sum.
  void place_gradient(std::uint32_t id, const Group& g, Placement along_shards) {
    if (ways(g) > 1) placement(id, g.domain.shard) = along_shards;
    if (copies(g) > 1) placement(id, g.domain.replicate) = Placement::Partial;
  }
  Instruction& emit(OpCode op, StreamId stream, Axis axis, std::uint16_t unit, std::span<const Operand> operands,
                    Bytes work = {});
  Instruction& emit(OpCode op, StreamId stream, Axis axis, std::uint16_t unit, std::initializer_list<Operand> operands,
                    Bytes work = {}) {
    return emit(op, stream, axis, unit, std::span<const Operand>(operands.begin(), operands.size()), work);
  }
  bool finish();

  // layers that are built once
  enum class WalkOver : std::uint8_t { Schedule, Groups, Pending };
  struct Walk {
    WalkOver over{};
    std::size_t end{};              // behind its last step
    int direction = 1;              // in which its units follow each other
    std::size_t run_end{};          // up to here, every step is like the one a period before it
    std::size_t period{}, ahead{};  // steps of a turn; units that its state may be about beyond its last one
    std::size_t num_marks{};
    std::size_t lane{};  // whose groups are walked
  };
  void label_units();
  void choose_cut(const ModelBlocks& blocks);
  void mark_alike_layers(const ModelBlocks& blocks);
  void repeat_buffers(std::size_t first, std::size_t count, std::size_t times, std::int64_t unit_step);
  /// Layers whose gradients are reduced together, about; buckets take turns.
  std::size_t layers_per_bucket(const Group& group) const;
  std::size_t layers_per_bucket(const Unit& unit) const;
  bool is_behind_cut(std::size_t slot) const {
    if (is_over_units()) return slot >= cut_.at;
    const Unit& first = s_.units[cut_.at];
    return slot >= (s_.groups[slot].is_of_experts ? first.second : first.group);
  }
  /// Two slots between which layers are missing.
  bool are_apart(std::size_t slot, std::size_t other) const {
    if (cut_.missing == 0) return false;
    const bool are_alike = is_over_units() || s_.groups[slot].is_of_experts == s_.groups[other].is_of_experts;
    return are_alike && is_behind_cut(slot) != is_behind_cut(other);
  }
  void begin_run(std::size_t at);
  void begin_walk(WalkOver over, std::size_t end) { walk_ = {.over = over, .end = end}; }
  bool is_over_units() const { return walk_.over == WalkOver::Schedule; }
  /// Unit, or group, of a step.
  std::size_t slot_at(std::size_t at) const;
  /// After the step `at` of the walk: how many steps the program has without being built.
  std::size_t fold_turns(std::size_t at);
  std::uint32_t label_at(std::size_t at) const;
  std::size_t slots_of_each() const { return is_over_units() && has_experts_apart() ? kMostSlots : 1; }
  Group& group_of(std::size_t slot, std::size_t part) const;
  SlotWords words_of(std::size_t slot, std::size_t part) const;
  void set_words(std::size_t slot, std::size_t part, const SlotWords& words);
  template <class Use, class UseGroup>
  void each_common_handle(Use use, UseGroup use_group);
  bool mark_turn(std::size_t at);
  bool emits_alike(const TurnMark& before, const TurnMark& last, const TurnMark& now, int unit_step) const;
  bool is_turn(const TurnMark& before, const TurnMark& last, const TurnMark& now) const;
  TurnsAhead turns_ahead(std::size_t at, const TurnMark& last, const TurnMark& now);
  std::size_t fold_here(std::size_t at);
  void repeat_text(const TurnMark& before, const TurnMark& last, const TurnMark& now, std::uint32_t turns,
                   int unit_step);
  void move_state(const TurnMark& last, const TurnMark& now, TurnsAhead turns);
  bool frees_in_all_turns(std::span<const std::uint32_t> num_freed) const;
  /// Visits groups in order; alike ones become a repeat.
  template <class Visit>
  void walk_groups(std::span<Group> groups, Visit visit) {
    const auto first = std::size_t(groups.data() - s_.groups.data()), end = first + groups.size();
    begin_walk(WalkOver::Groups, end);
    for (std::size_t at = first; at < end; ++at) {
      visit(s_.groups[at]);
      at += fold_turns(at);
    }
  }

  /// The same of groups whose gradients wait, within a walk over the schedule.
  template <class Visit>
  void walk_pending(std::size_t lane, Visit visit) {
    const std::vector<std::uint32_t>& pending = s_.pending[lane];
    const Walk outer = std::exchange(walk_, {.over = WalkOver::Pending, .end = pending.size(), .lane = lane});
    for (std::size_t at = 0; at < pending.size(); ++at) {
      visit(s_.groups[pending[at]]);
      at += fold_turns(at);
    }
    walk_ = outer;
    walk_.num_marks = 0;  // its turns are those of this walk now
  }

  // state
  void make_groups();
  bool has_experts_apart() const { return !z_.experts.empty(); }
  void add_experts(std::size_t local);
  void limit_fetches(Group& group) const;
  void add_constants();
  void allocate_state(Group& group);
  void wrap_by_size(Group& root);
  void wrap_layer_by_size(Group& root, Group& group, const LayerKind& kind);
  MemorySpace optimizer_space() const;
  MemorySpace weight_space() const;

  // asynchronous operations hold their inputs until the next one of their stream
  void hold(StreamId stream, std::uint32_t id) {
    if (id) s_.held[std::size_t(stream)].push_back(id);
  }
  void drain(StreamId stream, std::uint16_t unit);

  // the schedule
  void make_units(const ModelBlocks& blocks);
  void add_chunk(std::uint16_t first, std::uint16_t last);
  void begin_pass(std::int64_t micro_batch);
  void run_steps(std::size_t begin, std::size_t end);
  void end_pass();
  void micro_batch(std::int64_t index);
  void run_visits(const PipelineRow& row, std::int64_t stage);
  void visit(const Visit& v);
  void let_message_go(std::size_t visit);
  /// Gives the place in s_.places of what a chunk receives of a micro-batch, the activations or their gradient.
  std::size_t place_of(std::size_t chunk, std::size_t micro_batch, bool is_gradient) const {
    return 2 * (micro_batch * s_.chunks.size() + chunk) + (is_gradient ? 1 : 0);
  }
  Bytes received_bytes(std::size_t chunk, bool is_gradient) const;
  void hold_places(std::size_t chunk, std::size_t micro_batch);
  void give_place(bool is_gradient);
  void hold_to_end(bool holds, std::uint32_t id) {
    if (holds && id) s_.held_to_end.push_back(id);
  }
  void hold_logits(std::uint16_t unit);
  void merge_logits();
  void release_all(std::span<const std::uint32_t> ids);
  void run_micro_batches();
  std::uint16_t frame_of(std::size_t local) const {
    return narrow<std::uint16_t>(slot_ * (s_.units.size() + cut_.missing) + local +
                                 (local >= cut_.at ? cut_.missing : 0));
  }
  void run_hooks(const ScheduleStep& at);
  void acquire(const ScheduleStep& at);
  void cast_for(const ScheduleStep& at);
  void gather(Group& group);
  void gather_stepped(Group& group);
  /// Host work of parameters that come in another's message, in kernel launches.
  std::uint32_t leaf_kernels(const Group& group, std::int64_t parameters, double kernels) const;
  void gather_part(Group& group, std::uint32_t stored, Bytes copied, Bytes whole, bool is_cast, std::int64_t units,
                   std::int64_t leaves, std::uint32_t& handle, std::uint32_t& flat);
  void copy_out(Group& group);
  void cast_weights(Group& group, Bytes bytes);
  void release_groups(const ScheduleStep& at);
  void enter(const ScheduleStep& at);
  void leave_backward(const ScheduleStep& at);
  bool sends_parts() const;
  void receive(std::uint16_t unit, std::uint32_t buffer, Bytes whole, Direction direction);
  void send(std::uint16_t unit, std::uint32_t buffer, Bytes whole, Direction direction);
  void keep_input(std::size_t at);
  void forward(const ScheduleStep& at);
  void head(const ScheduleStep& at);
  void forget_casts(std::uint16_t unit);
  void backward(const ScheduleStep& at);
  const LayerKind& kind_of(std::size_t local) const {
    return in_.model.weights.layer(std::int64_t(unit_id(local)) - 1);
  }
  std::size_t kind_index(std::size_t local) const { return in_.model.weights.order[std::size_t(unit_id(local)) - 1]; }
  void push_part(const Block& part);
  /// Compute waits for what ranks exchange, unless the trainer lets gathers and scatters along the sequence run beside
  /// the products.
  StreamId stream_of(const Block& part) const {
    const bool is_along_sequence = part.exchange == Exchange::AllGather || part.exchange == Exchange::ReduceScatter;
    const bool overlaps = in_.strategy.overlaps_tensor_parallel.value_or(in_.framework.tensor_parallel.overlaps);
    const bool is_beside = overlaps && is_along_sequence && in_.strategy.mesh.splits_sequence() &&
                           !is_of_experts(part.axis) && !in_.framework.tensor_parallel.overlap_needs_compile;
    return is_beside || part.is_beside ? StreamId::Gather : StreamId::Compute;
  }
  /// A compiler joins an exchange to the products that read what it brings, or to the one that makes what it takes: the
  /// gradient that several columns made and summed waits. Source: torch/_inductor/fx_passes/micro_pipeline_tp.py
  /// @v2.7.0 (fuse_all_gather_matmul, fuse_matmul_reduce_scatter)
  bool goes_with_products(const Block& part) const {
    const FrameworkTensorParallel& trainer = in_.framework.tensor_parallel;
    if (part.goes_with_columns && trainer.overlaps_columns && stream_of(part) == StreamId::Compute) return true;
    const bool is_sum = part.exchange == Exchange::ReduceScatter && part.runs_backward;
    const bool is_along_sequence = part.exchange == Exchange::AllGather || part.exchange == Exchange::ReduceScatter;
    return in_.strategy.overlaps_tensor_parallel.value_or(trainer.overlaps) && trainer.overlap_needs_compile &&
           is_along_sequence && part.axis == Axis::Tp && !is_sum && in_.strategy.mesh.splits_sequence();
  }
  void call(BlockId first, std::uint16_t unit, std::uint16_t frame);
  void push_memory(const Unit& unit, bool is_backward);
  void push_weights(Group& group);
  void push_issued();
  void push_gradients(Group& group);
  std::uint32_t gradient_target(Group& group);
  void gradients_ready(std::size_t group);
  void make_buckets(std::uint16_t unit);
  void fill_bucket(Group& group);
  bool accumulates_apart(const Group& group) const;
  void accumulate(Group& group);
  StreamId reduce_stream() const {
    return in_.framework.distributed.reduces_at_end && !layout_.shards_gradients ? StreamId::Compute : StreamId::Reduce;
  }
  void reduce_pending(bool flush);
  void reduce_pending(std::size_t lane, bool flush);
  void leave(const ScheduleStep& at);
  void reduce(Group& group);
  /// Moves a reduced gradient to the host, where the optimizer is.
  void push_out_gradient(Group& group);
  bool steps_on_host(const Group& group) const;
  std::int64_t stepped_messages(const Group& group) const;
  void gather_slices(Group& group);
  void gather_flat_slices();
  void sum_partial_gradients();
  void step_all();
  void step(Group& group);
  bool has_step(const Group& group) const;
  /// Index of these products among RankProgram::step_flops.
  std::uint8_t step_products(double flops);
  bool steps_flat() const {
    return rules_.steps_flat && !recipe().optimizer_in_backward && optimizer_space() == MemorySpace::Device;
  }
  void step_flat();
  void prepare_flat_step(std::span<Group> groups);
  void offload_input(std::size_t at, std::uint16_t unit);
  void prefetch_input(std::size_t step);
  template <class Use>
  void each_group(const Unit& unit, Use use) {
    use(s_.groups[unit.group]);
    if (unit.has_second) use(s_.groups[unit.second]);
  }
  bool is_last_micro_batch() const { return std::int64_t(micro_batch_) + 1 == recipe().grad_accum; }

  RankProgram& p_;
  const Job& in_;
  const SizedState& z_;
  const DtypePolicy& n_;
  const SizeRules& rules_;
  const EngineConvention& engine_;
  const EngineTraits& traits_;
  StageScratch& s_;
  StateLayout layout_;
  const ModelBlocks* blocks_ = nullptr;
  bool folds_{}, cuts_{}, is_pipeline_{};
  Gap cut_;
  bool is_cut_wrong_{};                          // a walk has passed it outside of a repeat
  std::array<bool, kNumLanes> pending_grows_{};  // the gradients of all layers do not fill a bucket
  Walk walk_;
  std::size_t period_{};  // of the kinds of layers; 0: nothing is folded
  std::uint16_t first_{}, last_{};
  std::size_t chunk_{};                   // that is visited
  std::uint32_t slot_{}, num_slots_ = 1;  // of its frames: micro-batches between their visits use them in turn
  Phase phase_{};                         // of what is emitted
  std::uint32_t micro_batch_{};
  std::uint32_t hooks_{};  // that run before the next call, in kernel launches
  Bytes added_;            // moved by sums of gradients in the next call
  std::uint32_t step_gradient_{}, step_temporary_{};
  std::array<std::uint32_t, 2> buckets_{};  // the first is filled now; they change places when it is reduced
  Bytes step_gradient_bytes_, step_temporary_bytes_;
  std::array<Bytes, kNumLanes> waiting_;                   // gradients that are not reduced yet
  std::uint32_t tokens_{}, memory_{}, memory_gradient_{};  // of this micro-batch: batch, encoder output
  Category trained_category_{};
};

}  // namespace gpuplan
