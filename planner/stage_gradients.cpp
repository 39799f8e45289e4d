// Gradients of a stage: buckets, reductions over the axes of their domain, the optimizer step with its temporaries and
// offload.
#include "base/narrow.h"
#include "planner/stage_builder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace gpuplan {

using namespace operand;

std::uint32_t StageBuilder::gradient_target(Group& g) {
  if (!g.has_gradient()) return 0;
  if (!g.full_gradient) g.full_gradient = g.main_gradient;
  if (!g.full_gradient) {
    // DeepSpeed's stages 2 and 3 copy each gradient into a bucket, or reduce it, as soon as it is made
    const bool is_moved_at_once = engine_.is_deepspeed() && layout_.shards_gradients && ways(g) > 1;
    g.full_gradient = add(Category::Gradients, BufferRole::FullGradient, g.unit,
                          is_moved_at_once ? g.sizes.largest_gradient : g.sizes.full_gradient);
    p_.buffers[g.full_gradient].part = StatePart::Trained;
    place_gradient(g.full_gradient, g, Placement::Partial);
  }
  return g.full_gradient;
}

/// Notes what a kernel of its own moves that adds this micro-batch's gradient to the sum of those before it. torch
/// takes the first as it is (torch/csrc/autograd/functions/accumulate_grad.h, accumulateGrad); a main gradient in fp32
/// is there from the beginning, and what is added is in the dtype of the products.
void StageBuilder::push_gradients(Group& g) {
  const bool is_main = in_.framework.dtypes.main_gradients_fp32, is_sum = g.full_gradient || is_main;
  const std::uint32_t target = gradient_target(g);
  if (!target) return;
  s_.operands.push_back(target | kRead | kWrite);
  const FrameworkLayers& layers = in_.framework.layers;
  if (!is_sum || layers.accumulates_in_place || layers.accumulates_in_product) return;
  const Bytes sum = p_.buffers[target].bytes;
  added_ += 2 * sum + (is_main ? Bytes{sum.count * size_of(n_.compute) / size_of(Dtype::F32)} : sum);
}

