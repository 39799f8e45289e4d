#include "cuda_device/kernels/training_bench.h"
#include "device/quantisation.h"

namespace gpuplan::test {

TEST_CASE("training: NF4 weights are level x absmax, which may be of 8 bits itself") {
  TrainingBench bench;
  constexpr std::int64_t kBlocks = 300,
                         kCount = kNf4Block * kBlocks - 51;  // ends inside a block, a vector and a byte; two scales
  std::vector<std::uint8_t> codes, absmax_codes;
  for (std::int64_t i = 0; i < (kCount + 1) / 2; ++i) codes.push_back(std::uint8_t(i * 37 % 256));
  for (std::int64_t b = 0; b < kBlocks; ++b) absmax_codes.push_back(std::uint8_t(b * 101 % 256));
  Doubles scales, plain;
  for (int i = 0; i < 2; ++i) scales.push_back(0.5 + i);
  for (std::int64_t b = 0; b < kBlocks; ++b) plain.push_back(0.5 + double(b) / 64);
  const Tensor code = bench.upload_bytes(codes.data(), std::int64_t(codes.size()), Dtype::U8),
               absmax_code = bench.upload_bytes(absmax_codes.data(), kBlocks, Dtype::U8),
               scale = bench.upload(scales, Dtype::F32), absmax = bench.upload(plain, Dtype::F32);
  constexpr DynamicMap kSigned = dynamic_map(true);
  Doubles expected, expected_plain;
  for (std::size_t i = 0; i < std::size_t(kCount); ++i) {
    const double level = double(kNf4Levels[i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15]);
    expected.push_back(level * (0.25 + double(kSigned.levels[absmax_codes[i / 64]]) * scales[i / 64 / 256]));
    expected_plain.push_back(level * plain[i / 64]);
  }
  for (const Dtype dtype : kTrained)
    for (const std::int64_t shift : {0, 1}) {
      CAPTURE(to_string(dtype));
      CAPTURE(shift);
      const Tensor out = bench.empty(kCount, dtype, shift), out_plain = bench.empty(kCount, dtype, shift);
      bench.run(
          kernels::Nf4Dequantise{all_of(out), bytes_in(code), bytes_in(absmax_code), floats_in(scale), 0.25F, kCount});
      bench.run(kernels::Nf4Dequantise{all_of(out_plain), bytes_in(code), nullptr, floats_in(absmax), 0.25F, kCount});
      check_close(bench.download(out), expected, one_rounding(dtype), 0.05);
      check_close(bench.download(out_plain), expected_plain, one_rounding(dtype), 0);
    }
}

}  // namespace gpuplan::test
