// D = alpha op(A) op(B) + beta C of column-major matrices on the host, plainly, with sums in fp32.
#pragma once

#include <cstdint>

#include <library_types.h>

namespace gpuplan::fake {

struct Matrix {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0;  // elements from one problem of the batch to the next
};

/// What is done with a vector in a product's pass: a bias is added to every column of D; or sums over op(A)'s columns,
/// op(B)'s rows are written to it.
enum class Beside { Nothing, Bias, SumsOfA, SumsOfB, Unknown };

struct Product {
  Matrix a, b, c, d;
  bool is_a_transposed = false, is_b_transposed = false, has_tf32_inputs = false;
  float alpha = 1, beta = 0;
  Beside beside = Beside::Nothing;
  void* vector = nullptr;
  cudaDataType_t vector_type = CUDA_R_32F;
};

bool is_known(cudaDataType_t type);
std::int64_t element_bytes(cudaDataType_t type);
/// The sizes agree, and no column is longer than the leading dimension.
bool is_sound(const Product& product);
/// As the documentation of cublasLtMatmul() has it: a vector of D's type, for fp8 a bias of bf16; one problem where
/// sums are written.
bool has_documented_epilogue(const Product& product);
std::int64_t vector_bytes(const Product& product);
void multiply(const Product& product, const void* a, const void* b, const void* c, void* d);

}  // namespace gpuplan::fake
