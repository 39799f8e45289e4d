#include "cuda_device/kernels/bench.h"

using namespace gpuplan;
using namespace gpuplan::test;

TEST_CASE("RMS norm divides each row by its root mean square, at any width and alignment") {
  Bench bench;
  constexpr std::int64_t kRows = 3;
  for (const Dtype dtype : kFloats)
    for (const std::int64_t hidden : {1, 8, 250, 4104}) {
      CAPTURE(hidden);
      const std::int64_t shift = hidden % 2;
      const Tensor x = bench.random(kRows * hidden, dtype, -3, 3, 1, shift),
                   weight = bench.random(hidden, dtype, 0.5, 2, 2, shift);
      const Tensor y = bench.empty(kRows * hidden, dtype, shift);
      bench.run(kernels::RmsNorm{{y.data(), dtype}, {x.data(), dtype}, {weight.data(), dtype}, kRows, hidden, 1e-5F});
      const Doubles from = bench.download(x), factor = bench.download(weight);
      Doubles expected;
      for (std::int64_t row = 0; row < kRows; ++row) {
        double squares = 0;
        for (std::int64_t i = 0; i < hidden; ++i) squares += std::pow(from[std::size_t(row * hidden + i)], 2);
        for (std::int64_t i = 0; i < hidden; ++i)
          expected.push_back(from[std::size_t(row * hidden + i)] / std::sqrt(squares / double(hidden) + 1e-5) *
                             factor[std::size_t(i)]);
      }
      check_close(bench.download(y), expected, tolerance_of(dtype), 0.1);
    }
}

namespace {

/// Losses, then gradients, of the definition.
std::pair<Doubles, Doubles> naive_cross_entropy(const Doubles& logits, const std::vector<std::int32_t>& labels,
                                                double scale) {
  const std::size_t vocab = logits.size() / labels.size();
  Doubles losses, gradients;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const auto begin = logits.begin() + std::ptrdiff_t(row * vocab), end = begin + std::ptrdiff_t(vocab);
    const double largest = *std::max_element(begin, end);
    double sum = 0;
    for (auto at = begin; at != end; ++at) sum += std::exp(*at - largest);
    const bool is_ignored = labels[row] == -100;
    losses.push_back(is_ignored ? 0 : std::log(sum) + largest - begin[labels[row]]);
    for (std::size_t i = 0; i < vocab; ++i) {
      const double one_hot = std::int32_t(i) == labels[row] ? 1 : 0;
      gradients.push_back(is_ignored ? 0 : (std::exp(begin[std::ptrdiff_t(i)] - largest) / sum - one_hot) * scale);
    }
  }
  return {losses, gradients};
}

}  // namespace

TEST_CASE("cross-entropy gives losses and replaces logits by gradients; ignored rows give nothing") {
  Bench bench;
  for (const Dtype dtype : kFloats)
    for (const std::int64_t vocab : {1, 40, 257, 5000}) {
      CAPTURE(vocab);
      const std::vector<std::int32_t> labels{0, -100, std::int32_t(vocab - 1), std::int32_t(vocab / 2)};
      const auto rows = std::int64_t(labels.size());
      const Tensor logits = bench.random(rows * vocab, dtype, -20, 20, 3, vocab % 2);
      const Tensor label = bench.upload_bytes(labels.data(), rows, Dtype::I32), losses = bench.empty(rows, Dtype::F32);
      const Tensor scale = bench.upload({0.5}, Dtype::F32);
      const auto [expected_losses, gradients] = naive_cross_entropy(bench.download(logits), labels, 0.5);
      bench.run(kernels::CrossEntropy{{logits.data(), dtype},
                                      static_cast<const std::int32_t*>(label.data()),
                                      static_cast<float*>(losses.data()),
                                      rows,
                                      vocab,
                                      static_cast<const float*>(scale.data())});
      check_close(bench.download(losses), expected_losses, 2e-5, 1);
      check_close(bench.download(logits), gradients, tolerance_of(dtype), 1e-2);
    }
}

TEST_CASE("rows times a factor each; a factor of 0 gives zeros") {
  Bench bench;
  const Doubles factors{0.5, 0, -3};
  for (const Dtype dtype : kFloats)
    for (const std::int64_t width : {1, 40, 257, 5000}) {
      CAPTURE(width);
      const Tensor x = bench.random(3 * width, dtype, -20, 20, 3, width % 2),
                   factor = bench.upload(factors, Dtype::F32);
      Doubles expected = bench.download(x);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= factors[i / std::size_t(width)];
      bench.run(kernels::ScaleRows{{x.data(), dtype}, static_cast<const float*>(factor.data()), 3, width});
      check_close(bench.download(x), expected, tolerance_of(dtype), 1e-2);
    }
}

