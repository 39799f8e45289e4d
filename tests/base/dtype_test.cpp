#include "base/dtype.h"

#include <array>
#include <string>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

using namespace literals;

constexpr std::array kAll{Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F8E4M3, Dtype::F8E5M2, Dtype::I64,
                          Dtype::I32, Dtype::I16, Dtype::I8,   Dtype::U8,     Dtype::Bool,   Dtype::F64};

TEST_CASE("every data type is printed under a name that reads back to it") {
  for (const Dtype dtype : kAll) {
    CAPTURE(to_string(dtype));
    CHECK(to_string(dtype) != "?");
    CHECK(parse_dtype(to_string(dtype), "x") == dtype);
  }
}

TEST_CASE("a data type is known by the names of torch, safetensors and people") {
  for (const char* text : {"bf16", "BF16", "bfloat16", "torch.bfloat16", "Torch.BFloat16"})
    CHECK(parse_dtype(text, "x") == Dtype::BF16);
  for (const char* text : {"fp32", "F32", "float32", "float", "torch.float32"})
    CHECK(parse_dtype(text, "x") == Dtype::F32);
  for (const char* text : {"half", "fp16", "F16", "torch.float16"}) CHECK(parse_dtype(text, "x") == Dtype::F16);
  CHECK(parse_dtype("F8_E4M3", "x") == Dtype::F8E4M3);
  CHECK(parse_dtype("torch.float8_e5m2", "x") == Dtype::F8E5M2);
  CHECK(parse_dtype("BOOL", "x") == Dtype::Bool);
}

TEST_CASE("an unknown data type is refused with its place and the usual names") {
  try {
    parse_dtype("nf4", "config.json: torch_dtype");
    FAIL("nf4 is not an element type");
  } catch (const InputError& error) {
    CHECK(error.where() == "config.json: torch_dtype");
    CHECK(error.problem() == "unknown data type 'nf4'");
    CHECK(error.hint() == "use one of fp32, bf16, fp16, int8, uint8");
  }
  CHECK_THROWS_AS(parse_dtype("", "x"), InputError);
  CHECK_THROWS_AS(parse_dtype("torch.", "x"), InputError);
}

TEST_CASE("bytes_of is elements times the size of one") {
  CHECK(size_of(Dtype::F64) == 8);
  CHECK(size_of(Dtype::Bool) == 1);
  CHECK(bytes_of(0, Dtype::F32) == 0_B);
  // Llama 3 8B in bf16: 8 030 261 248 parameters of 2 bytes
  CHECK(bytes_of(8'030'261'248, Dtype::BF16) == Bytes{16'060'522'496});
}

}  // namespace
}  // namespace gpuplan