/// Reduces one group's gradient. Where the optimizer is sharded each rank is left with its part: by a reduce-scatter,
/// or of an engine that `all_reduces_buckets` (DeepSpeed's stages 1 and 2) by an all-reduce. Copies of a part are
/// summed.
void StageBuilder::reduce(Group& g) {
  const bool scatters = is_scattered(g), is_in_bucket = g.is_in_bucket;
  g.is_in_bucket = 0;
  if (buckets_[0] && !scatters && layout_.shards_weights)  // of one rank: the copy into the buffer is all that is left
    emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {g.full_gradient | kRead, buckets_[0] | kRead | kWrite},
         2 * g.sizes.reduce_message);
  if (scatters && g.main_gradient) {
    emit(OpCode::ReduceScatter, reduce_stream(), g.domain.shard, g.unit, {g.full_gradient | kRead | kWrite | kOwnSlice},
         g.sizes.reduce_message);
    g.gradient = g.full_gradient;
  } else if (scatters) {
    drain(StreamId::Reduce, g.unit);
    std::uint32_t message = is_in_bucket ? buckets_[0] : g.full_gradient;
    const bool copies_input =
        traits_.copies_reduce_input && (engine_.copies_out || g.sizes.reduce_message != g.sizes.full_gradient);
    if (copies_input) {
      message = add(Category::Communication, BufferRole::ReduceInput, g.unit, g.sizes.reduce_message);
      p_.buffers[message].placement = p_.buffers[g.full_gradient].placement;
      emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {g.full_gradient | kRead, message | kWrite},
           p_.buffers[g.full_gradient].bytes + g.sizes.reduce_message);
    }
    if (!g.gradient) {
      g.gradient = add(Category::Gradients, BufferRole::Gradient, g.unit, g.sizes.gradient);
      place_gradient(g.gradient, g, Placement::Sharded);
    }
    // in stage 3 it goes through the bucket; in the others it is too large for one, which stays beside it
    const Operand bucket = buckets_[0] && !is_in_bucket ? buckets_[0] | kRead | kWrite : 0;
    if (engine_.all_reduces_buckets && !layout_.shards_weights) {
      emit(OpCode::AllReduce, StreamId::Reduce, g.domain.shard, g.unit,
           {message | kRead | kWrite, g.gradient | kRead | kWrite | kAccumulates | kOwnSlice, bucket},
           g.sizes.reduce_message);
    } else {
      Instruction& scatter =
          emit(OpCode::ReduceScatter, StreamId::Reduce, g.domain.shard, g.unit,
               {message | kRead, g.gradient | kRead | kWrite | kAccumulates, bucket}, g.sizes.reduce_message);
      scatter.messages = narrow<std::uint16_t>(traits_.splits_reduce_messages ? g.messages : 1);
      scatter.hook_kernels = leaf_kernels(g, g.sizes.trained_leaves, engine_.leaf_reduce_kernels);
    }
    if (!bucket_rule().overlap_comm)  // compute waits: the mean is taken on its stream
      emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {g.gradient | kRead | kWrite},
           2 * p_.buffers[g.gradient].bytes);
    if (!is_in_bucket) {
      if (layout_.shards_gradients)
        hold(StreamId::Reduce, message);
      else
        g.reduced_whole = g.full_gradient;
    }
    g.full_gradient = 0;
  } else if (!g.gradient) {
    g.gradient = g.full_gradient;
  }
  if (copies(g) > 1 && is_last_micro_batch())  // after a scatter: its output, still in the reduce dtype
    emit(OpCode::AllReduce, reduce_stream(), g.domain.replicate, g.unit,
         {g.gradient | kRead | kWrite | (g.main_gradient ? kOwnSlice : 0), g.bucket ? g.bucket | kRead | kWrite : 0},
         scatters ? shard(g.sizes.reduce_message, ways(g)) : p_.buffers[g.gradient].bytes);
  // an engine that shards gradients sends each to the host as it is reduced, or once it is complete; on one GPU too,
  // where nothing is reduced
  if (layout_.shards_gradients && steps_on_host(g) &&
      (is_last_micro_batch() || !in_.framework.state.offloads_complete_gradients)) {
    if (in_.framework.state.measures_gradient_norm)
      emit(OpCode::GradientNorm, StreamId::CopyOut, Axis::None, g.unit, {g.gradient | kRead},
           p_.buffers[g.gradient].bytes);
    push_out_gradient(g);
    g.full_gradient = 0;
  }
}

bool StageBuilder::steps_on_host(const Group& g) const {
  return optimizer_space() != MemorySpace::Device && (g.state || g.master || weight_space() != MemorySpace::Device);
}

/// DeepSpeed's stages 1 and 2 take tensor by tensor the norm of the complete gradient in fp64, look in all of it for
/// what is not finite, make it fp32 and send that. Source: set_norm_for_param_grad_in_gpu, _has_inf_or_nan,
/// async_inplace_copy_grad_to_fp32_buffer_from_gpu of deepspeed/runtime/zero/stage_1_and_2.py @v0.14.2.
void StageBuilder::push_out_gradient(Group& g) {
  const bool is_fp32 = engine_.host_gradients_in_fp32 && !layout_.shards_weights && g.sizes.step_gradient.count > 0;
  const Bytes own = p_.buffers[g.gradient].bytes;
  const Bytes moved = is_fp32 && is_last_micro_batch() ? g.sizes.step_gradient : own;
  const std::uint32_t made = g.host_gradient;
  if (moved != own) {
    const double largest_in_fp32 = double(g.sizes.largest_gradient.count) * double(moved.count) / double(own.count);
    const std::uint32_t temporary =
        add(Category::Gradients, BufferRole::StepGradient, g.unit,
            Bytes{std::llround(largest_in_fp32 / 4 * double(engine_.host_gradient_temporary))});
    emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {g.gradient | kRead, temporary | kWrite}, own + moved);
  }
  if (!made) {
    g.host_gradient = add(Category::Gradients, BufferRole::Gradient, g.unit, is_fp32 ? g.sizes.step_gradient : moved,
                          false, MemorySpace::Host);
    placement(g.host_gradient, g.domain.shard) = placement(g.gradient, g.domain.shard);
  }
  drain(StreamId::CopyOut, g.unit);
  emit(OpCode::CopyOut, StreamId::CopyOut, Axis::None, g.unit,
       {g.gradient | kRead, g.host_gradient | kWrite | (made ? kRead | kAccumulates : 0)}, moved);
  hold(StreamId::CopyOut, g.gradient);
  g.gradient = 0;
}