TEST_CASE("cross-entropy over two parts of a vocabulary gives what the whole gives") {
  Bench bench;
  for (const Dtype dtype : kFloats)
    for (const std::int64_t part : {1, 40, 257}) {
      CAPTURE(part);
      const std::int64_t vocab = 2 * part;
      const std::vector<std::int32_t> labels{0, -100, std::int32_t(vocab - 1), std::int32_t(part)};
      const auto rows = std::int64_t(labels.size());
      const std::array<Tensor, 2> parts{bench.random(rows * part, dtype, -20, 20, 3, part % 2),
                                        bench.random(rows * part, dtype, -20, 20, 4, part % 2)};
      Doubles whole;
      for (std::int64_t r = 0; r < rows; ++r)
        for (const Tensor& logits : parts) {
          const Doubles values = bench.download(logits);
          whole.insert(whole.end(), values.begin() + r * part, values.begin() + (r + 1) * part);
        }
      const auto [expected_losses, gradients] = naive_cross_entropy(whole, labels, 0.5);
      const Tensor label = bench.upload_bytes(labels.data(), rows, Dtype::I32), scale = bench.upload({0.5}, Dtype::F32);
      const auto* const ids = static_cast<const std::int32_t*>(label.data());
      const Tensor own = bench.empty(rows, Dtype::F32);
      auto* const to = static_cast<float*>(own.data());
      const auto merged = [&](auto kernel_of, auto merge) {
        Doubles all;
        for (std::int64_t p = 0; p < 2; ++p) {
          bench.run(kernel_of(ConstNumbers{parts[std::size_t(p)].data(), dtype}, p * part));
          const Doubles some = bench.download(own);
          for (std::size_t r = 0; r < some.size(); ++r)
            if (p == 0)
              all.push_back(some[r]);
            else
              all[r] = merge(all[r], some[r]);
        }
        return bench.upload(all, Dtype::F32);
      };
      const auto floats = [](const Tensor& t) { return static_cast<const float*>(t.data()); };
      const Tensor largest = merged(
          [&](ConstNumbers x, std::int64_t) {
            return kernels::LargestLogit{to, x, rows, part};
          },
          [](double a, double b) { return std::max(a, b); });
      const Tensor right =
          merged([&](ConstNumbers x, std::int64_t first) { return kernels::LabelLogit{to, x, ids, rows, part, first}; },
                 std::plus<>());
      const Tensor sum = merged(
          [&](ConstNumbers x, std::int64_t) {
            return kernels::SumOfExponentials{to, x, floats(largest), rows, part};
          },
          std::plus<>());
      for (std::int64_t p = 0; p < 2; ++p) {
        const Tensor& logits = parts[std::size_t(p)];
        bench.run(kernels::SharedCrossEntropy{.logits = {logits.data(), dtype},
                                              .largest = floats(largest),
                                              .right = floats(right),
                                              .sum = floats(sum),
                                              .labels = ids,
                                              .losses = to,
                                              .rows = rows,
                                              .vocab = part,
                                              .first = p * part,
                                              .whole = vocab,
                                              .scale = floats(scale)});
        check_close(bench.download(own), expected_losses, 2e-5, 1);
        Doubles of_part;
        for (std::int64_t r = 0; r < rows; ++r)
          of_part.insert(of_part.end(), gradients.begin() + r * vocab + p * part,
                         gradients.begin() + r * vocab + (p + 1) * part);
        check_close(bench.download(logits), of_part, tolerance_of(dtype), 1e-2);
      }
    }
}

TEST_CASE("cross-entropy stands logits that only their maximum keeps from overflowing") {
  Bench bench;
  const Tensor logits = bench.upload({1000, 999, -1000, 0, 0, 0, 0, 0}, Dtype::F32),
               losses = bench.empty(1, Dtype::F32);
  const std::int32_t label = 1;
  const Tensor labels = bench.upload_bytes(&label, 1, Dtype::I32), scale = bench.upload({1}, Dtype::F32);
  bench.run(kernels::CrossEntropy{{logits.data(), Dtype::F32},
                                  static_cast<const std::int32_t*>(labels.data()),
                                  static_cast<float*>(losses.data()),
                                  1,
                                  8,
                                  static_cast<const float*>(scale.data())});
  // ln(1 + e^-1) + 1000 - 999 = 1.3132617
  check_close(bench.download(losses), {1.3132617}, 1e-5, 0);
}
