#include "device/cpu/widened_gemm.h"

#include <algorithm>

#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"
#include "device/cpu/host.h"
#include "device/cpu/kernels.h"

namespace gpuplan {
namespace {

/// Sizes of a block. An element of B is converted once for kRows rows of C, one of A once for kColumns columns:
/// hundreds of multiplications for each conversion. The three blocks take 5 MiB of fp32.
constexpr std::int64_t kRows = 1024, kColumns = 512, kDepth = 512;

/// [begin, begin + size) of one dimension.
struct Span {
  std::int64_t begin{}, size{};
};

/// Calls f for each piece of `count` that is at most `most` long.
template <class F>
void in_pieces(std::int64_t count, std::int64_t most, F f) {
  for (std::int64_t begin = 0; begin < count; begin += most) f(Span{begin, std::min(most, count - begin)});
}

/// A [rows, columns] operand or result in memory, stored by columns when it is transposed.
struct Matrix {
  char* data = nullptr;
  Dtype dtype{};
  std::int64_t rows{}, columns{};
  bool is_transposed{};

  std::int64_t stride() const { return is_transposed ? rows : columns; }
  MatrixBlock block(Span row, Span column) const {
    if (is_transposed) std::swap(row, column);
    return {
        {data + bytes_of(row.begin * stride() + column.begin, dtype).count, dtype}, row.size, column.size, stride()};
  }
};

/// A block as sgemm takes it: dense fp32.
struct Operand {
  const float* data = nullptr;
  bool is_transposed{};
  std::int64_t stride{};
};

Operand widened(const Matrix& matrix, Span rows, Span columns, float* to) {
  const MatrixBlock block = matrix.block(rows, columns);
  cpu_kernels().widen_block(block, to);
  return {to, matrix.is_transposed, block.columns};
}

/// One problem of a batch.
class Product {
 public:
  Product(const GemmProblem& p, Matrix a, Matrix b, Matrix c, float* scratch)
      : p_(p),
        a_(a),
        b_(b),
        c_(c),
        block_of_a_(scratch) {
    block_of_b_ = block_of_a_ + std::min(p.m, kRows) * std::min(p.k, kDepth);
    block_of_c_ = block_of_b_ + std::min(p.k, kDepth) * std::min(p.n, kColumns);
  }

  void run() const {
    in_pieces(p_.n, kColumns, [&](Span columns) {
      in_pieces(p_.m, kRows, [&](Span rows) {
        const MatrixBlock result = c_.block(rows, columns);
        if (c_.dtype == Dtype::F32) return multiply(rows, columns, static_cast<float*>(result.first.data), c_.stride());
        if (p_.accumulates) cpu_kernels().widen_block(result, block_of_c_);
        multiply(rows, columns, block_of_c_, columns.size);
        cpu_kernels().narrow_block(block_of_c_, result);
      });
    });
  }

 private:
  void multiply(Span rows, Span columns, float* c, std::int64_t stride) const {
    in_pieces(p_.k, kDepth, [&](Span depth) {
      const Operand a = widened(a_, rows, depth, block_of_a_), b = widened(b_, depth, columns, block_of_b_);
      const auto status = dnnl::sgemm(a.is_transposed ? 'T' : 'N', b.is_transposed ? 'T' : 'N', rows.size, columns.size,
                                      depth.size, p_.alpha, a.data, a.stride, b.data, b.stride,
                                      p_.accumulates || depth.begin > 0 ? 1.0F : 0.0F, c, stride);
      if (status != dnnl::status::success) throw EnvError("oneDNN's sgemm failed");
    });
  }

  GemmProblem p_;
  Matrix a_, b_, c_;
  float *block_of_a_, *block_of_b_, *block_of_c_;
};

Bytes scratch_of(const GemmProblem& p) {
  const std::int64_t m = std::min(p.m, kRows), n = std::min(p.n, kColumns), k = std::min(p.k, kDepth);
  return bytes_of(m * k + k * n + m * n, Dtype::F32);
}

}  // namespace

void widened_gemm(const GemmProblem& p, const void* a, const void* b, void* c, Buffer& scratch) {
  if (scratch.size() < scratch_of(p)) scratch = host_memory(scratch_of(p));
  const Dtype operand = operand_dtype(p.type);
  Matrix left{static_cast<char*>(const_cast<void*>(a)), operand, p.m, p.k, p.layout == GemmLayout::WeightGradient};
  Matrix right{static_cast<char*>(const_cast<void*>(b)), operand, p.k, p.n, p.layout == GemmLayout::Forward};
  Matrix result{static_cast<char*>(c), p.output, p.m, p.n, false};
  for (std::int64_t i = 0; i < p.batch; ++i) {
    Product(p, left, right, result, scratch.as<float>()).run();
    left.data += bytes_of(p.m * p.k, operand).count;
    right.data += bytes_of(p.k * p.n, operand).count;
    result.data += bytes_of(p.m * p.n, p.output).count;
  }
}

}  // namespace gpuplan
