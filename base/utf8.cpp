#include "base/utf8.h"

#include <algorithm>
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
std::size_t valid_length(std::string_view text) {
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
    const std::size_t length = valid_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

namespace {

/// The code point of a character of two or three bytes.
unsigned code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) return (byte(0) & 0x1fu) << 6 | (byte(1) & 0x3fu);
  return (byte(0) & 0x0fu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
}

/// C1 controls (U+009B begins escape sequences too), and what UAX #9 calls explicit directional formatting characters.
bool steers(unsigned code) {
  return (code >= 0x80 && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

std::string shown_character(std::string_view character, bool is_line) {
  const auto byte = static_cast<unsigned char>(character[0]);
  const unsigned code = character.size() == 2 || character.size() == 3 ? code_point(character) : byte;
  if (character.size() > 1 ? steers(code) : byte == 0x7f) return fmt::format("\\u{:04x}", code);
  if (byte < 0x20 && (is_line || (byte != '\n' && byte != '\t'))) return fmt::format("\\x{:02x}", byte);
  return std::string(character);
}

/// Most texts are ASCII without control characters, which stay as they are.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

std::string shown(std::string_view text, bool is_line) {
  if (is_plain(text)) return std::string(text);
  std::string out;
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    length = character_length(text.substr(at));
    out += shown_character(text.substr(at, length), is_line);
  }
  return out;
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::size_t character_length(std::string_view text) { return std::max<std::size_t>(1, valid_length(text)); }

std::string shown_character(std::string_view character) { return shown_character(character, /*is_line=*/false); }

std::string printable(std::string_view text) { return shown(text, /*is_line=*/false); }

std::string printable_line(std::string_view text) { return shown(text, /*is_line=*/true); }

}  // namespace gpuplan
