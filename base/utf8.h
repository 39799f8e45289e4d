// Whether text is UTF-8, so that what is read can always be written as JSON and shown; and text that a terminal only
// shows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpuplan {

/// Where `text` stops being UTF-8 (RFC 3629: shortest form, no surrogates); nothing when all of it is.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// With control characters but line feeds and tabs as "\x1b", and those that turn the direction of writing as "\u202e":
/// what a file or an argument holds cannot steer a terminal.
std::string printable(std::string_view text);

/// … and with line feeds and tabs as "\x0a": a name or a field cannot forge lines of an answer.
std::string printable_line(std::string_view text);

}  // namespace gpuplan