/// DeepSpeed's buckets, of one rank too, exist from the first gradient to the end of the micro-batch: two where one is
/// reduced while the other is filled.
void StageBuilder::make_buckets(std::uint16_t unit) {
  if (buckets_[0] || bucket_bytes().count == 0 || in_.model.trainable == 0) return;
  const bool is_double = fills_bucket() && bucket_rule().overlap_comm;
  for (std::size_t k = 0; k < (is_double ? 2u : 1u); ++k)
    buckets_[k] = add(Category::Communication, BufferRole::Bucket, unit, bucket_bytes());
}

/// Where gradients of a step are not reduced before its last micro-batch, FSDP2 adds what backward wrote to a sum in
/// the dtype of the reduction. Source: to_accumulated_grad_if_needed and accumulate_unsharded_grad_if_needed of
/// torch/distributed/fsdp/_fully_shard/_fsdp_param.py @v2.6.0.
bool StageBuilder::accumulates_apart(const Group& g) const {
  return keeps_gathered() && traits_.accumulates_as_reduced && gathers(g) && ways(g) > 1 &&
         !reduces_each_micro_batch() && recipe().grad_accum > 1 && g.sizes.reduce_message != g.sizes.full_gradient;
}

void StageBuilder::accumulate(Group& g) {
  if (!accumulates_apart(g)) return;
  const bool is_first = g.accumulated == 0;
  if (is_first) {
    g.accumulated = add(Category::Gradients, BufferRole::FullGradient, g.unit, g.sizes.reduce_message);
    place_gradient(g.accumulated, g, Placement::Partial);
  }
  emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit,
       {g.full_gradient | kRead, g.accumulated | kWrite | (is_first ? 0 : kRead)},
       g.sizes.full_gradient + (is_first ? 1 : 2) * g.sizes.reduce_message);
  g.full_gradient = is_last_micro_batch() ? std::exchange(g.accumulated, 0u) : 0;
}

/// A group's gradient of this micro-batch is complete: it waits for its bucket.
void StageBuilder::gradients_ready(std::size_t index) {
  Group& g = s_.groups[index];
  if (!g.has_gradient() || !g.full_gradient) return;
  accumulate(g);
  if (!g.full_gradient || !(is_last_micro_batch() || reduces_each_micro_batch())) return;
  if (fills_bucket()) fill_bucket(g);
  const std::size_t lane = g.is_of_experts ? 1 : 0;
  waiting_[lane] += g.sizes.reduce_message;
  s_.pending[lane].push_back(narrow<std::uint32_t>(index));
}

/// Copies in what fits; what is larger than a bucket is reduced where it is. A bucket without room for it is
/// reduced first; while that runs the other one is filled. Of several ranks, its elements are divided by their number;
/// where it is all-reduced, its slices are copied flat before. Source: reduce_independent_p_g_buckets_and_remove_grads,
/// average_tensor, allreduce_bucket of deepspeed/runtime/zero/stage_1_and_2.py, the same at v0.14.2 and @edaa7221.
void StageBuilder::fill_bucket(Group& g) {
  const Bytes message = g.sizes.reduce_message;
  if (waiting_[0] + message > bucket_bytes()) reduce_pending(true);
  const bool fits = message <= bucket_bytes(), is_reduced = ways(g) > 1;
  const std::int64_t passes =
      (fits ? 1 : 0) + (is_reduced ? 1 : 0) + (is_reduced && engine_.all_reduces_buckets ? 1 : 0);
  g.is_in_bucket = fits;
  if (passes == 0) return;
  emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit,
       {g.full_gradient | kRead | (fits ? 0 : kWrite), fits ? buckets_[0] | kRead | kWrite : 0}, 2 * passes * message)
      .hook_kernels = narrow<std::uint32_t>(std::llround(engine_.bucket_kernels * double(g.messages)));
}

