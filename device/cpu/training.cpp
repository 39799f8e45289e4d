#include "device/cpu/training.h"

#include "base/error.h"
#include "device/cpu/kernels.h"
#include "device/cpu/stream.h"
#include "device/cpu/variant.h"

namespace gpuplan {

namespace baseline {
extern const CpuTrainingKernels kTrainingKernels;
}
namespace avx2 {
extern const CpuTrainingKernels kTrainingKernels;
}
namespace avx512 {
extern const CpuTrainingKernels kTrainingKernels;
}

const CpuTrainingKernels& cpu_training_kernels() {
  static const CpuTrainingKernels& kernels = GPUPLAN_PICK_VARIANT(kTrainingKernels);
  return kernels;
}

namespace {

/// `stream` runs kernel(arguments...) when it comes to it. The arguments are copied.
template <class... Parameters, class... Arguments>
void enqueue(Stream& stream, void (*kernel)(Parameters...), Arguments... arguments) {
  static_cast<CpuStream&>(stream).enqueue([=] { kernel(arguments...); });
}

void check(const SequenceAttention& shape) {
  GPUPLAN_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "key heads do not divide the query heads");
}

class CpuTraining final : public TrainingKernels {
 public:
  void zero(void* data, Bytes size, Stream& stream) override { enqueue(stream, parallel_zero, data, size.count); }
  void add(Numbers y, ConstNumbers a, ConstNumbers b, std::int64_t count, Stream& stream) override {
    enqueue(stream, kernels_.add, y, a, b, count);
  }
  void add_scaled(Numbers y, ConstNumbers x, float factor, std::int64_t count, Stream& stream) override {
    enqueue(stream, kernels_.add_scaled, y, x, factor, count);
  }
  void embed(Numbers y, ConstNumbers table, const std::int32_t* ids, std::int64_t rows, std::int64_t hidden,
             Stream& stream) override {
    enqueue(stream, kernels_.embed, y, table, ids, rows, hidden);
  }
  void embed_backward(Numbers gradient, ConstNumbers dy, const std::int32_t* ids, std::int64_t rows,
                      std::int64_t hidden, Stream& stream) override {
    enqueue(stream, kernels_.embed_backward, gradient, dy, ids, rows, hidden);
  }
  void add_bias(Numbers y, ConstNumbers bias, std::int64_t rows, std::int64_t width, Stream& stream) override {
    enqueue(stream, kernels_.add_bias, y, bias, rows, width);
  }
  void bias_backward(Numbers gradient, ConstNumbers dy, std::int64_t rows, std::int64_t width,
                     Stream& stream) override {
    enqueue(stream, kernels_.bias_backward, gradient, dy, rows, width);
  }
  void rms_norm_forward(Numbers y, ConstNumbers x, ConstNumbers weight, std::int64_t rows, std::int64_t hidden,
                        float epsilon, Stream& stream) override {
    enqueue(stream, kernels_.rms_norm_forward, y, x, weight, rows, hidden, epsilon);
  }
  void rms_norm_backward(Numbers dx, const void* residual, Numbers weight_gradient, ConstNumbers dy, ConstNumbers x,
                         ConstNumbers weight, std::int64_t rows, std::int64_t hidden, float epsilon,
                         Stream& stream) override {
    enqueue(stream, kernels_.rms_norm_backward, dx, residual, weight_gradient, dy, x, weight, rows, hidden, epsilon);
  }
  void rotate(Numbers y, ConstNumbers x, const RotaryTurn& rotation, Stream& stream) override {
    enqueue(stream, kernels_.rotate, y, x, rotation);
  }
  void attention_forward(const SequenceAttention& shape, const void* q, const void* k, const void* v, void* out,
                         float* lse, Stream& stream) override {
    check(shape);
    enqueue(stream, kernels_.attention_forward, shape, q, k, v, out, lse);
  }
  void attention_backward(const SequenceAttention& shape, const void* dout, const void* q, const void* k, const void* v,
                          const void* out, const float* lse, void* dq, void* dk, void* dv, float* scratch,
                          Stream& stream) override {
    check(shape);
    enqueue(stream, kernels_.attention_backward, shape, dout, q, k, v, out, lse, dq, dk, dv, scratch);
  }
  void swiglu_forward(Numbers out, ConstNumbers gate, ConstNumbers up, std::int64_t count, Stream& stream) override {
    GPUPLAN_CHECK(out.dtype == gate.dtype && out.dtype == up.dtype, "gate, up and result of swiglu are of one dtype");
    enqueue(stream, cpu_kernels().swiglu, out.data, gate.data, up.data, count, out.dtype);
  }
  void swiglu_backward(Numbers dgate, Numbers dup, ConstNumbers dout, ConstNumbers gate, ConstNumbers up,
                       std::int64_t count, Stream& stream) override {
    enqueue(stream, kernels_.swiglu_backward, dgate, dup, dout, gate, up, count);
  }
  void add_squares(double* sum, ConstNumbers x, std::int64_t count, Stream& stream) override {
    enqueue(stream, kernels_.add_squares, sum, x, count);
  }
  void add_sum(double* sum, const float* x, std::int64_t count, Stream& stream) override {
    enqueue(stream, kernels_.add_sum, sum, x, count);
  }
  void adamw_step(const AdamWRange& range, const AdamW& with, float gradient_scale, Stream& stream) override {
    enqueue(stream, kernels_.adamw_range, range, gpuplan::adamw_step(with), gradient_scale);
  }
  void adamw8_step(const AdamW8Range& range, const AdamW& with, float gradient_scale, Stream& stream) override {
    enqueue(stream, kernels_.adamw8_range, range, gpuplan::adamw_step(with), gradient_scale);
  }
  void nf4_expand(Numbers out, const std::uint8_t* codes, const std::uint8_t* absmax_codes, const float* absmax_scales,
                  float absmax_offset, std::int64_t count, Stream& stream) override {
    enqueue(stream, kernels_.nf4_expand, out, codes, absmax_codes, absmax_scales, absmax_offset, count);
  }

 private:
  const CpuTrainingKernels& kernels_ = cpu_training_kernels();
};

}  // namespace

std::unique_ptr<TrainingKernels> make_cpu_training() { return std::make_unique<CpuTraining>(); }

}  // namespace gpuplan
