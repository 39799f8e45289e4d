// Whether text is UTF-8, so that what is read can always be written as JSON and shown; and text that a terminal only
// shows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpuplan {

/// Place where `text` stops being UTF-8 (RFC 3629: shortest form, no surrogates); nothing when all of it is.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// Returns the text without the byte order mark that editors of Windows put at its beginning.
std::string_view without_byte_order_mark(std::string_view text);

/// Counts the bytes of the character at the start of `text`, which is not empty; 1 for a byte that is none.
std::size_t character_length(std::string_view text);

/// Returns a character as a terminal only shows it: control characters but line feeds and tabs become "\x1b", and C1
/// controls and those that turn the direction of writing "\u202e", as JSON writes them.
std::string shown_character(std::string_view character);

/// Does so for a whole text: a file or an argument cannot steer a terminal.
std::string printable(std::string_view text);

/// … and with line feeds and tabs as "\x0a": a name or a field cannot forge lines of an answer.
std::string printable_line(std::string_view text);

}  // namespace gpuplan
