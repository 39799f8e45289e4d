// The id of a group of ranks as text, for launchers to pass on. Plain C++, so that it is tested without NCCL.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::nccl {

/// Two lower-case hexadecimal digits per byte.
inline std::string hex_text(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

/// The bytes again; nothing when the text is not exactly `num_bytes` of them.
inline std::optional<std::vector<std::byte>> bytes_of_hex(std::string_view text, std::size_t num_bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() != 2 * num_bytes || text.find_first_not_of(kDigits) != std::string_view::npos) return {};
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(std::byte(16 * kDigits.find(text[i]) + kDigits.find(text[i + 1])));
  return bytes;
}

}  // namespace gpuplan::nccl
