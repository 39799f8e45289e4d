// Whether text is UTF-8, so that what is read can always be written as JSON and shown.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace gpuplan {

/// Where `text` stops being UTF-8 (RFC 3629: shortest form, no surrogates); nothing when all of it is.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

}  // namespace gpuplan
