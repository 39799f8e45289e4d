// The parts of a step that compares answers beside its tasks: passes without gradients before them, and, between the
// head's forward and its backward, the loss.
#include <algorithm>

#include "base/error.h"
#include "base/narrow.h"
#include "run/executor.h"

namespace gpuplan {

CategoryBytes Executor::at_peak() const {
  CategoryBytes out = memory_.at_peak();
  for (const auto& pass : passes_)
    for (std::uint32_t id = 0; id < pass->memory_.program().buffers.size(); ++id)
      out[std::size_t(pass->memory_.program().buffers[id].category)] += pass->memory_.own_bytes(id);
  return out;
}

std::span<const float> Executor::run_pass(const std::vector<MicroBatch>& batches) {
  stage(batches, 1);
  const OptimizerSettings none;  // it steps nothing
  enqueue_gradients({.settings = none});
  for (const auto& s : streams_)
    if (s) s->synchronise();
  return {figures_.as<float>(), batches.size() * std::size_t(job_.recipe().tokens())};
}

AnswerRows Executor::rows_of(const MicroBatch& batch) const {
  return {.seq_len = job_.recipe().seq_len,
          .labels = batch.labels,
          .figures = {},
          .reference = batch.given.reference,
          .old = batch.given.old,
          .advantages = batch.given.advantages};
}

/// The numbers of a micro-batch's tokens go to the host. Of the pass with gradients they come back as weights of each
/// in the loss, which the head's backward reads.
void Executor::take_figures(const Bound& task, const BatchView& batch) {
  const auto count = std::size_t(job_.recipe().tokens());
  const std::size_t index = task.task->micro_batch;
  Stream& on = stream(task.instruction->stream);
  const std::span<float> own{figures_.as<float>() + index * count, count};
  device_.copy(own.data(), batch.losses, Bytes{std::int64_t(own.size_bytes())}, CopyKind::DeviceToHost, on);
  if (is_pass()) return;
  on.run_on_host([this, index, own] {
    const std::vector<float> figures(own.begin(), own.end());
    AnswerRows rows = rows_of((*batches_of_step_)[index]);
    rows.figures = figures;
    if (!reference_.empty()) rows.reference = reference_.subspan(index * own.size(), own.size());
    loss_sum_ += weigh_answers(loss_, rows, share_, own);
  });
  device_.copy(batch.losses, own.data(), Bytes{std::int64_t(own.size_bytes())}, CopyKind::HostToDevice, on);
}

}  // namespace gpuplan
