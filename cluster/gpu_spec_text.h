// Cards that a user describes on the command line: --gpu-spec 'P100:16GiB,732GB/s,19TFLOPS'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/gpu_file.h"

namespace gpuplan {

/// A described card, and what had to be assumed of it.
struct DescribedGpu {
  std::string name;  // as it was typed
  GpuFile gpu;
  std::string assumption;
  std::string known_id;  // the GPU of the catalogue that it changes; empty: it is new
};

/// Reads "NAME:ITEM,ITEM,…" parts between semicolons. Items: memory ("12GiB"), bandwidth ("360GB/s"), dense 16-bit rate
/// with fp32 accumulation ("25TFLOPS"), and link=pcie4x16, cc=8.6, fp8=…TFLOPS, fp32=…TFLOPS, sms=28, p2p=yes|no,
/// watts=170. A name of the catalogue takes every figure that is not stated from there; a new one needs the first
/// three, and data/gpu_spec.yaml stands in for the rest. Throws InputError naming --gpu-spec.
std::vector<DescribedGpu> read_described_gpus(const std::string& text);

/// The text from which `gpu` was read; empty for a GPU of the catalogue.
std::string gpu_spec_text(const GpuSpec& gpu);

}  // namespace gpuplan
