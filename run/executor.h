// Reader 3 of a step program: the real thing. Instructions become device calls on as many streams as the program has;
// what waits for what follows from the memory they touch (run/hazards.h). Nothing here knows a strategy.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/backend.h"
#include "run/answers_loss.h"
#include "run/data/examples.h"
#include "run/files/checkpoints.h"
#include "run/hazards.h"
#include "run/initial_state.h"
#include "run/layer_ops.h"
#include "run/rank_groups.h"
#include "run/rank_memory.h"
#include "run/step_graph.h"

namespace gpuplan {

/// Hugging Face Trainer's defaults. No weight decay on norms and biases.
struct OptimizerSettings {
  double weight_decay = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double clip = 1;  // largest global gradient norm; 0: none
};

/// Tokens of one micro-batch of this rank, [rows, seq_len] each.
struct MicroBatch {
  std::vector<std::int32_t> ids, labels;
  GivenFigures given;  // of answers
};

struct StepResult {
  double loss{};                  // mean over the label tokens of the global batch, or over rows of the data
  double grad_norm{};             // before clipping
  bool is_asked_to_stop = false;  // by any rank
};

/// Time at which a task ran, measured on its stream. Begin counts from the start of the step.
struct TaskTime {
  std::uint32_t instruction{};
  std::uint32_t micro_batch{};
  Seconds begin, end;
};

/// One rank. The same calls on every rank, in the same order.
class Executor {
 public:
  /// `world` null: one rank. Device, job and world outlive this.
  /// `run_id` is the same number on all ranks of a run, and differs between runs: below 2^53.
  Executor(const NativeJob& job, const RankPlace& place, Device& device, Communicator* world, std::int64_t run_id = 0);
  ~Executor();

  /// Sets how strongly a loss that compares answers holds on to the reference.
  void set_beta(double beta) { loss_.beta = beta; }
  void load(const WeightSource& source);
  /// Launches the part of a step before its norm is known as one graph from now on, where the device can. On every rank
  /// alike.
  void use_graph();
  /// Says whether a graph is used, and if not why; "" when nothing is to be said.
  std::string describe_graph() const { return graph_ ? graph_->describe() : ""; }
  /// One optimizer step, the `number`-th from 1. `stop`: this rank is asked to stop, which all then learn with the
  /// loss. Throws EnvError when loss or gradient is not a number, on every rank alike.
  StepResult step(std::int64_t number, const std::vector<MicroBatch>& batches, double learning_rate,
                  const OptimizerSettings& settings, bool stop = false);

  /// State of this rank that a checkpoint holds: trained weights and optimizer states, read and written in place.
  std::vector<StateBlob> state() const;
  /// Every trained tensor, whole, on rank 0 (nothing on others). Collective.
  struct TrainedTensor {
    std::uint16_t unit{};
    PlacedTensor placed;
    std::vector<std::byte> data;
  };
  std::vector<TrainedTensor> gather_trained() const;

  const RankMemory& memory() const { return memory_; }
  // This rank's, with the models of its passes beside the one that is trained.
  Bytes persistent_bytes() const;
  Bytes host_bytes() const;
  CategoryBytes at_peak() const;
  const NativeJob& job() const { return job_; }
  RankGroups& groups() { return groups_; }
  Stream& control() { return *streams_[std::size_t(StreamId::Compute)]; }
  /// Times of the last step, when asked for with `record_times`.
  void record_times(bool yes) { records_ = yes; }
  std::vector<TaskTime> times() const;
  /// After a failure of this rank, before it ends: what it has under way would wait for ever for ranks that wait for
  /// it.
  void abort() noexcept;

 private:
  /// A task of the step with everything it touches as pointers.
  struct Bound {
    const StepTask* task = nullptr;
    const Instruction* instruction = nullptr;
    std::vector<std::byte*> operands, locals;
    std::vector<std::uint32_t> waits;     // tasks of other streams
    std::unique_ptr<Event> done;          // recorded where another stream waits for it
    std::unique_ptr<Event> began, ended;  // where times are recorded
  };
  /// Values that differ from step to step.
  struct Scalars {
    double learning_rate{};
    const OptimizerSettings& settings;
    std::int64_t number{};
    double label_tokens = 0;  // of the global batch
    bool has_norm = false;
    bool stop = false;  // asked of this rank, then of any
    double loss = 0, grad_norm = 0;
    float gradient_scale = 1;  // of clipping
  };
  /// Range of an optimizer step: `count` trained elements from `begin` of the unit's flat array.
  struct StepRange {
    std::int64_t begin{}, count{};
    Dtype dtype{}, state_dtype{};
    std::byte *weight{}, *gradient{}, *state{};
  };

