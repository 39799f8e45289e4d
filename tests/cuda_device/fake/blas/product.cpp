#include "cuda_device/fake/blas/product.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace gpuplan::fake {
namespace {

/// Calls `use` with a null pointer of the type's type.
template <class Use>
void with_type(cudaDataType_t type, Use use) {
  if (type == CUDA_R_32F) use(static_cast<float*>(nullptr));
  if (type == CUDA_R_16BF) use(static_cast<__nv_bfloat16*>(nullptr));
  if (type == CUDA_R_16F) use(static_cast<__half*>(nullptr));
  if (type == CUDA_R_8F_E4M3) use(static_cast<__nv_fp8_e4m3*>(nullptr));
}

/// To nearest, ties to even, as tensor cores take their inputs: 10 bits of fraction.
float tf32(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  bits += 0xFFF + ((bits >> 13) & 1);
  bits &= ~std::uint32_t(0x1FFF);
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// One problem's op(matrix) as fp32, column-major and without gaps: [rows, columns] of the result.
std::vector<float> dense(const Matrix& m, const void* data, std::int64_t problem, bool is_transposed, bool is_tf32) {
  std::vector<float> out(std::size_t(m.rows * m.columns));
  with_type(m.type, [&]<class T>(T*) {
    const T* const from = static_cast<const T*>(data) + problem * m.stride;
    for (std::int64_t column = 0; column < m.columns; ++column)
      for (std::int64_t row = 0; row < m.rows; ++row) {
        const float x = float(from[column * m.leading + row]);
        out[std::size_t(is_transposed ? row * m.columns + column : column * m.rows + row)] = is_tf32 ? tf32(x) : x;
      }
  });
  return out;
}

/// Adds a [rows, inner] b [inner, columns] to zeros. The innermost loop runs along columns of a, which compilers make
/// vectors of.
std::vector<float> plain_product(const std::vector<float>& a, const std::vector<float>& b, std::int64_t rows,
                                 std::int64_t inner, std::int64_t columns) {
  std::vector<float> sums(std::size_t(rows * columns));
  for (std::int64_t column = 0; column < columns; ++column)
    for (std::int64_t l = 0; l < inner; ++l) {
      float* const to = sums.data() + column * rows;
      const float* const from = a.data() + l * rows;
      const float factor = b[std::size_t(column * inner + l)];
      for (std::int64_t row = 0; row < rows; ++row) to[row] += from[row] * factor;
    }
  return sums;
}

float element(cudaDataType_t type, const void* data, std::int64_t i) {
  float x = 0;
  with_type(type, [&]<class T>(T*) { x = float(static_cast<const T*>(data)[i]); });
  return x;
}
void set_element(cudaDataType_t type, void* data, std::int64_t i, float x) {
  with_type(type, [&]<class T>(T*) { static_cast<T*>(data)[i] = T(x); });
}

/// Of op(A) [length, inner] or of op(B) [inner, length]: element l of sum i is strides.along l + strides.across i.
struct Strides {
  std::int64_t along, across;
};
void write_sums(const Product& p, const std::vector<float>& operand, Strides strides, std::int64_t inner,
                std::int64_t length) {
  for (std::int64_t i = 0; i < length; ++i) {
    float sum = 0;
    for (std::int64_t l = 0; l < inner; ++l) sum += operand[std::size_t(l * strides.along + i * strides.across)];
    set_element(p.vector_type, p.vector, i, sum);
  }
}

/// D = alpha sums + beta C + bias; C is not read where beta is 0.
void write(const Product& p, const std::vector<float>& sums, std::int64_t problem, const void* c, void* d) {
  with_type(p.d.type, [&]<class T>(T*) {
    const T* const from = static_cast<const T*>(c) + problem * p.c.stride;
    T* const to = static_cast<T*>(d) + problem * p.d.stride;
    for (std::int64_t column = 0; column < p.d.columns; ++column)
      for (std::int64_t row = 0; row < p.d.rows; ++row) {
        const float before = p.beta == 0 ? 0 : p.beta * float(from[column * p.c.leading + row]);
        const float bias = p.beside == Beside::Bias ? element(p.vector_type, p.vector, row) : 0;
        to[column * p.d.leading + row] = T(p.alpha * sums[std::size_t(column * p.d.rows + row)] + before + bias);
      }
  });
}

}  // namespace

bool is_known(cudaDataType_t type) {
  return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F || type == CUDA_R_8F_E4M3;
}

std::int64_t element_bytes(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2; }

bool is_sound(const Product& p) {
  const auto rows = [](const Matrix& m, bool is_transposed) { return is_transposed ? m.columns : m.rows; };
  const auto is_dense = [](const Matrix& m) { return m.leading >= m.rows && is_known(m.type); };
  const bool do_agree = rows(p.a, p.is_a_transposed) == p.d.rows && rows(p.b, !p.is_b_transposed) == p.d.columns &&
                        rows(p.a, !p.is_a_transposed) == rows(p.b, p.is_b_transposed);
  const bool is_one_batch = p.a.batch == p.d.batch && p.b.batch == p.d.batch && p.c.batch == p.d.batch;
  return do_agree && is_one_batch && is_dense(p.a) && is_dense(p.b) && is_dense(p.c) && is_dense(p.d) &&
         p.a.type == p.b.type && p.c.type == p.d.type && p.c.rows == p.d.rows && p.c.columns == p.d.columns;
}

bool has_documented_epilogue(const Product& p) {
  if (p.beside == Beside::Nothing) return true;
  const bool is_bias = p.beside == Beside::Bias, is_fp8 = p.a.type == CUDA_R_8F_E4M3;
  if (p.beside == Beside::Unknown || (!is_bias && (is_fp8 || p.d.batch != 1))) return false;
  return p.vector_type == (is_fp8 ? CUDA_R_16BF : p.d.type);
}

std::int64_t vector_bytes(const Product& p) {
  return (p.beside == Beside::SumsOfB ? p.d.columns : p.d.rows) * element_bytes(p.vector_type);
}

void multiply(const Product& p, const void* a, const void* b, const void* c, void* d) {
  const std::int64_t inner = p.is_a_transposed ? p.a.rows : p.a.columns;
  for (std::int64_t problem = 0; problem < p.d.batch; ++problem) {
    const auto first = dense(p.a, a, problem, p.is_a_transposed, p.has_tf32_inputs);
    const auto second = dense(p.b, b, problem, p.is_b_transposed, p.has_tf32_inputs);
    if (p.beside == Beside::SumsOfA) write_sums(p, first, {.along = p.d.rows, .across = 1}, inner, p.d.rows);
    if (p.beside == Beside::SumsOfB) write_sums(p, second, {.along = 1, .across = inner}, inner, p.d.columns);
    write(p, plain_product(first, second, p.d.rows, inner, p.d.columns), problem, c, d);
  }
}

}  // namespace gpuplan::fake
