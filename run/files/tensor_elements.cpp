// Reading elements of a mapped tensor: copied or converted piece by piece, each piece's pages given back after it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "device/narrow_floats.h"
#include "run/files/tensor_files.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kPiece = std::int64_t(1)
                                << 20;  // elements; resident memory of a read stays near this, times their size

// How the formats become float and come from it; files need not be aligned, so values are loaded through memcpy.
struct AsF32 {
  using Stored = float;
  static float to_float(Stored value) { return value; }
  static Stored from_float(float value) { return value; }
};
struct AsBf16 {
  using Stored = std::uint16_t;
  static float to_float(Stored value) { return bf16_to_float(value); }
  static Stored from_float(float value) { return float_to_bf16(value); }
};
struct AsF16 {
  using Stored = std::uint16_t;
  static float to_float(Stored value) { return f16_to_float(value); }
};

template <class From, class To>
void convert(const std::byte* from, std::byte* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    typename From::Stored value;
    std::memcpy(&value, from + std::size_t(i) * sizeof value, sizeof value);
    const typename To::Stored result = To::from_float(From::to_float(value));
    std::memcpy(to + std::size_t(i) * sizeof result, &result, sizeof result);
  }
}

using Converter = void (*)(const std::byte*, std::byte*, std::int64_t);
struct ConverterRow {
  Dtype from, to;
  Converter convert;
};
constexpr ConverterRow kConverters[] = {{Dtype::F32, Dtype::BF16, convert<AsF32, AsBf16>},
                                        {Dtype::F16, Dtype::F32, convert<AsF16, AsF32>},
                                        {Dtype::F16, Dtype::BF16, convert<AsF16, AsBf16>},
                                        {Dtype::BF16, Dtype::F32, convert<AsBf16, AsF32>}};

/// Null: the same dtype, to be copied.
Converter converter(const MappedTensor& tensor, Dtype to) {
  if (tensor.dtype == to) return nullptr;
  for (const ConverterRow& row : kConverters)
    if (row.from == tensor.dtype && row.to == to) return row.convert;
  throw InputError(
      tensor.file,
      fmt::format("tensor '{}' is {}, which cannot be read as {}", tensor.name, to_string(tensor.dtype), to_string(to)),
      "weights must be fp32, fp16 or bf16");
}

}  // namespace

void read_elements(const MappedTensor& tensor, std::int64_t begin, std::int64_t end, void* to, Dtype to_dtype) {
  const std::int64_t from_size = size_of(tensor.dtype), to_size = size_of(to_dtype);
  GPUPLAN_CHECK(0 <= begin && begin <= end && end * from_size <= std::ssize(tensor.data),
                "elements are inside the tensor");
  const Converter convert_piece = converter(tensor, to_dtype);
  auto* out = static_cast<std::byte*>(to);
  for (; begin < end; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, end - begin);
    const auto piece = tensor.data.subspan(std::size_t(begin * from_size), std::size_t(count * from_size));
    if (convert_piece)
      convert_piece(piece.data(), out, count);
    else
      std::memcpy(out, piece.data(), piece.size());
    if (!tensor.mapping.bytes().empty()) tensor.mapping.forget(piece);
    out += count * to_size;
  }
}

namespace {

/// The first of `count` values whose exponent is all ones: infinite or no number. `count` when there is none.
template <class Bits>
std::int64_t first_not_finite(const void* values, std::int64_t count, Bits exponent) {
  const auto* const all = static_cast<const Bits*>(values);
  for (std::int64_t i = 0; i < count; ++i)
    if ((all[i] & exponent) == exponent) return i;
  return count;
}

/// "[2, 17]" of the element in row-major order.
std::string place_of(const MappedTensor& tensor, std::int64_t element) {
  std::vector<std::int64_t> place(tensor.shape.size());
  for (std::size_t d = place.size(); d-- > 0; element /= tensor.shape[d]) place[d] = element % tensor.shape[d];
  return fmt::format("[{}]", fmt::join(place, ", "));
}

}  // namespace

void read_weights(const MappedTensor& tensor, std::int64_t begin, std::int64_t end, void* to, Dtype to_dtype) {
  read_elements(tensor, begin, end, to, to_dtype);
  const std::int64_t count = end - begin;
  const std::int64_t at = to_dtype == Dtype::F32 ? first_not_finite<std::uint32_t>(to, count, 0x7f800000U)
                                                 : first_not_finite<std::uint16_t>(to, count, 0x7f80U);
  if (at == count) return;
  float value = 0;
  read_elements(tensor, begin + at, begin + at + 1, &value, Dtype::F32);
  throw InputError(tensor.file,
                   fmt::format("tensor '{}' holds {} at {}", tensor.name, value, place_of(tensor, begin + at)),
                   "weights must be finite numbers: the file is damaged, or its training diverged");
}

}  // namespace gpuplan
