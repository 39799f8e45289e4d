#include "run/answers_loss.h"

#include <array>
#include <cmath>

#include <doctest/doctest.h>

#include "device/kernels.h"

using namespace gpuplan;

namespace {

constexpr std::int32_t kNone = kIgnoredLabel;

/// Two pairs of rows of 3 tokens; some tokens are no answer's.
struct TwoPairs {
  std::array<std::int32_t, 12> labels{kNone, 7, 8, kNone, 3, kNone, 5, 6, 7, kNone, kNone, 2};
  std::array<float, 12> figures{9, 1, 2, 9, 4, 9, 0.5F, 1, 1.5F, 9, 9, 2};
  std::array<float, 12> reference{7, 1.5F, 2.5F, 7, 3.5F, 7, 1, 1, 1, 7, 7, 1};
  AnswerRows rows(bool has_reference) const {
    return {.seq_len = 3,
            .labels = labels,
            .figures = figures,
            .reference = has_reference ? std::span<const float>(reference) : std::span<const float>{},
            .old = {},
            .advantages = {}};
  }
};

/// -log sigmoid(x).
double loss_at(double x) { return std::log1p(std::exp(-x)); }

AnswersLoss pairs_of(TokenFigures figures, double beta) {
  return {.loss = MethodLoss::Pairs, .mean_over = MeanOver::Rows, .figures = figures, .beta = beta};
}

}  // namespace

TEST_CASE("pairs: losses of labels against the reference's, the first of two answers preferred") {
  // losses less the reference's: rows (1 - 1.5) + (2 - 2.5) = -1, 4 - 3.5 = 0.5; 0.5 - 1 + 0 + 0.5 = 0, 2 - 1 = 1
  // less is better: margins 0.5 (0.5 - -1) = 0.75 and 0.5 (1 - 0) = 0.5
  const TwoPairs batch;
  const AnswersLoss loss = pairs_of(TokenFigures::Losses, 0.5);
  std::array<float, 12> weights{};
  CHECK(count_of(loss, batch.rows(true)) == 2);
  CHECK(weigh_answers(loss, batch.rows(true), 0.25, weights) == doctest::Approx(0.25 * (loss_at(0.75) + loss_at(0.5))));
  const double first = 0.25 * 0.5 / (1 + std::exp(0.75)), second = 0.25 * 0.5 / (1 + std::exp(0.5));
  const std::array<double, 12> expected{0,      first,  first,  0, -first, 0,  //
                                        second, second, second, 0, 0,      -second};
  for (std::size_t t = 0; t < expected.size(); ++t) CHECK(double(weights[t]) == doctest::Approx(expected[t]));
}

TEST_CASE("pairs: of scores more is better, and none compares with a reference") {
  // rows 1 + 2 = 3 and 4: margin -1; 0.5 + 1 + 1.5 = 3 and 2: margin 1
  const TwoPairs batch;
  std::array<float, 12> weights{};
  const double sum = weigh_answers(pairs_of(TokenFigures::Scores, 1), batch.rows(false), 1, weights);
  CHECK(sum == doctest::Approx(loss_at(-1) + loss_at(1)));
  CHECK(double(weights[1]) == doctest::Approx(-1 / (1 + std::exp(-1))));
  CHECK(double(weights[4]) == doctest::Approx(1 / (1 + std::exp(-1))));
}

TEST_CASE("pairs: a margin beyond what exp can hold loses itself, and weighs as much as one row") {
  TwoPairs batch;
  batch.figures[4] = -3000;
  std::array<float, 12> weights{};
  const double sum = weigh_answers(pairs_of(TokenFigures::Losses, 1), batch.rows(false), 1, weights);
  CHECK(sum == doctest::Approx(3003 + loss_at(-1)));
  CHECK(weights[1] == 1.0F);
}

