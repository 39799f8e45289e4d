#include "planner/job_metrics.h"

#include <algorithm>
#include <cmath>

#include "models/ledger.h"
#include "models/rollout.h"
#include "models/training_method.h"
#include "planner/rollout_phases.h"

namespace gpuplan {
namespace {

/// Packing fills sequences; otherwise every row takes one. Where the model answers, a row is a prompt with so many
/// answers, and they are trained on in several passes.
double sequences_of(const Job& job) {
  const Dataset& data = job.request.dataset;
  const Recipe& recipe = job.recipe();
  if (generates(job.recipe()))
    return double(data.rows) * double(job_rollout(job).batch.generations) * double(job.request.rollout.iterations);
  if (recipe.packing != Packing::Packed) return double(data.rows);
  const std::int64_t per_row = data.tokens_per_row > 0 ? data.tokens_per_row : recipe.seq_len;
  return std::ceil(double(data.rows) * double(per_row) / double(recipe.seq_len));
}

/// Of the images of a row: the tower's weights meet every position, forward only where they are frozen.
double image_flops(const TrainedModel& model, const Recipe& recipe) {
  const VisionSpec& v = model.spec.vision;
  if (!v.is_present()) return 0;
  const double tower = double(model.weights.part_elements(ModelPart::Tower)),
               positions = double(model.image.positions());
  double attention = 0;
  for (std::int64_t i = 0; i < v.num_layers; ++i) {
    const std::int64_t tile = model.image.positions_per_tile,
                       length = v.is_windowed(i) ? std::min(v.window, tile) : tile;
    attention += positions / double(length) * attention_flops(model.tower, 1, length, {.is_causal = false});
  }
  const double projector = double(model.weights.part_elements(ModelPart::Projector)) * double(model.image.features);
  const double passes = model.first_backward > 0 ? 1 : recipe.is_adapter() ? 2 : 3;
  return double(recipe.images.per_row) * passes * (2 * tower * positions + 2 * projector + attention);
}

}  // namespace

double tokens_without_padding(const Recipe& recipe, const Dataset& data) {
  if (recipe.packing == Packing::Packed || data.tokens_per_row == 0) return double(recipe.seq_len);
  return double(std::min(data.tokens_per_row, recipe.seq_len));
}

std::int64_t padded_length(const Recipe& recipe, const Dataset& data) {
  if (recipe.packing != Packing::Dynamic) return recipe.seq_len;
  const double mean = tokens_without_padding(recipe, data), longest = double(recipe.seq_len);
  if (unpads_rows(recipe)) return std::int64_t(std::ceil(mean));
  const double spread = std::min(mean, longest - mean), b = double(recipe.rows());
  return std::min(recipe.seq_len, std::int64_t(std::ceil(mean + spread * (b - 1) / (b + 1))));
}

/// Says whether rows are laid end to end until a micro batch has so many tokens: as read, it holds about as many of the
/// longest rows as fit; another micro batch was asked for by rows.
static bool is_filled(const Job& job) {
  const Recipe& recipe = job.recipe();
  const std::int64_t most = job.request.rollout.step_tokens;
  const std::int64_t longest = std::max<std::int64_t>(1, most / recipe.seq_len);
  return most > 0 && unpads_rows(recipe) && recipe.micro_batch < 2 * longest && 2 * recipe.micro_batch > longest &&
         padded_length(recipe, job.request.dataset) < recipe.seq_len;
}

Job filled_job(const Job& job) {
  Job filled = job;
  if (!is_filled(job)) return filled;
  Recipe& recipe = filled.request.recipe;
  const std::int64_t length = padded_length(recipe, job.request.dataset), most = job.request.rollout.step_tokens;
  const std::int64_t rows = recipe.micro_batch * recipe.grad_accum;
  const std::int64_t fitting = std::clamp<std::int64_t>(most / length, recipe.micro_batch, rows);
  recipe.grad_accum = ceil_div(rows, fitting);
  recipe.micro_batch = ceil_div(rows, recipe.grad_accum);
  filled.request.rollout.step_tokens = 0;
  return filled;
}

std::optional<Job> fullest_job(const Job& job) {
  const Recipe& recipe = job.recipe();
  const std::int64_t length = job.request.rollout.step_tokens / std::max<std::int64_t>(1, recipe.micro_batch);
  if (!is_filled(job) || length <= recipe.seq_len) return std::nullopt;
  Job full = job;
  full.request.recipe.seq_len = length;
  return full;
}

Job average_job(const Job& job) {
  Job average = filled_job(job);
  average.request.recipe.seq_len = padded_length(job.recipe(), job.request.dataset);
  return average;
}

double model_flops(const Job& job, std::int64_t global_batch, std::int64_t seq_len) {
  const TrainedModel& model = job.whole();
  const ModelSpec& m = model.spec;
  const double tokens = double(global_batch) * double(seq_len);
  // every weight multiplies once per token but the embedding and position rows, which are looked up; a tied head
  // multiplies
  const bool multiplies_embedding = m.tie_word_embeddings && m.head == HeadKind::LanguageModel;
  const double looked_up =
      double((multiplies_embedding ? 0 : m.vocab_size * m.embedding_width()) + m.learned_positions * m.hidden_size +
             m.layer_embedding.vocab_size * m.layer_embedding.width * m.num_hidden_layers);
  const double idle = double(model.weights.total_elements() - model.weights.active_elements(m.moe));
  const double of_images =
      double(model.weights.part_elements(ModelPart::Tower) + model.weights.part_elements(ModelPart::Projector) +
             model.weights.part_elements(ModelPart::Idle));
  const double matmul = double(model.parameters) - idle - looked_up - of_images;
  const Recipe& recipe = job.recipe();
  // forward and the gradient of the input meet every weight, the weight's own gradient those that are trained
  // layers in front of the first that is trained run forward only
  const double backward =
      recipe.trained.empty() ? 1 : 1 - std::min(1.0, double(model.first_backward) / double(model.weights.order.size()));
  const double per_token = recipe.is_adapter() ? (2 + 2 * backward) * matmul + 6 * double(model.trainable)
                           : recipe.trained.empty()
                               ? 6 * matmul
                               : (2 + 2 * backward) * matmul + 2 * std::min(matmul, double(model.trainable));
  const double attending = double(m.num_layers_with(attends)), windowed = std::min(double(m.sliding_layers), attending),
               full = attending - windowed;
  const double attention =
      full * attention_flops(model.global, 1, seq_len, {.is_causal = m.is_causal}) +
      double(m.num_layers_with(attends_to_images)) *
          attention_flops(m, 1, seq_len, {.is_causal = false, .keys = model.features_per_row(job.recipe())}) +
      windowed * attention_flops(m, 1, seq_len, {.is_causal = m.is_causal, .is_windowed = m.sliding_window > 0}) +
      double(m.num_encoder_layers + (m.num_encoder_layers > 0 ? m.num_hidden_layers : 0)) *  // encoder, cross-attention
          attention_flops(m, 1, seq_len, {.is_causal = false});
  double recurrence = 0;
  for (const Mixer mixer : m.mixers) recurrence += recurrence_flops(m, mixer, 1, seq_len);
  return tokens * per_token + 3 * (attention + recurrence) * double(global_batch) +
         double(global_batch) * image_flops(model, job.recipe());
}

namespace {

std::int64_t global_batch_of(const Job& job) {
  return job.recipe().micro_batch * job.recipe().grad_accum * job.strategy.mesh.batch_replicas();
}

/// Steps of an epoch; the last one may lack micro-batches, and counts by those that it has.
double steps_of_epoch(const Job& job) {
  const Recipe& recipe = job.recipe();
  const double at_once = double(recipe.micro_batch * job.strategy.mesh.batch_replicas());
  return std::ceil(sequences_of(job) / at_once) / double(recipe.grad_accum);
}

}  // namespace

Seconds total_time(const Job& job, Seconds step) { return job.request.dataset.epochs * (steps_of_epoch(job) * step); }

JobMetrics job_metrics(const Job& job, Seconds step, FlopsPerSec peak, Seconds before) {
  const EstimateRequest& r = job.request;
  const Mesh& mesh = job.strategy.mesh;
  JobMetrics f;
  f.global_batch = global_batch_of(job);
  const std::int64_t rows = f.global_batch / r.recipe.micro_batch * r.recipe.rows();
  f.tokens_per_second = double(rows) * tokens_without_padding(r.recipe, r.dataset) / step.value;
  f.mfu = model_flops(job, rows, padded_length(r.recipe, r.dataset)) / (step.value * peak.value);
  f.steps_per_epoch = std::int64_t(std::ceil(steps_of_epoch(job)));
  f.epoch = steps_of_epoch(job) * step;
  f.total = before + total_time(job, step);
  const auto price = r.price_per_gpu_hour ? r.price_per_gpu_hour : r.cluster.price_per_gpu_hour;
  if (price) f.cost_usd = *price * double(mesh.world() + engine_gpus(r, mesh)) * f.total.value / 3600.0;
  return f;
}

}  // namespace gpuplan