/// Reduces the waiting groups when they fill a bucket, so that another like the last has no room; sharded units are
/// buckets of their own. The program has a message per group, whose bytes together are those of the bucket.
void StageBuilder::reduce_pending(std::size_t lane, bool flush) {
  std::vector<std::uint32_t>& pending = s_.pending[lane];
  if (pending.empty()) return;
  Bytes& waiting = waiting_[lane];
  const Group& last = s_.groups[pending.back()];
  const bool is_full = fills_bucket() ? waiting + last.sizes.reduce_message > bucket_bytes()
                                      : waiting >= Bytes{in_.framework.distributed.ddp_bucket_bytes};
  if (!flush && (keeps_gathered() || (waits_for_bucket(lane) && !is_full))) return;
  const auto visit = [&](Group& g) {
    reduce(g);
    if (recipe().optimizer_in_backward && is_last_micro_batch()) step(g);
  };
  if (pending_grows_[lane])
    walk_pending(lane, visit);
  else
    for (const std::uint32_t i : pending) visit(s_.groups[i]);
  pending.clear();
  waiting = {};
  if (buckets_[1]) std::swap(buckets_[0], buckets_[1]);
}

void StageBuilder::reduce_pending(bool flush) {
  for (std::size_t lane = 0; lane < kNumLanes; ++lane) reduce_pending(lane, flush);
}

/// Bytes that a step of one kernel per operation moves: torch's AdamW, foreach or tensor by tensor, touches the weight
/// 4 times, the gradient twice, the moments 3 and 5 times and the temporary 6 times. Source: _multi_tensor_adamw of
/// torch/optim/adamw.py (mul, lerp, mul, addcmul, sqrt, div, add, addcdiv).
static Bytes unfused_step_traffic(Bytes weight, Bytes gradient, Bytes moments, Bytes temporary) {
  return 4 * weight + 2 * gradient + 4 * moments + 6 * temporary;
}

/// DeepSpeed's step works on flat tensors: one sub-group of stage 3, everything that is trained in stages 1 and 2. It
/// lets go of gradients that other ranks step, puts its own behind each other, converts that to fp32 and lets both go;
/// then the optimizer runs, with temporaries as long as the sub-group. Source: step of
/// deepspeed/runtime/zero/stage_1_and_2.py, _prepare_fp32_grad_for_sub_group of stage3.py @edaa7221.
void StageBuilder::prepare_flat_step(std::span<Group> groups) {
  Bytes kept, temporary, gradient;
  Group* any = nullptr;
  for (Group& g : groups) {
    if (!has_step(g)) continue;
    any = &g;
    kept += g.count * p_.buffers[g.gradient].bytes;
    gradient += g.count * g.sizes.step_gradient;
    temporary += g.count * g.sizes.step_temporary;
  }
  walk_groups(groups, [&](Group& g) {
    const std::uint32_t whole = has_step(g) ? std::exchange(g.reduced_whole, 0u) : 0;
    if (whole) emit(OpCode::Release, StreamId::Compute, Axis::None, g.unit, {whole});
  });
  step_gradient_ = step_temporary_ = 0;
  if (!any) return;
  if (gradient.count > 0) {
    const std::uint32_t flat = add(Category::Gradients, BufferRole::FlatGradient, any->unit, kept);
    step_gradient_ = add(Category::Gradients, BufferRole::StepGradient, any->unit, gradient);
    p_.buffers[flat].placement = p_.buffers[step_gradient_].placement = p_.buffers[any->gradient].placement;
    s_.operands.assign({flat | kRead, step_gradient_ | kWrite});
    walk_groups(groups, [&](Group& g) {
      if (!has_step(g)) return;
      s_.operands.push_back(g.gradient | kRead);
      emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {g.gradient | kRead, flat | kRead | kWrite},
           2 * p_.buffers[g.gradient].bytes);
    });
    emit(OpCode::Cast, StreamId::Compute, Axis::None, any->unit, s_.operands, kept + gradient);
  }
  if (temporary.count > 0) step_temporary_ = add(Category::Optimizer, BufferRole::StepTemporary, any->unit, temporary);
}