TEST_CASE("surrogate: ratios are cut on the side that would gain, and what is far from the reference costs") {
  // one row of 3 tokens, the first of which does not count; ratios exp(1 - 0.5) = 1.6487 and exp(1 - 2) = 0.3679
  const std::array<std::int32_t, 3> labels{kNone, 7, 8};
  const std::array<float, 3> figures{9, 0.5F, 2}, old{9, 1, 1}, reference{9, 0.25F, 2};
  const AnswersLoss loss{.loss = MethodLoss::Surrogate, .clip_below = 0.2, .clip_above = 0.3};
  const auto sum = [&](double advantage, double beta, std::span<float> weights) {
    AnswersLoss own = loss;
    own.beta = beta;
    const std::array<float, 1> advantages{float(advantage)};
    return weigh_answers(own,
                         {.seq_len = 3,
                          .labels = labels,
                          .figures = figures,
                          .reference = reference,
                          .old = old,
                          .advantages = advantages},
                         1, weights);
  };
  std::array<float, 3> weights{};
  // a good answer: min(1.6487, 1.3) and min(0.3679, 0.8), over 2 tokens
  CHECK(sum(2, 0, weights) == doctest::Approx(-(1.3 + std::exp(-1.0)) * 2 / 2));
  CHECK(weights[1] == 0.0F);
  CHECK(double(weights[2]) == doctest::Approx(std::exp(-1.0) * 2 / 2));
  // a bad one: max(1.6487, 1.3) and max(0.3679, 0.8)
  CHECK(sum(-2, 0, weights) == doctest::Approx((std::exp(0.5) + 0.8) * 2 / 2));
  CHECK(double(weights[1]) == doctest::Approx(-std::exp(0.5) * 2 / 2));
  CHECK(weights[2] == 0.0F);
  // lacking 0.25 and 0 of the reference: exp(0.25) - 1.25 = 0.0340
  CHECK(sum(0, 0.5, weights) == doctest::Approx(0.5 * (std::exp(0.25) - 1.25) / 2));
  CHECK(double(weights[1]) == doctest::Approx(0.5 * std::expm1(0.25) / 2));
}

TEST_CASE("surrogate: the mean is of each row's tokens, or of all tokens") {
  const TwoPairs batch;  // rows of 2, 1, 3 and 1 labels; nothing is given: every ratio is 1, every advantage too
  AnswersLoss loss{.loss = MethodLoss::Surrogate, .mean_over = MeanOver::Rows};
  std::array<float, 12> weights{};
  CHECK(count_of(loss, batch.rows(false)) == 4);
  CHECK(weigh_answers(loss, batch.rows(false), 0.25, weights) == doctest::Approx(-1));
  CHECK(double(weights[1]) == doctest::Approx(0.125));
  loss.mean_over = MeanOver::Tokens;
  CHECK(count_of(loss, batch.rows(false)) == 7);
  CHECK(weigh_answers(loss, batch.rows(false), 1.0 / 7, weights) == doctest::Approx(-1));
  CHECK(double(weights[1]) == doctest::Approx(1.0 / 7));
}

TEST_CASE("the loss follows the weights: differences of a small step, token by token") {
  const std::array<float, 12> old{9, 1.25F, 1.5F, 9, 3.5F, 9, 1, 1, 1.25F, 9, 9, 1.75F};
  for (const AnswersLoss& loss : {pairs_of(TokenFigures::Losses, 0.7), pairs_of(TokenFigures::Scores, 0.7),
                                  AnswersLoss{.loss = MethodLoss::Surrogate, .beta = 0.3, .clip_above = 0.4}}) {
    TwoPairs batch;
    std::array<float, 12> weights{}, unused{};
    const auto rows_of = [&](const TwoPairs& own) {
      AnswerRows rows = own.rows(true);
      rows.old = old;
      return rows;
    };
    weigh_answers(loss, rows_of(batch), 0.5, weights);
    for (std::size_t t = 0; t < batch.figures.size(); ++t) {
      constexpr float kStep = 1.0F / 128;
      TwoPairs more = batch, less = batch;
      more.figures[t] += kStep, less.figures[t] -= kStep;
      const double slope =
          (weigh_answers(loss, rows_of(more), 0.5, unused) - weigh_answers(loss, rows_of(less), 0.5, unused)) /
          (2 * double(kStep));
      CHECK(double(weights[t]) == doctest::Approx(slope).epsilon(1e-4));
    }
  }
}
