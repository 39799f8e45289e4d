// The functions of cuBLASLt that gpuplan calls. Handles are of a GPU; a product runs on its stream's thread, and what
// two streams would break in each other's workspace becomes NaN.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include <cublasLt.h>

#include "cuda_device/fake/blas/product.h"
#include "cuda_device/fake/runtime/state.h"

using namespace gpuplan::fake;

namespace {

struct Handle {
  int device = 0;
};
struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
  std::int32_t vector_type = -1;  // D's
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment = 256;  // the least of all four
};
/// What stands in an algorithm's opaque data.
struct Chosen {
  std::uint32_t mark, alignment;
  std::uint64_t workspace;
  std::uint32_t epilogue, vector_alignment;
};
constexpr std::uint32_t kMark = 0x67656D6D;
static_assert(sizeof(Chosen) <= sizeof(cublasLtMatmulAlgo_t));

template <class Mine, class Opaque>
Mine& mine(Opaque* opaque) {
  return *reinterpret_cast<Mine*>(opaque);
}
template <class Mine, class Opaque>
const Mine& mine(const Opaque* opaque) {
  return *reinterpret_cast<const Mine*>(opaque);
}

template <class Value>
bool copy_value(Value& to, const void* from, std::size_t size) {
  if (size != sizeof to) return false;
  std::memcpy(&to, from, size);
  return true;
}

cublasStatus_t valid(bool is_valid) { return is_valid ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; }

Beside beside(std::uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: return Beside::Nothing;
    case CUBLASLT_EPILOGUE_BIAS: return Beside::Bias;
    case CUBLASLT_EPILOGUE_BGRADA: return Beside::SumsOfA;
    case CUBLASLT_EPILOGUE_BGRADB: return Beside::SumsOfB;
    default: return Beside::Unknown;
  }
}

Product product_of(const cublasLtMatmulDescOpaque_t* description, const cublasLtMatrixLayoutOpaque_t* a,
                   const cublasLtMatrixLayoutOpaque_t* b, const cublasLtMatrixLayoutOpaque_t* c,
                   const cublasLtMatrixLayoutOpaque_t* d) {
  const auto& what = mine<Description>(description);
  return {.a = mine<Matrix>(a),
          .b = mine<Matrix>(b),
          .c = mine<Matrix>(c),
          .d = mine<Matrix>(d),
          .is_a_transposed = what.a == CUBLAS_OP_T,
          .is_b_transposed = what.b == CUBLAS_OP_T,
          .has_tf32_inputs = what.compute == CUBLAS_COMPUTE_32F_FAST_TF32,
          .beside = beside(what.epilogue),
          .vector = what.vector,
          .vector_type = what.vector_type < 0 ? mine<Matrix>(d).type : cudaDataType_t(what.vector_type)};
}

bool is_aligned(const void* address, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

bool is_matrix_on(int device, const Matrix& m, const void* data) {
  const auto elements = (m.batch - 1) * m.stride + (m.columns - 1) * m.leading + m.rows;
  return is_on_device(data, elements * element_bytes(m.type), device);
}

/// The largest power of two, up to 256, that divides the address: what a product is chosen for and may count on later.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return std::uint32_t(bits & (~bits + 1));
}

bool is_vector_on(int device, const Product& p) {
  return p.beside == Beside::Nothing || (p.vector && is_on_device(p.vector, vector_bytes(p), device));
}

void log_epilogue(const Product& p) {
  const char* const file = std::getenv("GPUPLAN_FAKE_EPILOGUES");
  if (!file || p.beside == Beside::Nothing) return;
  const std::string name = p.beside == Beside::Bias      ? "bias "
                           : p.beside == Beside::SumsOfA ? "sums of A "
                                                         : "sums of B ";
  std::ofstream(file, std::ios::app) << name + std::to_string(int(p.vector_type)) + "\n";
}

/// A workspace belongs to one product at a time: each writes its mark, and finds it again unless another came between.
class Workspace {
 public:
  Workspace(void* memory, const void* owner) : memory_(static_cast<const void**>(memory)), owner_(owner) {
    if (memory_) __atomic_store_n(memory_, owner_, __ATOMIC_SEQ_CST);
  }
  bool is_still_mine() const { return !memory_ || __atomic_load_n(memory_, __ATOMIC_SEQ_CST) == owner_; }