/// Weights that other ranks stepped come when the whole step is done: those stepped last first, behind which the others
/// wait. Source: step of deepspeed/runtime/zero/stage_1_and_2.py (all_gather_dp_groups after the loop over groups).
void StageBuilder::gather_flat_slices() {
  const auto has_slice = [&](const Group& g) {
    return g.trained && g.sizes.trained_elements > 0 && is_scattered(g) && !layout_.shards_weights &&
           !gathers_at_use(g);
  };
  Group& last = s_.groups.back();
  if (has_slice(last)) gather_slices(last);
  walk_groups(std::span<Group>(s_.groups).first(s_.groups.size() - 1), [&](Group& g) {
    if (has_slice(g)) gather_slices(g);
  });
}

/// In stage 3 a sub-group ends with the tensor that fills it (_create_fp16_sub_groups of stage3.py).
void StageBuilder::step_flat() {
  for (auto first = s_.groups.begin(); first != s_.groups.end();) {
    auto last = first;
    std::int64_t elements = 0;
    do elements += (last++)->sizes.trained_elements;
    while (last != s_.groups.end() && (rules_.sub_group_size < 0 || elements < rules_.sub_group_size));
    const std::span<Group> sub_group(std::to_address(first), std::size_t(last - first));
    prepare_flat_step(sub_group);
    walk_groups(sub_group, [&](Group& g) { step(g); });
    first = last;
  }
  gather_flat_slices();
}

/// Says whether this rank updates weights of `g`.
bool StageBuilder::has_step(const Group& g) const {
  return (g.gradient || g.host_gradient) && g.sizes.trained_elements > 0;
}

std::uint8_t StageBuilder::step_products(double flops) {
  std::vector<double>& all = p_.step_flops;
  const auto index = std::size_t(std::find(all.begin(), all.end(), flops) - all.begin());
  if (index == all.size()) all.push_back(flops);
  return narrow<std::uint8_t>(index);
}

void StageBuilder::step(Group& g) {
  if (!has_step(g)) return;
  const Phase before = std::exchange(phase_, Phase::OptimizerStep);
  const Axis axis = layout_.shards_optimizer ? g.domain.shard : Axis::None;
  const bool is_host = steps_on_host(g);
  const bool is_own_shard = is_scattered(g);
  const bool is_slice = is_own_shard && !layout_.shards_weights;
  const Operand slice = is_slice ? kOwnSlice : 0;
  std::uint32_t gradient = g.gradient;
  if (step_gradient_bytes_.count > 0 && !is_host && !steps_flat()) {
    if (!step_gradient_)
      step_gradient_ = add(Category::Gradients, BufferRole::StepGradient, g.unit, step_gradient_bytes_);
    placement(step_gradient_, g.domain.shard) = placement(gradient, g.domain.shard);
    emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit,
         {gradient | kRead, step_gradient_ | kRead | kWrite | kAccumulates},
         p_.buffers[gradient].bytes + g.sizes.step_gradient);
  }
  if (step_temporary_bytes_.count > 0 && !step_temporary_ && !is_host && !steps_flat())
    step_temporary_ =
        add(Category::Optimizer, BufferRole::StepTemporary, g.unit,
            recipe().optimizer_in_backward ? g.sizes.step_temporary + g.sizes.step_scratch : step_temporary_bytes_);
  const std::uint32_t state = g.state ? g.state : g.paged;
  const Bytes own = is_slice ? shard(g.sizes.trained, ways(g)) : g.sizes.trained;
  const Bytes stepped = g.master ? g.sizes.master : own;
  const Bytes sent_down = g.master && !steps_host_copy() ? g.sizes.master + own : Bytes{};  // master to weights
  const Bytes temporary = g.sizes.step_scratch.count > 0 ? stepped : g.sizes.step_temporary;
  const Bytes states = g.sizes.state + g.sizes.paged_state;
  const Bytes read = is_host || g.main_gradient ? g.sizes.gradient
                     : step_gradient_           ? g.sizes.step_gradient
                                                : p_.buffers[gradient].bytes;
  const Bytes traffic =
      sent_down + (is_host || temporary.count == 0 ? 2 * stepped + read + 2 * states + 4 * temporary
                                                   : unfused_step_traffic(stepped, read, states, temporary));
  if (!is_host) {
    const std::uint32_t used = step_gradient_ ? step_gradient_ : gradient;
    Instruction& done =
        emit(OpCode::OptimizerStep, StreamId::Compute, axis, g.unit,
             {g.trained | kRead | kWrite | kWeight | slice, used | kRead | kGradient, state | kRead | kWrite | kState,
              g.master | kRead | kWrite | kMaster, step_temporary_ | kWrite},
             traffic);
    done.is_of_own_shard = is_own_shard;
    done.frame = step_products(g.sizes.step_flops);
    if (recipe().optimizer_in_backward) step_temporary_ = 0;
  } else {
    if (!g.host_gradient) push_out_gradient(g);
    const std::uint32_t host_gradient = g.host_gradient;
    const bool weights_on_host = weight_space() != MemorySpace::Device;
    // the host makes what goes back in the gradient's place, where it is of another dtype than the copy that was
    // stepped
    const bool is_cast = steps_host_copy() && own != g.sizes.master;
    emit(OpCode::OptimizerStep, StreamId::Host, axis, g.unit,
         {host_gradient | kRead | kGradient | (is_cast ? kWrite : 0), state | kRead | kWrite | kState,
          g.master | kRead | kWrite | kMaster, weights_on_host ? g.trained | kRead | kWrite | kWeight : 0},
         traffic)
        .is_of_own_shard = is_own_shard;
    if (!weights_on_host)
      emit(OpCode::CopyIn, StreamId::CopyIn, axis, g.unit,
           {g.master && !is_cast ? g.master | kRead : host_gradient | kRead, g.trained | kWrite | slice},
           steps_host_copy() ? own : g.sizes.gradient);
  }
  if (is_slice && !gathers_at_use(g) && !steps_flat()) gather_slices(g);
  if (g.reduced_whole) emit(OpCode::Release, StreamId::Compute, Axis::None, g.unit, {g.reduced_whole});
  g.gradient = g.reduced_whole = g.full_gradient = g.host_gradient = 0;
  phase_ = before;
}