  /// A pass without gradients of `lender`'s step.
  Executor(const NativeJob& job, bool has_own_weights, const Executor& lender, Communicator* world);
  Executor(const NativeJob& job, const RankPlace& place, Device& device, Communicator* world, std::int64_t run_id,
           RankMemory memory);
  bool is_pass() const { return job_.recipe().pass != Pass::Train; }
  /// Numbers of the head for each token of the step's micro-batches, of a pass.
  std::span<const float> run_pass(const std::vector<MicroBatch>& batches);
  AnswerRows rows_of(const MicroBatch& batch) const;
  void take_figures(const Bound& task, const BatchView& batch);

  void bind();
  void enqueue_gradients(const Scalars& scalars);
  std::vector<Stream*> all_streams();
  std::unique_ptr<Stream> make_stream(StreamId id);
  double count_labels(std::int64_t step, const std::vector<MicroBatch>& batches);
  void run(Bound& task, const Scalars& scalars);
  void run_alone(const Bound& task, const Scalars& scalars);
  void call(const Bound& task);
  UnitView view_of(const Bound& task, std::uint16_t unit);
  void stage(const std::vector<MicroBatch>& batches, double label_tokens);
  void load_scale();
  void load_batch(const Bound& task);
  void host_copy(const Bound& task);
  void cast(const Bound& task);
  void all_gather(const Bound& task);
  void reduce_scatter(const Bound& task);
  void all_reduce(const Bound& task);
  void message(const Bound& task);
  void exchange(const Bound& task);
  void sum_partial(const Bound& task);
  void add_squares(const Bound& task);
  std::int64_t begin_of(const Piece& gradient) const;
  void optimizer_step(const Bound& task, const Scalars& scalars);
  struct Stepper;
  void open_host();
  void clear_padding(const UnitView& view, Bytes size, Stream& on);
  void finish_gradients(Scalars& scalars);
  void start_record();
  Bytes gather_room() const;
  std::vector<std::byte> whole_array(std::uint16_t unit, std::int64_t layer_part, Bytes room) const;
  const RankClass& class_of(std::uint16_t unit) const;
  Stream& stream(StreamId id) { return *streams_[std::size_t(id)]; }

  const NativeJob& job_;
  RankPlace place_;
  std::int64_t run_id_;
  Device& device_;
  std::unique_ptr<Device> own_host_;  // where optimizers are offloaded to from a GPU
  Device* host_ = nullptr;            // that, or the device itself, which is a CPU; null without offload
  std::unique_ptr<Stream> host_stream_;
  RankGroups groups_;
  RankMemory memory_;
  QuantOffsets offsets_;
  Buffer batches_;  // pinned; of a step: ids, then labels, of each micro-batch; then ConstantsView::loss_scale
  std::unique_ptr<StepGraph>
      graph_;  // null: tasks are enqueued one by one. Gone before the groups, whose work it holds
  std::array<std::unique_ptr<Stream>, kNumStreams> streams_;
  std::vector<Bound> tasks_;
  std::size_t num_gradient_tasks_ = 0;  // the first ones: all before the first optimizer step
  std::vector<Written> written_;        // by lifetime
  ConstantsView constants_;
  // A loss that compares answers, and its inputs.
  AnswersLoss loss_;
  std::vector<std::unique_ptr<Executor>> passes_;  // that run before this one in every step
  Buffer figures_;                                 // pinned, of the step's micro-batches: of each token
  const std::vector<MicroBatch>* batches_of_step_ = nullptr;
  std::span<const float> reference_;  // of the step's micro-batches; empty: none
  double share_ = 1, loss_sum_ = 0;   // what a row or token counts for; of the step so far
  bool records_ = false;
  std::unique_ptr<Event> started_;
};

}  // namespace gpuplan
