// Names of GPUs as people type them: what does not matter in them, the memory that stands among their words, slips of
// the keyboard, and what is no GPU of NVIDIA or AMD.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuplan {

/// "NVIDIA GeForce RTX 4090 (24 GB)" and "rtx4090-24g" become "rtx409024gb".
std::string plain_gpu_name(std::string_view text);

/// Says whether `typed` may be meant as `name`; both are plain names.
bool may_be_slip(const std::string& typed, const std::string& name);

/// A name in which an amount of memory is a word: "A100-80", "A100_80G", "A100 80 GB PCIe", "80GB A100".
struct NameWithMemory {
  std::string base;  // "A100", "A100 PCIe"
  std::string full;  // "A100 80GB", "A100 80GB PCIe"
  std::int64_t memory_gb = 0;
  bool has_unit = false;  // without one it may also be a number of cards
};
std::optional<NameWithMemory> memory_in_name(std::string_view text);

/// Digits with which a text says how many cards there are: 1 of "2xH100"; 0 where it is a name alone: "4090", and
/// "9070xt", whose "xt" is of the name as "xtx" is.
std::size_t digits_of_count(std::string_view text);

/// "Huawei's Ascend NPUs" for a name in data/other_accelerators.yaml; else empty.
std::string other_accelerator(std::string_view text);

}  // namespace gpuplan
