#include "base/utf8.h"

#include <array>

#include <fmt/format.h>

namespace gpuplan {
namespace {

/// A range of first bytes, how many bytes such a character has, and what its second byte may be.
struct Lead {
  unsigned char first, last;
  std::size_t length;
  unsigned char second_least, second_most;
};

// RFC 3629 section 4. The narrowed second bytes shut out longer forms than needed, surrogates, and what Unicode lacks.
constexpr std::array kLeads{
    Lead{0x00, 0x7f, 1, 0, 0},       Lead{0xc2, 0xdf, 2, 0x80, 0xbf}, Lead{0xe0, 0xe0, 3, 0xa0, 0xbf},
    Lead{0xe1, 0xec, 3, 0x80, 0xbf}, Lead{0xed, 0xed, 3, 0x80, 0x9f}, Lead{0xee, 0xef, 3, 0x80, 0xbf},
    Lead{0xf0, 0xf0, 4, 0x90, 0xbf}, Lead{0xf1, 0xf3, 4, 0x80, 0xbf}, Lead{0xf4, 0xf4, 4, 0x80, 0x8f}};

/// Bytes of the character at the start of `text`; 0 when there is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (const Lead& lead : kLeads) {
    if (byte(0) < lead.first || byte(0) > lead.last) continue;
    if (text.size() < lead.length) return 0;
    if (lead.length > 1 && (byte(1) < lead.second_least || byte(1) > lead.second_most)) return 0;
    for (std::size_t i = 2; i < lead.length; ++i)
      if ((byte(i) & 0xc0) != 0x80) return 0;
    return lead.length;
  }
  return 0;
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0)  // C1 controls; U+009B begins escape sequences too
      out += fmt::format("\\x{:02x}", next), ++i;
    else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += text[i];
  }
  return out;
}

}  // namespace gpuplan