 private:
  const void** memory_;
  const void* owner_;
};

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (entered() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new Handle{current_device()});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS of another kind";
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{.compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete reinterpret_cast<Description*>(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t size) {
  auto& to = mine<Description>(description);
  if (what == CUBLASLT_MATMUL_DESC_TRANSA) return valid(copy_value(to.a, value, size));
  if (what == CUBLASLT_MATMUL_DESC_TRANSB) return valid(copy_value(to.b, value, size));
  if (what == CUBLASLT_MATMUL_DESC_EPILOGUE) return valid(copy_value(to.epilogue, value, size));
  if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return valid(copy_value(to.vector, value, size));
  if (what == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE) return valid(copy_value(to.vector_type, value, size));
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* matrix, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  *matrix = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Matrix{.type = type, .rows = std::int64_t(rows), .columns = std::int64_t(columns), .leading = leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matrix) {
  delete reinterpret_cast<Matrix*>(matrix);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matrix, cublasLtMatrixLayoutAttribute_t what,
                                                const void* value, std::size_t size) {
  auto& to = mine<Matrix>(matrix);
  if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return valid(copy_value(to.batch, value, size));
  if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return valid(copy_value(to.stride, value, size));
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void* value,
                                                    std::size_t size) {
  auto& to = mine<Preference>(preference);
  if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return valid(copy_value(to.workspace, value, size));
  std::uint32_t alignment = 0;
  const bool is_alignment =
      what == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES || what == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES ||
      what == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES || what == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES;
  if (!is_alignment || !copy_value(alignment, value, size)) return CUBLAS_STATUS_INVALID_VALUE;
  to.alignment = std::min(to.alignment, alignment);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t found[], int* num_found) {
  *num_found = 0;
  const Product product = product_of(description, a, b, c, d);
  if (!is_sound(product)) return CUBLAS_STATUS_INVALID_VALUE;
  if (product.beside != Beside::Nothing && !(has_epilogues() && has_documented_epilogue(product)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& wanted = mine<Preference>(preference);
  const auto& what = mine<Description>(description);
  const Chosen chosen{kMark, wanted.alignment, wanted.workspace, what.epilogue, alignment_of(what.vector)};
  found[0] = {};
  std::memcpy(&found[0].algo, &chosen, sizeof chosen);
  found[0].state = CUBLAS_STATUS_SUCCESS;
  *num_found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t workspace_size,
                              cudaStream_t stream) {
  if (entered() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  Product product = product_of(description, a_layout, b_layout, c_layout, d_layout);
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  Chosen chosen{};
  std::memcpy(&chosen, algorithm, sizeof chosen);
  const CUstream_st on = resolved(stream);
  const int device = mine<Handle>(handle).device;
  bool is_valid = chosen.mark == kMark && is_sound(product) && on.device == device && device == current_device();
  for (const void* const address : {a, b, c, static_cast<const void*>(d)})
    is_valid &= is_aligned(address, chosen.alignment);
  const auto& what = mine<Description>(description);
  is_valid &= chosen.epilogue == what.epilogue && is_aligned(what.vector, chosen.vector_alignment) &&
              is_vector_on(device, product);
  is_valid &=
      is_matrix_on(device, product.a, a) && is_matrix_on(device, product.b, b) && is_matrix_on(device, product.d, d);
  is_valid &= workspace_size >= chosen.workspace && is_on_device(workspace, std::int64_t(workspace_size), device);
  if (!is_valid) return CUBLAS_STATUS_INVALID_VALUE;
  if (!has_documented_epilogue(product)) return CUBLAS_STATUS_NOT_SUPPORTED;
  log_epilogue(product);
  const cudaError_t enqueued = enqueue(on, [=] {
    const Workspace held(workspace, &held);
    multiply(product, a, b, c, d);
    if (held.is_still_mine()) return;
    Product spoilt = product;
    spoilt.alpha = std::numeric_limits<float>::quiet_NaN();
    multiply(spoilt, a, b, c, d);
  });
  return enqueued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
