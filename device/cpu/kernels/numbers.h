// What kernels compute with: stored types and their loads, arguments as pointers of their stored type, work cut by
// columns, exp, and memory of a kernel's threads. Everything here is inlined or internal to the source that includes it
// (see cmake/CpuVariants.cmake).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "base/error.h"
#include "device/cpu/kernels.h"
#include "device/narrow_floats.h"

#define GPUPLAN_INLINE_LAMBDA __attribute__((always_inline))

namespace gpuplan {
namespace {

struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};
struct F8 {
  std::uint8_t bits;
};

GPUPLAN_INLINE float load(float x) { return x; }
GPUPLAN_INLINE float load(const Bf16& x) { return bf16_to_float(x.bits); }
GPUPLAN_INLINE float load(const F16& x) { return f16_to_float(x.bits); }
GPUPLAN_INLINE float load(const F8& x) { return f8e4m3_to_float(x.bits); }
GPUPLAN_INLINE void store(float& to, float x) { to = x; }
GPUPLAN_INLINE void store(Bf16& to, float x) { to.bits = float_to_bf16(x); }
GPUPLAN_INLINE void store(F16& to, float x) { to.bits = float_to_f16(x); }
GPUPLAN_INLINE void store(F8& to, float x) { to.bits = float_to_f8e4m3(x); }

/// Calls f with a value of the stored type.
template <class F>
GPUPLAN_INLINE void with_type(Dtype dtype, F f) {
  switch (dtype) {
    case Dtype::F32: return f(float{});
    case Dtype::BF16: return f(Bf16{});
    case Dtype::F16: return f(F16{});
    default: break;
  }
  fail_check("dtype is fp32, bf16 or fp16", "a kernel of the CPU device got another dtype", __FILE__, __LINE__);
}

/// Work below this many elements stays on one thread: waking a team takes 2 to 5 us, an element about 0.3 ns.
constexpr std::int64_t kAlone = 16384;

/// exp to about 1 ulp; 0 below -87.3, where the result would be denormal; infinite above 88.4, where 2^n is (of open
/// sign beyond 2^22); NaN of NaN and of infinity. No clamp of floats: GCC makes branches of it, and masks of those
/// (twice the instructions). Source of the polynomial: Cephes, expf.
GPUPLAN_INLINE float fast_exp(float x) {
  constexpr float kLow = -87.3F, kRound = 12582912.0F;  // 1.5 x 2^23: adding it leaves an integer, in the last bits
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e = p * (r * r) + r + 1.0F;
  const auto power = std::int32_t(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound));
  const float scale = std::bit_cast<float>(std::uint32_t((power < 128 ? power : 128) + 127) << 23);
  return x < kLow ? 0.0F : e * scale;
}

/// Calls f with the data as float* or Bf16*, the dtypes of training; const where the numbers are.
template <class N, class F>
GPUPLAN_INLINE void with_pointer(N numbers, F f) {
  constexpr bool kIsConst = std::is_same_v<N, ConstNumbers>;
  if (numbers.dtype == Dtype::F32)
    return f(static_cast<std::conditional_t<kIsConst, const float, float>*>(numbers.data));
  if (numbers.dtype == Dtype::BF16)
    return f(static_cast<std::conditional_t<kIsConst, const Bf16, Bf16>*>(numbers.data));
  fail_check("dtype is fp32 or bf16", "a kernel of the CPU device got another dtype", __FILE__, __LINE__);
}

/// Calls f with one pointer for each of the numbers: a version of f for every mixture of types.
template <class F>
GPUPLAN_INLINE void typed(F f) {
  f();
}
template <class F, class N, class... Rest>
GPUPLAN_INLINE void typed(F f, N first, Rest... rest) {
  with_pointer(first, [=](auto* pointer) { typed([=](auto*... others) { f(pointer, others...); }, rest...); });
}

template <class T>
constexpr Dtype kDtypeOf = std::is_same_v<T, float> ? Dtype::F32
                           : std::is_same_v<T, F16> ? Dtype::F16
                                                    : Dtype::BF16;

/// Views numbers of a type that is known already.
template <class T>
GPUPLAN_INLINE const T* as(ConstNumbers numbers) {
  if (numbers.dtype != kDtypeOf<T>)
    fail_check("dtypes are equal", "a kernel of the CPU device got mixed dtypes", __FILE__, __LINE__);
  return static_cast<const T*>(numbers.data);
}
template <class T>
GPUPLAN_INLINE T* as(Numbers numbers) {
  return const_cast<T*>(as<T>(ConstNumbers(numbers.data, numbers.dtype)));
}

/// Columns of one piece: two cache lines of fp32.
constexpr std::int64_t kColumns = 32;

/// Calls f(first column, number of columns) for pieces of `width` columns, with a length the compiler knows for all but
/// the last. `work`: elements touched by all of it.
template <class F>
GPUPLAN_INLINE void by_columns(std::int64_t width, std::int64_t work, F f) {
#pragma omp parallel for schedule(static) if (work > kAlone)
  for (std::int64_t begin = 0; begin < width; begin += kColumns) {
    if (width - begin >= kColumns)
      f(begin, kColumns);
    else
      f(begin, width - begin);
  }
}

class Workspace {
 public:
  explicit Workspace(std::int64_t floats)
      : data_(static_cast<float*>(std::aligned_alloc(256, (std::size_t(floats) * sizeof(float) + 255) / 256 * 256))) {
    if (!data_ && floats > 0) throw std::bad_alloc();
  }
  ~Workspace() { std::free(data_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  float* data() const { return data_; }

 private:
  float* data_;
};

}  // namespace
}  // namespace gpuplan
