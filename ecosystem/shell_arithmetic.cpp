#include "ecosystem/shell_arithmetic.h"

#include <charconv>
#include <limits>

namespace gpuplan {
namespace {

using Number = std::optional<std::int64_t>;

constexpr int kMostBrackets = 64;

Number power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 64) return {};
  std::int64_t result = 1;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) return {};
  return result;
}

Number apply(char sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  const bool divides = b != 0 && !(a == std::numeric_limits<std::int64_t>::min() && b == -1);
  switch (sign) {
    case '+': return __builtin_add_overflow(a, b, &result) ? Number{} : result;
    case '-': return __builtin_sub_overflow(a, b, &result) ? Number{} : result;
    case '*': return __builtin_mul_overflow(a, b, &result) ? Number{} : result;
    case '/': return divides ? Number(a / b) : Number{};
    case '%': return divides ? Number(a % b) : Number{};
    default: return power(a, b);
  }
}

/// One level of precedence after the other; a failure anywhere leaves nothing.
class Expression {
 public:
  explicit Expression(std::string_view text) : text_(text) {}

  Number value() {
    const Number result = sum(0);
    return peek() == '\0' ? result : Number{};
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Number sum(int depth) {
    Number left = product(depth);
    for (char sign = peek(); left && (sign == '+' || sign == '-'); sign = peek()) {
      ++at_;
      const Number right = product(depth);
      left = right ? apply(sign, *left, *right) : Number{};
    }
    return left;
  }

  Number product(int depth) {
    Number left = factor(depth);
    for (char sign = peek(); left && (sign == '*' || sign == '/' || sign == '%'); sign = peek()) {
      ++at_;
      const Number right = factor(depth);
      left = right ? apply(sign, *left, *right) : Number{};
    }
    return left;
  }

  Number factor(int depth) {
    const Number base = atom(depth);
    if (!base || peek() != '*' || text_.substr(at_, 2) != "**" || depth > kMostBrackets) return base;
    at_ += 2;
    const Number exponent = factor(depth + 1);
    return exponent ? apply('^', *base, *exponent) : Number{};
  }

  Number atom(int depth) {
    if (depth > kMostBrackets) return {};
    const char first = peek();
    if (first == '-' || first == '+') {
      ++at_;
      const Number inner = atom(depth + 1);
      return inner && first == '-' ? apply('-', 0, *inner) : inner;
    }
    if (first == '(') {
      ++at_;
      const Number inner = sum(depth + 1);
      if (peek() != ')') return {};
      ++at_;
      return inner;
    }
    std::int64_t number = 0;
    const auto read = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (read.ec != std::errc{}) return {};
    at_ = std::size_t(read.ptr - text_.data());
    return number;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view expression) { return Expression(expression).value(); }

}  // namespace gpuplan