/// Messages of the weights that ranks stepped: one, or one for every rank that stepped whole parameters of the step.
std::int64_t StageBuilder::stepped_messages(const Group& g) const {
  if (!engine_.broadcasts_parts) return 1;
  const std::int64_t senders = std::min(ways(g), z_.trained_tensors);
  const double share = double(g.sizes.trained_elements) / double(std::max<std::int64_t>(1, z_.trained_elements));
  return std::max<std::int64_t>(1, std::llround(double(senders) * share));
}

void StageBuilder::gather_slices(Group& g) {
  emit(OpCode::AllGather, StreamId::Gather, g.domain.shard, g.unit, {g.trained | kRead | kWrite | kOwnSlice},
       g.sizes.trained)
      .messages = num_messages(stepped_messages(g));
}

/// One message after the last reduction: what ranks that share layers hold whole is summed by itself, before a step.
/// Source: NVIDIA/Megatron-LM megatron/core/distributed/finalize_model_grads.py.
void StageBuilder::sum_partial_gradients() {
  Bytes message;
  for (const Group& g : s_.groups) message += g.count * g.sizes.partial_gradient;
  if (message.count == 0) return;
  s_.operands.clear();
  walk_groups(s_.groups, [&](const Group& g) {
    if (g.sizes.partial_gradient.count > 0 && g.gradient)
      s_.operands.push_back(g.gradient | kRead | kWrite | kOwnSlice);
  });
  if (!s_.operands.empty()) emit(OpCode::AllReduce, StreamId::Reduce, Axis::Tp, first_, s_.operands, message);
}

void StageBuilder::step_all() {
  drain(StreamId::Reduce, first_);
  sum_partial_gradients();
  if (in_.framework.state.measures_gradient_norm)
    walk_groups(s_.groups, [&](const Group& g) {
      if (g.gradient)
        emit(OpCode::GradientNorm, StreamId::Compute, Axis::None, g.unit, {g.gradient | kRead},
             g.main_gradient ? g.sizes.gradient : p_.buffers[g.gradient].bytes);
    });
  if (steps_flat())
    step_flat();
  else if (!recipe().optimizer_in_backward)
    walk_groups(s_.groups, [&](Group& g) { step(g); });
  drain(StreamId::CopyOut, first_);
}

}  // namespace gpuplan
