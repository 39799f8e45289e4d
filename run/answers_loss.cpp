#include "run/answers_loss.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "device/kernels.h"

namespace gpuplan {
namespace {

/// log(1 + exp(x)), without overflow.
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

/// Calls use(token) for every token of a row that has a label.
template <class Use>
void each_label(const AnswerRows& rows, std::int64_t row, Use use) {
  for (std::int64_t t = row * rows.seq_len; t < (row + 1) * rows.seq_len; ++t)
    if (rows.labels[std::size_t(t)] != kIgnoredLabel) use(std::size_t(t));
}

/// Sum of a row's figures, less the reference's.
double sum_of(const AnswerRows& rows, std::int64_t row) {
  double sum = 0;
  each_label(rows, row, [&](std::size_t t) {
    sum += double(rows.figures[t]) - (rows.reference.empty() ? 0.0 : double(rows.reference[t]));
  });
  return sum;
}

/// The first row of each two is to be preferred. With r = beta x (what it is better by than under the reference) a pair
/// loses -log sigmoid(r_first - r_second). Sources: Rafailov et al. 2023 (arXiv 2305.18290, equation 7) for
/// log-probs; Bradley and Terry 1952, Ouyang et al. 2022 (arXiv 2203.02155, equation 1) for scores.
double weigh_pairs(const AnswersLoss& loss, const AnswerRows& rows, double share, std::span<float> weights) {
  const double sign = loss.figures == TokenFigures::Losses ? -1 : 1;
  double sum = 0;
  for (std::int64_t row = 0; (row + 2) * rows.seq_len <= std::ssize(rows.labels); row += 2) {
    const double margin = loss.beta * sign * (sum_of(rows, row) - sum_of(rows, row + 1));
    sum += softplus(-margin);
    const double slope = -share * loss.beta * sign * sigmoid(-margin);
    each_label(rows, row, [&](std::size_t t) { weights[t] = float(slope); });
    each_label(rows, row + 1, [&](std::size_t t) { weights[t] = float(-slope); });
  }
  return share * sum;
}

/// A token with probability ratio r to the policy that wrote it and advantage A loses -min(r A, clip(r) A), and beta
/// (exp(d) - d - 1) for what its log-prob lacks (d) of the reference's. Sources: Shao et al. 2024 (arXiv 2402.03300,
/// equations 3 and 4), Yu et al. 2025 (arXiv 2503.14476, equation 8).
double weigh_token(const AnswersLoss& loss, const AnswerRows& rows, std::size_t t, double advantage, double& slope) {
  const double own = double(rows.figures[t]), old = rows.old.empty() ? own : double(rows.old[t]);
  const double ratio = std::exp(old - own), cut = std::clamp(ratio, 1 - loss.clip_below, 1 + loss.clip_above);
  const bool is_cut = cut * advantage < ratio * advantage;
  double value = -(is_cut ? cut : ratio) * advantage;
  slope = is_cut ? 0 : ratio * advantage;
  if (rows.reference.empty()) return value;
  const double lacking = own - double(rows.reference[t]);
  slope += loss.beta * std::expm1(lacking);
  return value + loss.beta * (std::expm1(lacking) - lacking);
}

/// Over rows, each is the mean of its own tokens.
double weigh_surrogate(const AnswersLoss& loss, const AnswerRows& rows, double share, std::span<float> weights) {
  double sum = 0;
  for (std::int64_t row = 0; (row + 1) * rows.seq_len <= std::ssize(rows.labels); ++row) {
    const double advantage = rows.advantages.empty() ? 1 : double(rows.advantages[std::size_t(row)]);
    double num_labels = 0;
    each_label(rows, row, [&](std::size_t) { ++num_labels; });
    const double own = loss.mean_over == MeanOver::Rows ? share / std::max(1.0, num_labels) : share;
    each_label(rows, row, [&](std::size_t t) {
      double slope = 0;
      sum += own * weigh_token(loss, rows, t, advantage, slope);
      weights[t] = float(own * slope);
    });
  }
  return sum;
}

}  // namespace

AnswersLoss answers_loss(const Recipe& recipe) {
  const TrainingMethod& method = *recipe.objective.method;
  return {.loss = method.loss,
          .mean_over = method.mean_over,
          .figures = head_of(recipe) == MethodHead::Score ? TokenFigures::Scores : TokenFigures::Losses,
          .beta = method.beta,
          .clip_below = method.clip_below,
          .clip_above = method.clip_above};
}

double count_of(const AnswersLoss& loss, const AnswerRows& rows) {
  if (loss.mean_over == MeanOver::Tokens)
    return double(rows.labels.size()) - double(std::ranges::count(rows.labels, kIgnoredLabel));
  const std::int64_t answers = loss.loss == MethodLoss::Pairs ? 2 : 1;
  return double(std::ssize(rows.labels) / (rows.seq_len * answers));
}

double weigh_answers(const AnswersLoss& loss, const AnswerRows& rows, double share, std::span<float> weights) {
  std::ranges::fill(weights, 0.0F);
  if (loss.loss == MethodLoss::Surrogate) return weigh_surrogate(loss, rows, share, weights);
  GPUPLAN_CHECK(loss.loss == MethodLoss::Pairs, "the executor has no such loss");
  return weigh_pairs(loss, rows, share, weights);
}

}  // namespace gpuplan
