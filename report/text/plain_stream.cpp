#include "report/text/plain_stream.h"

#include <cctype>
#include <cstdint>

#include "base/utf8.h"

namespace gpuplan {
namespace {

constexpr std::size_t kLongestColour = 32, kLongestCharacter = 4;  // bytes

/// Bytes of "\x1b[1;31m" or "\x1b[K" at the start of `text`; 0 where it is something else.
std::size_t colour_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  std::size_t at = 2;
  while (at < text.size() && at < kLongestColour && (std::isdigit(std::uint8_t(text[at])) || text[at] == ';')) ++at;
  return at < text.size() && (text[at] == 'm' || (text[at] == 'K' && at == 2)) ? at + 1 : 0;
}

/// Says if what is at the end may become a colour or a character with the bytes that follow.
bool may_go_on(std::string_view text) {
  if (text.front() == '\x1b')
    return text.size() < kLongestColour && text.find_first_not_of("\x1b[0123456789;") == text.npos;
  return text.size() < kLongestCharacter && (text.front() & 0xc0) == 0xc0 && first_invalid_utf8(text) == 0;
}

}  // namespace

std::streambuf::int_type PlainBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

std::streamsize PlainBuffer::xsputn(const char* text, std::streamsize count) {
  pending_.append(text, std::size_t(count));
  pass_on(/*is_all=*/false);
  return to_ ? count : 0;
}

int PlainBuffer::sync() {
  pass_on(/*is_all=*/true);
  return to_.flush() ? 0 : -1;
}

void PlainBuffer::pass_on(bool is_all) {
  const std::string_view text = pending_;
  std::size_t passed = 0, at = 0;
  const auto pass_until = [&](std::size_t end) { to_.write(text.data() + passed, std::streamsize(end - passed)); };
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x20 && byte < 0x7f) {
      ++at;
      continue;
    }
    const std::string_view rest = text.substr(at);
    if (!is_all && may_go_on(rest)) break;
    const std::size_t colour = has_colour_ ? colour_length(rest) : 0;
    const std::string_view character = rest.substr(0, colour > 0 ? colour : character_length(rest));
    if (colour == 0 && character != "\r")
      if (const std::string shown = shown_character(character); shown != character) {
        pass_until(at);
        to_ << shown;
        passed = at + character.size();
      }
    at += character.size();
  }
  pass_until(at);
  pending_.erase(0, at);
}

}  // namespace gpuplan
