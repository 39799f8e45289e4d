// cuBLASLt: the check of every call, and owners of its handles and descriptions.
#pragma once

#include <string>
#include <string_view>

#include <cublasLt.h>

#include "base/error.h"
#include "device/cuda/owners.h"

namespace gpuplan::cuda {

inline void cublas_check(cublasStatus_t status, std::string_view doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw EnvError("cuBLASLt: " + std::string(doing) + ": " + cublasLtGetStatusString(status));
}

using LtHandle = Owner<cublasLtHandle_t, &cublasLtDestroy>;
using LtProduct = Owner<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using LtMatrix = Owner<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using LtPreference = Owner<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;

}  // namespace gpuplan::cuda
