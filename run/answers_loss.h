// Losses that compare answers: from a number per token, which the model's head made, to the loss and to what each
// number weighs in it. They run on the host: a row of the data has thousands of tokens and needs a few operations on
// each.
#pragma once

#include <cstdint>
#include <span>

#include "models/recipe.h"
#include "models/training_method.h"

namespace gpuplan {

/// Says what the head's numbers are: losses of the labels, of which less is better, or scores.
enum class TokenFigures : std::uint8_t { Losses, Scores };

struct AnswersLoss {
  MethodLoss loss{};
  MeanOver mean_over{};
  TokenFigures figures{};
  double beta = 0;
  double clip_below = 0, clip_above = 0;
};

/// The loss of the recipe's method. Requires: one that compares answers and that the executor has.
AnswersLoss answers_loss(const Recipe& recipe);

/// Rows [rows, seq_len] of one micro-batch; the answers to be compared follow each other.
struct AnswerRows {
  std::int64_t seq_len{};
  std::span<const std::int32_t> labels;   // kIgnoredLabel: the token does not count
  std::span<const float> figures;         // of each token
  std::span<const float> reference, old;  // of other models; empty: none, and the figures themselves
  std::span<const float> advantages;      // of each row; empty: 1
};

/// Rows of the data, or labels, of a micro-batch: what the loss is averaged over.
double count_of(const AnswersLoss& loss, const AnswerRows& rows);

/// Sum of the losses of a micro-batch, and in `weights` its derivative by each figure; both times `share`.
double weigh_answers(const AnswersLoss& loss, const AnswerRows& rows, double share, std::span<float> weights);

}  // namespace gpuplan
